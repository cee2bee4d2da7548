"""The single-cycle IO: what two cores have between them (FIFO, spinlocks, doorbells), and pins.

RP2350 datasheet, 3.1; RP2040 datasheet, 2.3.1.
"""

from collections.abc import Callable

from facts import Facts

FIFO_ST, FIFO_WR, FIFO_RD, SPINLOCK_ST = 0x50, 0x54, 0x58, 0x5C
VALID, ROOM, OVERFLOW, UNDERFLOW = 1, 2, 4, 8
OUT, ENABLE = 0x10, 0x30  # of pins: a low and a high word each
PINS = 48


class Sio:
    """`line(core, irq, on)` is a core's interrupt; `sent()` is called when core 0 has sent a word to core 1."""

    def __init__(self, facts: Facts, line: Callable[[int, int, bool], None], sent: Callable[[], None]) -> None:
        self.facts, self.line, self.sent = facts, line, sent
        # Its pins' registers stand elsewhere; it has no doorbells, and no high pins but those of flash.
        self.old = facts.name == "rp2040"
        self.words: tuple[list[int], list[int]] = ([], [])  # that each core can read
        self.errors = [0, 0]
        self.locks = 0
        self.bells = [0, 0]
        self.out = self.enable = 0  # a bit for each pin
        self.pads: Callable[[], int] = lambda: 0  # levels of the first 32 pins
        self.changed: Callable[[], None] = lambda: None  # called when a program has changed pins

    # --- the FIFO

    def push(self, core: int, word: int) -> None:
        """Core `core` sends to the other."""
        queue = self.words[1 - core]
        if len(queue) < self.facts.fifo:
            queue.append(word)
        else:
            self.errors[core] |= OVERFLOW
            self.look(core)
        self.look(1 - core)

    def pop(self, core: int) -> int:
        queue = self.words[core]
        word = 0
        if queue:
            word = queue.pop(0)
        else:
            self.errors[core] |= UNDERFLOW
        self.look(core)
        return word

    def look(self, core: int) -> None:
        self.line(core, self.facts.fifo_irqs[core], bool(self.words[core] or self.errors[core]))
        if not self.old:
            self.line(core, self.facts.bell_irq, bool(self.bells[core]))

    def drain(self, core: int) -> None:
        self.words[core].clear()
        self.look(core)

    # --- registers

    def read(self, core: int, o: int) -> int | None:
        if o == FIFO_ST:
            valid = VALID if self.words[core] else 0
            room = ROOM if len(self.words[1 - core]) < self.facts.fifo else 0
            return valid | room | self.errors[core]
        if o == FIFO_RD:
            return self.pop(core)
        if o == SPINLOCK_ST:
            return self.locks
        if 0x100 <= o < 0x180:
            bit = 1 << (o - 0x100 >> 2)
            free, self.locks = not self.locks & bit, self.locks | bit
            return bit if free else 0
        if o >= 0x180 and self.old:
            return None
        if o in (0x180, 0x184):
            return self.bells[1 - core]
        if o in (0x188, 0x18C):
            return self.bells[core]
        if o == 0x08 and self.old:
            return 2  # flash's chip select is high
        if o in (0x04, 0x08):
            return self.levels() >> (32 if o == 8 else 0) & 0xFFFFFFFF
        if 0x10 <= o < 0x50:
            enable, _, high = self.place(o)
            return (self.enable if enable else self.out) >> 32 * high & 0xFFFFFFFF
        return 0 if o == FIFO_WR else None

    def write(self, core: int, o: int, value: int) -> bool:
        if o == FIFO_WR:
            self.push(core, value)
            if core == 0:
                self.sent()
        elif o == FIFO_ST:
            self.errors[core] = 0
            self.look(core)
        elif 0x100 <= o < 0x180:
            self.locks &= ~(1 << (o - 0x100 >> 2))
        elif 0x180 <= o < 0x190 and not self.old:
            whose = 1 - core if o < 0x188 else core
            self.bells[whose] = self.bells[whose] & ~value if o & 4 else self.bells[whose] | value & 0xFF
            self.look(whose)
        elif 0x10 <= o < 0x50:
            enable, how, high = self.place(o)
            self.change_pins(enable, how, high, value)
        else:
            return False
        return True

    # --- pins

    def place(self, o: int) -> tuple[bool, int, int]:
        """Arguments of change_pins: the register's kind, how it is written, and which word."""
        if self.old:
            return bool(o - OUT & 0x10), o >> 2 & 3, int(o >= ENABLE)
        return o >= ENABLE, (o - (ENABLE if o >= ENABLE else OUT)) >> 3, o >> 2 & 1

    def levels(self) -> int:
        return self.out & self.enable & ~0xFFFFFFFF | self.pads()

    def change_pins(self, enable: bool, how: int, high: int, word: int) -> None:
        """how: 0 put a word, 1 set its bits, 2 clear them, 3 invert them; of the low pins or the high ones."""
        old = self.enable if enable else self.out
        whole, bits = 0xFFFFFFFF << 32 * high, word << 32 * high
        new = (old & ~whole | bits, old | bits, old & ~bits, old ^ bits)[how] & (1 << PINS) - 1
        if enable:
            self.enable = new
        else:
            self.out = new
        self.changed()

    def coprocessor(self, op: int, register: int, first: int, second: int | None) -> bool:
        """p0: op of MCR, or MCRR (second is then not None), and its CRm (the SDK's hardware/gpio_coproc.h).
        False: not modelled."""
        enable = register >= 4
        how = (0, 3, 1, 2)[op & 3]
        if op < 4 and second is None:
            self.change_pins(enable, how, register & 1, first)
        elif op < 4 and second is not None:
            self.change_pins(enable, how, 0, first)
            self.change_pins(enable, how, 1, second)
        elif op < 8:
            if op == 4:
                self.change_pins(enable, 1 if second else 2, first >> 5, 1 << (first & 31))
            elif second is None or second:
                self.change_pins(enable, how, first >> 5, 1 << (first & 31))
        else:
            return False
        return True

    def coprocessor_read(self, register: int) -> int:
        value = (self.out, self.enable, self.levels())[register >> 2]
        return value >> 32 * (register & 1) & 0xFFFFFFFF
