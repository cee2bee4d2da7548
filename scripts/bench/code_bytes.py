"""Bytes that mica takes in a board's firmware, read from the map that the linker leaves beside it,
and in native modules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mica.boards import load_board
from mica.toolchain import natmod
from mica.toolchain.build import build
from mica.toolchain.cache import Progress
from mica.toolchain.contents import FAMILY, chosen, usual
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
    "XTENSA_WIN",
)

_LINKED = "Linker script and memory map"
# A section, then, on the same line or the next, its address, its length and the object it is from.
_PART = re.compile(r"^ (\.[\w.$*-]+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S+)", re.MULTILINE)
_KEPT = (".text", ".rodata", ".data", ".srodata", ".sdata", ".time_critical")
# Whose bytes they are: the first that is in the path of the object. `ref` is also what kernels share with checks.
_WHOSE = tuple(
    (re.compile(path), whose)
    for path, whose in (
        (r"/kernels/isa/", "fast"),
        (r"/kernels/", "ref"),
        (r"(mica|usermod_c)/runtime/op_", "loaders"),
        (r"(mica|usermod_c)/runtime/", "runtime"),  # MicroPython has a shared/runtime
        (r"(mica|usermod_c)/binding/", "binding"),
        (r"frozen_content", "python"),
    )
)
# Frozen modules of MicroPython's own, by the names of their sections.
# The pool of strings, shared by all, counts as mica's.
_NOT_OURS = re.compile(
    r"\.\w+\.[a-z_]*?_(asyncio|rp2|_?boot|neopixel|dht|onewire|ds18x20|requests|webrepl|ssl|mip|umqtt)"
)


@dataclass
class CodeBytes:
    """Bytes of code and constants: kernels of the reference and of the instruction set, of these run from RAM;
    and the rest of mica."""

    ref: int = 0
    fast: int = 0
    from_ram: int = 0
    loaders: int = 0
    runtime: int = 0
    binding: int = 0
    python: int = 0

    @property
    def engine(self) -> int:
        return self.ref + self.fast + self.loaders + self.runtime + self.binding


def read_map(text: str) -> CodeBytes:
    """mica's share of a program, from its map. Sections that were thrown away do not count."""
    out = CodeBytes()
    for section, _, length, path in _PART.findall(text.partition(_LINKED)[2]):
        whose = next((name for part, name in _WHOSE if part.search(path)), None)
        if whose is None or not section.startswith(_KEPT) or (whose == "python" and _NOT_OURS.match(section)):
            continue
        setattr(out, whose, getattr(out, whose) + int(length, 16))
        if section.startswith(".time_critical"):
            out.from_ram += int(length, 16)
    return out


@dataclass(frozen=True)
class BoardBytes:
    """One firmware: its board, what it was built for, its kernels' folder, mica's bytes, and those of the whole."""

    board: str
    built_for: str
    isa: str
    kernels: CodeBytes
    firmware: int


def board_bytes(name: str, progress: Progress, models: Sequence[Path] = ()) -> BoardBytes:
    """Builds the board's firmware, for some models alone, or finds it up to date."""
    board = load_board(name)
    contents = chosen([str(path) for path in models]) if models else usual(board)
    result = build(board, contents=contents, progress=progress)
    maps = [result.elf.with_suffix(".map"), Path(f"{result.elf}.map")]
    found = next(path for path in maps if path.exists())
    read = read_map(found.read_text(errors="replace"))
    what = ", ".join(path.stem for path in models) or "all"
    return BoardBytes(name, what, kernels_of(board), read, result.text + result.data)


def module_bytes(arch: str, progress: Progress, models: Sequence[Path]) -> dict[str, int]:
    """Bytes of RAM that native modules take: the whole one, that of each family, and those for one model each."""
    inside = {"all": chosen([])} | {name: chosen([], family=name) for name in FAMILY}
    inside |= {path.stem: chosen([str(path)]) for path in models}
    built = {what: natmod.build(arch, kernels=c.kernels, progress=progress) for what, c in inside.items()}
    return {what: module.text + module.bss for what, module in built.items()}
