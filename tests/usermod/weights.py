# models: small dense by_rows lent
# Copies of constants in RAM: the bytes of every answer stay, memory comes back,
# and what fails leaves the layer in flash.
import gc
from binascii import crc32

import _mica
import mica
from mica.supervisor import Supervisor


def answers(m, x):
    m.predict_into([mica.Quantised(x)], [None])
    return crc32(m.output())


def held(data, weights):
    m = mica.Model(data, weights=weights)
    return m, m._m.held or 0


def compare(name, data):
    plain = mica.Model(data)
    copied, n = held(data, 1 << 20)
    print(name, n > 0, copied.ram - plain.ram == n)
    x = bytearray(len(plain.input()))
    for i in range(len(x)):
        x[i] = (7 * i + 3) & 255
    for _ in range(3):  # of a state, too
        assert answers(copied, x) == answers(plain, x)
    copied.deinit()


for name, data in (("small", small), ("dense", dense), ("rows", by_rows), ("lent", lent)):
    compare(name, data)

# A budget is kept: the steps that fit are copied, the others are not.
sizes = []
for most in (0, 100, 200, 400, 100000):
    m, n = held(small, most)
    sizes.append(n)
    assert n <= most
    m.deinit()
print("more for more", sizes == sorted(sizes), sizes[0])
fails(mica.Model, small, weights=-1)
fails(mica.Model, small, weights="all")
# "auto" copies nothing of a file that lies in RAM.
print("in RAM", held(small, "auto")[1])

# A step is copied once; its number is checked.
m = _mica.load(small, missing_kernels=True)
print("twice", m.hold(0) > 0, m.hold(0), m.held > 0)
fails(m.hold, 99)
m.deinit()
fails(m.hold, 0)

# What changes a copy changes answers; rearm() makes it again, as a Supervisor does with a model that it was given.
m, n = held(small, 100000)
x = bytes(range(64))
want = answers(m, x)
m._m.rearm()
print("again", answers(m, x) == want)
m.deinit()

s = Supervisor(small, weights=100000)
n = s.model._m.held
s.predict([mica.Quantised(x)])
print("supervised", crc32(s.output()) == want, s._sources[0].load(None)._m.held == n > 0)
s.deinit()

# No room: the layers read flash, and the answer is right.
m = mica.Model(small)
gc.collect()
hold = m._m.hold


class Full:
    # The model's own methods, but each allocation fails.
    def __getattr__(self, name):
        return getattr(m._m, name)

    def hold(self, i):
        raise MemoryError


from mica.weights import hold as copy

copy(Full(), 100000)
print("no room", m._m.held, answers(m, x) == want)
