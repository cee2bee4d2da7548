"""Python's side of pio.c, dma.c and sound.c: PIO, DMA and the microphone at their pins.
Blocks in Python give DMA their requests by `asks`."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

from blocks import Block, Pins
from bus import Bus, Stopped
from facts import Facts
from native import Native
from sio import Sio

UNIT = 256  # of our time in a cycle
SLICE = 2000  # cycles between two looks at machines that are at work
FLASH_SLICE = 500  # the same, while DMA waits for flash
AHEAD = 10_000_000  # nanoseconds that they may be ahead while both cores sleep
DMA, PIO0 = 0x50000000, 0x50200000
SPI, I2C, SIO, PIO = 1, 3, 5, 6  # functions of a pin; PIO1 and PIO2 follow
SOURCES = {"i2s": 1, "pdm": 2}  # sound.c's kinds
NEWS = ((1, "ended"), (2, "rate"))
_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
_WORD = ctypes.c_uint32


class _Source(ctypes.Structure):
    _fields_ = (*((name, _WORD) for name in "kind clock select data rate count news got".split()),
                ("samples", ctypes.c_void_p))
    _fields_ += tuple((name, _WORD) for name in ("at", "word", "right", "next", "told", "pause"))
    _fields_ += (("rose", ctypes.c_int64), ("begun", ctypes.c_int64), ("sums", ctypes.c_double * 2))


class _Camera(ctypes.Structure):
    _words = "on vsync href pclk data row rows line apart frames cuts taken tick seen"
    _fields_ = tuple((name, _WORD) for name in _words.split())
    _fields_ += (("bytes", ctypes.c_void_p), ("cut", ctypes.c_void_p))
    _fields_ += (("period", ctypes.c_int64), ("due", ctypes.c_int64))


class _Io(ctypes.Structure):
    _fields_ = (
        *(("ram", ctypes.c_void_p), ("flash", ctypes.c_void_p), ("waits", ctypes.c_void_p), ("read", _READ),
          ("write", _WRITE)),
        *(("asked", ctypes.c_uint64), ("requests", ctypes.c_uint64)),
        *((name, _WORD) for name in "old blocks flash_windows dma_irq pio_irq stream".split()),
        *(("second", ctypes.c_double), ("now", ctypes.c_int64)),
        *((name, _WORD) for name in ("ram_bytes", "flash_bytes", "outside", "sio_out", "sio_drives")),
        ("functions", _WORD * 3),
        *((name, _WORD) for name in ("lines", "busy", "changes", "unknown", "pads")),
        ("source", _Source),
        ("camera", _Camera),
    )


class Part(Block):
    """Registers that are pio.c's."""

    def __init__(self, name: str, io: "Io", base: int) -> None:
        super().__init__(name)
        self.io, self.base = io, base

    def read(self, o: int) -> int | None:
        self.io.step()
        value = int(self.io.call("read", self.base + o))
        known = self.known()
        self.io.look()
        return value if known else None

    def write(self, o: int, value: int) -> bool:
        self.io.step()
        self.io.call("write", self.base + o, ctypes.c_uint32(value))
        known = self.known()
        self.io.serve()
        return known

    def known(self) -> bool:
        unknown, self.io.native.unknown = self.io.native.unknown, 0
        return not unknown


