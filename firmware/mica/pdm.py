"""A PDM microphone, as most boards carry one, on an RP2040 or RP2350.

    microphone = mica.pdm.Microphone(clk=3, data=2)
    with mica.audio.listen(model, microphone) as words: ...

A state machine of PIO makes the clock and takes the bits, 64 of a sample; DMA puts them into a small ring. Every 16 ms
an interrupt makes 256 samples of them, also while a model runs: a filter in C. Both take 4 % of a Pico's time.
"""

from array import array
from time import ticks_diff, ticks_ms

from _mica import pdm as filtered

from mica.audio import room
from mica.pio_i2s import WRITE_AND_START, Filled, channels, pace_of, running

_STEPS = 2  # of the state machine for a bit
_SOME = 256  # samples that an interrupt makes
_BLOCKS = 4  # of bits, which the ring has
_MOST = 0xFFFFFF  # of the filter's count


def _program():
    """A bit. The microphone sends it while CLK is low (L/R at ground); it is taken where CLK rises.
    The first bit is the lowest."""
    import rp2

    @rp2.asm_pio(sideset_init=rp2.PIO.OUT_LOW, in_shiftdir=rp2.PIO.SHIFT_RIGHT, autopush=True, push_thresh=32)
    def bits():
        # fmt: off
        in_(pins, 1) .side(1)
        nop()        .side(0)
        # fmt: on

    return bits


class Microphone:
    """A source for listen(). clk, data: pins, by number or name. sm: a free state machine, 0 to 7.

    ratio: bits of a sample, 64, 128 or 256: rate * ratio is the microphone's clock, of which most want 1 to 3.2 MHz.
    gain: 1 to 64; of 1, the microphone's full scale is that of the samples.
    """

    def __init__(
        self, clk: int | str, data: int | str, rate: int = 16000, sm: int = 7, ratio: int = 64, gain: int = 1
    ) -> None:
        if not 0 <= sm <= 7:
            raise ValueError(f"sm is {sm}; 0 to 7 is expected")
        self.rate = rate
        self._pins, self._sm, self._ratio, self._gain = (clk, data), sm, ratio, gain
        filtered(ratio, gain)  # raises ValueError

    def ring(self, samples: int, block: int) -> Filtered:
        """A ring of at least so many samples, which is filled until it is closed,
        or until its state machine is to fill another."""
        if self._sm in running:
            running[self._sm].close()
        return Filtered(samples, block, self.rate, self._pins, self._sm, self._ratio, self._gain)


class Filtered(Filled):
    """The newest samples, by an interrupt. If interrupts are off for longer than the ring of bits,
    count goes on by a ring of samples."""

    count: int

    def __init__(
        self, samples: int, block: int, rate: int, pins: tuple[int | str, int | str], sm: int, ratio: int, gain: int
    ) -> None:
        import rp2
        from machine import Pin
        from uctypes import addressof

        self.block = block
        self.size: int = (1 - -samples // _SOME) * _SOME
        self._rate, self._sm = rate, sm
        self._data = memoryview(room(self.size, _SOME))
        self._filter = filtered(ratio, gain)
        words = _SOME * ratio // 32
        self._bits = array("I", bytes(4 * words * _BLOCKS))
        first = addressof(self._bits)
        # At a multiple of 16, as all on the heap.
        self._begins = array("I", [first + 4 * words * k for k in range(_BLOCKS)])
        self._made = self._seen = self._count = 0  # samples: by the filter, at the last look, and in all
        self._fill, self._again = fill, again = channels(2)
        clk, data = Pin(pins[0]), Pin(pins[1], Pin.IN)
        self._program = _program()
        machine = rp2.StateMachine(sm, self._program, freq=_STEPS * ratio * rate, sideset_base=clk, in_base=data)
        # At a block's end one channel starts the other, which gives it the beginning of the next of four,
        # and so starts it.
        control = again.pack_ctrl(inc_write=False, ring_sel=False, ring_size=4)
        again.config(read=self._begins, write=fill.registers[WRITE_AND_START:], count=1, ctrl=control)
        control = fill.pack_ctrl(inc_read=False, irq_quiet=False, treq_sel=pace_of(sm), chain_to=again.channel)
        fill.config(read=machine, count=words, ctrl=control)
        fill.irq(self._filled, hard=True)
        again.active(1)
        running[sm] = self
        self._looked = ticks_ms()
        self._machine = machine
        machine.active(1)

    def _filled(self, fill):
        """Filter what has come. It allocates nothing, and does little: each line takes 20 microseconds."""
        self._made = filtered(self._filter, self._bits, self._data, fill.write)

    @property
    def count(self) -> int:
        """Number of samples received so far."""
        made, now = self._made, ticks_ms()
        new = (made - self._seen) & _MOST
        due = ticks_diff(now, self._looked) * self._rate // 1000
        if self._machine is not None and due - new > _SOME * _BLOCKS // 2:
            self._count += self.size  # listen() then tells that samples were lost
        self._seen, self._looked = made, now
        self._count += new
        return self._count
