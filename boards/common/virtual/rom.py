"""The RP2350's boot ROM: each function is `bkpt n; bx lr`, and is carried out here. The chip's own is not ours to ship.

Names of two letters, arguments and answers: RP2350 datasheet, 5.4 and 5.5.
"""

import mmap
import struct
from typing import NoReturn, Protocol

from core import Core

SECTOR, PAGE = 4096, 256
NORMAL_REBOOT, BOOTSEL = 0, 2
SIZE = 0x8000
FIRST = 0x1000  # where the functions begin; the page before is data, and what is written there is lost
BKPT, BX_LR = 0xBE00, 0x4770
ENDED = 63  # number of the breakpoint to which core 1's program returns
LINK_OF_CORE_1 = FIRST + 4 * ENDED + 1
NAMES = ("lookup", "IF", "EX", "FC", "CX", "XM", "RE", "RP", "GS", "RB", "FA", "SR", "CB", "SC")
NOTHING = {"IF", "EX", "FC", "CX", "XM", "SR", "SC", "CB"}  # flash is always readable here; core 1 keeps no state there
CHIP_INFO, CPU_INFO, RANDOM, BOOT_INFO = 1, 4, 0x10, 0x40
DEVICE = (0x6D696361, 0x00002350)  # the chip's number, by which USB names the board


def image() -> bytes:
    rom = bytearray(SIZE)
    rom[0x10:0x14] = b"Mu\x02\x02"
    # A table that nobody reads, and two ways to look up
    struct.pack_into("<HHH", rom, 0x14, 0x80, FIRST + 1, FIRST + 1)
    for n in range(ENDED + 1):
        struct.pack_into("<HH", rom, FIRST + 4 * n, BKPT + n, BX_LR)
    return bytes(rom)


class Around(Protocol):
    """Functions of the chip that a boot ROM calls."""

    def ended(self, core: Core) -> None: ...
    def before_flash_write(self, core: Core) -> None: ...
    def flash_changed(self, offset: int, size: int) -> None: ...
    def stop(self, kind: str, message: str) -> NoReturn: ...
    def ask_for_reset(self) -> None: ...


class Writer:
    """Writes flash for a boot ROM. `flash` is the file's content: what is written there stays."""

    def __init__(self, chip: Around, flash: mmap.mmap) -> None:
        self.chip, self.flash = chip, flash

    def erase(self, core: Core, offset: int, size: int) -> None:
        if offset % SECTOR or size % SECTOR or offset + size > len(self.flash):
            core.stop(f"flash erase of {size} bytes at {offset:#x}: not whole sectors of the chip")
        self.write(core, offset, b"\xff" * size)

    def program(self, core: Core, offset: int, source: int, size: int) -> None:
        if offset % PAGE or size % PAGE or offset + size > len(self.flash):
            core.stop(f"flash write of {size} bytes at {offset:#x}: not whole pages of the chip")
        old = int.from_bytes(self.flash[offset : offset + size], "little")
        new = int.from_bytes(core.uc.mem_read(source, size), "little")
        self.write(core, offset, (old & new).to_bytes(size, "little"))  # writing only clears bits

    def write(self, core: Core, offset: int, data: bytes) -> None:
        self.chip.before_flash_write(core)
        self.flash[offset : offset + len(data)] = data
        self.chip.flash_changed(offset, len(data))

    def enter_loader(self) -> None:
        self.chip.stop("bootsel", "the board has gone into its boot loader")


class Rom(Writer):
    """The functions by their numbers."""

    def call(self, core: Core, n: int) -> None:
        if n == ENDED:
            self.chip.ended(core)
            return
        name = NAMES[n] if n < len(NAMES) else ""
        a = core.arguments()
        if name == "lookup":
            letters = bytes((a[0] & 255, a[0] >> 8 & 255)).decode("latin-1")
            if letters not in NAMES:
                core.answer(0)  # as the chip's, of a function that it lacks; the SDK tells by it what there is
            else:
                core.answer(FIRST + 4 * NAMES.index(letters) + 1)
        elif name == "RE":
            self.erase(core, a[0], a[1])
        elif name == "RP":
            self.program(core, a[0], a[1], a[2])
        elif name == "GS":
            core.answer(self.system_information(core, *a[:3]))
        elif name == "RB":
            self.reboot(a[0])
            core.answer(0)
        elif name == "FA":
            core.answer(a[0])
        elif name in NOTHING:
            core.answer(0)
        else:
            core.stop(f"function {n} of the boot ROM is not modelled")

    def system_information(self, core: Core, buffer: int, words: int, flags: int) -> int:
        """get_sys_info: the flags that are answered, then the words of each. Returns how many."""
        known = {CHIP_INFO: (1, *DEVICE), CPU_INFO: (0,), RANDOM: (1, 2, 3, 4), BOOT_INFO: (0, 0, 0, 0)}
        asked = [(flag, values) for flag, values in known.items() if flags & flag]
        if flags & ~sum(known):
            core.stop(f"get_sys_info with flags {flags:#x} is not modelled")
        found = [sum(flag for flag, _ in asked), *(word for _, values in asked for word in values)]
        if len(found) <= words:
            core.uc.mem_write(buffer, struct.pack(f"<{len(found)}I", *found))
        return len(found)

    def reboot(self, flags: int) -> None:
        if flags & 0xF == BOOTSEL:
            self.enter_loader()
        self.chip.ask_for_reset()
