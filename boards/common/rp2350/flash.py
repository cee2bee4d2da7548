"""Flash as the RP2350 reads it: registers of QMI and XIP_CTRL in front of flash.c (RP2350 datasheet, 4.4 and 12.14)."""

import ctypes
import json
from pathlib import Path
from typing import TYPE_CHECKING

from blocks import Block

if TYPE_CHECKING:
    from chip import Chip

TABLE = json.loads((Path(__file__).parents[1] / "flash.json").read_text(encoding="utf-8"))
ALL = 0xFFFFFFFF
UNIT = 256  # of the time of pio.c in a cycle
_WORD = ctypes.c_uint32


class _Flash(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_void_p),
        *((name, _WORD) for name in "size sets shift depth line next word next_word window deselect resumes off changes".split()),
        *((name, _WORD) for name in "address left n".split()),
        ("words", _WORD * 8),
        ("accesses", ctypes.c_uint64),
        ("missed", ctypes.c_uint64),
    )


class Qmi(Block):
    """Window 0 of the interface to flash: its clocks are what a line takes. As the boot ROM leaves it."""

    TIMING, FORMAT, COMMAND = 0x0C, 0x10, 0x14

    def __init__(self, flash: "Flash") -> None:
        chip = TABLE["rp2350"]
        super().__init__("XIP_QMI", range(0, 0x54, 4), {self.TIMING: chip["M0_TIMING"], self.FORMAT: chip["M0_RFMT"], self.COMMAND: chip["M0_RCMD"]})
        self.flash = flash
        self.changed()

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o in (self.TIMING, self.FORMAT):
            self.changed()
        return known

    def changed(self) -> None:
        timing, how = self.get(self.TIMING), self.get(self.FORMAT)
        divider = timing & 0xFF or 256
        prefix, address, suffix, dummy, data = (1 << min(2, how >> at & 3) for at in (0, 2, 4, 6, 8))
        bits = (8 * (how >> 12 & 1), prefix), (24, address), (4 * (how >> 14 & 3), suffix), (4 * (how >> 16 & 7), dummy)
        before = sum(n / wires for n, wires in bits)
        rate = 2 if how >> 28 & 1 else 1
        n, line = self.flash.native, 8 * TABLE["cache"]["line"]
        n.line, n.next = (int(divider * (clocks + line / data / rate)) for clocks in (before, 0))
        n.word, n.next_word = (int(divider * (clocks + 32 / data / rate)) for clocks in (before, 0))
        n.window = 64 * (timing >> 30) + divider // 2 if timing >> 30 else 0
        n.deselect = (divider + 1) // 2 + (timing >> 12 & 31)
        if self.flash.ideal:
            n.line = n.next = n.word = n.next_word = n.deselect = 0


class XipControl(Block):
    """The cache's switch, its counters and the stream."""

    CTRL, STAT, HIT, ACC, ADDR, CTR, FIFO = 0, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x1C

    def __init__(self, flash: "Flash") -> None:
        super().__init__("XIP_CTRL", (self.CTRL,), {self.CTRL: 0x83})
        self.flash = flash

    def read(self, o: int) -> int | None:
        n = self.flash.native
        self.flash.settle()
        if o == self.STAT:
            return (n.n == 0) << 1 | (n.n == n.depth) << 2
        if o == self.FIFO:
            return self.flash.pop()
        counts = {self.HIT: n.accesses - n.missed, self.ACC: n.accesses}
        return min(ALL, counts[o]) if o in counts else {self.ADDR: n.address, self.CTR: n.left}.get(o, super().read(o))

    def write(self, o: int, value: int) -> bool:
        n = self.flash.native
        self.flash.settle()
        if o == self.CTRL:
            n.off = not value & 1
            self.flash.forget(0, True)
        elif o in (self.HIT, self.ACC):
            n.accesses = n.missed = 0
        elif o == self.ADDR:
            n.address = value & ~3
        elif o == self.CTR:
            self.flash.stream(value & 0xFFFFFF)
        return super().write(o, value) or o in (self.HIT, self.ACC, self.ADDR, self.CTR)


class Fifo(Block):
    """The stream's FIFO again, on a faster bus."""

    def __init__(self, flash: "Flash") -> None:
        super().__init__("XIP_AUX")
        self.flash = flash

    def read(self, o: int) -> int | None:
        return self.flash.pop() if o == 0 else None


class Flash:
    """flash.c's memory, and Python's way to it. `ideal`: no access waits."""

    def __init__(self, chip: "Chip", ideal: bool) -> None:
        self.chip, self.library, self.ideal = chip, chip.native.hooks, ideal
        self.library.mica_flash_begin.restype = ctypes.c_size_t
        self._memory = ctypes.create_string_buffer(self.library.mica_flash_begin(None))
        self.address = ctypes.addressof(self._memory)
        self.native = _Flash.from_buffer(self._memory)

    def power_on(self) -> dict[int, Block]:
        """Return the blocks of a new chip, with nothing in the cache."""
        ctypes.memset(self.address, 0, len(self._memory))
        n, cache, memory = self.native, TABLE["cache"], self.chip.memories[0]
        n.bytes, n.size = memory.address, memory.size
        n.shift, n.sets = cache["line"].bit_length() - 1, cache["bytes"] // cache["ways"] // cache["line"]
        n.depth, n.resumes = TABLE["rp2350"]["fifo"], TABLE["rp2350"]["resumes"]
        self.call("begin")
        return {0x400C8000: XipControl(self), 0x400D0000: Qmi(self), 0x50500000: Fifo(self)}

    def call(self, name: str, *arguments: object) -> int:
        return int(getattr(self.library, f"mica_flash_{name}")(ctypes.c_void_p(self.address), *arguments))

    def now(self) -> ctypes.c_int64:
        return ctypes.c_int64(self.chip.io.now() // UNIT)

    def settle(self) -> None:
        self.chip.io.step()
        self.call("settle", self.now())

    def pop(self) -> int:
        word = self.call("pop") & ALL
        self.call("settle", self.now())
        return word

    def stream(self, words: int) -> None:
        self.call("stream", words, self.now())
        self.chip.io.serve()
        self.chip.io.native.busy |= 2  # the next step tells

    def forget(self, address: int, everything: bool) -> None:
        self.call("forget", address, everything)

    def maintain(self, address: int, size: int, value: int) -> None:
        """A write to the space of maintenance: what is to be done stands in the low bits; nothing here is ever dirty."""
        what, at = address & 7, address & ~7 & 0x3FFFFFF
        if what == 0:  # by set and way
            self.call("forget_way", at)
        elif what == 2:
            self.forget(at, False)
