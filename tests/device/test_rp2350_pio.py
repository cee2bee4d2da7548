"""State machines of the virtual Pico 2 (pio.c) beside those of rp2040js: random instructions, one after another."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import numpy as np

from mica.link import emulator
from mica.web import rp2040js

HERE = Path(__file__).parent
PIO0 = 0x50200000
PINS = 2 << 29 | 5 << 26 | 8 << 20 | 3 << 15 | 8 << 10 | 4 << 5 | 2
MOVES_TO_ISR = [0xA0C0 | source for source in (1, 2, 6, 7)]  # from x, y, ISR, OSR
PUSH, PULL = 0x8000, 0x8080
# Bits that stay. Nothing here stalls or waits. rp2040js differs from the datasheet in four things that are left out:
# limits of PUSH and PULL without autopush, OUT of a whole word, jumps by OUT and MOV,
# and the OSR before its first word.
AS_HERE = {0: 0xFFFF, 2: 0xFFFF, 3: 0xFFFF, 4: 0xFF80, 5: 0xFFFF, 6: 0xFF47, 7: 0xFFFF}


def allowed(op: int) -> bool:
    to, source = op >> 5 & 7, op & 7
    return {
        2: to not in (4, 5),
        3: to not in (5, 7) and op & 31 != 0,
        5: to not in (3, 4, 5) and source not in (4, 5) and op >> 3 & 3 != 3,
        7: to in (0, 1, 2, 4),
    }.get(op >> 13, True)


def instructions(rng: np.random.Generator, n: int) -> list[int]:
    some = [int(op) & 0xF8FF for op in rng.integers(0, 1 << 16, 4 * n) if op >> 13 != 1]
    return [op & AS_HERE[op >> 13] for op in some if allowed(op)][:n]


class Machine:
    """Machine 0 of PIO0."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.mica_io_begin.restype = ctypes.c_size_t
        library.mica_io_read.restype = ctypes.c_uint32
        self.library = library
        self.memory = ctypes.create_string_buffer(library.mica_io_begin(None))
        library.mica_io_begin(self.memory)

    def read(self, o: int) -> int:
        return int(self.library.mica_io_read(self.memory, PIO0 + o))

    def write(self, o: int, value: int) -> None:
        self.library.mica_io_write(self.memory, PIO0 + o, ctypes.c_uint32(value))

    def state(self) -> list[int]:
        found, kept = [], self.memory.raw
        for move in MOVES_TO_ISR:
            self.write(0xD8, move)
            self.write(0xD8, PUSH)
            found.append(self.read(0x20))
            self.memory.raw = kept
        return [*found, self.read(0xD4), self.read(0x3C) & 0x3FC, self.read(0x30)]

    def run(self, control: int, words: list[int], instructions: list[int]) -> list[list[int]]:
        self.write(0xD0, control)
        self.write(0xDC, PINS)
        states = []
        for k, op in enumerate(instructions):
            if self.read(0x04) >> 24 & 1:
                self.write(0x10, words[k % len(words)])
            self.write(0xD8, op)
            pushed = []
            while not self.read(0x04) >> 8 & 1:
                pushed.append(self.read(0x20))
            states.append([*self.state(), *pushed])
        return states


def test_instructions_as_rp2040js_has_them() -> None:
    rng, cases = np.random.default_rng(5), []
    for _ in range(100):
        control = int(rng.integers(0, 4)) << 18 | int(rng.integers(0, 1 << 10)) << 20
        cases.append((control, [int(w) for w in rng.integers(0, 1 << 32, 5)], [PULL, *instructions(rng, 60)]))
    command = ["node", HERE / "pio_states.mjs", rp2040js.install()]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=120, check=True)
    library = ctypes.CDLL(str(emulator.install()))
    for case, theirs in zip(cases, json.loads(done.stdout), strict=True):
        ours = Machine(library).run(*case)
        for k, op in enumerate(case[2]):
            assert ours[k] == theirs[k], f"{op:#06x} with {case[0]:#x}: from {theirs[k - 1]}"
