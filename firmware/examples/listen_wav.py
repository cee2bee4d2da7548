# Recognises words in a file of sound: the same loop as with a microphone (listen_i2s.py).
# boards: UNIX
import mica
from mica.audio import listen
from mica.wav import Wav

m = mica.Model("tones.mica")
sound = Wav("tones.wav")
print(sound.samples / sound.rate, "seconds")
for event in listen(m, sound, threshold=0.8, mean=2, step=400):
    print(event.label or event.problem, "at", event.ms, "ms")
sound.close()
#: 2.0 seconds
#: low at ... ms
#: high at ... ms
