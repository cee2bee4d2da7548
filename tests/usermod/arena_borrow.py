# models: lent small
# heap: 160000
# The static arena as scratch of a model that is larger: only in its runs,
# and only while no other model's tensors lie there.
import gc
from binascii import crc32

import _mica

static = _mica.arena
x = _mica.Quantised(lent_x)


def run(m):
    m.begin()
    try:
        borrowed = static.busy
        for step in m.steps:
            step()
    finally:
        m.end()
    return borrowed, crc32(m.output(0)), static.busy


def loaded():
    m = _mica.load(lent)
    m.write(0, x)
    return m


m = loaded()
need = m.info.arena_bytes + m.info.scratch_min
print("least", m.arena is static, len(m.arena) == need, static.busy)
print(run(m))
m.steps[0]()  # outside of a run: with its own scratch
print(crc32(m.output(0)), static.busy)

# A model that would fit gets a block of its own: the static arena is somebody's scratch.
s = _mica.load(small)
print("small", s.arena is static)
s.deinit()

# Whose tensors lie in the static arena keeps inputs and outputs, whoever runs.
s = _mica.load(small, static)
s.write(0, _mica.Quantised(bytes(range(64))))
print("own", run(m))
want = run(s)[1:]
for i in range(64):
    s.input(0)[i] = i
print("own", run(m))
print(run(s)[1:] == want)
print("own", run(m), bytes(s.output(0))[:1] != b"", crc32(s.output(0)) == want[0])
s.deinit()
print("again", run(m))

# In the middle of a run of another: slower, the same bytes; whoever has the static arena keeps it.
n = loaded()
print("two", len(n.arena) == need)
m.begin()
print("own", run(n), static.busy)
s = _mica.load(small, static)
fails(s.begin)
s.deinit()
m.steps[0]()
m.end()
print(crc32(m.output(0)), static.busy)

# A run of a model that is lost.
n.begin()
print(static.busy)
fails(n.deinit)
n.__del__()  # what the collector calls
print(static.busy, run(m))
n.end()
n.deinit()
m.deinit()
m = n = None

for _ in range(20):
    loaded()
    gc.collect()
print("static", _mica.load(small).arena is static)
