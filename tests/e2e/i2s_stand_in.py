"""machine.I2S and machine.Pin for boards that have none: the samples of tones.wav, as an INMP441 gives them.

Time goes by while somebody sleeps, and then alone, so a busy computer loses no samples.
"""

import asyncio
import sys
import time
from array import array

_waiting = []  # microphones whose handler is due


class Pin:
    OUT = 1

    def __init__(self, number, mode=None):
        pass

    def value(self, x):
        pass


class I2S:
    RX, MONO, STEREO = range(3)

    def __init__(self, number, *, sck, ws, sd, mode, bits, format, rate, ibuf):
        from mica.wav import Wav

        assert (mode, format, rate) == (I2S.RX, I2S.MONO, 16000)
        self._file, self._bits, self._handler, self._left = Wav("tones.wav"), bits, None, 0

    def irq(self, handler):
        self._handler = handler
        if handler:
            _waiting.append(self)

    def readinto(self, buffer):
        """Without waiting, as when irq() has been called: the handler comes later."""
        n = len(buffer) // (self._bits // 16)
        samples = array("h", bytes(2 * n))
        if self._file.readinto(samples) < 2 * n:
            _waiting.remove(self)
        for i in range(n):
            buffer[i if self._bits == 16 else 2 * i + 1] = samples[i]
        self._left += n
        return 0

    def passed(self, samples):
        self._left -= samples
        if self._left <= 0 and self._handler:
            self._handler(self)


class machine:
    pass


class clock:
    pass


def pass_by(ms):
    for microphone in list(_waiting):
        microphone.passed(16 * ms)


async def sleep_ms(ms, really=asyncio.sleep_ms):
    pass_by(ms)
    await really(0)


for name in dir(time):
    setattr(clock, name, getattr(time, name))
clock.sleep_ms = pass_by
clock.sleep = lambda s: pass_by(round(1000 * s))
asyncio.sleep_ms = sleep_ms
machine.I2S, machine.Pin = I2S, Pin
sys.modules["machine"], sys.modules["time"] = machine, clock
