"""A Cortex-M33 or M0+: exceptions, interrupts, SysTick, registers of its private bus, around Unicorn's instructions.

Sources: Armv8-M Architecture Reference Manual (DDI 0553), B3 and D1. Exceptions are nested by priority.
The frame has the floating-point registers where the program uses them, written at once: lazy stacking would write the
same bytes later.
"""

import struct
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from bus import Stopped
from doubles import Doubles
from facts import Facts
from native import EXCEPTION, GOES_ON, SLEEPS_FOR_EVENT, Native, Processor
from unicorn import arm_const as arm

R = [getattr(arm, f"UC_ARM_REG_R{i}") for i in range(13)] + [arm.UC_ARM_REG_SP, arm.UC_ARM_REG_LR, arm.UC_ARM_REG_PC]
FRAME = [*R[:4], R[12], R[14]]
FLOATS = [*(getattr(arm, f"UC_ARM_REG_S{i}") for i in range(16)), arm.UC_ARM_REG_FPSCR]
PC, XPSR, CONTROL, FLAGS = arm.UC_ARM_REG_PC, arm.UC_ARM_REG_XPSR, arm.UC_ARM_REG_CONTROL, arm.UC_ARM_REG_APSR_NZCV
MASKS = (arm.UC_ARM_REG_PRIMASK, arm.UC_ARM_REG_BASEPRI, arm.UC_ARM_REG_FAULTMASK)

HARD_FAULT, SVCALL, PENDSV, SYSTICK, FIRST_IRQ = 3, 11, 14, 15, 16
LOWEST = 256  # priority of a thread
FPCA, SPSEL = 4, 2  # bits of CONTROL
NO_FLOATS = 0x10  # bit of EXC_RETURN
EXC_RETURN = 0xFFFFFFE1  # to a handler, with floating-point registers
WFI = b"\x30\xbf"
THUMB = 1 << 24

# What Unicorn calls exceptions.
UNDEFINED, SVC, NOT_ALIGNED, BKPT, EXIT, NO_COPROCESSOR = 1, 2, 4, 7, 8, 17


class Around(Protocol):
    """Functions of the chip that a core calls."""

    facts: Facts

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]: ...
    def bytes_at(self, address: int, size: int) -> bytes: ...
    def end_turn(self) -> None: ...
    def ask_for_reset(self) -> None: ...
    def systick_changed(self, core: "Core") -> None: ...
    def breakpoint(self, core: "Core", code: int) -> None: ...
    def coprocessor(self, core: "Core", first: int, second: int) -> None: ...


