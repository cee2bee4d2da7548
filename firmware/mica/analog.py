"""An analogue pin as a source of samples for mica.audio.listen: a vibration sensor, or a microphone with an amplifier. For the RP2040.

The converter takes a sample every 1 / rate seconds, and DMA puts it into a ring, whatever the processor does meanwhile. So it has to be ended, by `with` or
deinit(): over a soft reset it would go on, and write into memory that is others' then, but for mica's _boot.py, which ends it.
"""

from array import array

_ADC = 0x4004C000  # its registers: CS, FCS, FIFO, DIV
_FIRST = 26  # the pin of channel 0
_DREQ = 36
_CLOCK = 48_000_000
_MOST = 0xFFFFFFFF  # samples, a month at 1,000 a second


class Analog:
    """int16 samples around the middle of the range. rate: 733 to 100,000 a second; ring: samples that may wait, a power of two up to 16,384."""

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
        if "RP2040" not in _machine():
            raise OSError("mica.analog is for the RP2040")
        self.rate = rate
        self._mem = mem32
        ADC(Pin(pin))
        data = memoryview(array("H", bytes(4 * ring)))
        # DMA counts round in a ring that begins at a multiple of its size.
        begin = -uctypes.addressof(data) % (2 * ring) // 2
        self._data = data[begin : begin + ring]
        self._size, self._taken = ring, 0
        self._dma = dma = rp2.DMA()
        mem32[_ADC + 8] = 1 << 24 | 1 << 3 | 1
        while not mem32[_ADC + 8] & 1 << 8:  # samples of before
            mem32[_ADC + 12]
        mem32[_ADC + 16] = (_CLOCK * 256 // rate) - 256
        control = dma.pack_ctrl(size=1, inc_read=False, ring_sel=True, ring_size=bits, treq_sel=_DREQ, irq_quiet=True)
        dma.config(read=_ADC + 12, write=self._data, count=_MOST, ctrl=control, trigger=True)
        mem32[_ADC] = (pin - _FIRST) << 12 | 1 << 3 | 1

    def readinto(self, buffer: Any) -> int | None:
        """Fill an array of int16 with samples; return how many bytes, None where there are none yet."""
        there = _MOST - self._dma.count - self._taken
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
        self._mem[_ADC] = 1
        self._dma.active(0)  # close() leaves it running
        self._mem[_ADC + 8] = 0
        self._dma.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        self.deinit()


def _machine():
    import sys

    return sys.implementation._machine
