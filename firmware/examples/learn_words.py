# Learns three sounds: an INMP441 microphone, SCK to pin 16, WS to 17, SD to 18, L/R to ground, 3.3 V.
# boards: RPI_PICO@emu
from array import array

import mica
from mica.pio_i2s import Microphone

# mica pack net.onnx --embedding --frontend ... for words; for sounds as different as these logmel:... is enough.
m = mica.Model("sounds.mica")
h = mica.Learner(m, "softmax", path="words", fresh=True)
x = array("h", bytes(2 * 1600))
ring = Microphone(sck=16, ws=17, sd=18).ring(4096, 160)


def said(k):
    """Return a tenth of a second from the middle of the k-th half second."""
    end = 8000 * k + 5600
    while ring.count < end:
        pass
    ring.copy(end, x)
    return x


words = ("quiet", "low", "quiet", "high")
for k in range(8):
    h.teach([said(k)], words[k % 4])
h.fit()
for k in range(8, 12):
    print(h.closest([said(k)])[0])
ring.close()
#: quiet
#: low
#: quiet
#: high
