# Recognises words from an I2S microphone, an INMP441: SCK to pin 16, WS to 17, SD to 18, L/R to ground, 3.3 V.
# boards: UNIX
import asyncio

from machine import I2S, Pin

import mica
from mica.audio import listen

m = mica.Model("tones.mica")
# On an RP2040 or RP2350 take mica.pio_i2s.Microphone(sck=16, ws=17, sd=18) instead,
# as wake_word.py does: it costs no time.
microphone = I2S(0, sck=Pin(16), ws=Pin(17), sd=Pin(18), mode=I2S.RX, bits=16, format=I2S.MONO, rate=16000, ibuf=20000)


async def main():
    # The microphone has 24 bits in 32; with bits=16 I2S gives the upper 16, which are what the model takes.
    with listen(m, microphone, threshold=0.8, mean=2, step=400) as words:
        try:
            async for event in words:
                print(event.label or event.problem, "at", event.ms, "ms")
        except OSError as e:  # nothing comes any more
            print(e)
        print("busy", words.used < 1)


asyncio.run(main())
#: low at ... ms
#: high at ... ms
#: the source gives no samples: is its clock running?
#: busy True
