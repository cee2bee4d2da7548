"""An I2S microphone that costs the processor nothing, on an RP2040 or RP2350.

    microphone = mica.pio_i2s.Microphone(sck=16, ws=17, sd=18)
    with mica.audio.listen(model, microphone) as words: ...

A state machine of PIO makes the clock and takes the upper 16 bits of the left word;
DMA puts them into the ring that listen() reads. There are no interrupts.
machine.I2S, which copies each byte in interrupts, takes a fifth of a Pico's time for the same samples.
"""

from array import array
from time import ticks_diff, ticks_ms

from mica.audio import Ring, room

_STEPS = 128  # of the state machine in a frame: two for each of 64 bits
WRITE_AND_START = 11  # AL2_WRITE_ADDR_TRIG in a channel's registers

running: dict[
    int, Filled
] = {}  # the ring that a state machine fills: it stays, also where nobody else knows it any more


def _program():
    """A frame of the left word: SCK is bit 0 of side(), WS bit 1, which falls a bit before the word.
    Bits are taken where SCK rises."""
    import rp2

    @rp2.asm_pio(sideset_init=(rp2.PIO.OUT_LOW, rp2.PIO.OUT_LOW), in_shiftdir=rp2.PIO.SHIFT_LEFT)
    def left():
        # fmt: off
        set(x, 15)          .side(0)
        nop()               .side(1)
        nop()               .side(0)
        label("bit")
        in_(pins, 1)        .side(1)  # 16 bits, the highest first
        jmp(x_dec, "bit")   .side(0)
        set(x, 13)          .side(1)
        label("rest")
        nop()               .side(0)  # 15 that are left of 32
        jmp(x_dec, "rest")  .side(1)
        set(x, 30)          .side(2)
        label("right")
        nop()               .side(3)  # the right word
        jmp(x_dec, "right") .side(2)
        push(noblock)       .side(3)
        # fmt: on

    return left


def channels(n: int) -> list[Any]:
    """Return n channels of DMA. Stops running channels that a program left before a soft reset."""
    import rp2

    free = []
    try:
        while True:
            free.append(rp2.DMA())
    except OSError:
        pass
    for dma in free:
        end(dma)
    for dma in free[n if len(free) >= n else 0 :]:
        dma.close()
    if len(free) < n:
        raise OSError(f"{n} channels of DMA are needed, and {len(free)} are free")
    return free[:n]


def end(dma: Any) -> None:
    # First disabled: where an RP2350 ends a channel, the one behind it may start (erratum E5).
    # close() would let it run.
    dma.ctrl = dma.pack_ctrl(enable=False)
    dma.active(0)


def pace_of(sm: int) -> int:
    """DREQ_PIO0_RX0 and so on."""
    return 4 + sm % 4 + 8 * (sm // 4)


class Microphone:
    """A source for listen(). sck, ws, sd: numbers of pins, ws the one after sck. sm: a free state machine, 0 to 7."""

    def __init__(self, sck: int, ws: int, sd: int, rate: int = 16000, sm: int = 7) -> None:
        if ws != sck + 1:
            raise ValueError(f"ws is pin {ws}; pin {sck + 1} is expected, the one after sck")
        if not 0 <= sm <= 7:
            raise ValueError(f"sm is {sm}; 0 to 7 is expected")
        self.rate = rate
        self._sck, self._sd, self._sm = sck, sd, sm

    def ring(self, samples: int, block: int) -> Filled:
        """A ring of at least so many samples, which is filled until it is closed,
        or until its state machine is to fill another."""
        if self._sm in running:
            running[self._sm].close()
        return Filled(samples, block, self.rate, self._sck, self._sd, self._sm)


class Filled(Ring):
    """The newest samples, by DMA. The time since the last look tells how often the ring has gone round."""

    count: int
    by_irq = True  # the program waits for samples; it does not read them

    def __init__(self, samples: int, block: int, rate: int, sck: int, sd: int, sm: int) -> None:
        import rp2
        from machine import Pin
        from uctypes import addressof

        self.block = block
        self.size: int = -(-samples // block) * block
        self._rate, self._sm = rate, sm
        data = room(self.size, block)
        self._data = memoryview(data)
        self._begin = array("I", (addressof(data),))
        self._count = self._at = 0
        self._fill, self._again = fill, again = channels(2)
        Pin(sd, Pin.IN)
        self._program = _program()
        machine = rp2.StateMachine(sm, self._program, freq=_STEPS * rate, sideset_base=Pin(sck), in_base=Pin(sd))
        # At the ring's end one channel starts the other, which gives it the ring's beginning again, and so starts it.
        control = again.pack_ctrl(inc_read=False, inc_write=False)
        again.config(read=self._begin, write=fill.registers[WRITE_AND_START:], count=1, ctrl=control)
        control = fill.pack_ctrl(size=1, inc_read=False, treq_sel=pace_of(sm), chain_to=again.channel)
        fill.config(read=machine, write=data, count=self.size, ctrl=control, trigger=True)
        running[sm] = self
        self._looked = ticks_ms()
        self._machine = machine
        machine.active(1)

    @property
    def count(self) -> int:
        """Number of samples received so far."""
        if self._machine is not None:
            size, now = self.size, ticks_ms()
            at = (size - self._fill.count) % size
            new = (at - self._at) % size
            passed = ticks_diff(now, self._looked) * self._rate // 1000
            self._count += new + (passed - new + size // 2) // size * size
            self._at, self._looked = at, now
        return self._count

    def close(self) -> None:
        """End the microphone's clock and DMA."""
        machine = self._machine
        if machine is None:
            return
        import rp2

        self._count = self.count
        self._machine = None
        machine.active(0)
        for dma in (self._fill, self._again):
            end(dma)
            dma.close()
        rp2.PIO(self._sm // 4).remove_program(self._program)
        if running.get(self._sm) is self:
            del running[self._sm]
