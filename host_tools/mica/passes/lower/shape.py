"""Operators that only move or rename elements.

y = Flatten(x), Squeeze, Unsqueeze, Reshape    =>   y = Reshape(x)
"""

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder


def _reshape(g: Graph, node: Node, b: Builder) -> None:
    x, y = g.value(node.inputs[0]), g.value(node.outputs[0])
    if x.size != y.size:
        raise ValueError(f"{list(x.shape)} to {list(y.shape)}; was it exported for another batch or input size?")
    b.emit_to(node.outputs[0], "Reshape", node.inputs[:1])


def _transpose(g: Graph, node: Node, b: Builder) -> None:
    rank = len(g.value(node.inputs[0]).shape)
    perm = tuple(int(p) for p in node.attrs.get("perm", range(rank - 1, -1, -1)))
    b.transpose_to(node.outputs[0], node.inputs[0], perm)


def _dropout(g: Graph, node: Node, b: Builder) -> None:
    raise ValueError("it is at work, or its mask is used; export the model in inference mode (model.eval())")


LOWERINGS = {
    "Dropout": _dropout,
    "Flatten": _reshape,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
