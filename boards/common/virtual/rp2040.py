"""An RP2040: what its chip has for itself.

Its boot ROM is a program, ../rp2040/bootrom.c, which asks by breakpoints for what it cannot do.
"""

import ctypes
import datetime
import mmap
import struct
from collections.abc import Callable

from blocks import Block, Fixed, Resets, Trng
from chip import Chip
from clock import Clock
from core import Core, arm
from facts import RP2040
from flash import TABLE
from native import Memory
from rom import Writer
from sensors import Sensors

ERASE, PROGRAM, BOOTSEL, NO_FIRMWARE, MISSING, FAULT = range(0xE0, 0xE6)  # breakpoints; bootrom.c has them too
DATA_TABLE, ENDED, ARITHMETIC = 0x16, 0x1A, 0x1C  # where the ROM's header has these pointers
CACHE_RAM = 0x15000000


class Rtc(Block):
    """A calendar, which runs while it is on; its alarm is not modelled."""

    SETUP_0, SETUP_1, CTRL, DATE, TIME = 4, 8, 0xC, 0x18, 0x1C
    ENABLE, ACTIVE, LOAD = 1, 2, 16

    def __init__(self, clock: Clock) -> None:
        super().__init__("RTC", (0, self.SETUP_0, self.SETUP_1, self.CTRL, 0x24))
        self.clock = clock
        self.begun, self.at = 0.0, datetime.datetime(2021, 1, 1)

    def read(self, o: int) -> int | None:
        on = self.get(self.CTRL) & self.ENABLE
        now = self.at + datetime.timedelta(microseconds=(self.clock.nanos - self.begun) // 1000 if on else 0)
        if o == self.DATE:
            return now.year << 12 | now.month << 8 | now.day
        if o == self.TIME:
            return now.isoweekday() % 7 << 24 | now.hour << 16 | now.minute << 8 | now.second
        return self.get(o) | (self.ACTIVE if on else 0) if o == self.CTRL else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value & ~(self.LOAD | self.ACTIVE) if o == self.CTRL else value)
        if o == self.CTRL and value & self.LOAD:
            date, time = self.get(self.SETUP_0), self.get(self.SETUP_1)
            day = date >> 12 & 0xFFF, date >> 8 & 15, date & 31
            self.begun, self.at = self.clock.nanos, datetime.datetime(*day, time >> 16 & 31, time >> 8 & 63, time & 63)
        return known or o == 0x10


class Rosc(Trng):
    """The ring oscillator, for its random bit."""

    def read(self, o: int) -> int | None:
        return super().read(0x114) if o == 0x1C else 0x80001000 if o == 0x18 else self.get(o)

    def write(self, o: int, value: int) -> bool:
        self.values[o] = value
        return o < 0x18


class Rp2040(Chip):
    """`rom`: what is in its boot ROM. Float functions cost what flash.json says, whatever ours execute."""

    facts = RP2040
    names: dict[int, str] = {}
    data_of_rom = 0x400

    def __init__(
        self,
        rom: bytes,
        library: str,
        flash: mmap.mmap,
        received: Callable[[bytes], None],
        sensors: Sensors | None = None,
        ideal_memory: bool = False,
    ) -> None:
        self.image = rom
        self.link_of_core_1 = self.half(ENDED)
        self.writer = Writer(self, flash)
        self.cache_ram = bytearray(TABLE["cache"]["bytes"])
        super().__init__(library, flash, received, sensors, ideal_memory)

    def half(self, at: int) -> int:
        return int.from_bytes(self.image[at : at + 2], "little")

    def make_rom(self) -> bytes:
        return self.image

    def counted_rom(self) -> list[Memory]:
        return [Memory((0,), self.rom_image, changes=False)]

    def free_rom(self) -> tuple[int, int, int]:
        self._costs = (ctypes.c_uint8 * len(self.image))()
        at = self.half(DATA_TABLE)
        while True:
            code, table = struct.unpack_from("<II", self.image, at)
            if not code:
                break
            for k, cycles in TABLE["rp2040"]["floats"][code.to_bytes(4, "little")[:2].decode()].items():
                (function,) = struct.unpack_from("<I", self.image, table + 4 * int(k))
                self._costs[function & ~1] = cycles
            at += 8
        return ctypes.addressof(self._costs), self.half(ARITHMETIC), len(self.image)

    def starts(self) -> tuple[int, int]:
        return struct.unpack("<II", self.image[:8])

    def map_more(self, core: Core) -> None:
        read, write = self.guarded(self.read_cache), self.guarded(self.write_cache)
        core.processor.map_registers(CACHE_RAM, len(self.cache_ram), read, write)

    def read_cache(self, address: int, size: int) -> int:
        self.cache_is_off()
        return int.from_bytes(self.cache_ram[address - CACHE_RAM :][:size], "little")

    def write_cache(self, address: int, size: int, value: int) -> None:
        self.cache_is_off()
        at = address - CACHE_RAM
        self.cache_ram[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def cache_is_off(self) -> None:
        if not self.flash_unit.native.off:
            self.stop("crash", "access to the memory of the flash cache, which is on")

    def plain_blocks(self) -> dict[int, Block]:
        every = lambda end: range(0, end, 4)  # noqa: E731
        return {
            0x40000000: Fixed("SYSINFO", always={0: 0x20002927, 4: 2, 0x40: 0xE0C912E8}),
            0x40004000: Block("SYSCFG", every(0x1C)),
            0x4000C000: Resets(0x1FFFFFF),
            0x40018000: Fixed("IO_QSPI", every(0x58)),
            0x4001C000: Block("PADS_BANK0", every(0x84), {4 * n: 0x56 for n in range(1, 31)}),
            0x40020000: Block("PADS_QSPI", every(0x1C)),
            0x40024000: Fixed("XOSC", every(0x1C), always={4: 0x80001000}),
            0x40030000: Block("BUSCTRL", every(0x28)),
            0x4005C000: Rtc(self.clock),
            0x40060000: Rosc(),
            0x40064000: Block("VREG_AND_CHIP_RESET", every(0xC)),
            0x4006C000: Fixed("TBMAN", always={0: 1}),
            # Counters do not count, and a pin of PWM has no level; UARTs are not connected.
            0x40050000: Block("PWM", every(0xB4)),
            **{0x40034000 + 0x4000 * n: Fixed(f"UART{n}", every(0x4C), always={0: 0, 0x18: 0x90}) for n in range(2)},
        }

    def breakpoint(self, core: Core, code: int) -> None:
        if core.state.pc >= len(self.image):
            core.stop(f"the firmware has stopped itself (bkpt {code})")
        r0, r1, r2, _ = core.arguments()
        if code == ERASE:
            self.writer.erase(core, r0, r1)
        elif code == PROGRAM:
            self.writer.program(core, r0, r1, r2)
        elif code == BOOTSEL:
            self.writer.enter_loader()
        elif code == NO_FIRMWARE:
            self.stop("firmware", "there is no firmware in its flash")
        else:
            core.stop("the boot ROM lacks a function" if code == MISSING else "fault")
        core.state.pc += 2

    def coprocessor(self, core: Core, first: int, second: int) -> None:
        core.stop(f"fault: an instruction that a Cortex-M0+ lacks ({first:04x})")
