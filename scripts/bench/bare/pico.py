"""Runs a bare program on the virtual Pico: pico.py [--xip=CYCLES [--cold]] LIBRARY PROGRAM.elf [ADDRESS FILE]...

LIBRARY: that of mica.link.emulator. The program prints with semihosting call 4, reads the core's cycles with 0x100 and
ends with 0x18. --xip: flash is read through its cache, and each missing word takes so many cycles; with --cold the
cache is empty after each reading of the core's cycles.
"""

import argparse
import mmap
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "boards" / "common" / "virtual"))

from chip import FLASH, RAM
from core import Core
from rp2040 import ARITHMETIC, DATA_TABLE, Rp2040

ROM_BYTES = 0x4000
NOTHING = 0x20  # where our boot ROM has a table that is empty


def parts(elf: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield addresses, and the bytes that the emulator puts there."""
    (table,), (count,) = struct.unpack_from("<I", elf, 28), struct.unpack_from("<H", elf, 44)
    for k in range(count):
        kind, offset, _, address, size = struct.unpack_from("<5I", elf, table + 32 * k)
        if kind == 1 and size:
            yield address, elf[offset : offset + size]


class Bare(Rp2040):
    """A chip whose boot ROM has nothing but where the program begins. miss: cycles of a missing word of flash."""

    def __init__(self, library: str, content: list[tuple[int, bytes]], miss: int | None, cold: bool) -> None:
        in_flash = [(address - FLASH, data) for address, data in content if address < RAM]
        flash = mmap.mmap(-1, 1 << max(at + len(data) for at, data in in_flash).bit_length())
        for at, data in in_flash:
            flash[at : at + len(data)] = data
        rom = bytearray(ROM_BYTES)
        rom[:8] = flash[:8]
        struct.pack_into("<H", rom, DATA_TABLE, NOTHING)
        struct.pack_into("<H", rom, ARITHMETIC, ROM_BYTES)
        super().__init__(bytes(rom), library, flash, lambda said: None, ideal_memory=miss is None)
        for address, data in content:
            if address >= RAM:
                self.ram[address - RAM : address - RAM + len(data)] = data
        self.cold = cold
        self.flash_unit.native.word = self.flash_unit.native.next_word = miss or 0

    def breakpoint(self, core: Core, code: int) -> None:
        what, at, *_ = core.arguments()
        if what == 4:
            text = b""
            while not text.endswith(b"\0"):
                text += core.uc.mem_read(at + len(text), 1)
            sys.stdout.write(text[:-1].decode())
        elif what == 0x100:
            core.answer(core.state.cycles)
            if self.cold:
                self.flash_unit.forget(0, True)
        elif what == 0x18:
            self.stop("end", "the program has ended")
        core.state.pc += 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--xip", type=int)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("library")
    parser.add_argument("program", type=Path)
    parser.add_argument("files", nargs="*")
    given = parser.parse_args()
    pairs = zip(given.files[::2], given.files[1::2], strict=True)
    content = [*parts(given.program.read_bytes()), *((int(at, 0), Path(name).read_bytes()) for at, name in pairs)]
    chip = Bare(given.library, content, given.xip, given.cold)
    while chip.stopped is None:
        chip.run(10_000_000)
    if chip.stopped.kind != "end":
        print("E 0", chip.stopped)
