# Waits for one word: an INMP441 microphone, SCK to pin 16, WS 17, SD 18, L/R to ground; a LED at pin 15, 330 ohms.
# boards: UNIX RPI_PICO@emu
import asyncio
import sys

from machine import I2S, Pin

import mica
from mica.audio import listen
from mica.pio_i2s import Microphone  # of a PDM microphone: mica.pdm.Microphone(clk=3, data=2)

# Packed with --stream, or --window: a run takes the newest frame, and keeps what came before.
m = mica.Model("tones_rows.mica")
if sys.platform == "rp2":  # by PIO and DMA, which cost the processor nothing; I2S takes a fifth of a Pico's time
    microphone = Microphone(sck=16, ws=17, sd=18)
else:
    pins = {"sck": Pin(16), "ws": Pin(17), "sd": Pin(18)}
    microphone = I2S(0, **pins, mode=I2S.RX, bits=16, format=I2S.MONO, rate=16000, ibuf=20000)
led = Pin(15, Pin.OUT)


async def main():
    with listen(m, microphone, labels=["high"], threshold=0.8, mean=4, dead_ms=500, ms=1900) as words:
        async for event in words:
            # A problem: samples were lost, or the microphone gives always the same.
            print(event.problem or f"{event.label} at {event.ms} ms")
            led.value(event.problem is None)


asyncio.run(main())
#: high at ... ms
