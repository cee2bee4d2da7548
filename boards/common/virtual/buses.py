"""I2C, SPI and ADC, and the devices at them: a byte takes a bus its time. (RP2350 datasheet, 12.2 to 12.4.)"""

import functools
from collections.abc import Callable
from typing import Protocol

from blocks import Block
from bus import Bus

Asks = Callable[[int, bool], None]  # DMA, by its request: there is something for it, or no more
NOBODY = 0xFF  # what is read where nothing drives the wire


class Device(Protocol):
    """A device at a bus: an address chooses it at I2C, a pin at SPI."""

    def select(self, address: int) -> bool: ...
    def point(self, register: int) -> None: ...
    def write(self, byte: int) -> None: ...
    def read(self) -> int: ...


class I2c(Block):
    """A controller. `device` answers where `wired()`; an address that nobody answers aborts the transfer."""

    DATA, STAT, MASK, RAW, ENABLE = 0x10, 0x2C, 0x30, 0x34, 0x6C
    STATUS, TX_LEVEL, RX_LEVEL, SOURCE = 0x70, 0x74, 0x78, 0x80
    RX_FULL, TX_EMPTY, ABORTED, STOPPED = 1 << 2, 1 << 4, 1 << 6, 1 << 9
    # Bits that reading a register clears; the first clears all.
    CLEARS = dict(zip(range(0x40, 0x6C, 4), (0xFFF, 1, 2, 8, 32, 64, 128, 256, 512, 1024, 2048), strict=True))
    READS, STOPS, RESTARTS = 1 << 8, 1 << 9, 1 << 10

    def __init__(self, name: str, bus: Bus, irq: int) -> None:
        plain = (0, 4, 8, 0x14, 0x18, 0x1C, 0x20, self.MASK, 0x38, 0x3C, self.ENABLE, 0x7C, 0x88, 0x8C, 0x90, 0xA0)
        super().__init__(name, plain, {0x14: 0x28, 0x18: 0x2F, 0x1C: 6, 0x20: 0xD})
        self.clock, self.line = bus.now, functools.partial(bus.irq, irq)
        self.alarm = self.clock.alarm(self.done)
        self.device: Device | None = None
        self.wired: Callable[[], bool] = lambda: False
        self.queue: list[int] = []  # commands; the first is under way
        self.got: list[int] = []
        self.happened = self.source = 0
        self.direction: int | None = None  # of the transfer that goes on

    def raw(self) -> int:
        full = self.RX_FULL if len(self.got) > self.get(0x38) else 0
        return self.happened | full | (0 if self.queue else self.TX_EMPTY)

    def read(self, o: int) -> int | None:
        if o == self.DATA:
            return self.got.pop(0) if self.got else 0
        self.clock.poll(self.alarm)
        if o in self.CLEARS:
            bits = self.CLEARS[o]
            was, self.happened = self.happened & bits, self.happened & ~bits
            self.source = 0 if bits & self.ABORTED else self.source
            return 1 if was else 0
        if o in (self.RAW, self.STAT):
            return self.raw() & (self.get(self.MASK) if o == self.STAT else ~0)
        if o in (self.TX_LEVEL, self.RX_LEVEL):
            return len(self.queue if o == self.TX_LEVEL else self.got)
        if o == self.STATUS:
            return 0x6 | (8 if self.got else 0) | (0x21 if self.queue else 0)
        return self.source if o == self.SOURCE else super().read(0x6C if o == 0x9C else o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o == self.DATA:
            self.queue.append(value)
            if len(self.queue) == 1:
                self.go()
        elif o == self.ENABLE and not value & 1:
            self.queue, self.got, self.direction = [], [], None
            self.alarm.cancel()
        self.line(bool(self.raw() & self.get(self.MASK)))
        return known or o == self.DATA

    def begins(self, command: int) -> bool:
        """True if an address goes before this byte."""
        return self.direction != command & self.READS or bool(command & self.RESTARTS)

    def go(self) -> None:
        fast = self.get(0) >> 1 & 3 >= 2
        period = self.get(0x1C if fast else 0x14) + self.get(0x20 if fast else 0x18)
        self.alarm.schedule((18 if self.begins(self.queue[0]) else 9) * period * self.clock.nanos_per_cycle)

    def done(self) -> None:
        """A byte has gone over the bus."""
        command = self.queue[0]
        if self.begins(command) and not (self.device and self.wired() and self.device.select(self.get(4))):
            self.queue, self.source, self.direction = [], 1, None
            self.happened |= self.ABORTED | self.STOPPED
        else:
            assert self.device is not None
            self.direction = command & self.READS
            if self.direction:
                self.got.append(self.device.read())
            else:
                self.device.write(command & 0xFF)
            self.queue.pop(0)
            if command & self.STOPS:
                self.happened |= self.STOPPED
                self.direction = None
            if self.queue:
                self.go()
        self.line(bool(self.raw() & self.get(self.MASK)))


class Spi(Block):
    """A controller. Its device is chosen by a pin, its first byte then names a register: with bit 7 it is to be read.

    cycle(): nanoseconds of its clock.
    """

    DATA, DMA, DEPTH, READ = 0x08, 0x24, 8, 0x80

    def __init__(self, name: str, bus: Bus, asks: Asks, requests: int, cycle: Callable[[], float]) -> None:
        super().__init__(name, (0, 4, 0x10, self.DMA))  # an interrupt is not modelled
        self.clock, self.asks, self.requests, self.cycle = bus.now, asks, requests, cycle
        self.alarm = self.clock.alarm(self.done)
        self.device: Device | None = None
        self.wired: Callable[[], bool] = lambda: False
        self.queue: list[int] = []
        self.got: list[int] = []
        self.reads: bool | None = None  # None: the next byte says

    def read(self, o: int) -> int | None:
        if o == self.DATA:
            byte = self.got.pop(0) if self.got else 0
            self.ask()
            return byte
        if o == 0x0C:
            self.clock.poll(self.alarm)
            room, waits = len(self.queue) < self.DEPTH, bool(self.queue)
            return (not waits) | room << 1 | bool(self.got) << 2 | (len(self.got) >= self.DEPTH) << 3 | waits << 4
        return 0 if o in (0x14, 0x18, 0x1C) else super().read(o)

    def write(self, o: int, value: int) -> bool:
        known = super().write(o, value)
        if o == self.DATA and len(self.queue) < self.DEPTH:
            self.queue.append(value & 0xFF)
            if len(self.queue) == 1:
                self.go()
        self.ask()
        return known or o in (self.DATA, 0x20) or (o == 0x14 and value == 0)

    def ask(self) -> None:
        enabled = self.get(self.DMA)
        self.asks(self.requests + 1, bool(enabled & 1 and self.got))
        self.asks(self.requests, bool(enabled & 2) and len(self.queue) < self.DEPTH)

    def go(self) -> None:
        control = self.get(0)
        cycles = max(2, self.get(0x10)) * (1 + (control >> 8 & 0xFF)) * (1 + (control & 15))
        self.alarm.schedule(cycles * self.cycle())

    def done(self) -> None:
        byte = self.queue.pop(0)
        if len(self.got) < self.DEPTH:
            self.got.append(self.take(byte) if self.wired() else NOBODY)
        if self.queue:
            self.go()
        self.ask()

    def take(self, byte: int) -> int:
        assert self.device is not None
        if self.reads is None:
            self.reads = bool(byte & self.READ)
            self.device.point(byte & ~self.READ)
        elif self.reads:
            return self.device.read()
        else:
            self.device.write(byte)
        return NOBODY


class Adc(Block):
    """`value(channel)` is what it converts, 12 bits. Conversions one by one, or at a pace into a FIFO for DMA."""

    CS, RESULT, FCS, FIFO, DIV = 0, 4, 8, 0xC, 0x10
    ONCE, MANY, READY = 4, 8, 1 << 8
    NANOS = 1e9 / 48_000_000

    def __init__(self, bus: Bus, asks: Callable[[bool], None], depth: int) -> None:
        super().__init__("ADC", (self.CS, self.FCS, self.DIV))  # an interrupt is not modelled
        self.asks, self.depth, self.alarm = asks, depth, bus.now.alarm(self.done)
        self.value: Callable[[int], int] = lambda channel: 0
        self.result = 0
        self.samples: list[int] = []
        self.busy = self.over = False

    def read(self, o: int) -> int | None:
        if o == self.FIFO:
            sample = self.samples.pop(0) if self.samples else 0
            self.asks(bool(self.get(self.FCS) & 8 and self.samples))
            return sample
        if o == self.RESULT:
            return self.result
        n = len(self.samples)
        level = (n == 0) << 8 | (n == self.depth) << 9 | self.over << 11 | n << 16
        more = {self.CS: 0 if self.busy else self.READY, self.FCS: level}
        value = super().read(o)
        return None if value is None else value | more.get(o, 0)

    def write(self, o: int, value: int) -> bool:
        kept = {self.CS: ~(self.ONCE | self.READY), self.FCS: ~0xFFF00}.get(o, -1)
        known = super().write(o, value & kept)
        if o == self.CS:
            if value & 1 and value & (self.ONCE | self.MANY):
                self.busy = True
                self.alarm.schedule(self.pace(value))
            elif not value & self.MANY:
                self.alarm.cancel()
                self.busy = False
            return known and not value >> 16  # round robin
        if o == self.FCS:
            self.over = self.over and not value & 0x800
            self.asks(bool(value & 8 and self.samples))
        return known

    def pace(self, control: int) -> float:
        return max(96.0, 1 + self.get(self.DIV) / 256 if control & self.MANY else 0) * self.NANOS

    def done(self) -> None:
        control, fifo = self.get(self.CS), self.get(self.FCS)
        self.result = self.value(control >> 12 & 15)
        if fifo & 1:
            self.over = self.over or len(self.samples) == self.depth
            if not self.over or len(self.samples) < self.depth:
                self.samples.append(self.result >> (4 if fifo & 2 else 0))
            self.asks(bool(fifo & 8))
        self.busy = bool(control & self.MANY)
        if self.busy:
            self.alarm.schedule(self.pace(control))
