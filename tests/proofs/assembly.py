"""Runs macros of the kernels' assembly on Z3's terms: the text of the .S files itself, instruction by instruction.

Every way through a macro is followed; loads find what their register was given before. One product of two registers,
of which only the name is known, stands for all products (words.product_of_fast).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import z3
from words import Word

LOADS = {"ldm", "ldrd", "lw", "lb", "vldrw.32", "ldr"}
STORES = {"strb", "sb", "vstrb.32"}


@dataclass(frozen=True)
class Line:
    op: str
    args: tuple[str, ...]


def _condition(text: str) -> bool:
    left, _, right = text.partition("==")
    return left.strip() == right.strip() if right else left.strip() != "0"


def macros(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Each macro's arguments and lines. A file's last definition of a name counts, as the assembler's."""
    found = {}
    for name, args, body in re.findall(r"^\.macro (\w+) ?([^\n]*)\n(.*?)^\.endm", text, flags=re.S | re.M):
        found[name] = ([a.split(":")[0].strip() for a in args.split(",")], body.splitlines())
    return found


def expand(all_macros: dict[str, tuple[list[str], list[str]]], name: str, *given: str) -> list[Line]:
    """A macro's instructions and labels, with its .if and .irp done."""
    args, body = all_macros[name]
    if len(given) > len(args):
        given = (*given[: len(args) - 1], ", ".join(given[len(args) - 1 :]))
    lines, taken, values = [], [True], dict(zip(args, given, strict=True))
    for text in body:
        text = re.sub(r"\\(\w+)", lambda name: values.get(name[1], name[0]), text)
        text = text.split("//")[0].strip()
        op, _, rest = text.partition(" ")
        rest = rest.strip()
        if op == ".if":
            taken.append(taken[-1] and _condition(rest))
        elif op == ".else":
            taken[-1] = taken[-2] and not taken[-1]
        elif op == ".endif":
            taken.pop()
        elif taken[-1] and op in all_macros:
            lines += expand(all_macros, op, *(a.strip() for a in rest.split(",")))
        elif taken[-1] and text:
            lines.append(Line(op, tuple(a.strip() for a in rest.split(","))))
    return _repeated(lines)


def _repeated(lines: list[Line]) -> list[Line]:
    """.irp name, values"""
    out: list[Line] = []
    at = 0
    while at < len(lines):
        if lines[at].op == ".irp":
            name, *values = lines[at].args
            end = next(i for i in range(at, len(lines)) if lines[i].op == ".endr")
            for value in values:
                out += [Line(x.op, tuple(a.replace(f"\\{name}", value) for a in x.args)) for x in lines[at + 1 : end]]
            at = end
        else:
            out.append(lines[at])
        at += 1
    return out


@dataclass
class Machine:
    """high(a, b): the upper 32 bits of a product; low(a, b): its lower ones, where an instruction has only these."""

    registers: dict[str, Word]
    high: Callable[[Word, Word], Word] | None = None
    low: Callable[[Word, Word], Word] | None = None
    stored: list[tuple[list[Word], Word]] = field(default_factory=list)  # under which conditions which word

    def run(self, lines: list[Line], at: int = 0, conditions: tuple[Word, ...] = ()) -> None:
        flags: tuple[Word, Word] | None = None
        while at < len(lines):
            op, args = lines[at].op, lines[at].args
            at += 1
            if op == "ret":
                return
            if op.endswith(":") or op in LOADS:
                continue
            if op in STORES:
                self.stored.append((list(conditions), self.value(args[0])))
            elif op == "cmp":
                flags = self.value(args[0]), self.value(args[1])
            elif op in ("b", "j"):
                at = _label(lines, args[0])
            elif op in ("bhi", "bltu"):
                a, b = flags if op == "bhi" and flags else (self.value(args[1]), self.value(args[0]))
                jumps = z3.UGT(a, b)
                other = Machine(dict(self.registers), self.high, self.low, self.stored)
                other.run(lines, _label(lines, args[-1]), (*conditions, jumps))
                conditions = (*conditions, z3.Not(jumps))
            else:
                self.registers[args[0]] = self.result(op, args)

    def value(self, name: str) -> Word:
        if name.startswith("#") or name.lstrip("-").isdigit():
            return z3.BitVecVal(int(name.lstrip("#"), 0), 32)
        if name not in self.registers:  # any number
            self.registers[name] = z3.FreshConst(z3.BitVecSort(32), name)
        return self.registers[name]

    def result(self, op: str, args: tuple[str, ...]) -> Word:
        v = [self.value(a) for a in args[1:] if not a.startswith("asr #")]
        if op in ("mulh", "smmla", "vqdmulh.s32"):
            assert self.high
            return self.high(v[0], v[1]) + (v[2] if op == "smmla" else 0)
        if op == "ssat":
            assert args[1] == "#8"
            return _between(
                v[1] >> int(args[3][5:]) if len(args) > 3 else v[1], z3.BitVecVal(-128, 32), z3.BitVecVal(127, 32)
            )
        if op in ("mul", "muls"):
            assert self.low
            return self.low(v[0], v[1])
        if op in ONE:
            return ONE[op](v[0])
        return INSTRUCTIONS[op](*(v if len(v) > 1 else [self.value(args[0]), *v]))  # add d, b is d += b


def _label(lines: list[Line], name: str) -> int:
    return next(i for i, line in enumerate(lines) if line.op == f"{name}:")


def _between(v: Word, low: Word, high: Word) -> Word:
    return z3.If(v < low, low, z3.If(v > high, high, v))


def _rounded(v: Word, by: Word) -> Word:
    """VRSHL by a negative number: the sum does not overflow."""
    n = -z3.SignExt(8, by)
    return z3.Extract(31, 0, (z3.SignExt(8, v) + (z3.BitVecVal(1, 40) << (n - 1))) >> n)


INSTRUCTIONS: dict[str, Callable[[Word, Word], Word]] = {
    **dict.fromkeys(("add", "adds", "addi", "vadd.i32"), lambda a, b: a + b),
    **dict.fromkeys(("sub", "subs"), lambda a, b: a - b),
    **dict.fromkeys(("asr", "asrs", "sra", "srai"), lambda a, b: a >> b),
    **dict.fromkeys(("lsl", "lsls", "slli"), lambda a, b: a << b),
    "bics": lambda a, b: a & ~b,
    "and": lambda a, b: a & b,
    "vrshl.s32": _rounded,
    "vmax.s32": lambda a, b: z3.If(a > b, a, b),
    "vmin.s32": lambda a, b: z3.If(a < b, a, b),
}  # fmt: skip
ONE: dict[str, Callable[[Word], Word]] = {
    **dict.fromkeys(("mov", "movs", "mv"), lambda a: a),
    "not": lambda a: ~a,
    "sxth": lambda a: z3.SignExt(16, z3.Extract(15, 0, a)),
}


def outcomes(machine: Machine, lines: list[Line]) -> Iterator[tuple[Word, Word]]:
    """Each way through the lines: its condition, and the byte that it stores, as a word."""
    machine.run(lines)
    for conditions, word in machine.stored:
        yield z3.And(*conditions), z3.SignExt(24, z3.Extract(7, 0, word))
