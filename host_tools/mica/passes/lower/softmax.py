"""Softmax over any axis becomes Softmax over the last.

y = Softmax(x, axis), LogSoftmax    =>   y = Transpose(Softmax(Transpose(x, axis to the end)), back)
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder


def _softmax(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = g.value(x).shape
    if not shape:
        raise ValueError("a softmax of a single number")
    axis = int(node.attrs.get("axis", -1)) % len(shape)
    op, attrs = node.op, {"clip": (None, None)} if node.op == "LogSoftmax" else {}
    if node.attrs.get("flatten"):  # opset < 13: all axes from `axis` on are one
        rows = int(np.prod(shape[:axis], dtype=np.int64))
        flat = b.reshape(x, (rows, g.value(x).size // rows))
        b.emit_to(out, "Reshape", [b.emit(op, [flat], b.shape(flat), attrs)])
    elif axis == len(shape) - 1:
        b.emit_to(out, op, [x], attrs)
    else:
        perm = [i for i in range(len(shape)) if i != axis] + [axis]
        moved = b.transpose(x, perm)
        b.transpose_to(out, b.emit(op, [moved], b.shape(moved), attrs), np.argsort(perm).tolist())


LOWERINGS = {"LogSoftmax": _softmax, "Softmax": _softmax}
