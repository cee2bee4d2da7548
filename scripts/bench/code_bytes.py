"""Bytes that the kernels take in a board's firmware, read from the map that the linker leaves beside it."""

import re
from dataclasses import dataclass
from pathlib import Path

from mica.boards import load_board
from mica.toolchain.build import build
from mica.toolchain.cache import Progress
from mica.toolchain.ports.base import kernels_of

# Boards whose compilers are Debian packages; the others need ESP-IDF or its emulator's tool chain.
BOARDS = (
    "UNIX",
    "MPS2_AN385",
    "MPS2_AN386",
    "MPS2_AN500",
    "MPS2_AN505",
    "MPS3_AN547",
    "QEMU_M0",
    "VIRT_RV32",
    "RPI_PICO",
    "RPI_PICO2",
    "XTENSA_SIM",
)

_LINKED = "Linker script and memory map"
# A section, then, on the same line or the next, its address, its length and the object it is from.
_PART = re.compile(r"^ (\.[\w.$*-]+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S*/kernels/\S+)", re.MULTILINE)
_KEPT = (".text", ".rodata", ".data", ".srodata", ".sdata", ".time_critical")


@dataclass
class CodeBytes:
    """Bytes of code and constants: of the reference's files, of the instruction set's, and those run from RAM."""

    ref: int = 0
    fast: int = 0
    from_ram: int = 0


def read_map(text: str) -> CodeBytes:
    """The kernels' share of a program, from its map. Sections that were thrown away do not count."""
    out = CodeBytes()
    for section, _, length, path in _PART.findall(text.partition(_LINKED)[2]):
        if not section.startswith(_KEPT):
            continue
        size = int(length, 16)
        if "/kernels/isa/" in path:
            out.fast += size
        else:  # what they share with the checks as well
            out.ref += size
        if section.startswith(".time_critical"):
            out.from_ram += size
    return out


@dataclass(frozen=True)
class BoardBytes:
    """One board: its kernels' folder, their bytes, and those of the whole firmware."""

    board: str
    isa: str
    kernels: CodeBytes
    firmware: int


def of_board(name: str, progress: Progress) -> BoardBytes:
    """Builds the board's firmware, or finds it up to date."""
    board = load_board(name)
    result = build(board, progress=progress)
    maps = [result.elf.with_suffix(".map"), Path(f"{result.elf}.map")]
    found = next(path for path in maps if path.exists())
    return BoardBytes(name, kernels_of(board), read_map(found.read_text(errors="replace")), result.text + result.data)
