# models: golden golden_state dense small
# Faults put into a supervised model: what is noticed, what is done about it, and what is counted.
import gc
from array import array

import mica
import mica.supervisor as module


def counts(s):
    # A list: in which order a dict is printed is a port's affair.
    print([(k, v) for k, v in sorted(s.counts.items()) if v], "spare" if s.on_spare else "model")


def loose(data):
    block = mica.Arena(len(data))
    memoryview(block)[:] = data
    return block


class Raise:
    # Takes the place of a layer, and raises the next n times.
    def __init__(self, step, n):
        self.step = step
        self.n = n

    def __call__(self):
        if self.n:
            self.n -= 1
            raise OSError(5)
        self.step()


def with_step(i, make):
    def setup(model):
        steps = list(model._steps)
        steps[i] = make(steps[i])
        model._steps = tuple(steps)

    return setup


x = bytes(i * 37 & 255 for i in range(64))
want = mica.Model(golden).predict([mica.Quantised(x)])

# Nothing wrong: as a Model, over many runs; the heap stays as it is.
fed = [0]


def feed():
    fed[0] += 1


s = mica.Supervisor(golden, spare=golden, feed=feed)
fed[0] = 0
print(s.predict([mica.Quantised(x)]) == want, fed)
s.input(0)[:] = array("b", x)
s.run()
print(bytes(s.output(0)) != b"", s)
grown = []
for _ in range(5):
    gc.collect()
    before = gc.mem_alloc()
    for _ in range(200):
        s.predict([mica.Quantised(x)])
    gc.collect()
    grown.append(gc.mem_alloc() - before)
# What is lost is lost each time; a word that looks like an address keeps a block, once
print(min(grown) < 512 or grown)
counts(s)
fails(s.predict, [])
fails(s.predict, [[1, 2]])
s.model._m.begin()
fails(s.predict, [x])
s.model._m.end()
counts(s)

# A layer that raises: once is mended by a retry; always goes to the spare; and the spare fails too.
one = Raise(None, 0)


def once(step):
    one.step = step
    return one


s = mica.Supervisor(golden, setup=with_step(2, once))
one.n = 1
print(s.predict([mica.Quantised(x)]) == want, [e[1:] for e in s.events])
one.n = 99
s._retries = 2
fails(s.predict, [x])
counts(s)
one.n = 0
print(s.predict([mica.Quantised(x)]) == want)
seen = []
s = mica.Supervisor(golden, small, setup=with_step(1, lambda f: Raise(f, 99)), on_event=lambda k, d: seen.append(k))
fails(s.predict, [x])
print(seen)
counts(s)

# A flipped bit of a weight, in memory that cannot be read again: the spare takes over.
block = loose(golden)
s = mica.Supervisor(block, spare=small, check_every=2)
print(s.predict([mica.Quantised(x)]) == want)
memoryview(block)[len(golden) // 2] ^= 0x10
print(s.predict([mica.Quantised(x)]) == want, [e[1:] for e in s.events])
counts(s)
print(s.restore(), s.on_spare, s.predict([mica.Quantised(x)]) == want)
memoryview(block)[len(golden) // 2] ^= 0x10
print(s.restore(), s.on_spare, s.predict([mica.Quantised(x)]) == want)

# A model that is damaged before it is ever used.
s = mica.Supervisor(golden[:-20], spare=small)
print(s.predict([mica.Quantised(x)]) == want, s.on_spare)
fails(mica.Supervisor, golden[:-20])

# A layer that takes too long, by a clock of the test's.
clock = [0]
ms = [0]


def slow(step):
    def late():
        clock[0] += ms[0]
        step()

    return late


ms[0] = 0
module.ticks_ms = lambda: clock[0]
s = mica.Supervisor(golden, spare=small, timeout_ms=50, setup=with_step(3, slow))
ms[0] = 49
print(s.predict([mica.Quantised(x)]) == want, s.on_spare)
ms[0] = 51
fails(s.predict, [x])
counts(s)
ms[0] = 0
print(s.predict([mica.Quantised(x)]) == want)

# Somebody writes past the arena's end: before a run, and in one.
# In both places it is noticed, and what follows is right.
import uctypes

arena = mica.Arena(4096)
on = [False]
past = uctypes.bytearray_at(uctypes.addressof(memoryview(arena)) + 4096, 16)
m = mica.Model(golden, arena=arena)
print(arena.intact)
past[3] ^= 1
print(arena.intact)
fails(m.run)
fails(m.predict, [x])
m = mica.Model(golden, arena=arena)
print(arena.intact, m.predict([mica.Quantised(x)]) == want)


def scribble(step):
    def f():
        step()
        if on[0]:
            on[0] = False
            past[9] ^= 0x80

    return f


on[0] = False
s = mica.Supervisor(golden, arena=arena, setup=with_step(0, scribble))
past[0] ^= 1
print(s.predict([mica.Quantised(x)]) == want, [e[1] for e in s.events])
on[0] = True
print(s.predict([mica.Quantised(x)]) == want, [e[1] for e in s.events], arena.intact)
s = mica.Supervisor(m)
past[0] ^= 1
print(s.predict([mica.Quantised(x)]) == want, [e[1] for e in s.events], arena.intact)

# The state of a model that failed in mid-run is what it was before.
s = mica.Supervisor(golden_state, setup=with_step(1, once))
one.n = 0
for i in range(3):
    one.n = i & 1
    print(s.predict([[1, 2, 3, 4]]))
one.n = 99
fails(s.predict, [[50, 50, 50, 50]])
one.n = 0
print(s.predict([[1, 2, 3, 4]]))
s.reset()
print(s.predict([[1, 2, 3, 4]]))
counts(s)

# What cannot take the model's place is refused at once.
fails(mica.Supervisor, golden, spare=dense)
fails(mica.Supervisor, golden, retries=-1)
fails(mica.Supervisor, golden, tries=1)
with mica.Supervisor(golden) as s:
    pass
fails(s.model.run)
fails(s.predict, [[1, 2, 3, 4]])
print(s.counts["reload"], s.counts["exception"])
