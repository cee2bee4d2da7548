# Records .5 s of an INMP441 microphone as .wav: SCK to pin 16, WS to 17, SD to 18, L/R to ground, 3.3 V.
# boards: UNIX RPI_PICO@emu
from array import array
from struct import pack
from time import sleep

from machine import I2S, Pin

from mica.audio import Ring
from mica.wav import Wav

RATE, SAMPLES = 16000, 8000  # mica record does the same from a computer, into folders named after labels
microphone = I2S(0, sck=Pin(16), ws=Pin(17), sd=Pin(18), mode=I2S.RX, bits=16, format=I2S.MONO, rate=RATE, ibuf=20000)
ring = Ring(microphone, SAMPLES)
while ring.count < RATE // 10 + SAMPLES:  # a tenth of a second for the microphone to wake up
    sleep(0.001)
ring.close()
x = array("h", bytes(2 * SAMPLES))
ring.copy(ring.count, x)
with open("clip.wav", "wb") as f:
    f.write(b"RIFF" + pack("<I", 36 + 2 * SAMPLES) + b"WAVEfmt " + pack("<IHHIIHH", 16, 1, 1, RATE, 2 * RATE, 2, 16))
    f.write(b"data" + pack("<I", 2 * SAMPLES))
    f.write(x)
clip = Wav("clip.wav")
print(clip.samples, "samples, loudest", max(x) > 2000)
#: 8000 samples, loudest True
