"""Comparisons of int16: which integers of x are above a number, where that is one change along the line, or two."""

import numpy as np

from mica.format.values import LOW16
from mica.ir.graph import Graph, Node, Quant
from mica.reference import unary

MOST_CHANGES = 2


def makes_truth(g: Graph, node: Node) -> bool:
    """True if a node reads int16 and gives 0 and 1, which are int8."""
    x, y = g.value(node.inputs[0]), g.value(node.outputs[0])
    if node.op == "Greater":
        return any(q is not None and q.bits == 16 for q in (g.value(i).quant for i in node.inputs))
    if node.op != "Unary" or y.quant is not None or x.quant is None or x.quant.bits != 16:
        return False
    return changes(node, x.quant) is not None


def changes(node: Node, x: Quant) -> tuple[bool, list[int]] | None:
    """(True if it holds for the least int16, the integers from which on the result is the other one)."""
    real = np.asarray(x.levels(), np.float32)  # so that it equals a constant of the same integer, which is float32
    with np.errstate(all="ignore"):
        values = np.asarray(unary.apply(node.attrs["function"], real, node.attrs["arguments"]))
    true = values != 0
    at = np.flatnonzero(np.diff(true)) + 1 + LOW16
    if len(at) > MOST_CHANGES or not np.array_equal(values, true):
        return None
    return bool(true[0]), [int(k) for k in at]
