# Damaged files through the whole runtime: `good` with some bytes changed and the checksum made right, `rounds` times.
# Last line: files tried, loaded, runs.
import gc
from binascii import crc32

import mica

block = mica.Arena(len(good))
view = memoryview(block)
state = seed * 2654435761 + 12345 & 0x3FFFFFFF
loaded = runs = 0


def rnd(n):
    global state
    state = state * 1103515245 + 12345 & 0x3FFFFFFF
    return (state >> 12) % n


def put(at, v):
    for i in range(4):
        view[at + i] = v >> 8 * i & 255


for k in range(rounds):
    view[:] = good
    for _ in range(1 + rnd(3)):
        at = rnd(len(good)) if rnd(3) else rnd(1200)
        view[at] = rnd(256) if rnd(2) else view[at] ^ 1 << rnd(8)
    put(12, 0)
    put(12, crc32(view))
    try:
        m = mica.Model(block)
        loaded += 1
        repr(m)
        for i in range(len(m.input_shape)):
            t = m.input(i)
            if t:
                t[rnd(len(t))] = 0
        m.run()
        for i in range(len(m.output_shape)):
            m._m.read(i)
        if m._m.info.n_golden:
            m.selftest()
        runs += 1
        m.deinit()
    except (ValueError, MemoryError, IndexError, OverflowError, RuntimeError, TypeError):
        pass
    m = t = None
    if k % 16 == 0:
        gc.collect()
gc.collect()
print(rounds, loaded, runs)
