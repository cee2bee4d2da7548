"""Rows of weights, by the text of shape.h on words of 32 bits: what the walks may count on."""

from __future__ import annotations

from typing import Any

import z3
from accumulators import declarations
from c_source import Source, read
from pycparser import c_ast
from words import Tree, Word, refuted

CODES4 = 3  # MICA_LAYOUT_CODES4
MAX_BYTES = (1 << 31) - 1


def bits(node: c_ast.Node, names: dict[str, Word]) -> Word:
    """Return an unsigned expression in C, as a truth for a condition. The name "*" stands for a pointer's target."""
    if isinstance(node, c_ast.Constant):
        return z3.BitVecVal(int(node.value.rstrip("u"), 0), 32)
    if isinstance(node, c_ast.ID):
        return names[node.name]
    if isinstance(node, c_ast.Cast):
        return bits(node.expr, names)
    if isinstance(node, c_ast.TernaryOp):
        return z3.If(truth(node.cond, names), bits(node.iftrue, names), bits(node.iffalse, names))
    if isinstance(node, c_ast.UnaryOp):
        return names["*"] if node.op == "*" else ~bits(node.expr, names)
    assert isinstance(node, c_ast.BinaryOp), node
    a, b = bits(node.left, names), bits(node.right, names)
    found: dict[str, Any] = {
        "+": lambda: a + b, "-": lambda: a - b, "/": lambda: z3.UDiv(a, b), "*": lambda: a * b, "&": lambda: a & b,
        "%": lambda: z3.URem(a, b), ">>": lambda: z3.LShR(a, b), "==": lambda: a == b,
    }  # fmt: skip
    return found[node.op]()


def truth(node: c_ast.Node, names: dict[str, Word]) -> Word:
    found = bits(node, names)
    return found if z3.is_bool(found) else found != 0


def row_bytes(source: Source, layout: Word, k: Word) -> Word:
    """Return what mica_row_bytes does, whose statements are ifs that return, assignments and a return."""
    names = {"layout": layout, "k": k}
    cases = []
    for node in source.functions["mica_row_bytes"].body.block_items:
        if isinstance(node, c_ast.If):
            (inner,) = node.iftrue.block_items
            cases.append((truth(node.cond, names), bits(inner.expr, names)))
        elif isinstance(node, c_ast.Assignment):
            names[node.lvalue.name] = bits(node.rvalue, names)
        else:
            found = bits(node.expr, names)
    for condition, value in reversed(cases):
        found = z3.If(condition, value, found)
    return found


def rows(tree: Tree) -> str | None:
    """A row has room for its k weights and at most 3 bytes more; weight i < k of codes lies in it, and in the table."""
    source = read(tree, "usermod_c/kernels/shape.c")
    layout, k, i, byte = z3.BitVecs("layout k i byte", 32)
    known = [z3.ULT(layout, 256), z3.ULE(k, MAX_BYTES), z3.ULT(i, k), z3.ULT(byte, 256)]
    found = row_bytes(source, layout, k)
    room = z3.And(z3.ULE(found, k + 3), z3.Or(layout == CODES4, z3.UGE(found, k)))
    coded = source.functions["mica_coded"]
    (pair,) = declarations(coded.body)
    names = {"row": z3.BitVecVal(0, 32), "i": i, "*": byte}
    place, number = bits(pair.init, names), bits(coded.body.block_items[1].expr.subscript, names)
    inside = z3.ULT(place, row_bytes(source, z3.BitVecVal(CODES4, 32), k))
    return refuted(known, room) or refuted(known, z3.And(inside, z3.ULT(number, 16)))
