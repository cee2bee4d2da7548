# models: small two state
# No file, however broken, crashes the board: it raises, and the interpreter lives on.
import gc
import struct
from binascii import crc32

import _mica

kinds = {}
ran = 0


def attempt(data):
    global ran
    try:
        m = _mica.load(bytes(data))
    except (ValueError, MemoryError) as e:
        assert len(str(e)) > 10, e
        kinds[type(e).__name__] = kinds.get(type(e).__name__, 0) + 1
        return False
    # Accepted: then it also runs, and tells about itself.
    m.begin()
    for step in m.steps:
        step()
    m.end()
    for i in range(m.info.n_tensors):
        m.tensor(i)
        m.tensor_data(i)
    for i in range(m.info.n_steps):
        m.step_info(i)
    m.meta("labels")
    repr(m)
    ran += 1
    return True


def with_crc(data):
    # The CRC counts its own four bytes as zeros.
    data[12:16] = bytes(4)
    data[12:16] = struct.pack("<I", crc32(data) & 0xFFFFFFFF)
    return data


seed = 12345


def random(n):
    global seed
    seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
    return (seed >> 8) % n


# Cut short: at every length of the header, then in steps.
for n in list(range(0, 200)) + list(range(200, len(small), 97)):
    assert not attempt(small[:n]), n
print("cut:", sorted(kinds))

# Random bytes, erased flash, zeros.
assert not attempt(b"\xff" * 4096)
assert not attempt(bytes(4096))
assert not attempt(b"MICA" + b"\xff" * 4092)
assert not attempt(small[:100] + b"\xff" * (len(small) - 100))
print("garbage: refused")

# One byte wrong: the CRC sees it.
for _ in range(100):
    data = bytearray(small)
    data[random(len(data))] ^= 1 << random(8)
    assert not attempt(data)
print("flipped: refused")

# The same with a CRC that was put right: refused or harmless, never a crash.
kinds = {}
for model in (small, two, state):
    for _ in range(150):
        data = bytearray(model)
        for _ in range(1 + random(3)):
            data[random(len(data))] = (0, 1, 0x7F, 0x80, 0xFF, random(256))[random(6)]
        attempt(with_crc(data))
    # Words at their edges, over tables and header.
    for at in range(16, min(len(model), 900), 20):
        for value in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(model)):
            data = bytearray(model)
            data[at : at + 4] = struct.pack("<I", value)
            attempt(with_crc(data))
    gc.collect()
print("resealed:", "ValueError" in kinds, ran > 0)

# Texts need not be UTF-8.
data = bytearray(small)
at = bytes(data).find(b"picture")
data[at : at + 7] = b"\xff\xc0\xe2pic\x80"
m = _mica.load(bytes(with_crc(data)))
print(m.tensor(0).name)

# A file that changes under a loaded model gives wrong numbers, and nothing worse.
block = _mica.Arena(len(small))
view = memoryview(block)
view[:] = small
m = _mica.load(block)
for value in (0x00, 0xFF, 0x80, 0x7F):
    for i in range(len(view)):
        view[i] = value
    m.begin()
    for step in m.steps:
        step()
    m.end()
    for i in range(7):
        try:
            m.tensor(i)
            m.tensor_data(i)
            m.step_info(i % 5)
            m.meta("name")
        except IndexError:
            pass
    try:
        m.output(0)
        m.read(0)
        m.inputs, m.outputs, m.info
        m.input(0)
    except IndexError:
        pass
print("overwritten: alive")

m = _mica.load(small)
m.begin()
for step in m.steps:
    step()
m.end()
print("still works:", len(m.output(0)))
