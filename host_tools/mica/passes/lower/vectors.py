"""Nearest neighbours and machines of support vectors.

y = VectorEnsemble(x), x an input of the model      =>   y = Neighbours(x) | Machine(x): x stays float32
y = VectorEnsemble(Affine(x)), x an input           =>   likewise, on a grid in the unit of Affine(x)
y = VectorEnsemble(Imputer(x)), x an input          =>   likewise: a NaN counts as the value for it
"""

from mica.ir.graph import Graph, Node
from mica.ir.vectors import Neighbours, Vectors, imputed, scaled
from mica.passes.builder import Builder
from mica.passes.features import in_front


def _ensemble(g: Graph, node: Node, b: Builder) -> None:
    v: Vectors = node.attrs["vectors"]
    x = node.inputs[0]
    shape = b.shape(x)
    n = v.points.shape[1]
    if shape[-1] != n:
        raise ValueError(f"its vectors have {n} features; its input has {shape[-1]}")
    x, affine, values = in_front(g, x)
    v = v if affine is None else scaled(v, *affine)
    v = v if values is None else imputed(v, values)
    if g.features:
        raise ValueError(
            "neighbours compare real numbers, and a front end gives int8; take a forest or a network behind it"
        )
    if not g.is_given(x) or g.value(x).quant is not None:
        raise ValueError("it does not read an input of the model; only scalers and imputers may stand in front of it")
    op = "Neighbours" if isinstance(v, Neighbours) else "Machine"
    b.emit_to(node.outputs[0], op, [x], {"vectors": v})


LOWERINGS = {"VectorEnsemble": _ensemble}
