"""Whole numbers within known bounds: signs, truths, and sums and products of these with constants.

Such stay exact in int8 on a scale of 1, although their type was int64. And ONNX's operators on single numbers, for
tables of what follows from a token or a place (passes/integer_functions.py).
"""

import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph

INTEGERS = ("int32", "int64")

TRUTHS = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor")
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {"Add": operator.add, "Mul": operator.mul, "Sub": operator.sub}


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divide integers as C does: rounded to zero."""
    safe = np.where(b == 0, 1, b)
    return np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe))


# On integers and truths, of any shapes that broadcast. Cast has a number of the type as second operand.
BY_NUMBER: Mapping[str, Callable[..., np.ndarray]] = {
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _quotient, "Mod": np.mod},
    **{"Max": np.maximum, "Min": np.minimum, "Neg": np.negative, "Abs": np.abs, "Sign": np.sign},
    **{"Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less},
    **{"LessOrEqual": np.less_equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor},
    **{"Not": np.logical_not, "Where": np.where, "Cast": lambda a, like: a.astype(like.dtype)},
}
COMPUTED = ("Abs", "Add", "Div", "Mod", "Mul", "Neg", "Sign", "Sub")  # which the graph has for real numbers
_SAME = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")

Bounds = tuple[int, int]


def bounds(g: Graph, name: str, depth: int = 16) -> Bounds | None:
    """The least and the largest of a value's numbers, where it is known that all are whole; else None."""
    data = g.data(name)
    if data is not None:
        known = data.size and data.dtype.kind in "biu"
        return (int(data.min()), int(data.max())) if known else None
    node = next((n for n in g.nodes if name in n.outputs), None)
    if node is None or not depth:
        return None
    if node.op in TRUTHS:
        return 0, 1
    if node.op == "Sign":
        return -1, 1
    if node.op in _SAME:
        return bounds(g, node.inputs[0], depth - 1)
    return result(g, node.op, node.inputs, depth - 1) if node.op in ARITHMETIC else None


def result(g: Graph, op: str, inputs: Sequence[str], depth: int = 16) -> Bounds | None:
    """Compute a sum, difference or product of a value and a constant."""
    a, b = (bounds(g, i, depth) for i in inputs)
    if a is None or b is None or not any(g.is_const(i) for i in inputs):
        return None
    found = [ARITHMETIC[op](x, y) for x in a for y in b]
    return min(found), max(found)


def small(found: Bounds | None) -> bool:
    """True if int8 holds all numbers within these bounds as they are."""
    return found is not None and found[0] >= -128 and found[1] <= 127