class Io:
    """Pins, and what pio.c does with them. `say` gets what the source has to say: one of NEWS."""

    def __init__(self, facts: Facts, bus: Bus, native: Native, waits: int, sio: Sio) -> None:
        """waits: the address of flash.c's memory."""
        self.bus, self.clock, self.library, self.sio = bus, bus.now, native.hooks, sio
        self.library.mica_io_begin.restype = ctypes.c_size_t
        self.library.mica_io_read.restype = _WORD
        self._memory = ctypes.create_string_buffer(self.library.mica_io_begin(None))
        self._at = ctypes.addressof(self._memory)
        self.native = n = _Io.from_buffer(self._memory)
        flash, ram = native.memories[:2]
        n.flash, n.flash_bytes, n.ram, n.ram_bytes = flash.address, flash.size, ram.address, ram.size
        n.waits, n.read, n.write = waits, _READ(bus.read), _WRITE(bus.write)
        n.requests, n.old, n.blocks = facts.requests, facts.name == "rp2040", facts.pios
        n.dma_irq, n.pio_irq, n.stream = facts.dma_irq, facts.pio_irq, facts.stream_request
        n.flash_windows = 0x4000000 if n.old else 0x8000000
        self.call("begin")
        self.call("hears")
        self.lines = self.stepped = 0
        self.say: Callable[[str, int], None] = lambda news, got: None
        self.watchers: list[Callable[[], None]] = []  # called when pins may have changed that a program drives by hand
        self.alarm = self.clock.alarm(self.look)
        self.pins = Pins(facts.pin_count, facts.pin_irqs)
        self.pins.changed, sio.changed = self.functions_changed, self.pins_changed
        self.by_hand = 0  # pins that are SIO's
        sio.pads = self.pads
        parts = {DMA: "DMA", **{PIO0 + 0x100000 * k: f"PIO{k}" for k in range(facts.pios)}}
        self.blocks: dict[int, Block] = {base: Part(name, self, base) for base, name in parts.items()}
        self.blocks[facts.pins] = self.pins

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self.library, f"mica_io_{name}")(ctypes.c_void_p(self._at), *arguments)

    # --- time

    def at_work(self) -> tuple[int, int, int]:
        """Return the argument of Processor.run() that has machines step while one is at work."""
        self.stepped = self.native.busy
        return self._at, int(self.clock.skipped * UNIT), (0, SLICE, FLASH_SLICE, FLASH_SLICE)[self.stepped]

    def now(self, ahead: float = 0.0) -> int:
        return int((self.clock.state.cycles + self.clock.skipped + ahead / self.clock.nanos_per_cycle) * UNIT)

    def step(self) -> None:
        self.native.second = 1e9 / self.clock.nanos_per_cycle * UNIT
        self.call("step", ctypes.c_int64(self.now()), 0)
        self.look()

    def follow(self) -> None:
        if self.native.busy or self.native.lines != self.lines:
            self.step()

    def look_ahead(self) -> None:
        """Both cores sleep: step until an interrupt comes, and let the board's time come there."""
        if self.native.busy and self.alarm.at == math.inf:
            ahead = min(AHEAD, self.clock.idle_nanos)
            self.call("step", ctypes.c_int64(self.now(ahead)), 1)
            cycles = self.native.now / UNIT - self.clock.state.cycles - self.clock.skipped
            self.alarm.schedule(max(0.0, cycles * self.clock.nanos_per_cycle))

    def look(self) -> None:
        """Tell cores of interrupts, the user of the source's news; a turn without steps ends where there is work."""
        n = self.native
        if n.busy and not self.stepped:
            self.clock.end_turn(self.clock.state.cycles)
        if n.unknown:
            raise Stopped("crash", "PIO has an instruction that is not modelled")
        changed, self.lines = n.lines ^ self.lines, n.lines
        while changed:
            irq = changed.bit_length() - 1
            changed ^= 1 << irq
            self.bus.irq(irq, bool(n.lines >> irq & 1))
        if n.source.news:
            for bit, news in NEWS:
                if n.source.news & bit:
                    self.say(news, n.source.got)
            n.source.news = 0

    # --- DMA and pins

    def serve(self) -> None:
        self.call("serve")
        self.look()

    def hears(self) -> None:
        """Flash has something under way: the next step tells."""
        self.native.busy |= 2
        self.look()

    def asks(self, request: int, on: bool) -> None:
        """A block in Python has something for DMA, or no more. request: its DREQ."""
        bit = 1 << request
        self.native.asked = self.native.asked | bit if on else self.native.asked & ~bit
        if on:
            self.serve()

    def sound(
        self,
        kind: str,
        pins: tuple[int, int | None, int],
        rate: int,
        pause: int,
        samples: ctypes.Array[ctypes.c_int16],
    ) -> None:
        """Put a source of sound at pins (clock, select, data). The caller keeps the samples; pause: nanoseconds."""
        s = self.native.source
        s.clock, s.select, s.data = (0 if pin is None else 1 << pin for pin in pins)
        s.rate, s.pause = rate, pause
        s.samples, s.count, s.kind = ctypes.addressof(samples), len(samples), SOURCES[kind]

    def pads(self) -> int:
        self.follow()
        return int(self.native.pads)

    def give(self, pin: int, high: bool) -> None:
        """A level from outside."""
        bit = 1 << pin
        self.native.outside = self.native.outside | bit if high else self.native.outside & ~bit
        self.call("pins")
        self.look()

    def low(self, pin: int) -> bool:
        """True if a program holds the pin low by hand."""
        return bool(self.native.sio_drives & ~self.native.sio_out & 1 << pin)

    def functions_changed(self) -> None:
        of = [0] * 32
        for pin in range(32):
            of[self.pins.function(pin)] |= 1 << pin
        self.by_hand = of[SIO]
        self.native.functions[:] = of[PIO : PIO + 3]
        self.pins_changed()

    def pins_changed(self) -> None:
        self.step()
        self.native.sio_out, self.native.sio_drives = self.sio.out & 0xFFFFFFFF, self.sio.enable & self.by_hand
        self.call("pins")
        self.look()
        for watcher in self.watchers:
            watcher()
