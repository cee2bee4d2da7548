# models: narrow5 narrow7
# Heads of embeddings that fill no whole word: the host's bytes (tests/host/test_learn.py), and back from them.
from binascii import crc32

import mica

for width, model in ((5, narrow5), (7, narrow7)):
    m = mica.Model(model)
    x = bytearray(width)
    inputs = [mica.Quantised(x)]
    for kind in ("prototype", "softmax", "anomaly"):
        h = mica.Learner(m, kind, None)
        for n in range(40):
            for i in range(width):
                x[i] = (n % 3 * 70 + i * 11 + n) & 255
            h.teach(inputs, ("a", "bcd", "ef")[n % 3])
        state = h.state()
        other = mica.Learner(m, kind, None)
        other.restore(state)
        same = other.state() == state and other.closest(inputs) == h.closest(inputs)
        print(width, kind, len(state), crc32(state), same)
