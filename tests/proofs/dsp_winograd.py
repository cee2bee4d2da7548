"""Winograd on a Cortex-M with the DSP instructions: follows the text of the macros, each input by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from assembly import Line, expand, macros
from sums import POSITIONS, four_times
from words import Tree

FOLDER = "usermod_c/kernels/isa/armv7em/"
WORD = 4  # bytes
POSITION = 16  # bytes of a position's weights, a word for each of four channels
LARGEST = 32767  # of an int16


class Linear:
    """Registers that hold addresses, or how much of each input is in them.

    Both halves of a word get the same instructions, so one stands for both. load: (address) -> its four bytes."""

    def __init__(self, registers: dict[str, Any], load: Callable[[int], Any], names: dict[str, int]) -> None:
        self.registers, self.load, self.names = registers, load, names
        self.stored: dict[int, np.ndarray] = {}
        self.stack: list[Any] = []

    def value(self, text: str) -> Any:
        return int(eval(text[1:], dict(self.names))) if text.startswith("#") else self.registers[text]

    def shifted(self, text: str, shift: str = "lsl #0") -> Any:
        v, (op, n) = self.value(text), shift.split(" #")
        assert op in ("lsl", "lsr")
        return v * 2 ** int(n) if op == "lsl" else v // 2 ** int(n)

    def place(self, args: list[str]) -> int:
        """Return the address of [base], [base, offset] or [base, register, lsl #n]."""
        base, *offset = ", ".join(args).strip("[]").split(", ")
        return int(self.registers[base] + (self.shifted(*offset) if offset else 0))

    def run(self, lines: list[Line]) -> None:
        for line in lines:
            self.step(line.op, *line.args)

    def step(self, op: str, to: str, *args: str) -> None:
        registers, given = self.registers, list(args)
        if op in ("push", "pop"):
            first, last = (int(n) for n in re.findall(r"\d+", to))
            names = [f"r{n}" for n in range(first, last + 1)]
            if op == "push":
                self.stack = [registers[n] for n in names]
            else:
                registers |= dict(zip(names, self.stack, strict=True))
        elif op == "ldr":
            registers[to] = self.load(self.place(given))
        elif op == "str":
            self.stored[self.place(given)] = registers[to]
        elif op == "sxtb16":  # bytes 0 and 2 of the turned word; byte 0 stands for both
            registers[to] = registers[given[0]][int(given[1].removeprefix("ror #")) // 8]
        else:
            a, b = self.value(given[0] if len(given) > 1 else to), self.shifted(*given[len(given) > 1 :])
            registers[to] = {"add": a + b, "sub": a - b, "rsb": b - a}[op.removesuffix("16")[-3:]]
            if op.endswith("16") and np.abs(registers[to]).sum() * 128 > LARGEST:
                raise OverflowError(f"{op} {to}, {', '.join(args)} passes an int16")


def transformed(tree: Tree, macro: str, registers: dict[str, int], places: list[int]) -> list[dict[int, np.ndarray]]:
    """Return what a macro stores of words at places: how much of each word's byte 0, and then of byte 1."""
    text, found = tree.read(FOLDER + "winograd.S"), []
    unit = np.eye(len(places), dtype=np.int64)
    none = np.full(len(places), LARGEST)  # bytes that this half has no use for
    for half, turn in enumerate(("0", "8")):
        args = (turn, str(128 * half)) if macro == "HALF" else (turn,)
        given = {at: [unit[i] if byte == half else none for byte in range(WORD)] for i, at in enumerate(places)}
        machine = Linear(dict(registers), given.__getitem__, {})
        machine.run(expand(macros(text), macro, *args))
        base = 128 * half if macro == "HALF" else 0
        found.append({at - base: v for at, v in machine.stored.items()})
    return found


def sums_of_positions(tree: Tree) -> np.ndarray:
    """Return [place in the stream, pixel, tap]: the sums of a column go on from one another."""
    rows = re.search(r"rows_in_order\[4\] = \{(.*?)\}", tree.read(FOLDER + "conv2d_winograd.c"))
    assert rows
    order = [int(n) for n in rows[1].split(",")]
    row, pixel, column = 1000, 100, 4 * POSITION
    tile = {"r0": 0, "r1": row, "r2": pixel, "r3": 3 * pixel, "r12": 0}
    filter = {"r0": 0, "r1": pixel, "r2": 3 * POSITION, "r3": column, "lr": 3 * column}
    tiles = transformed(tree, "HALF", tile, [row * i + pixel * j for i in range(4) for j in range(4)])
    taps = transformed(tree, "WEIGHTS", filter, [pixel * i for i in range(9)])
    found = []
    for x, w in zip(tiles, taps, strict=True):
        xs = np.array([x[8 * (4 * order[i % 4] + i // 4)] for i in range(POSITIONS)])
        ws = np.array([w[column * (i // 4) + POSITION * (i % 4)] for i in range(POSITIONS)])
        found.append((xs[:, :, None] * ws[:, None, :]).reshape(4, 4, 16, 9).cumsum(axis=1).reshape(POSITIONS, 16, 9))
    assert np.array_equal(*found)
    return found[0]


def winograd(tree: Tree) -> str | None:
    """Both transforms are linear and their product bilinear, so unit tiles and weights stand for all."""
    text = tree.read(FOLDER + "winograd.S")
    known = {name: int(n) for name, n in re.findall(r"\.equ (\w+), +(\d+)", text)}
    try:
        sums = sums_of_positions(tree)
    except OverflowError as e:
        return str(e)
    for tile in (0, 1):
        lines = expand(macros(text), "OUTPUT", str(tile))
        ends = next(i for i, line in enumerate(lines) if line.args[1:2] == ("[sp",))
        first = known["TILE"] * tile
        loads = {first + 32 * i: sums[15 - i] for i in range(POSITIONS)}
        machine = Linear({"r0": 0, "r2": 0}, loads.__getitem__, known)
        machine.run(lines[:ends])
        places = {line.args[0]: line.args[1:] for line in lines[ends:] if line.op == "strb"}
        assert list(places) == ["r10", "r11", "r9", "r12"], "outputs are stored elsewhere"
        wrong = four_times(machine.registers[name] for name in ("r9", "r10", "r11", "r12"))
        if wrong:
            return wrong
    return None
