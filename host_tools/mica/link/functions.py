"""Instructions and estimated cycles of each function of a board's firmware,
from the blocks of code that its emulator counts.

nm firmware.elf -> addresses and names;  VirtualPico.blocks() -> address, instructions, cycles;  summed up by name
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.boards.isa import Isa
from mica.toolchain.process import need_program

ROM = "(boot ROM)"  # and all else below the first function


@dataclass(frozen=True)
class Function:
    """Costs of a function by itself, without those that it calls."""

    name: str
    instructions: int
    cycles: int


class Symbols:
    """The functions of a program, by their addresses."""

    def __init__(self, elf: Path, isa: Isa) -> None:
        nm = need_program(f"{isa.prefix}nm", isa.packages)
        command: list[str | Path] = [nm, "--defined-only", "--format=sysv", elf]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = (line.replace(" ", "").split("|") for line in text.splitlines() if "|" in line)
        found = {int(address, 16) & ~1: name for name, address, _, kind, *_ in rows if kind == "FUNC"}
        self.addresses = np.array(sorted(found), np.int64)
        self.names = [ROM, *(found[int(a)] for a in self.addresses)]

    def costs(self, blocks: np.ndarray) -> list[Function]:
        """Sums of blocks by the function that they begin in; the most expensive function first."""
        sums = np.zeros((len(self.names), 2), np.int64)
        of = np.searchsorted(self.addresses, blocks["address"], "right")
        for k, what in enumerate(("instructions", "cycles")):
            np.add.at(sums[:, k], of, blocks[what].astype(np.int64))
        rows = [Function(name, int(n), int(c)) for name, (n, c) in zip(self.names, sums, strict=True) if n]
        return sorted(rows, key=lambda f: (-f.cycles, f.name))
