"""C as the walker reads it: functions of files and headers, their types, and the values of expressions."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from polynomials import Facts, Poly
from pycparser import c_ast, c_generator, c_parser
from words import Tree

LIBC = {
    "stdint.h": "".join(
        f"typedef {c} {n};\n"
        for n, c in (
            ("int8_t", "signed char"), ("uint8_t", "unsigned char"), ("int16_t", "short"),
            ("uint16_t", "unsigned short"), ("int32_t", "int"), ("uint32_t", "unsigned"), ("int64_t", "long long"),
            ("uint64_t", "unsigned long long"), ("uintptr_t", "unsigned"),
        )
    ) + "".join(f"#define INT{n}_MAX {2 ** (n - 1) - 1}\n#define INT{n}_MIN (-INT{n}_MAX - 1)\n"
                f"#define UINT{n}_MAX {2 ** n - 1}u\n" for n in (8, 16, 32)),
    "stddef.h": "typedef unsigned size_t;\n#define NULL ((void *)0)\n",
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0\n",
    "string.h": "",
}  # fmt: skip
INTEGERS = {
    "int8_t": (8, True), "uint8_t": (8, False), "int16_t": (16, True), "uint16_t": (16, False), "int32_t": (32, True),
    "uint32_t": (32, False), "int64_t": (64, True), "uint64_t": (64, False), "size_t": (32, False), "_Bool": (1, False),
    "int": (32, True), "signed char": (8, True), "unsigned char": (8, False), "short": (16, True), "char": (8, True),
    "unsigned short": (16, False), "unsigned": (32, False), "long long": (64, True), "unsigned long long": (64, False),
    "uintptr_t": (32, False), "unsigned int": (32, False), "mica_status_t": (32, True), "enum": (32, True),
}  # fmt: skip
Type = tuple[int, bool]  # bits, signed
INT: Type = (32, True)


class Unproved(Exception):
    """Something that does not follow."""


@dataclass(frozen=True)
class Number:
    poly: Poly
    type: Type = INT
    data: bool = False  # from a buffer


@dataclass(frozen=True)
class Pointer:
    base: str
    at: Poly  # elements
    element: str


@dataclass(frozen=True)
class Place:
    """A structure, or a local variable whose address is taken."""

    path: str


Value = Number | Pointer | Place


@dataclass
class State:
    facts: Facts
    local: dict[str, Value]
    result: Value | None = None
    returned: bool = False

    def copy(self) -> State:
        return State(self.facts.copy(), dict(self.local), self.result, self.returned)


@dataclass(frozen=True)
class Invariant:
    """Describe a loop over `of` without closed forms. pointer moves by step * ghost; the formula holds."""

    of: str
    variable: str
    pointer: str
    step: str
    ghost: str
    holds: str


@dataclass
class Source:
    functions: dict[str, c_ast.FuncDef] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)


def read(tree: Tree, *paths: str) -> Source:
    """Read the functions of files and of their headers."""
    with tempfile.TemporaryDirectory() as name, tree.folder() as root:
        for header, text in LIBC.items():
            (Path(name) / header).write_text(text, encoding="utf-8")
        c = root / "usermod_c"
        include = [f"-I{c / part}" for part in ("include", "kernels", "kernels/ref", "kernels/isa/ref", "runtime")]
        given = ["-D__attribute__(x)=", "-Dinline=", "-D__restrict=", "-D__builtin_clz(x)=0"]
        call = ["gcc", "-E", "-P", "-nostdinc", f"-I{name}", *include, *given]
        texts = [
            subprocess.run([*call, str(root / p)], capture_output=True, text=True, check=True).stdout for p in paths
        ]
    found = Source()
    for node in [node for text in texts for node in _parse(text)]:
        if isinstance(node, c_ast.FuncDef):
            found.functions[node.decl.name] = node
        elif isinstance(node, c_ast.Typedef):
            found.types[node.name] = node.type
        for enum in _enums(node):
            n = -1
            for e in enum.values.enumerators if enum.values else ():
                n = int(e.value.value, 0) if isinstance(e.value, c_ast.Constant) else n + 1
                found.constants[e.name] = n
    return found


@cache
def _parse(text: str) -> list[c_ast.Node]:
    return list(c_parser.CParser().parse(text).ext)


def _enums(node: c_ast.Node) -> Iterable[c_ast.Enum]:
    if isinstance(node, c_ast.Enum):
        yield node
    for _, child in node.children():
        yield from _enums(child)


def changed(node: c_ast.Node | None) -> set[str]:
    """Return the local variables that a piece of C writes to."""
    if node is None:
        return set()
    found: set[str] = set()
    if isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID):
        found.add(node.lvalue.name)
    if (
        isinstance(node, c_ast.UnaryOp)
        and node.op in ("++", "--", "p++", "p--", "&")
        and isinstance(node.expr, c_ast.ID)
    ):
        found.add(node.expr.name)
    for _, child in node.children():
        found |= changed(child)
    return found


def poly_of(v: Value) -> Poly:
    return v.poly if isinstance(v, Number) else v.at if isinstance(v, Pointer) else Poly(())


def text_of(node: c_ast.Node) -> str:
    return str(c_generator.CGenerator().visit(node))


def promoted(t: Type) -> Type:
    return INT if t[0] < 32 else t


def common(a: Type, b: Type) -> Type:
    a, b = promoted(a), promoted(b)
    return max(a, b, key=lambda t: (t[0], not t[1]))


def parsed(text: str) -> c_ast.Node:
    """Parse an expression in C."""
    return _parse(f"void f(void) {{ {text}; }}")[0].body.block_items[0]
