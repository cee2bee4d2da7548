"""An RP2040 or RP2350 with both cores, as a Pico or a Pico 2 has it: memory, registers, turns, resets. Flash is a file.

rp2040.py and rp2350.py have what is of one chip alone; run.py is the program around them.
What is touched and not modelled stops the board with its name.
"""

import ctypes
import functools
import mmap
import struct
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from blocks import Block, Clocks, Pll, PowerStates, Timer, Watchdog
from bus import Bus, Stopped
from buses import Adc, I2c, Spi
from clock import Clock
from core import Core, R
from facts import COUNTERS, Facts
from flash import Flash
from native import NOW, Memory, Native
from pio import Io
from sensors import Places, Sensors
from sio import Sio
from usb import BUFFER_CONTROL, BUFFER_CONTROL_END, Usb

FLASH, RAM = 0x10000000, 0x20000000
QUANTUM = 100  # cycles of a turn where both cores run
ALONE = 2000  # cycles for which core 1 runs alone before time is looked at
OFF, IN_ROM, RUNNING, SLEEPS = range(4)  # core 1
START = (0, 0, 1)  # what its boot ROM waits for, before vector table, stack and entry
# What the board itself reads, where a real Pico 2 has nothing: cycles of core 0 since power-on, and of core 1,
# and instructions of core 0. Reading a low word keeps the high one. A word of "mica" tells that it is there.
MAGIC = 0x6163696D
# A register there: a write keeps what each block of code has cost, of both cores, since the write before
COSTS_OF_BLOCKS = 0x20
WAITS = 0x28  # cycles in which core 0 waited for flash, of all; then core 1
SPENT = np.dtype([("address", "<u4"), ("instructions", "<u8"), ("cycles", "<u8")])


class Counters(Block):
    def __init__(self, chip: "Chip") -> None:
        super().__init__("COUNTERS")
        self.chip, self.high = chip, 0

    def read(self, o: int) -> int | None:
        if o in (0x08, 0x10, 0x18, 0x2C, 0x34):
            return self.high
        states = [core.state if core else None for core in self.chip.cores]
        first, second = states[0], states[1]
        assert first is not None
        found = {0x00: MAGIC, 0x04: first.cycles, 0x0C: second.cycles if second else 0, 0x14: first.instructions}
        found |= {WAITS: first.waits, WAITS + 8: second.waits if second else 0}
        if o not in found:
            return None
        self.high = found[o] >> 32 if o else self.high
        return found[o] & 0xFFFFFFFF

    def write(self, o: int, value: int) -> bool:
        if o == COSTS_OF_BLOCKS:
            self.chip.spent = np.concatenate([memory.spent(SPENT) for memory in self.chip.memories])
        return o == COSTS_OF_BLOCKS


