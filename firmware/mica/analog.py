"""An analogue pin as a source of samples for mica.audio.listen: a vibration sensor, or a microphone with an amplifier.
For the RP2040 and RP2350.

The converter takes a sample every 1 / rate seconds, and DMA puts it into a ring, whatever the processor does meanwhile.
So it has to be ended, by `with` or deinit(): over a soft reset it would go on,
and write into memory that is others' then, but for mica's _boot.py, which ends it.
"""

from array import array

# Of each chip: where the registers CS, FCS, FIFO, DIV are; the converter's DREQ;
# samples that DMA counts (on an RP2040 a month at 1,000 a second;
# an RP2350 then begins again by itself, which is its mode 1); that mode.
_CHIPS = {"RP2040": (0x4004C000, 36, 0xFFFFFFFF, 0), "RP2350": (0x400A0000, 48, 1 << 27, 1 << 28)}
_FIRST = 26  # the pin of channel 0
_CLOCK = 48_000_000


class Analog:
    """int16 samples around the middle of the range. rate: 733 to 100,000 a second;
    ring: samples that may wait, a power of two up to 16,384."""

    def __init__(self, pin: int, rate: int, ring: int = 1024) -> None:
        import rp2
        import uctypes
        from machine import ADC, Pin, mem32

        if not 733 <= rate <= 100_000:
            raise ValueError(f"rate is {rate}; 733 to 100000 is expected")
        bits = 5  # of the ring's bytes
        while 1 << bits < 2 * ring:
            bits += 1
        if 1 << bits != 2 * ring or bits > 15:
            raise ValueError(f"ring is {ring}; a power of two from 16 to 16384 is expected")
        chip = _machine().split()[-1]
        if chip not in _CHIPS:
            raise OSError("mica.analog is for the RP2040 and RP2350")
        self._adc, request, self._most, mode = _CHIPS[chip]
        adc = self._adc
        self.rate = rate
        self._mem = mem32
        ADC(Pin(pin))
        data = memoryview(array("H", bytes(4 * ring)))
        # DMA counts round in a ring that begins at a multiple of its size.
        begin = -uctypes.addressof(data) % (2 * ring) // 2
        self._data = data[begin : begin + ring]
        self._size, self._taken = ring, 0
        self._dma = dma = rp2.DMA()
        mem32[adc + 8] = 1 << 24 | 1 << 3 | 1
        while not mem32[adc + 8] & 1 << 8:  # samples of before
            mem32[adc + 12]
        mem32[adc + 16] = (_CLOCK * 256 // rate) - 256
        control = dma.pack_ctrl(size=1, inc_read=False, ring_sel=True, ring_size=bits, treq_sel=request, irq_quiet=True)
        dma.config(read=adc + 12, write=self._data, count=mode | self._most, ctrl=control, trigger=True)
        mem32[adc] = (pin - _FIRST) << 12 | 1 << 3 | 1

    def readinto(self, buffer: Any) -> int | None:
        """Fill an array of int16 with samples; return how many bytes, None where there are none yet."""
        there = (self._most - self._dma.count - self._taken) % self._most
        size, data = self._size, self._data
        if there > size:
            error = OSError(f"overrun: {there} samples were lost; take a larger ring, or a smaller model")
            self._taken += there
            raise error
        n = min(there, len(buffer))
        at = self._taken % size
        for i in range(n):
            buffer[i] = (data[at] - 2048) << 4
            at += 1
            if at == size:
                at = 0
        got = 2 * n if n else None
        self._taken += n  # last: what is broken off before is given again
        return got

    def deinit(self) -> None:
        dma = self._dma
        self._mem[self._adc] = 1
        dma.ctrl = dma.pack_ctrl(enable=False)  # or an RP2350 starts it again where it is ended (erratum E5)
        dma.active(0)  # close() leaves it running
        self._mem[self._adc + 8] = 0
        dma.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        self.deinit()


def _machine():
    import sys

    return sys.implementation._machine
