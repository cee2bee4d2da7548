# models: small two
# What a model can be loaded from, what is copied, and what it says about itself.
import gc

import _mica
from array import array


def kind(f, *args, **kw):
    # for texts that are MicroPython's, not ours
    try:
        f(*args, **kw)
        print("no exception")
    except Exception as e:
        print(type(e).__name__)


def shifted(data, n):
    # n bytes into a block: a misaligned base unless n is a multiple of 16
    return memoryview(bytes(n) + data)[n:]



def run(m):
    m.begin()
    try:
        for i in range(64):
            m.input(0)[i] = i - 32
        for step in m.steps:
            step()
    finally:
        m.end()
    return bytes(m.output(0))


m = _mica.load(small)
want = run(m)
print("bytes", m.copied, m)
for what, source in (
    ("memoryview", memoryview(small)),
    ("16 in", shifted(small, 16)),
    ("1 in", shifted(small, 1)),
    ("4 in", shifted(small, 4)),
    ("bytearray", bytearray(small)),
    ("array", array("b", small)),
    ("longer", small + bytes(100)),
):
    m = _mica.load(source)
    print(what, m.copied, m.info.file_bytes == len(small), run(m) == want)

# A copy is our own: what happens to the source is of no concern.
source = bytearray(small)
m = _mica.load(source)
for i in range(len(source)):
    source[i] = 0xFF
source.extend(bytes(10000))
gc.collect()
print("overwritten source", run(m) == want)

# An Arena never moves, so a file that was received into one stays there.
block = _mica.Arena(len(small))
memoryview(block)[:] = small
m = _mica.load(block)
del block
gc.collect()
print("Arena", m.copied, run(m) == want)

# The only reference to the bytes is the model's.
m = _mica.load(bytes(bytearray(small)))
gc.collect()
junk = [bytearray(64) for _ in range(300)]
for j in junk:
    j[:] = b"\xaa" * 64
print("kept alive", run(m) == want)
del junk

m = _mica.load(memoryview(bytes(bytearray(16) + small))[16:])
gc.collect()
junk = [b"\xaa" * 64 for _ in range(300)]
print("kept alive by a view", m.copied, run(m) == want)
del junk

print(m.tensor(0))
print(m.tensor(m.outputs[0]))
print(m.step_info(0))
print(m.step_info(4).kernel, m.step_info(4).inputs, m.step_info(4).outputs)
print(m.info.version, m.info.n_steps, m.info.n_inputs, m.info.n_outputs, m.info.arena_bytes, m.info.scratch_min)
print(m.meta("name"), m.meta("labels").split("\n")[9], m.meta("nothing"), m.inputs, m.outputs)
print(len(m.steps), m.steps[1], len(m.tensor_data(0)), len(m.tensor_view(1)))

kind(_mica.load)
fails(_mica.load, "model.mica")
kind(_mica.load, None)
kind(_mica.load, 5)
kind(_mica.load, [1, 2, 3])
kind(_mica.load, small, None, None)
kind(_mica.load, small, wrong=1)
for i in (-1, 7, 1 << 20):
    fails(m.tensor, i)
    fails(m.tensor_data, i)
    fails(m.tensor_view, i)
    fails(m.step_info, i)
    fails(m.input, i)
    fails(m.output, i)
kind(m.tensor, 1 << 70)
kind(m.tensor, "x")
kind(m.meta, 3)
kind(m.steps[0], 1)
kind(m.steps[0], a=1)
try:
    m.copied = True
except AttributeError:
    print("AttributeError")
try:
    m.tensor_view(0)[0] = 1
    print("written")
except TypeError:
    print("tensor_view is read only")

# Two inputs, two outputs.
m = _mica.load(two)
print(m.inputs, m.outputs, m.tensor(m.inputs[1]).shape, m.meta("name"))

# Methods of the class with something else in place of the model.
for f in (_mica.Model.begin, _mica.Model.end, _mica.Model.deinit):
    kind(f, 5)
    kind(f, _mica.Arena(64))
kind(_mica.Model.input, "x", 0)
kind(_mica.Model)

# Closed models say so, and closing twice is fine.
steps = m.steps
m.deinit()
m.deinit()
fails(steps[0])
fails(m.begin)
fails(m.input, 0)
fails(m.tensor, 0)
fails(lambda: m.info)
print(m.end(), m)

# Loading again and again leaves nothing behind.
for _ in range(5):
    _mica.load(small)
gc.collect()
free = gc.mem_free()
for _ in range(200):
    _mica.load(small)
gc.collect()
print("leaks", free - gc.mem_free() > 2000)
