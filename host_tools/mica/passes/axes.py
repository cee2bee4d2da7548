"""A window of samples of several axes as the input of a network that was made for features of them.

input x [.., axes, features ..]                          =>   samples [1, N, A] -> AxisFeatures -> Reshape -> x
Reshape(x) -> DepthwiseConv2d(1 x 1) -> y, as a scaler   =>   samples [1, N, A] -> AxisFeatures(factor,
                                                              shift) -> Reshape -> y
"""

import numpy as np

from mica.errors import MicaError
from mica.ir import check
from mica.ir.axes import AxisFeatures
from mica.ir.graph import Graph, Node


def put(g: Graph, f: AxisFeatures, name: str, samples: str) -> Graph:
    """Put the front end before the input `name` of a core graph. samples: the new input's name. Raises MicaError."""
    x, n = g.value(name), f.axes * f.each
    if name in g.outputs:
        raise MicaError(f"--frontend: input '{name}' is an output as well")
    made = g.new_value(f"{name}.features", (1, *f.shape))
    g.value(made).quant = x.quant
    given = g.new_value(samples, f.input_shape)
    g.nodes.insert(0, Node("Reshape", name, [made], [name]))
    factor, shift = _scalers(g, made, np.ones(n), np.zeros(n))
    constants = [
        g.new_const(f"{made}.{what}", v.astype(np.float32)) for what, v in (("factor", factor), ("shift", shift))
    ]
    g.nodes.insert(0, Node("AxisFeatures", made, [given, *constants], [made], {"front_end": f}))
    g.inputs = [given if i == name else i for i in g.inputs]
    x.dtype, x.whole = "float32", False
    check.structure(g, "front_end")
    check.core(g)
    return g


def _scalers(g: Graph, features: str, factor: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Removes scalers of each feature that follow, behind any Reshapes. Returns their factor and shift, float64 [n]."""
    here = features
    while len(readers := g.consumers().get(here, [])) == 1 and here not in g.outputs and g.value(here).quant is None:
        (node,) = readers
        if _is_scaler(g, node, len(factor)):
            w, b = (np.asarray(g.data(i), np.float64).reshape(-1) for i in node.inputs[1:])
            factor, shift = factor * w, shift * w + b
            node.op, node.inputs, node.attrs = "Reshape", node.inputs[:1], {}
        elif node.op != "Reshape":
            break
        here = node.outputs[0]
    return factor, shift


def _is_scaler(g: Graph, node: Node, n: int) -> bool:
    """True if a node multiplies each of n features by a factor of its own, above 0, and adds a number."""
    if node.op != "DepthwiseConv2d" or not all(g.is_const(i) for i in node.inputs[1:]):
        return False
    w, x = np.asarray(g.data(node.inputs[1])), g.value(node.inputs[0])
    one = w.shape == (n, 1, 1) and x.shape == (1, 1, 1, n) == g.value(node.outputs[0]).shape
    return one and node.attrs["clip"] == (None, None) and bool((w > 0).all()) and "weight_steps" not in node.attrs
