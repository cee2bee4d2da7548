# Checks a model on the board before it is trusted: golden vectors, layer by layer, and a flipped bit that is found.
# boards: UNIX MPS2_AN385
import os

import mica

# In writable memory, so that it can be damaged: 32 bytes into the weights of a layer.
with open("digits.mica" if "digits.mica" in os.listdir() else "/rom/digits.mica", "rb") as f:
    data = f.read()
block = mica.Arena(len(data))
memoryview(block)[:] = data

m = mica.Model(block)
print("sound:", m.selftest() is None)
memoryview(block)[len(data) // 2] ^= 0x40
print("first bad layer:", m.selftest().name)
#: sound: True
#: first bad layer: ...
