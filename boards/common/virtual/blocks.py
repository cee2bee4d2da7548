"""Register blocks: clocks, resets, timers, watchdog, and those that only keep what is written.

A block answers None, or False, for a register that it does not model: the board then stops with its name.
Offsets and bits:
RP2350 datasheet, the chapter of each block; what the RP2040 has elsewhere is in its Facts.
"""

from collections.abc import Callable, Iterable

from clock import Clock

XOSC_HZ = 12_000_000


class Block:
    """`plain`: offsets of registers that only keep what is written; all others of it are not modelled."""

    def __init__(self, name: str, plain: Iterable[int] = (), values: dict[int, int] | None = None) -> None:
        self.name = name
        self.clears: set[int] = set()  # registers of which a 1 clears a bit, by whatever alias it is written
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
    """Also has registers that always read the same."""

    def __init__(self, name: str, plain: Iterable[int] = (), *, always: dict[int, int] | None = None) -> None:
        super().__init__(name, plain)
        self.always = always or {}

    def read(self, o: int) -> int | None:
        return self.always.get(o, super().read(o))


class Resets(Block):
    """A block that is released is ready at once."""

    def __init__(self, every: int) -> None:
        super().__init__("RESETS", (0, 4), {0: every})
        self.every = every

    def read(self, o: int) -> int | None:
        return ~self.get(0) & self.every if o == 8 else super().read(o)


class PowerStates(Block):
    """The power-on state machine: all of it is up but core 1, where that is forced off."""

    def __init__(self, core_1: int, force: Callable[[bool], None]) -> None:
        """core_1: its bit, the highest."""
        super().__init__("PSM", (0, 4, 8))
        self.core_1, self.force = core_1, force

    def read(self, o: int) -> int | None:
        return 2 * self.core_1 - 1 & ~(self.get(4) & self.core_1) if o == 0xC else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o == 4:
            self.force(bool(value & self.core_1))
        return known


class Clocks(Block):
    """clk_sys sets the pace of the cores; a source is selected at once."""

    SYS_CTRL, SYS_DIV, PERI_CTRL = 0x3C, 0x40, 0x48
    SELECTED = (0x08, 0x14, 0x20, 0x2C, 0x38, 0x44, 0x50, 0x5C, 0x68, 0x74)

    def __init__(self, plls: "tuple[Pll, Pll]", set_frequency: Callable[[float], None], whole: int = 16) -> None:
        """whole: from which bit on a divider has whole numbers."""
        dividers = {o - 4: 1 << whole for o in self.SELECTED}
        super().__init__("CLOCKS", set(range(0, 0x8C, 4)) - set(self.SELECTED) - {0x88}, dividers)
        self.plls, self.set_frequency, self.whole = plls, set_frequency, whole
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
        divider = (self.get(self.SYS_DIV) or 1 << 32) / (1 << self.whole)
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

    ALARM, ARMED, RAW_HIGH, RAW_LOW = 0x10, 0x20, 0x24, 0x28

    def __init__(self, name: str, clock: Clock, line: Callable[[int, bool], None], shift: int) -> None:
        """shift: of the RP2350's interrupt registers, behind two more."""
        self.INTR, self.INTE, self.INTF, self.INTS = range(0x34 + shift, 0x44 + shift, 4)
        more = range(0x34, 0x34 + shift, 4)
        super().__init__(name, (*range(self.ALARM, self.ARMED, 4), 0x2C, *more, self.INTE, self.INTF))
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

    def __init__(self, clock: Clock, fire: Callable[[], None], before: "Watchdog | None", rate: int = 1) -> None:
        """rate: numbers that it counts a microsecond, 2 on an RP2040 (erratum E1)."""
        # An RP2040's has its tick, too.
        super().__init__("WATCHDOG", (self.CTRL, self.LOAD, *range(0x0C, 0x28 + 4 * rate, 4)))
        self.rate = rate
        self.alarm = clock.alarm(lambda: self.fired(1))
        self.fire = fire
        self.left = 0
        if before is not None:
            self.values.update({o: v for o, v in before.values.items() if o >= self.REASON})

    def read(self, o: int) -> int | None:
        if o == self.CTRL:
            clock = self.alarm.clock
            rings = self.alarm in clock.alarms
            left = int((self.alarm.at - clock.nanos) / 1000 * self.rate) if rings else self.left
            return self.get(o) & ~0xFFFFFF | left & 0xFFFFFF
        return self.get(o) if o == self.REASON else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o == self.LOAD:
            self.left = value & 0xFFFFFF
        if o in (self.CTRL, self.LOAD):
            self.values[self.CTRL] = self.get(self.CTRL) & ~self.TRIGGER
            if self.get(self.CTRL) & self.ENABLE:
                self.alarm.schedule(self.left * 1000 / self.rate)
            else:
                self.alarm.cancel()
        if o == self.CTRL and value & self.TRIGGER:
            self.fired(2)
        return known

    def fired(self, reason: int) -> None:
        self.values[self.REASON] = reason
        self.fire()


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

    def __init__(self, count: int, irqs: int) -> None:
        """irqs: where the registers of their interrupts begin."""
        words = 4 * -(-count // 8)
        self.enables = irqs + words
        plain = (*range(0, 8 * count, 4), *range(irqs, self.enables + 9 * words, 4))
        super().__init__("IO_BANK0", plain, {8 * n + 4: 31 for n in range(count)})
        self.changed: Callable[[], None] = lambda: None

    def function(self, pin: int) -> int:
        return self.get(8 * pin + 4) & 31

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value) and not (o >= self.enables and value)
        self.changed()
        return known
