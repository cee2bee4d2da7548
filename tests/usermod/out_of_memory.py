# models: golden_state small
# Memory that has run out when a run ends, or a hook is put on or taken off: the arena is free,
# and nothing is half done.
import micropython

import mica
from mica.selftest import selftest

if not hasattr(micropython, "heap_lock"):
    print("SKIP")
    raise SystemExit


def locked(f):
    # Raises what f raises, or returns what it returns, without a free byte of heap.
    micropython.heap_lock()
    try:
        return f()
    finally:
        micropython.heap_unlock()


# In a self-test: the state is what it was before, the arena is everybody's, and a Supervisor mends what it has to mend.
m = mica.Model(golden_state)
n = mica.Model(small)
m.predict([[1, 2, 3, 4]])
try:
    selftest(m, feed=micropython.heap_lock)
    print("no exception")
except MemoryError:
    micropython.heap_unlock()
    print("out of memory")
print(m.arena.busy, bytes(m._m.state), m.selftest())
n.run()
print(mica.Supervisor(golden_state).predict([[5, 6, 7, 8]]))
print(m.predict([[1, 2, 3, 4]]))

# put_state(): without memory; what does not fit is left alone.
kept = bytes(m._m.state)
m.reset()
locked(lambda: m._m.put_state(kept))
print(bytes(m._m.state) == kept)
m._m.put_state(None)
m._m.put_state(b"short")
m._m.put_state(5)
n._m.put_state(kept)
print(bytes(m._m.state) == kept)

# Hooks: one that could not be put on is not there, one that could not be taken off can be taken off later.
x = bytes(64)
calls = []


def note(name):
    return lambda layer: calls.append(name)


def run():
    calls.clear()
    n.predict([x])
    return calls


plain = n._steps
note_c = note("c")
try:
    locked(lambda: n.hook(0, after=note_c))
    print("no exception")
except MemoryError:
    print("not put on", run(), n._steps is plain)
a = n.hook(1, after=note("a"))
b = n.hook(0, after=note("b"))
for _ in range(2):
    try:
        locked(lambda: b.remove())
        print("no exception")
    except MemoryError:
        print("still there", run())
b.remove()
print(run())
b.remove()
a.remove()
print(run(), n._steps is plain)

# stop() and resume() take no memory.
n.start([x])
locked(lambda: n.stop())
print(n.arena.busy)
n.start([x])
while locked(lambda: n.resume(0)):
    pass
print(n.arena.busy, bytes(n.output()) == bytes(mica.Model(small).predict([x], raw=True)[0]))
