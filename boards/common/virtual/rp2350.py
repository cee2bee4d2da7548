"""An RP2350 with Cortex-M33: what its chip has for itself."""

import struct

import rom
from blocks import Block, Fixed, Resets, Trng
from chip import Chip
from clock import Clock
from core import Core, R, arm
from facts import RP2350

IMAGE = b"\xd3\xde\xff\xff"  # begins what the boot ROM wants in the first 4 KB of flash (RP2350 datasheet, 5.1.5)

# Blocks that nothing here answers, by the name that the board stops with.
NAMES = {
    0x400C0000: "HSTX_CTRL",
    0x400F8000: "SHA256",
    0x40120000: "OTP",
    0x40158000: "GLITCH_DETECTOR",
    0x40160000: "TBMAN",
    0x50600000: "HSTX_FIFO",
}


class BootRam(Block):
    """Words that the boot ROM leaves: the set-up of flash, which is `bx lr`. Locks are free."""

    def __init__(self) -> None:
        super().__init__("BOOTRAM", range(0, 0x400, 4), {0: 0x47704770})

    def read(self, o: int) -> int | None:
        return 1 if 0x80C <= o < 0x82C else super().read(o)

    def write(self, o: int, value: int) -> bool:
        return super().write(o, value) or 0x800 <= o < 0x82C


class Ticks(Block):
    """Generators of the microsecond: they run when they are switched on."""

    def __init__(self) -> None:
        super().__init__("TICKS", range(0, 0x48, 4))

    def read(self, o: int) -> int | None:
        running = 2 if o % 12 == 0 and self.get(o) & 1 else 0
        value = super().read(o)
        return None if value is None else value | running


class Powman(Block):
    """Its timer counts milliseconds; the rest only keeps what is written. A password stands above each word."""

    TIMER = 0x88

    def __init__(self, clock: Clock) -> None:
        super().__init__("POWMAN", set(range(0x04, 0xF0, 4)) - {0x38, 0x70, 0x74, *range(0x78, 0x88, 4)})
        self.clock = clock
        self.zero = 0  # milliseconds of the clock at which it read 0
        self.held = 0

    def now(self) -> int:
        return int(self.clock.nanos // 1_000_000) - self.zero if self.get(self.TIMER) & 2 else self.held

    def read(self, o: int) -> int | None:
        if o in (0x70, 0x74):
            return self.now() >> (32 if o == 0x70 else 0) & 0xFFFFFFFF
        return super().read(o)

    def write(self, o: int, value: int) -> bool:
        was = self.now()
        known = super().write(o, value & 0xFFFF)
        if 0x60 <= o < 0x70:
            self.held = sum(self.get(0x6C - 4 * k) << 16 * k for k in range(4))
        elif o == self.TIMER:
            if value & 4:  # CLEAR
                was = self.held = 0
            if value & 0x20 or value & 0x10:  # an alarm
                return False
            self.held = was if not value & 2 else self.held
            self.zero = int(self.clock.nanos // 1_000_000) - (self.held if value & 2 else 0)
        return known


class Rp2350(Chip):
    """Its boot ROM is Python's: a page that is data, and functions."""

    facts = RP2350
    names = NAMES
    data_of_rom = rom.FIRST
    link_of_core_1 = rom.LINK_OF_CORE_1

    def make_rom(self) -> bytes:
        self.rom = rom.Rom(self, self.flash)
        return rom.image()

    def starts(self) -> tuple[int, int]:
        if IMAGE not in self.flash[:4096]:
            self.no_firmware()
        return struct.unpack("<II", self.flash[:8])

    def map_more(self, core: Core) -> None:
        write = self.guarded(self.flash_unit.maintain)
        core.processor.map_registers(0x18000000, 0x4000000, lambda a, n: 0, write)

    def plain_blocks(self) -> dict[int, Block]:
        every = lambda end: range(0, end, 4)  # noqa: E731
        return {
            0x40000000: Fixed("SYSINFO", always={0: 0x20004927, 4: 1, 8: 2, 0x14: 0x6D696361}),
            0x40008000: Block("SYSCFG", every(0x18)),
            0x40020000: Resets(0x1FFFFFFF),
            0x40030000: Fixed("IO_QSPI", every(0x40), always={0x18: 0x200}),  # chip select is high
            0x40038000: Block("PADS_BANK0", every(0xCC), {4 * n: 0x116 for n in range(1, 49)}),
            0x40040000: Block("PADS_QSPI", every(0x1C)),
            0x40048000: Fixed("XOSC", every(0x14), always={4: 0x80001000}),
            0x40060000: Block("ACCESSCTRL", every(0xEC)),
            0x40068000: Block("BUSCTRL", (0, 8)),
            0x400E8000: Fixed("ROSC", every(0x18), always={0x18: 0x80001000, 0x1C: 1, 0x20: 1}),
            0x400F0000: Trng(),
            0x40108000: Ticks(),
            # Counters do not count, and a pin of PWM has no level; UARTs are not connected.
            0x400A8000: Block("PWM", every(0x110)),
            **{0x40070000 + 0x8000 * n: Fixed(f"UART{n}", every(0x4C), always={0: 0, 0x18: 0x90}) for n in range(2)},
            0x400E0000: BootRam(),
            0x40100000: Powman(self.clock),
        }

    def breakpoint(self, core: Core, code: int) -> None:
        if core.state.pc >= rom.SIZE:
            core.stop(f"the firmware has stopped itself (bkpt {code})")
        self.rom.call(core, code)
        core.state.pc += 2

    def coprocessor(self, core: Core, first: int, second: int) -> None:
        """p0 is the pins, p4 double precision. The others stop the board."""
        number, t, t2 = second >> 8 & 15, second >> 12, first & 15
        pair, peek, register, op = first & 0xFE0, first & 0x1000, second & 15, second >> 4 & 15
        done = False
        if pair == 0xC40 and first & 0x10 and number == 4:  # MRRC
            value = core.doubles.read_pair(op, register, bool(peek))
            done = value is not None
            for r, half in ((t, 0), (t2, 32)):
                core.uc.reg_write(R[r], (value or 0) >> half & 0xFFFFFFFF)
        elif pair == 0xC40 and not first & 0x10:  # MCRR
            low, high = core.uc.reg_read(R[t]), core.uc.reg_read(R[t2])
            if number == 0:
                done = self.sio.coprocessor(op, register, low, high)
            elif number == 4:
                done = core.doubles.write(op, register, low | high << 32)
        elif first & 0xF00 == 0xE00 and second & 0x10:  # MRC, MCR
            op = first >> 5 & 7
            if first & 0x10 and number in (0, 4):
                of_doubles = (register, second >> 5 & 7, bool(peek))
                found = core.doubles.read(*of_doubles) if number else self.sio.coprocessor_read(register)
                done = found is not None
                if t == 15:
                    flags = core.uc.reg_read(arm.UC_ARM_REG_XPSR) & 0x0FFFFFFF
                    core.uc.reg_write(arm.UC_ARM_REG_XPSR, flags | (found or 0) & 0xF0000000)
                else:
                    core.uc.reg_write(R[t], found or 0)
            elif number == 0:
                done = self.sio.coprocessor(op, register, core.uc.reg_read(R[t]), None)
        elif first & 0xF00 == 0xE00 and number == 4:  # CDP
            done = core.doubles.operate(first >> 4 & 15, register, second >> 5 & 7)
        if not done:
            core.stop(f"the instruction {first:04x} {second:04x} of coprocessor p{number} is not modelled")
