"""Comparisons, and what is done with their results: truth is the real number 1, falsehood 0.

y = x > constant                  =>   y = Unary(x, greater); likewise <, =
y = a > b                         =>   y = Greater(a, b); b may be a constant that varies
y = a >= b, a = b                 =>   y = not (b > a), not (a > b or b > a)
y = And(a, b), Or, Xor            =>   y = MinMax(a, b); Xor: y = |a - b|
y = Where(c, a, b)                =>   y = Where(c, a, b); a constant c only moves elements (`movement`)
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder, Lowering
from mica.passes.lower.arithmetic import CLIP, emit_unary, finite_constants, number

TRUE_WHERE = {"Greater": "greater", "Less": "less", "Equal": "equal"}
MIRRORED = {"greater": "less", "less": "greater", "equal": "equal"}
OPPOSITE = {"GreaterOrEqual": "Less", "LessOrEqual": "Greater"}


def _compare(g: Graph, node: Node, b: Builder) -> None:
    out = node.outputs[0]
    op = OPPOSITE.get(node.op, node.op)
    if op == node.op:
        _true_where(g, b, TRUE_WHERE[op], node.inputs, out)
        return
    opposite = g.new_value(f"{out}.opposite", b.shape(out))
    _true_where(g, b, TRUE_WHERE[op], node.inputs, opposite)
    b.emit_to(out, "Unary", [opposite], {"function": "not", "arguments": ()})


def _true_where(g: Graph, b: Builder, relation: str, inputs: list[str], out: str) -> None:
    left, right = inputs
    for x, other, r in ((left, right, relation), (right, left, MIRRORED[relation])):
        value = number(g, other)
        if value is not None:
            emit_unary(b, out, x, r, value)
            return
    if any(np.isnan(data).any() for i in inputs if (data := g.data(i)) is not None):
        raise ValueError("a comparison with a constant that is not a number")
    shape = b.shape(out)
    if relation == "less":
        left, right = right, left
    if relation != "equal":
        b.emit_to(out, "Greater", [left, right])
        return
    above, below = b.emit("Greater", [left, right], shape), b.emit("Greater", [right, left], shape)
    differs = b.emit("MinMax", [above, below], shape, {"larger": True, **CLIP})
    b.emit_to(out, "Unary", [differs], {"function": "not", "arguments": ()})


def _both(g: Graph, node: Node, b: Builder) -> None:
    if any(g.is_const(i) for i in node.inputs):
        raise ValueError("an operand that is constant")
    b.emit_to(node.outputs[0], "MinMax", node.inputs, {"larger": node.op == "Or", **CLIP})


def _xor(g: Graph, node: Node, b: Builder) -> None:
    if any(g.is_const(i) for i in node.inputs):
        raise ValueError("an operand that is constant")
    difference = b.emit("Add", node.inputs, b.shape(node.outputs[0]), {"signs": (1, -1), **CLIP})
    b.emit_to(node.outputs[0], "Unary", [difference], {"function": "not_zero", "arguments": ()})


def where(g: Graph, node: Node, b: Builder) -> None:
    """Lowers `Where` if its condition is computed."""
    finite_constants(g, node)
    b.emit_to(node.outputs[0], "Where", node.inputs, CLIP)


LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _compare),
    **dict.fromkeys(("And", "Or"), _both),
    "Not": lambda g, node, b: b.emit_to(node.outputs[0], "Unary", node.inputs, {"function": "not", "arguments": ()}),
    "Xor": _xor,
}