class Chip:
    """A chip with two cores; rp2040.py and rp2350.py add to it.

    `flash` is the file's content, `received` gets what the board says over USB; `sensors` are connected to each new
    chip. `ideal_memory`: no access to flash waits.
    """

    facts: Facts
    names: dict[int, str]  # of blocks that nothing here answers
    data_of_rom: int  # bytes of its first page, which is no code
    link_of_core_1: int  # to which its program returns

    def __init__(
        self,
        library: str,
        flash: mmap.mmap,
        received: Callable[[bytes], None],
        sensors: Sensors | None = None,
        ideal_memory: bool = False,
    ) -> None:
        self.received = received
        self.sensors = sensors or Sensors({}, lambda text: None)
        self.flash = flash
        facts = self.facts
        self.ram = ctypes.create_string_buffer(facts.ram)
        flash_memory = Memory(facts.windows, (ctypes.c_char * len(flash)).from_buffer(flash), changes=False)
        image = self.make_rom()
        self.rom_image = ctypes.create_string_buffer(image, len(image))
        self.memories = [flash_memory, Memory((RAM,), self.ram, changes=True), *self.counted_rom()]
        self.native = Native(library, facts, self.memories)
        self.native.free = self.free_rom()
        self.flash_unit = Flash(self.native, facts.name, ideal_memory)
        self.native.flash = None if ideal_memory else self.flash_unit.address
        self.stopped: Stopped | None = None
        self.spent = np.zeros(0, SPENT)
        self.cycles_before = 0  # of the chips before the last reset
        self.watchdog: Watchdog | None = None
        self.cores: list[Core | None] = []
        self.power_on()

    def power_on(self) -> None:
        """A new chip, with what is in flash; after a reset also with what the watchdog keeps."""
        if self.cores:
            self.cycles_before += self.first.state.cycles
        facts = self.facts
        self.reset_asked = False
        self.second_is, self.heard = OFF, []  # type: ignore[var-annotated]
        self.lines = 0
        flash_blocks = self.flash_unit.power_on()
        # Core 0's registers ask for these, before they are made.
        self.clock: Clock | None = None  # type: ignore[assignment]
        self.cores = [None, None]
        first = Core(self.native, 0, self)
        self.cores[0] = first
        self.clock = Clock(first.state, self._shorten)
        read, write = functools.partial(self.read, 0), functools.partial(self.write, 0)
        bus = Bus(self.guarded(read), self.guarded(write), self.line, self.clock)
        self.sio = Sio(facts, self._own_line, self._rom_of_core_1_looks)
        self.io = io = Io(facts, bus, self.native, self.flash_unit.address, self.sio)
        self.flash_unit.io, self.flash_unit.state = io, first.state
        self.usb = Usb(self.clock, functools.partial(self.line, facts.usb_irq), self.received)
        plls = Pll("PLL_SYS"), Pll("PLL_USB")
        clocks = Clocks(plls, self.clock.set_frequency, facts.divider)
        self.watchdog = Watchdog(self.clock, self.ask_for_reset, self.watchdog, facts.watchdog_rate)
        spis, i2cs, adc = self._buses(bus, clocks)
        first_spi, first_i2c, adc_at = facts.buses
        self.blocks: dict[int, Block] = {
            **self.plain_blocks(),
            facts.clocks: clocks,
            facts.psm: PowerStates(facts.core_1, self._force_second),
            **dict(zip(facts.plls, plls, strict=True)),
            facts.watchdog: self.watchdog,
            COUNTERS: Counters(self),
            **flash_blocks,
            **io.blocks,
            **{first_spi + facts.apart * k: spi for k, spi in enumerate(spis)},
            **{first_i2c + facts.apart * k: i2c for k, i2c in enumerate(i2cs)},
            adc_at: adc,
            0x50110000: self.usb,
        }
        for k, (base, first_irq) in enumerate(facts.timers.items()):
            line = lambda n, on, first_irq=first_irq: self.line(first_irq + n, on)  # noqa: E731
            self.blocks[base] = Timer(f"TIMER{k}", self.clock, line, facts.timer_shift)
        pwm = next(block for block in self.blocks.values() if block.name == "PWM")
        self.sensors.connect(Places(self.clock, io, adc, spis, i2cs, pwm))
        self._map(first)
        first.begin(*self.starts())
        self._force_second(False)

    # --- what a chip has of its own

    def make_rom(self) -> bytes:
        """Return what is in its boot ROM; the first page is no code."""
        raise NotImplementedError

    def counted_rom(self) -> list[Memory]:
        """Return the boot ROM, where its code costs what is executed."""
        return []

    def free_rom(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def starts(self) -> tuple[int, int]:
        """Return stack and entry of core 0."""
        raise NotImplementedError

    def map_more(self, core: Core) -> None:
        """Map what only this chip has."""
        raise NotImplementedError

    def plain_blocks(self) -> dict[int, Block]:
        """Return blocks with nothing behind their registers, by address, and others that only this chip has."""
        raise NotImplementedError

    def breakpoint(self, core: Core, code: int) -> None:
        raise NotImplementedError

    def coprocessor(self, core: Core, first: int, second: int) -> None:
        raise NotImplementedError

    def no_firmware(self) -> None:
        self.stopped = Stopped("firmware", "there is no firmware in its flash")

    # --- registers of both

    def _buses(self, bus: Bus, clocks: Clocks) -> tuple[tuple[Spi, Spi], tuple[I2c, I2c], Adc]:
        facts, asks = self.facts, self.io.asks
        spi = [Spi(f"SPI{k}", bus, asks, facts.spi_request + 2 * k, clocks.peripheral_nanos) for k in range(2)]
        i2c = [I2c(f"I2C{k}", bus, facts.i2c_irq + k) for k in range(2)]
        return (spi[0], spi[1]), (i2c[0], i2c[1]), Adc(bus, functools.partial(asks, facts.adc_request), facts.adc_fifo)

    def _map(self, core: Core) -> None:
        p = core.processor
        # TinyUSB writes endpoint 0's control, which there is none of, to address 0: the boot ROM takes no notice.
        code = ctypes.c_void_p(ctypes.addressof(self.rom_image) + self.data_of_rom)
        p.uc.mem_map_ptr(self.data_of_rom, len(self.rom_image) - self.data_of_rom, 5, code)
        data = lambda a, n: int.from_bytes(self.rom_image[a : a + n], "little")  # noqa: E731
        p.map_registers(0, self.data_of_rom, data, lambda a, n, v: None)
        read = self.guarded(functools.partial(self.read, core.number))
        write = self.guarded(functools.partial(self.write, core.number))
        for base, size, *cycles in self.facts.places:
            p.map_registers(base, size, read, write, has_number=base == 0xD0000000, cycles=(cycles[0], cycles[1]))
        buffers = (BUFFER_CONTROL, BUFFER_CONTROL_END)
        p.map_registers(0x50100000, 0x1000, read, write, memory=self.usb.memory, told=buffers)
        self.map_more(core)

    # --- what a core asks of its chip

    @property
    def first(self) -> Core:
        core = self.cores[0]
        assert core is not None
        return core

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its exceptions caught, which stop the board: none may pass through Unicorn."""

        def call(*arguments: int) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:
                if not isinstance(error, Stopped):
                    error = Stopped("crash", f"the emulator has a mistake: {traceback.format_exception(error)[-2:]}")
                self.stopped = self.stopped or error
                self.end_turn()
                return 0

        return call

    def bytes_at(self, address: int, size: int) -> bytes:
        for memory in self.memories:
            if 0 <= address - memory.bases[0] < memory.size:
                return memory.read(address, size)
        return bytes(self.rom_image[address : address + size]) if address < len(self.rom_image) else bytes(size)

    def end_turn(self) -> None:
        """Look at both cores before either goes on."""
        for core in self.cores:
            if core is not None:
                core.state.limit, core.state.until = min(core.state.limit, core.state.cycles), NOW

    def _shorten(self, deadline: float) -> None:
        state = self.first.state
        if deadline < state.until:
            state.until = int(deadline)
            state.limit = min(state.limit, state.until)

    def stop(self, kind: str, message: str) -> NoReturn:
        raise Stopped(kind, message)

    def ask_for_reset(self) -> None:
        self.reset_asked = True
        self.end_turn()

    def systick_changed(self, core: Core) -> None:
        """SysTick's next zero is an alarm of the chip's."""
        if self.clock is None:
            return
        alarm = getattr(core, "tick_alarm", None)
        if alarm is None:
            alarm = core.tick_alarm = self.clock.alarm(lambda: self._tick(core))  # type: ignore[attr-defined]
        if core.ticking():
            left = core.tick_period() - (core.state.cycles - core.tick_from) % core.tick_period()
            alarm.schedule(left * self.clock.nanos_per_cycle)
        else:
            alarm.cancel()

    def _tick(self, core: Core) -> None:
        core.tick()
        self.systick_changed(core)

    # --- registers

    def _place(self, address: int) -> tuple[int, int, int]:
        """Block, offset and kind of access: 0 plain, 1 xor, 2 set, 3 clear."""
        if address < 0x50000000:
            return address & ~0x3FFF if address < COUNTERS else COUNTERS, address & 0xFFC, address >> 12 & 3
        return address & ~0xFFFF, address & 0xFFC, address >> 12 & 3

    def read(self, number: int, address: int, size: int) -> int:
        if address >= 0xD0000000:
            value = self.sio.read(number, address & 0xFFC)
            name, o = "SIO", address & 0xFFC
        else:
            base, o, _ = self._place(address)
            block = self.blocks.get(base)
            name = block.name if block else self.names.get(base, "no block")
            value = block.read(o) if block else None
        if value is None:
            self._unknown(number, "reads", name, o, address)
        return value >> 8 * (address & 3) & (1 << 8 * size) - 1

    def write(self, number: int, address: int, size: int, value: int) -> None:
        if address & ~0xFFF == 0x50100000:
            self.usb.control_written(address & 0xFFF)
            return
        if size < 4:  # a narrow write is repeated over the bus
            value = value * (0x01010101 if size == 1 else 0x00010001)
        value &= 0xFFFFFFFF
        if address >= 0xD0000000:
            name, o = "SIO", address & 0xFFC
            known = self.sio.write(number, o, value)
        else:
            base, o, kind = self._place(address)
            block = self.blocks.get(base)
            name = block.name if block else self.names.get(base, "no block")
            if block and kind and o not in block.clears:
                old = block.read(o) or 0
                value = (old, old ^ value, old | value, old & ~value)[kind]
            known = block is not None and block.write(o, value)
        if not known:
            self._unknown(number, f"writes {value:#x} to", name, o, address)

    def _unknown(self, number: int, what: str, name: str, offset: int, address: int) -> NoReturn:
        core = self.cores[number]
        assert core is not None
        core.state.pc = core.uc.reg_read(R[15])
        core.stop(f"{what} register {offset:#x} of {name} ({address:#010x}), which is not modelled")

    # --- interrupts

    @property
    def own_lines(self) -> int:
        """Interrupts that each core has for itself."""
        facts = self.facts
        return sum(1 << irq for irq in {*facts.fifo_irqs, facts.bell_irq} if irq)

    def line(self, irq: int, on: bool) -> None:
        """An interrupt that both cores have."""
        for core in self.cores:
            if core is not None:
                core.line(irq, on)

    def _own_line(self, number: int, irq: int, on: bool) -> None:
        core = self.cores[number]
        if core is not None:
            core.line(irq, on)

    # --- flash

    def before_flash_write(self, core: Core) -> None:
        """The other core would read what is not there meanwhile. One that sleeps is let be."""
        other = self.cores[1 - core.number]
        if other is None or (other.number == 1 and self.second_is != RUNNING) or other.asleep:
            return
        if FLASH <= other.state.pc < 0x18000000:
            core.stop(f"core {other.number} runs code in flash while the other core writes flash")

    def flash_changed(self, offset: int, size: int) -> None:
        for core in self.cores:
            if core is not None:
                core.processor.forget_code(FLASH + offset, FLASH + offset + size)
        self.memories[0].blocks["size"][offset // 2 : (offset + size) // 2] = 0

    # --- core 1

    def _force_second(self, off: bool) -> None:
        if off:
            self.second_is = OFF
            if self.cores[1] is not None:
                self.cores[1].reset()
                self.end_turn()
        elif self.second_is == OFF:
            self.second_is, self.heard = IN_ROM, []
            self.sio.drain(1)
            self.sio.push(1, 0)

    def _rom_of_core_1_looks(self) -> None:
        """Core 0 has sent a word; the boot ROM of core 1 sends each back, and starts a program after the sixth."""
        while self.second_is == IN_ROM and self.sio.words[1]:
            word = self.sio.pop(1)
            at = len(self.heard)
            self.heard = [*self.heard, word] if at >= len(START) or word == START[at] else []
            self.sio.push(1, word)
            if len(self.heard) == 6:
                self._start_second(*self.heard[3:])

    def _start_second(self, vectors: int, stack: int, entry: int) -> None:
        core = self.cores[1]
        if core is None:
            core = self.cores[1] = Core(self.native, 1, self)
            self._map(core)
            core.lines = self.first.lines & ~self.own_lines
            self.first.processor.meets(core.processor)
            core.processor.meets(self.first.processor)
        core.uc.ctl_flush_tb()  # its code may be another since
        core.vtor = vectors
        core.begin(stack, entry, self.link_of_core_1)
        self.second_is = RUNNING
        self.end_turn()

    def ended(self, core: Core) -> None:
        """Core 1's program has returned to the boot ROM."""
        core.asleep, core.asleep_for_event = True, False
        self.second_is = SLEEPS

    # --- turns

    @property
    def cycles(self) -> int:
        return self.cycles_before + self.first.state.cycles

    def run(self, cycles: int) -> bool:
        """Execute until `cycles` more are done, or both cores sleep; return whether they do."""
        first, clock = self.first, self.clock
        end = first.state.cycles + cycles
        try:
            while first.state.cycles < end and self.stopped is None and not self.reset_asked:
                if first.state.cycles >= clock.deadline:
                    clock.ring()
                self.io.follow()
                second = self.cores[1] if self.second_is == RUNNING else None
                awake = [core for core in (first, second) if core is not None and core.wakes()]
                if not awake:
                    self.io.look_ahead()
                    return True
                for core in awake:
                    core.take()
                limit = min(end, clock.deadline)
                first.state.ahead = int(clock.skipped)
                if first in awake:
                    both = awake[1].processor if len(awake) == 2 else None
                    first.processor.run(int(limit), both, QUANTUM, self.io.at_work())
                else:
                    end -= self._alone(awake[0], end - first.state.cycles)
                    continue
                for core in awake:
                    core.after_turn()
        except Stopped as stopped:
            self.stopped = self.stopped or stopped
        return False

    def _alone(self, second: Core, cycles: int) -> int:
        """Core 0 sleeps: core 1 runs for a while; returns how many cycles have passed."""
        ahead = self.clock.idle_nanos / self.clock.nanos_per_cycle
        before = second.state.cycles
        second.state.ahead = self.first.state.cycles + int(self.clock.skipped) - before
        second.processor.run(before + max(1, int(min(cycles, ALONE, ahead))))
        second.after_turn()
        passed = second.state.cycles - before
        self.clock.skip(passed * self.clock.nanos_per_cycle)
        return passed
