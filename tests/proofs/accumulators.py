"""Sums of products: those that the checks in shape.c let through stay in 32 bits, by the text of the conditions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import z3
from c_source import Source, read, text_of
from pycparser import c_ast
from words import Tree, Word, refuted

Typed = tuple[Word, bool]  # a word of 32 bits, signed
SHAPE = "usermod_c/kernels/shape.c"


def conditions(source: Source, function: str) -> list[c_ast.Node]:
    """Return the conditions of a function's ifs that return, in their order."""
    found: list[c_ast.Node] = []

    def visit(node: c_ast.Node) -> None:
        if isinstance(node, c_ast.If):
            found.append(node.cond)
        for _, child in node.children():
            visit(child)

    visit(source.functions[function].body)
    return found


def word(node: c_ast.Node, given: dict[str, Typed]) -> Typed:
    """Return an expression in C on words; a name stands for itself, or for a field, or an element of an array."""
    if isinstance(node, c_ast.Constant):
        return z3.BitVecVal(int(node.value.rstrip("u"), 0), 32), "u" not in node.value
    if isinstance(node, c_ast.ArrayRef):
        return word(node.name, given)
    if isinstance(node, c_ast.StructRef):
        return given[node.field.name]
    if isinstance(node, c_ast.ID):
        return given[node.name]
    if isinstance(node, c_ast.Cast):
        return word(node.expr, given)[0], "uint32_t" not in node.to_type.type.type.names
    if isinstance(node, c_ast.UnaryOp):
        v, signed = word(node.expr, given)
        return (-v, signed) if node.op == "-" else (z3.Not(v), True)
    (a, x), (b, y) = word(node.left, given), word(node.right, given)
    if node.op in ("&&", "||"):
        return (z3.And if node.op == "&&" else z3.Or)(a, b), True
    signed = x and y
    if node.op in ("<", ">=", ">"):
        less = {"<": (a, b, False), ">=": (a, b, True), ">": (b, a, False)}[node.op]
        found = less[0] < less[1] if signed else z3.ULT(less[0], less[1])
        return (z3.Not(found) if less[2] else found), True
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "<<": lambda: a << b}[node.op](), signed


def channels(tree: Tree) -> str | None:
    """|bias| + 128 * sum|w| is below 2^31, with FAST below 2^29, of all biases and sums that a check lets through."""
    source = read(tree, SHAPE)
    bias, total, shift, least = z3.BitVecs("bias total shift least", 32)
    wide = z3.ZeroExt(32, z3.If(bias < 0, -bias, bias)) + 128 * z3.ZeroExt(32, total)
    limit = re.search(r"limit = FAST_LIMIT - 128 \* most;", tree.read(SHAPE))
    # all_fast: no sum is above most < 2^22, and no weight is -128
    given = {"bias": (bias, True), "shift": (shift, True), "limit": (z3.BitVecVal(1 << 29, 32) - 128 * total, False)}
    slow = word(conditions(source, "all_fast")[0], given)[0]
    known = [z3.ULT(total, 1 << 22), shift >= -128, shift <= 127]
    fast = z3.And(z3.ULT(wide, 1 << 29), shift >= 1, shift <= 22)
    found = None if limit else "all_fast has another limit"
    found = found or refuted([*known, z3.Not(slow)], fast)
    # check_each: the sum ends once it has reached 2^24
    given = {"bias": (z3.If(bias < 0, -bias, bias), False), "sum": (total, False), "shift": (shift, True),
             "least": (least, True), "fast": (z3.BoolVal(True), True),
             "no_least": (z3.BoolVal(False), True)}  # fmt: skip
    _, refused, not_fast = (word(c, given)[0] for c in conditions(source, "check_each")[:3])
    known = [z3.ULT(total, (1 << 24) + 128), shift >= -128, shift <= 127]
    found = found or refuted([*known, z3.Not(refused)], z3.ULT(wide, 1 << 31))
    return found or refuted([*known, z3.Not(refused), z3.Not(not_fast)], z3.And(fast, least >= -127))


