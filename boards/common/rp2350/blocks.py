"""Register blocks of the RP2350, as far as they are modelled: clocks, resets, timers, watchdog, and those that only keep what is written.

A block answers None, or False, for a register that it does not model: the board then stops with its name. Offsets and bits:
RP2350 datasheet, the chapter of each block.
"""

from collections.abc import Callable, Iterable

from clock import Clock

XOSC_HZ = 12_000_000


class Block:
    """`plain`: offsets of registers that only keep what is written; all others of it are not modelled."""

    def __init__(self, name: str, plain: Iterable[int] = (), values: dict[int, int] | None = None) -> None:
        self.name = name
        self.plain = frozenset(plain)
        self.values = values or {}

    def get(self, o: int) -> int:
        return self.values.get(o, 0)

    def read(self, o: int) -> int | None:
        return self.get(o) if o in self.plain else None

    def write(self, o: int, value: int) -> bool:
        self.values[o] = value
        return o in self.plain


class Fixed(Block):
    """Also has registers that always read the same, or what is kept with more bits: `always` and `more`."""

    def __init__(
        self,
        name: str,
        plain: Iterable[int] = (),
        *,
        always: dict[int, int] | None = None,
        more: dict[int, int] | None = None,
        values: dict[int, int] | None = None,
    ) -> None:
        super().__init__(name, plain, values)
        self.always, self.more = always or {}, more or {}

    def read(self, o: int) -> int | None:
        if o in self.always:
            return self.always[o]
        if o in self.more:
            return self.get(o) | self.more[o]
        return super().read(o)

    def write(self, o: int, value: int) -> bool:
        return super().write(o, value) or o in self.more


class Resets(Block):
    """A block that is released is ready at once."""

    def __init__(self) -> None:
        super().__init__("RESETS", (0, 4), {0: 0x1FFFFFFF})

    def read(self, o: int) -> int | None:
        return ~self.get(0) & 0x1FFFFFFF if o == 8 else super().read(o)


class Clocks(Block):
    """clk_sys sets the pace of the cores; a source is selected at once."""

    SYS_CTRL, SYS_DIV, PERI_CTRL = 0x3C, 0x40, 0x48
    SELECTED = (0x08, 0x14, 0x20, 0x2C, 0x38, 0x44, 0x50, 0x5C, 0x68, 0x74)

    def __init__(self, plls: "tuple[Pll, Pll]", set_frequency: Callable[[float], None]) -> None:
        dividers = {o - 4: 1 << 16 for o in self.SELECTED}
        super().__init__("CLOCKS", set(range(0, 0x8C, 4)) - set(self.SELECTED) - {0x88}, dividers)
        self.plls, self.set_frequency = plls, set_frequency
        for pll in plls:
            pll.changed = self.changed

    def read(self, o: int) -> int | None:
        if o in self.SELECTED:
            glitchless = {0x38: 3, 0x44: 1}  # of those with a switch: bits of their source
            return 1 << (self.get(o - 8) & glitchless[o]) if o in glitchless else 1
        return super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o in (self.SYS_CTRL, self.SYS_DIV):
            self.changed()
        return known

    def changed(self) -> None:
        control = self.get(self.SYS_CTRL)
        hertz: float = XOSC_HZ
        if control & 1 and control >> 5 & 7 < 2:
            hertz = self.plls[control >> 5 & 7].hertz
        divider = (self.get(self.SYS_DIV) or 1 << 32) / (1 << 16)
        self.hertz = max(hertz, 1_000_000) / divider
        self.set_frequency(self.hertz)

    def peripheral_nanos(self) -> float:
        """Return nanoseconds of a cycle of clk_peri, from clk_sys or a PLL; its divider is not modelled."""
        source = self.get(self.PERI_CTRL) >> 5 & 7
        return 1e9 / (self.plls[source - 1].hertz if 1 <= source <= 2 else self.hertz)


class Pll(Block):
    """Locked at once."""

    def __init__(self, name: str) -> None:
        super().__init__(name, range(0, 0x14, 4), {0: 1, 0xC: 0x77000})
        self.changed: Callable[[], None] = lambda: None

    def read(self, o: int) -> int | None:
        return self.get(0) | 1 << 31 if o == 0 else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        self.changed()
        return known

    @property
    def hertz(self) -> float:
        first, second = self.get(0xC) >> 16 & 7, self.get(0xC) >> 12 & 7
        return XOSC_HZ / max(1, self.get(0) & 0x3F) * (self.get(8) & 0xFFF) / max(1, first * second)


