# models: small dense two big
# Where activations can live, and what happens when that place moves.
import gc
from array import array

import _mica


def fill(m):
    for i in range(64):
        m.input(0)[i] = i - 32


def run(m):
    m.begin()
    try:
        for step in m.steps:
            step()
    finally:
        m.end()
    return bytes(m.output(0))


m = _mica.load(small)
fill(m)
want = run(m)
print("static", m.arena is _mica.arena, len(m.arena) == _mica.info().arena_bytes)

need = m.info.arena_bytes + m.info.scratch_min
for what, arena in (
    ("Arena", _mica.Arena(need)),
    ("bytearray", bytearray(need + 31)),
    ("larger", bytearray(need + 1000)),
    ("array", array("i", [0] * (need // 4 + 8))),
    ("wrapped", _mica.Arena(bytearray(need + 31))),
):
    m = _mica.load(small, arena)
    fill(m)
    print(what, run(m) == want, m.arena.busy, m.arena is _mica.arena)
m = _mica.load(small, arena=_mica.Arena(need))
fill(m)
print("keyword", run(m) == want)

fails(_mica.load, small, _mica.Arena(need - 1))
fails(_mica.load, small, bytearray(0))
fails(_mica.load, small, bytearray(15))
fails(_mica.load, small, bytearray(need))
fails(_mica.load, small, bytes(need + 100))
fails(_mica.load, small, memoryview(bytearray(need + 100)))
fails(_mica.load, small, array("O", [None] * (need + 100)))
fails(_mica.load, small, 5000)
fails(_mica.load, small, "arena")
try:
    _mica.Arena()
except TypeError:
    print("TypeError")
fails(_mica.Arena, 0)
fails(_mica.Arena, -5)
fails(_mica.Arena, 1.5)
fails(_mica.Arena, bytes(100))
for huge in (1 << 28, 1 << 30, (1 << 31) - 1, 1 << 40, 1 << 62, 1 << 70):
    try:
        _mica.Arena(huge)
        print("no exception")
    except (MemoryError, OverflowError):
        pass

# A model that needs more than the static arena gets a block of its own, for good.
b = _mica.load(big)
print("big", b.arena is _mica.arena, len(b.arena) >= b.info.arena_bytes)
x = b.input(0)
x[0], x[65999] = 100, -100
b.begin()
b.steps[0]()
b.end()
print(b.output(0)[0], b.output(0)[65999])
del b, x
gc.collect()

# A file and an arena may not share memory.
block = _mica.Arena(len(small) + need)
memoryview(block)[: len(small)] = small
try:
    _mica.load(block, block)
    print("no exception")
except ValueError:
    print("overlap: ValueError")
del block

# One arena, models in turn: the outputs of the first end with the run of the second, its inputs not before.
shared = _mica.Arena(1024)
a = _mica.load(small, shared)
d = _mica.load(dense, shared)
fails(a.output, 0)
fill(a)
print("a", run(a) == want)
print("still there", bytes(a.output(0)) == want)
run(d)
fails(a.output, 0)
fails(a.read, 0)
print("d", len(d.output(0)))
fill(a)
print("a again", run(a) == want)
fails(d.output, 0)

# The same through one bytearray, which each model wraps by itself.
buffer = bytearray(1024)
a = _mica.load(small, buffer)
d = _mica.load(dense, buffer)
fill(a)
print("a", run(a) == want)
run(d)
fails(a.output, 0)
print("d", len(d.output(0)))

# A run that did not reach the end has no outputs.
fill(a)
a.begin()
a.steps[0]()
a.end()
fails(a.output, 0)

# A bytearray that is extended between two runs moves: an exception, no write into memory that was freed.
buffer = bytearray(need + 31)
wall = [bytearray(16) for _ in range(20)]  # so that it cannot grow where it is
a = _mica.load(small, buffer)
fill(a)
print("before", run(a) == want)
buffer.extend(bytes(20000))
fails(a.begin)
fails(a.steps[0])
fails(a.input, 0)
fails(a.output, 0)
fails(a.tensor_data, 0)
fails(a.tensor_view, 0)
fails(a.write, 0, bytes(64))
print("facts remain", a.tensor(0).nbytes, a.info.n_steps)
a = _mica.load(small, buffer)
fill(a)
print("loaded again", run(a) == want)

# Extended in mid-run, by a hook between two layers.
buffer = bytearray(need + 31)
wall.extend([bytearray(16) for _ in range(20)])
a = _mica.load(small, buffer)
fill(a)


def run_and_extend():
    a.begin()
    try:
        for i, step in enumerate(a.steps):
            step()
            if i == 1:
                buffer.extend(bytes(20000))
    finally:
        a.end()


fails(run_and_extend)
a = _mica.load(small, buffer)
fill(a)
print("free again", a.arena.busy, run(a) == want)

# Shrunk in place.
buffer = bytearray(need + 31)
a = _mica.load(small, buffer)
fill(a)
print("whole", run(a) == want)
buffer[100:] = b""
fails(a.begin)
buffer[:] = b""
fails(a.begin)
fails(a.steps[1])
a.end()

# Whatever a caller writes into his buffer, only numbers change.
buffer = bytearray(need + 31)
a = _mica.load(small, buffer)
for value in (0x00, 0xFF, 0x41):
    for i in range(len(buffer)):
        buffer[i] = value
    run(a)
fill(a)
print("overwritten", run(a) == want)
