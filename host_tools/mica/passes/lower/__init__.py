"""ONNX operators become core operators, one family a file. Convolutions and pools leave NCHW here.

The transposes that a rule writes round its operator are removed again by `transposes`; writing them everywhere first
keeps each rule local. A rule that cannot take its node raises ValueError with the reason.
"""

from importlib import import_module

from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME, NOT_SUPPORTED
from mica.passes.builder import Builder, Lowering
from mica.passes.refusal import Refusals

FAMILIES = "arithmetic convolution dense logic movement normalise recurrent reduce resize sums trees unary"
LOWERINGS: dict[str, Lowering] = {
    op: rule for name in FAMILIES.split() for op, rule in import_module(f"{__name__}.{name}").LOWERINGS.items()
}


def run(g: Graph) -> Graph:
    refusals = Refusals()
    nodes: list[Node] = []
    for node in g.nodes:
        if node.op in CORE_BY_NAME and node.op not in LOWERINGS:
            nodes.append(node)
            continue
        with refusals.at(node):
            if node.op not in LOWERINGS:
                raise ValueError(NOT_SUPPORTED)
            LOWERINGS[node.op](g, node, Builder(g, nodes, node.name))
    refusals.stop()
    g.nodes = nodes
    _exact_round_types(g)
    return g


def _exact_round_types(g: Graph) -> None:
    """int32 stay the model's row numbers, and places that ArgMax and TopK find, under all their names;
    all else is real."""
    for node in g.nodes:
        y = g.value(node.outputs[0])
        kept = node.op == "Reshape" and g.value(node.inputs[0]).dtype == "int32"
        y.dtype = "int32" if kept or node.op in ("ArgMax", "TopK") else "float32"