class Core:
    """One core. `chip` gets its time from cycles, and is asked where an instruction is none of the core's."""

    def __init__(self, native: Native, number: int, chip: Around) -> None:
        self.number, self.chip, self.facts = number, chip, chip.facts
        self.processor = Processor(native, number)
        self.uc = self.processor.uc
        self.state = self.processor.state
        self.processor.map_registers(0xE0000000, 0x100000, chip.guarded(self.read), chip.guarded(self.write))
        self.lines = 0  # interrupts that peripherals ask for now
        self.reset()

    def reset(self) -> None:
        """Registers as after power-on."""
        self.latched = 0  # bit n: exception n is pending
        self.enabled = 1 << PENDSV | 1 << SYSTICK
        self.active: list[int] = []
        self.priorities = [0] * (FIRST_IRQ + self.facts.irqs)
        self.vtor = 0x10000000
        self.registers: dict[int, int] = {}
        self.asleep = False
        self.tick_from = 0  # cycle at which SysTick had its reload value
        self.tick_flag = False
        self.doubles = Doubles()
        self.state.event = self.state.masked = 0
        self.set_xpsr(THUMB)
        for mask in (*MASKS, CONTROL):
            self.uc.reg_write(mask, 0)
        self.chip.systick_changed(self)

    def begin(self, stack: int, entry: int, link: int = 0xFFFFFFFF) -> None:
        self.uc.reg_write(R[13], stack)
        self.uc.reg_write(R[14], link)
        self.state.pc = entry & ~1
        self.asleep = False

    def set_xpsr(self, value: int) -> None:
        """Write XPSR. Unicorn sees that a handler begins or ends when the flags alone are written."""
        self.uc.reg_write(XPSR, value)
        self.uc.reg_write(FLAGS, value)

    def arguments(self) -> list[int]:
        """Return those of a function that was called: r0 to r3."""
        return [self.uc.reg_read(r) for r in R[:4]]

    def answer(self, value: int) -> None:
        self.uc.reg_write(R[0], value & 0xFFFFFFFF)

    # --- what is pending

    @property
    def pending(self) -> int:
        return (self.latched | self.lines << FIRST_IRQ) & self.enabled

    def line(self, irq: int, on: bool) -> None:
        """A peripheral asks for its interrupt, or no more."""
        bit = 1 << irq
        if on:
            self.lines |= bit
            self.look()
        else:
            self.lines &= ~bit

    def pend(self, exception: int) -> None:
        self.latched |= 1 << exception
        self.look()

    def look(self) -> None:
        """End the turn where something that is pending may be taken, or may end a sleep."""
        if self.pending:
            self.chip.end_turn()

    def event(self) -> None:
        self.state.event = 1
        self.chip.end_turn()

    def _best(self) -> tuple[int, int]:
        """Priority and number of the exception that is due first."""
        pending, best = self.pending, (LOWEST, 0)
        while pending:
            n = (pending & -pending).bit_length() - 1
            pending &= pending - 1
            best = min(best, (self.priorities[n], n))
        return best

    def _priority(self, masks: bool) -> int:
        """Return that of what runs now; with `masks`, raised by PRIMASK, BASEPRI and FAULTMASK."""
        now = min((self.priorities[n] for n in self.active), default=LOWEST)
        if masks:
            primask, basepri, faultmask = (int(self.uc.reg_read(m)) for m in MASKS)
            if basepri:
                now = min(now, basepri)
            if primask & 1:
                now = min(now, 0)
            if faultmask & 1:
                now = -1
        return now

    def wakes(self) -> bool:
        """True if a sleeping core goes on: PRIMASK keeps an interrupt from being taken, not from ending WFI."""
        if self.asleep:
            due = self.pending and self._best()[0] < self._priority(masks=False)
            if due or (self.state.event and self.asleep_for_event):
                if self.asleep_for_event:
                    self.state.event = 0
                self.asleep = False
        return not self.asleep

    # --- exceptions

    def take(self) -> None:
        """Enter the exception that is due, where there is one."""
        self.state.masked = 0
        if not self.pending:
            return
        priority, n = self._best()
        if priority >= self._priority(masks=False):
            return
        if priority >= self._priority(masks=True):
            self.state.masked = 1  # hooks.c ends the turn when they change
            self.state.masks[:] = [int(self.uc.reg_read(m)) for m in MASKS]
            return
        self.latched &= ~(1 << n)
        self.enter(n)

    def enter(self, n: int) -> None:
        uc, state = self.uc, self.state
        control = uc.reg_read(CONTROL)
        if control & SPSEL:
            self.stop("the process stack is not modelled")
        sp, xpsr = uc.reg_read(R[13]), uc.reg_read(XPSR)
        floats = [uc.reg_read(r) for r in FLOATS] if control & FPCA else []
        size = 32 + 4 * (len(floats) + len(floats) % 2)
        new = (sp - size) & ~7
        frame = [uc.reg_read(r) for r in FRAME] + [state.pc, xpsr & ~0x200 | (0x200 if sp & 4 else 0)]
        uc.mem_write(new, struct.pack(f"<{len(frame) + len(floats)}I", *frame, *floats))
        handler = bool(self.active)
        link = EXC_RETURN | (0 if handler else 8) | (0 if floats else NO_FLOATS)
        self.active.append(n)
        self.set_xpsr(THUMB | n)
        uc.reg_write(CONTROL, control & ~FPCA)
        uc.reg_write(R[13], new)
        uc.reg_write(R[14], link)
        (vector,) = struct.unpack("<I", uc.mem_read(self.vtor + 4 * n, 4))
        state.pc = vector & ~1
        state.cycles += 12
        state.event = 1

    def leave(self) -> None:
        """Return from an exception: PC is EXC_RETURN."""
        uc, state = self.uc, self.state
        link = state.pc | 1
        if not self.active or link | 0x18 != EXC_RETURN | 0x18:
            self.stop(f"EXC_RETURN {link:#x} is not modelled")
        if self.active.pop() == HARD_FAULT or uc.reg_read(arm.UC_ARM_REG_FAULTMASK):
            uc.reg_write(arm.UC_ARM_REG_FAULTMASK, 0)
        sp = uc.reg_read(R[13])
        with_floats = not link & NO_FLOATS
        frame = struct.unpack("<8I", uc.mem_read(sp, 32))
        if with_floats:
            for r, v in zip(FLOATS, struct.unpack("<17I", uc.mem_read(sp + 32, 68)), strict=True):
                uc.reg_write(r, v)
        control = uc.reg_read(CONTROL)
        uc.reg_write(CONTROL, control | FPCA if with_floats else control & ~FPCA)
        for r, v in zip(FRAME, frame, strict=False):
            uc.reg_write(r, v)
        self.set_xpsr(frame[7] & ~0x200)
        uc.reg_write(R[13], sp + (104 if with_floats else 32) + (4 if frame[7] & 0x200 else 0))
        state.pc = frame[6] & ~1
        state.cycles += 10
        state.event = 1

    def after_turn(self) -> None:
        """See why it ended."""
        state = self.state
        if state.why == GOES_ON:
            if state.error and not self.code_in_flash():
                self.stop(f"fault: access to {state.address:#010x} (Unicorn's error {state.error})")
            if self.chip.bytes_at(state.pc - 2, 2) == WFI and self.state.cycles < self.state.limit:
                self.asleep, self.asleep_for_event = True, False
        elif state.why == SLEEPS_FOR_EVENT:
            self.asleep = self.asleep_for_event = True
        elif state.why == EXCEPTION:
            self.exception(state.exception)
        else:
            self.stop("an instruction that Unicorn does not know")

    def code_in_flash(self) -> bool:
        """True if the turn has ended since code begins in a page of flash, or goes on in the next one,
        that was data so far."""
        return any(self.processor.code_in(self.state.pc + more) for more in (0, 2))

    def exception(self, kind: int) -> None:
        if kind == EXIT:
            self.leave()
        elif kind == SVC:
            self.enter(SVCALL)
        elif kind == BKPT:
            self.chip.breakpoint(self, self.chip.bytes_at(self.state.pc, 1)[0])
        elif kind in (UNDEFINED, NO_COPROCESSOR):
            self.chip.coprocessor(self, *struct.unpack("<HH", self.chip.bytes_at(self.state.pc, 4)))
            self.state.pc += 4
        elif kind == NOT_ALIGNED:
            self.stop("fault: an access that is not aligned")
        else:
            self.stop(f"fault (Unicorn's exception {kind})")

    def stop(self, message: str) -> NoReturn:
        raise Stopped("crash",
                      f"core {self.number}: {message}, at {self.state.pc:#010x}, called from "
                      f"{self.uc.reg_read(R[14]):#010x}")

    # --- SysTick: counts the core's cycles, and the chip rings where it comes to 0

    def tick_period(self) -> int:
        return self.registers.get(0xE014, 0) + 1

    def tick_value(self) -> int:
        period = self.tick_period()
        return (period - 1 - (self.state.cycles - self.tick_from) % period) if self.ticking() else 0

    def ticking(self) -> bool:
        return bool(self.registers.get(0xE010, 0) & 1)

    def tick(self) -> None:
        self.tick_flag = True
        if self.registers.get(0xE010, 0) & 2:
            self.pend(SYSTICK)

    # --- registers

    def read(self, address: int, size: int) -> int:
        offset = address & 0xFFFFF
        return self.read_word(offset & ~3) >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def read_word(self, o: int) -> int:
        if 0xE100 <= o < 0xE300:
            at = (o & 0x7F) * 8 + FIRST_IRQ
            bits = self.enabled if o < 0xE200 else self.latched | self.lines << FIRST_IRQ
            return bits >> at & 0xFFFFFFFF
        if 0xE300 <= o < 0xE400:
            at = (o & 0x7F) * 8 + FIRST_IRQ
            return sum(1 << n - at for n in self.active if at <= n < at + 32)
        if 0xE400 <= o < 0xE400 + self.facts.irqs:
            return int.from_bytes(bytes(self.priorities[FIRST_IRQ + o - 0xE400 :][:4]), "little")
        if 0xED18 <= o < 0xED24:
            return int.from_bytes(bytes(self.priorities[4 + o - 0xED18 :][:4]), "little")
        if o == 0xED00:
            return self.facts.cpuid
        if o == 0xED04:
            n = self.active[-1] if self.active else 0
            bits = (1 << 28 if self.latched >> PENDSV & 1 else 0) | (1 << 26 if self.latched >> SYSTICK & 1 else 0)
            return bits | n | (0 if len(self.active) > 1 else 1 << 11) | self._best()[1] << 12
        if o == 0xED08:
            return self.vtor
        if o == 0xE010:
            flag, self.tick_flag = self.tick_flag, False
            return self.registers.get(o, 0) | (1 << 16 if flag else 0)
        if o == 0xE018:
            return self.tick_value()
        if o == 0x1004:  # DWT.CYCCNT
            return self.state.cycles & 0xFFFFFFFF
        return self.registers.get(self._known(o), 0)

    def write(self, address: int, size: int, value: int) -> None:
        o = address & 0xFFFFF
        if 0xE400 <= o < 0xE400 + self.facts.irqs or 0xED18 <= o < 0xED24:
            first = FIRST_IRQ + o - 0xE400 if o < 0xED00 else 4 + o - 0xED18
            for k in range(size):
                self.priorities[first + k] = value >> 8 * k & self.facts.priority
            self.look()
            return
        if size < 4:
            shift = 8 * (o & 3)
            old = self.registers.get(o & ~3, 0)
            value = old & ~((1 << 8 * size) - 1 << shift) | value << shift
        self.write_word(o & ~3, value & 0xFFFFFFFF)

    def write_word(self, o: int, value: int) -> None:
        bits = value << (o & 0x7F) * 8 + FIRST_IRQ & (1 << FIRST_IRQ + self.facts.irqs) - 1
        if 0xE100 <= o < 0xE180:
            self.enabled |= bits
        elif 0xE180 <= o < 0xE200:
            self.enabled &= ~bits
        elif 0xE200 <= o < 0xE280:
            self.latched |= bits
        elif 0xE280 <= o < 0xE300:
            self.latched &= ~bits
        elif o == 0xED04:
            for set_bit, clear_bit, n in ((28, 27, PENDSV), (26, 25, SYSTICK)):
                if value >> set_bit & 1:
                    self.latched |= 1 << n
                if value >> clear_bit & 1:
                    self.latched &= ~(1 << n)
        elif o == 0xED08:
            self.vtor = value & ~0x7F
        elif o == 0xED0C:
            if value >> 16 == 0x5FA and value & 4:
                self.chip.ask_for_reset()
        elif o == 0xEF00:
            self.latched |= 1 << FIRST_IRQ + (value & 0x1FF)
        elif o in (0xE010, 0xE014, 0xE018):
            self._set_tick(o, value)
        elif o == 0xED94 and value & 1:
            self.stop("the memory protection unit (0xe000ed94) is not modelled")
        else:
            self.registers[self._known(o)] = value
        self.look()

    def _set_tick(self, o: int, value: int) -> None:
        was = self.ticking()
        if o == 0xE018:
            self.tick_flag = False
        else:
            self.registers[o] = value & (0x7 if o == 0xE010 else 0xFFFFFF)
        if o == 0xE018 or not was:
            self.tick_from = self.state.cycles
        self.chip.systick_changed(self)

    def _known(self, o: int) -> int:
        """Registers that keep what is written, with no effect here: of debugging, of the MPU while it is off,
        of security."""
        plain = o < 0x3000 or 0xED0C <= o < 0xEE00 or 0xEF34 <= o < 0xEF40 or o in (0xE008, 0xE00C,
            0xE01C) or 0x80000 <= o < 0x80200
        if not plain:
            self.stop(f"the core's register {0xE0000000 + o:#x} is not modelled")
        return o