def products(tree: Tree) -> str | None:
    """A product of an int8 with a weight moves a sum by 128 * |w| at most; and the limits of counts."""
    x, w = np.mgrid[-128:128, -128:128]
    if (np.abs(x * w) > 128 * np.abs(w)).any():
        return "a product"
    texts = {name: tree.read(f"usermod_c/kernels/ref/{name}.c") for name in ("matmul", "average_pool2d", "conv2d_s16")}
    counts = [re.search(p, texts[n]) for n, p in (("matmul", r"MOST_K (\d+)u"), ("conv2d_s16", r"MOST_PRODUCTS (\d+)"))]
    assert counts[0] and counts[1]
    taps = re.search(r"taps > INT32_MAX / (\d+)\)", texts["average_pool2d"])
    assert taps
    limits = {
        "matmul_s8": 255 * 255 * int(counts[0][1]), "conv2d_s16": 2**15 * 2**7 * int(counts[1][1]),
        "average_pool2d_s8": 255 * ((2**31 - 1) // int(taps[1])),
    }  # fmt: skip
    return next((f"{name}: a sum reaches {most}" for name, most in limits.items() if most >= 2**31), None)


# --- the sum of add_s8: integers without a limit, because each part is compared with an int32 ------------------------


def whole(node: c_ast.Node, given: dict[str, Any], parts: list[Any]) -> Any:
    """Return an expression in C on integers of any size, by its text; put what it computes into parts."""
    text = text_of(node)
    if text in given:
        return given[text]
    if isinstance(node, c_ast.Constant):
        return z3.IntVal(int(node.value.rstrip("u"), 0))
    if isinstance(node, c_ast.TernaryOp):
        a, b = whole(node.iftrue, given, parts), whole(node.iffalse, given, parts)
        return z3.If(whole(node.cond, given, parts), a, b)
    if isinstance(node, c_ast.UnaryOp) and node.op == "-":
        return -whole(node.expr, given, parts)
    assert isinstance(node, c_ast.BinaryOp), text
    a, b = whole(node.left, given, parts), whole(node.right, given, parts)
    found = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "<": lambda: a < b, ">": lambda: a > b,
             "||": lambda: z3.Or(a, b)}[node.op]()  # fmt: skip
    if node.op in "+-*":
        parts.append(found)
    return found


def added(tree: Tree) -> str | None:
    """Every part of the sum rises or falls with each element of a and b, so their least and largest stand for all."""
    source = read(tree, "usermod_c/kernels/ref/add.c")
    a, b, offset, shift = z3.Ints("mult_a mult_b offset shift")
    refused = whole(conditions(source, "mica_add_s8_check")[1],
                    {"a": a, "b": b, "offset": offset, "p->shift": shift}, [])  # fmt: skip
    (sum_,) = [d for d in declarations(source.functions["mica_add_s8_ref"].body) if d.name == "sum"]
    assert isinstance(sum_.init, c_ast.BinaryOp) and sum_.init.op == ">>"
    known = [z3.Not(refused), *(z3.And(v >= -(1 << 31), v < 1 << 31) for v in (a, b, offset)), shift >= 0]
    for x, y in itertools.product((-128, 127), repeat=2):
        parts: list[Any] = []
        given = {"*a": z3.IntVal(x), "*b": z3.IntVal(y), "mult_a": a, "mult_b": b, "offset": offset}
        whole(sum_.init.left, given, parts)
        found = refuted(known, z3.And(shift < 32, *(z3.And(v >= -(1 << 31), v < 1 << 31) for v in parts)))
        if found:
            return found
    return None


def declarations(node: c_ast.Node) -> Iterator[c_ast.Decl]:
    if isinstance(node, c_ast.Decl):
        yield node
    for _, child in node.children():
        yield from declarations(child)


def sums(tree: Tree) -> str | None:
    return channels(tree) or products(tree)