class Timer(Block):
    """Microseconds since power-on, and four alarms, each with an interrupt of its own."""

    ALARM, ARMED, RAW_HIGH, RAW_LOW, INTR, INTE, INTF, INTS = 0x10, 0x20, 0x24, 0x28, 0x3C, 0x40, 0x44, 0x48

    def __init__(self, name: str, clock: Clock, line: Callable[[int, bool], None]) -> None:
        super().__init__(name, (*range(self.ALARM, self.ARMED, 4), 0x2C, 0x34, 0x38, self.INTE, self.INTF))
        self.clock, self.line = clock, line
        self.begun = clock.micros
        self.alarms = [clock.alarm(lambda k=k: self.ring(k)) for k in range(4)]  # type: ignore[misc]
        self.rung = 0
        self.high = 0

    @property
    def micros(self) -> int:
        return self.clock.micros - self.begun

    def read(self, o: int) -> int | None:
        now = self.micros
        if o == self.RAW_LOW or o == self.RAW_HIGH:  # most of what is read here
            return now & 0xFFFFFFFF if o == self.RAW_LOW else now >> 32
        if o == 0x0C:
            self.high = now >> 32
        ready = (self.rung | self.get(self.INTF)) & self.get(self.INTE)
        armed = sum(1 << k for k in range(4) if self.alarms[k] in self.clock.alarms)
        found = {
            0x08: self.high,
            0x0C: now & 0xFFFFFFFF,
            self.ARMED: armed,
            self.INTR: self.rung,
            self.INTS: ready,
        }
        return found[o] if o in found else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if self.ALARM <= o < self.ARMED:
            left = (value - self.micros) & 0xFFFFFFFF
            # One that is behind is due when the low word comes to it again; the SDK looks and asks again.
            self.alarms[o - self.ALARM >> 2].schedule(left * 1000 - self.clock.nanos % 1000)
        elif o == self.ARMED:
            for k in range(4):
                if value >> k & 1:
                    self.alarms[k].cancel()
        elif o == self.INTR:
            self.rung &= ~value
        self.look()
        return known or o in (self.ARMED, self.INTR)

    def ring(self, k: int) -> None:
        self.rung |= 1 << k
        self.look()

    def look(self) -> None:
        on = (self.rung | self.get(self.INTF)) & self.get(self.INTE)
        for k in range(4):
            self.line(k, bool(on >> k & 1))


class Watchdog(Block):
    """Resets the chip; why, and the scratch words, outlive that."""

    CTRL, LOAD, REASON = 0, 4, 8
    ENABLE, TRIGGER = 1 << 30, 1 << 31

    def __init__(self, clock: Clock, fire: Callable[[], None], before: "Watchdog | None") -> None:
        super().__init__("WATCHDOG", (self.CTRL, self.LOAD, *range(0x0C, 0x2C, 4)))
        self.alarm = clock.alarm(lambda: self.fired(1))
        self.fire = fire
        self.left = 0
        if before is not None:
            self.values.update({o: v for o, v in before.values.items() if o >= self.REASON})

    def read(self, o: int) -> int | None:
        if o == self.CTRL:
            left = int((self.alarm.at - self.alarm.clock.nanos) / 1000) if self.alarm in self.alarm.clock.alarms else self.left
            return self.get(o) & ~0xFFFFFF | left & 0xFFFFFF
        return self.get(o) if o == self.REASON else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o == self.LOAD:
            self.left = value & 0xFFFFFF
        if o in (self.CTRL, self.LOAD):
            self.values[self.CTRL] = self.get(self.CTRL) & ~self.TRIGGER
            if self.get(self.CTRL) & self.ENABLE:
                self.alarm.schedule(self.left * 1000)
            else:
                self.alarm.cancel()
        if o == self.CTRL and value & self.TRIGGER:
            self.fired(2)
        return known

    def fired(self, reason: int) -> None:
        self.values[self.REASON] = reason
        self.fire()


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


class Trng(Block):
    """A sequence that is the same in every run."""

    def __init__(self) -> None:
        super().__init__("TRNG", (0x100, 0x10C, 0x12C, 0x130, 0x138, 0x140))
        self.state = 0x6D696361

    def read(self, o: int) -> int | None:
        if 0x114 <= o < 0x12C:
            self.state = (self.state * 1664525 + 1013904223) & 0xFFFFFFFF
            return self.state ^ self.state >> 13
        return {0x104: 1, 0x110: 1, 0x1B8: 0}.get(o, super().read(o))

    def write(self, o: int, value: int) -> bool:
        return super().write(o, value) or o == 0x108


class Pins(Block):
    """Functions of pins; interrupts of them are not modelled: one that is enabled stops the board."""

    def __init__(self) -> None:
        super().__init__("IO_BANK0", (*range(0, 0x180, 4), *range(0x230, 0x320, 4)), {8 * n + 4: 31 for n in range(48)})
        self.changed: Callable[[], None] = lambda: None

    def function(self, pin: int) -> int:
        return self.get(8 * pin + 4) & 31

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value) and not (o >= 0x248 and value)
        self.changed()
        return known


def plain_blocks() -> dict[int, Block]:
    """Blocks with nothing behind their registers, by address."""
    every = lambda end: range(0, end, 4)  # noqa: E731
    return {
        0x40000000: Fixed("SYSINFO", always={0: 0x20004927, 4: 1, 8: 2, 0x14: 0x6D696361}),
        0x40008000: Block("SYSCFG", every(0x18)),
        0x40020000: Resets(),
        0x40030000: Fixed("IO_QSPI", every(0x40), always={0x18: 0x200}),  # chip select is high
        0x40038000: Block("PADS_BANK0", every(0xCC), {4 * n: 0x116 for n in range(1, 49)}),
        0x40040000: Block("PADS_QSPI", every(0x1C)),
        0x40048000: Fixed("XOSC", every(0x14), always={4: 0x80001000}),
        0x40060000: Block("ACCESSCTRL", every(0xEC)),
        0x40068000: Block("BUSCTRL", (0, 8)),
        0x400E8000: Fixed("ROSC", every(0x18), always={0x18: 0x80001000, 0x1C: 1, 0x20: 1}),
        0x400F0000: Trng(),
        0x40108000: Ticks(),
        # Counters do not count, and a pin of PWM has no level; what goes out at a UART is lost, and nothing comes in.
        0x400A8000: Block("PWM", every(0x110)),
        **{0x40070000 + 0x8000 * n: Fixed(f"UART{n}", every(0x4C), always={0: 0, 0x18: 0x90}) for n in range(2)},
    }
