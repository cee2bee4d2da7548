"""Flash as the chips read it: registers of QMI or SSI and XIP_CTRL in front of flash.c.

RP2350 datasheet, 4.4 and 12.14; RP2040 datasheet, 2.6.3 and 4.10.
"""

import ctypes
import json
from pathlib import Path
from typing import Protocol

from blocks import Block
from native import Native, State

TABLE = json.loads((Path(__file__).parents[1] / "flash.json").read_text(encoding="utf-8"))
ALL = 0xFFFFFFFF
UNIT = 256  # of the time of pio.c in a cycle
_WORD = ctypes.c_uint32


class _Flash(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_void_p),
        *((name, _WORD) for name in "size sets shift depth".split()),
        ("how", _WORD * 8),
        *((name, _WORD) for name in "fills line next word next_word window deselect resumes".split()),
        *((name, _WORD) for name in "off takes_writes changes".split()),
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
        super().__init__("XIP_QMI", range(0, 0x54, 4), {self.TIMING: chip["M0_TIMING"], self.FORMAT: chip["M0_RFMT"],
                                                        self.COMMAND: chip["M0_RCMD"]})
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


class Ssi(Block):
    """The RP2040's interface to flash: a word takes what its registers say. A byte from flash is 0: it is ready."""

    CTRL, FRAMES, DIVIDER, STATUS, DATA, FORMAT = 0, 4, 0x14, 0x28, 0x60, 0xF4

    def __init__(self, flash: "Flash") -> None:
        super().__init__("SSI", (*range(0, 0x5C, 4), self.DATA, 0xF0, self.FORMAT, 0xF8))
        self.flash = flash

    def read(self, o: int) -> int | None:
        return {self.STATUS: 0xE, self.DATA: 0}.get(o, super().read(o))

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        control, how, n = self.get(self.CTRL), self.get(self.FORMAT), self.flash.native
        # kind 0: command and address on one wire; 1: the address on all; 2: both
        wires, kind = 1 << (control >> 21 & 3), how & 3
        command = (0, 4, 8, 16)[how >> 8 & 3] / (wires if kind == 2 else 1)
        address = 4 * (how >> 2 & 15) / (wires if kind else 1)
        data = ((control >> 16 & 31) + 1) / wires * ((self.get(self.FRAMES) & 0xFFFF) + 1)
        word = int((self.get(self.DIVIDER) & 0xFFFE) * (command + address + (how >> 11 & 31) + data))
        n.word = n.next_word = 0 if self.flash.ideal else word
        return known


class XipControl(Block):
    """The cache's switch, its counters and the stream. `old`: the RP2040's, which flushes by a register, and may let
    writes pass.
    """

    CTRL, FLUSH, STAT, HIT, ACC, ADDR, CTR, FIFO = 0, 4, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x1C

    def __init__(self, flash: "Flash", old: bool) -> None:
        super().__init__("XIP_CTRL", (self.CTRL,), {self.CTRL: 3 if old else 0x83})
        self.flash, self.old = flash, old

    def read(self, o: int) -> int | None:
        n = self.flash.native
        self.flash.settle()
        if o == self.STAT:
            return self.old | (n.n == 0) << 1 | (n.n == n.depth) << 2
        if o == self.FLUSH and self.old:
            self.flash.wait()
            return 0
        if o == self.FIFO:
            return self.flash.pop()
        counts = {self.HIT: n.accesses - n.missed, self.ACC: n.accesses}
        return min(ALL, counts[o]) if o in counts else {self.ADDR: n.address, self.CTR: n.left}.get(o, super().read(o))

    def write(self, o: int, value: int) -> bool:
        n = self.flash.native
        self.flash.settle()
        if o == self.CTRL:
            n.off, n.takes_writes = not value & 1, self.old and not value & 2
            self.flash.forget(0, True)
        elif o == self.FLUSH and self.old:
            self.flash.call("flush", self.flash.now(), 0 if self.flash.ideal else n.sets)
            return True
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


class Moves(Protocol):
    """pio.Io, which moves what the stream brings."""

    def now(self) -> int: ...
    def step(self) -> None: ...
    def serve(self) -> None: ...
    def hears(self) -> None: ...


class Flash:
    """flash.c's memory, and Python's way to it. `chip`: of flash.json; `ideal`: no access waits."""

    io: Moves
    state: State  # of core 0

    def __init__(self, native: Native, chip: str, ideal: bool) -> None:
        self.memory, self.library, self.chip, self.ideal = native.memories[0], native.hooks, chip, ideal
        self.library.mica_flash_begin.restype = ctypes.c_size_t
        self._memory = ctypes.create_string_buffer(self.library.mica_flash_begin(None))
        self.address = ctypes.addressof(self._memory)
        self.native = _Flash.from_buffer(self._memory)

    def power_on(self) -> dict[int, Block]:
        """Return the blocks of a new chip, with nothing in the cache."""
        ctypes.memset(self.address, 0, len(self._memory))
        n, cache, facts = self.native, TABLE["cache"], TABLE[self.chip]
        n.bytes, n.size = self.memory.address, self.memory.size
        n.shift, n.sets = cache["line"].bit_length() - 1, cache["bytes"] // cache["ways"] // cache["line"]
        n.depth, n.resumes, n.fills = facts["fifo"], facts["resumes"], facts["filled"]
        n.how[:] = facts["windows"]
        self.call("begin")
        if self.chip == "rp2040":
            return {0x14000000: XipControl(self, True), 0x18000000: Ssi(self), 0x50400000: Fifo(self)}
        return {0x400C8000: XipControl(self, False), 0x400D0000: Qmi(self), 0x50500000: Fifo(self)}

    def call(self, name: str, *arguments: object) -> int:
        return int(getattr(self.library, f"mica_flash_{name}")(ctypes.c_void_p(self.address), *arguments))

    def now(self) -> ctypes.c_int64:
        return ctypes.c_int64(self.io.now() // UNIT)

    def settle(self) -> None:
        self.io.step()
        self.call("settle", self.now())

    def pop(self) -> int:
        word = self.call("pop") & ALL
        self.call("settle", self.now())
        return word

    def stream(self, words: int) -> None:
        self.call("stream", words, self.now())
        self.io.serve()
        self.io.hears()

    def forget(self, address: int, everything: bool) -> None:
        self.call("forget", address, everything)

    def maintain(self, address: int, size: int, value: int) -> None:
        """A write to the space of maintenance: what is to be done stands in the low bits;
        nothing here is ever dirty."""
        what, at = address & 7, address & ~7 & 0x3FFFFFF
        if what == 0:  # by set and way
            self.call("forget_way", at)
        elif what == 2:
            self.forget(at, False)

    def wait(self) -> None:
        """Let core 0 wait until the bus is free."""
        self.state.cycles += self.call("busy", self.now())
