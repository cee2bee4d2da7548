# models: fed small fed_spare by_rows
# The input is a buffer of the caller's, or a function: the model fetches rows as it needs them, and keeps no tensor.
import gc
from array import array

import mica
from mica import hooks

m = mica.Model(fed)
whole = mica.Model(small)
print(m._m.info.arena_bytes, whole._m.info.arena_bytes, m._m.fed, whole._m.fed, m._m.source)
fails(m.input)
fails(m.run)
print(m.arena.busy, m.selftest())


def same(y):
    return bytes(y[0]) == fed_y


print("bytes", same(m.predict([mica.Quantised(fed_x)], raw=True)), bytes(m._m.source) == fed_x, m.arena.busy)
frame = array("f", [(q - 256 if q > 127 else q) / 16 + 8 for q in fed_x])  # as 1/16 * (q + 128)
print("floats", same(m.predict([frame], raw=True)), same(m.predict({"picture": mica.Quantised(bytearray(fed_x))},
                                                                   raw=True)))
whole_y = whole.predict([frame], raw=True)
print("as whole", bytes(whole_y[0]) == fed_y)
ones = bytes(whole.predict([[1] * 64], raw=True)[0])
print("ints", [bytes(m.predict([x], raw=True)[0]) == ones for x in (array("h", [1] * 64), array("B", [1] * 64),
                                                                    bytearray([1] * 64))])
fails(m.predict, [array("b", [1] * 64)])

# A function, which knows nothing of the model.
asked = []


def sensor(begin, end, rows):
    asked.append((begin, end, len(rows)))
    rows[:] = memoryview(fed_x)[begin * 8 : end * 8]


print("function", same(m.predict([sensor], raw=True)), asked)
m.run()
print("again", bytes(m.output()) == fed_y, len(asked))
print("readinto", same(m.predict([lambda begin, end, rows: sensor(begin, end, rows) or len(rows)], raw=True)))

# What is wrong is said, and the next run is right.
fails(m.predict, [fed_x[:-1]])
fails(m.predict, [mica.Quantised(fed_x[:-1])])
fails(m.predict, [array("f", [0] * 63)])
fails(m.predict, [[0] * 64])
fails(m.predict, ["picture"])
fails(m.predict, [None])
print("kept", same(m.predict([mica.Quantised(fed_x)], raw=True)))


def broken(begin, end, rows):
    if begin == 4:
        raise OSError("sensor")


fails(m.predict, [broken])
print("free", m.arena.busy, same(m.predict([mica.Quantised(fed_x)], raw=True)))
fails(m.predict, [lambda begin, end, rows: 3])
fails(m.predict, [lambda begin, end, rows: 0])
fails(m.predict, [lambda begin, end, rows: "all"])
try:
    m.predict([lambda begin, end: None])
except TypeError:  # whose words are each port's own
    print("TypeError")
fails(m.output)
print("free", m.arena.busy, same(m.predict([mica.Quantised(fed_x)], raw=True)))
fails(m.predict, [lambda begin, end, rows: m.run()])
fails(m.predict, [lambda begin, end, rows: m.deinit()])
fails(m.predict, [array("f", [float("nan")] * 64)])
shrinking = bytearray(fed_x)


def shrink(layer):
    shrinking[:] = b""


with m.hook("dw", before=shrink):
    fails(m.predict, [shrinking])
print("free", m.arena.busy, same(m.predict([mica.Quantised(fed_x)], raw=True)))

# In pieces, with hooks, in MicroPython.
for us in (0, 30, 10**6):
    m.start([sensor])
    while m.resume(us):
        pass
    print(us, bytes(m.output()) == fed_y, end="; ")
m.start([broken])
try:
    while m.resume(0):
        pass
except OSError as e:
    print("ended:", e, m.arena.busy)
m.start([sensor])
m.resume(0)
m.stop()
whole.input()[:] = fed_x
with hooks.tap(whole) as other:
    whole.run()
with hooks.tap(m) as seen:
    print("hooked", same(m.predict([mica.Quantised(fed_x)], raw=True)), [seen[i] == other[i] for i in range(5)])
ins = []
with m.hook("/conv", before=lambda layer: ins.append(bytes(layer.input()))):
    m.run()
print("rows read", ins[0] == fed_x[:16], ins[3] == fed_x[16:40], ins[7] == fed_x[48:], len(ins))
p = m.profile(1, [mica.Quantised(fed_x)])
print(len(p.us), p.total > 0)

# A buffer for an arena that the function moves.
memory = bytearray(4096)
behind = bytearray(4096)  # so that it cannot grow where it is
m = mica.Model(fed, arena=memory)


def grow(begin, end, rows):
    if begin == 5:
        memory.extend(bytes(12000))


fails(m.predict, [grow])

# Rows of a buffer take no memory.
def allocated(m, x):
    m.predict([x])
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    m.run()
    taken = gc.mem_alloc() - before
    gc.enable()
    return taken


m = mica.Model(fed)
allocated(m, mica.Quantised(fed_x))
print("no more than by rows", allocated(m, frame) == allocated(mica.Model(by_rows), mica.Quantised(fed_x)))

# Supervised: a run that is made again asks again.
s = mica.Supervisor(fed)
print("supervised", same(s.predict([sensor], raw=True)), s.counts["retry"])
times = [0]


def once(begin, end, rows):
    times[0] += 1
    if times[0] == 3:
        raise OSError("once")
    sensor(begin, end, rows)


print("made again", same(s.predict([once], raw=True)), s.counts["retry"], s.counts["failed"])
s.run()
print("run", bytes(s.output()) == fed_y)
fails(s.predict, [fed_x[1:]])
fails(mica.Supervisor, fed, spare=small)
other = mica.Model(fed_spare)
y = other.predict([array("f", [0.5 * (i % 16) for i in range(64)])], raw=True)
s = mica.Supervisor(fed, spare=fed_spare, retries=0)
s._sources[0].load = fails  # the model can no longer be loaded
with s.model.hook("dw", before=lambda layer: 1 // 0):
    a = s.predict([mica.Quantised(bytes([(8 * (i % 16) - 128) & 255 for i in range(64)]))], raw=True)
print("spare", s.on_spare, bytes(a[0]) == bytes(y[0]))
