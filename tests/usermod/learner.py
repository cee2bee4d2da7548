# models: embedding small places
# Heads that learn: the host's bytes after 1,000 examples of each kind, teaching without memory, forgetting,
# and what is refused.
import gc
import micropython
import sys
from binascii import crc32

import mica

m = mica.Model(embedding)
x = bytearray(64)
inputs = [mica.Quantised(x)]
labels = ("left", "right", "up", "down", "none")
seed = 1


def example(k, spread=41):
    # As in tests/host/test_learn.py.
    global seed
    for i in range(64):
        seed = (seed * 4093 + 12289) & 0xFFFFF
        x[i] = ((k * 37 + i * (53 + k)) % 121 - 60 + (seed >> 4) % spread - spread // 2) & 255


for kind in ("prototype", "softmax", "anomaly"):
    h = mica.Learner(m, kind, None)
    for n in range(1000):
        example(n % 5)
        h.teach(inputs, labels[n % 5])
    state = h.state()
    right = unknown = 0
    for n in range(50):
        example(n % 5)
        found = h.predict(inputs)
        right += found is not None and found[0] == labels[n % 5]
        example(7 + n)
        unknown += h.predict(inputs) is None
    example(3)
    closest = h.closest(inputs)
    print(kind, len(state), crc32(state), h.counts, right, unknown, closest[0], closest[1] * 256, closest[2] * 256)
    h.forget("up")
    print(h, crc32(h.state()))
    other = mica.Learner(m, kind, None)
    other.restore(h.state())
    print(other.state() == h.state(), other.labels)

# What five labels of 20 examples take, and what five of one take; when they are full teaching allocates nothing.
h = other = state = None
for _ in range(2):
    h = None
    gc.collect()
    before = gc.mem_alloc()
    h = mica.Learner(m, "softmax", None)
    for n in range(100):
        example(n % 5)
        h.teach(inputs, labels[n % 5])
        if n == 4:
            gc.collect()
            first = gc.mem_alloc() - before
    gc.collect()
    taken = gc.mem_alloc() - before
print("bytes", taken <= (8320 if sys.maxsize < 1 << 32 else 8928) or taken, taken - first > 5 * 18 * 64 or first)
micropython.heap_lock()
for n in range(200):
    x[n & 63] ^= 1  # example() makes integers that take memory
    h.teach(inputs, labels[n % 5])
h.fit()
micropython.heap_unlock()

# The outputs of a run that has been done.
m.run()
h.teach(None, "left")
print(len(h.closest(None)), h.counts)

# What the labels look like, whatever was judged before.
print([(label, n, spread > 50, other, apart > 1) for label, n, spread, other, apart in h.report()])

# One label alone has no limit after one example; two have one by the distance between them.
h = mica.Learner(m, "prototype", None, loose=1)
for k in range(2):
    example(k)
    h.teach(inputs, labels[k])
    print(h.predict(inputs))
h = mica.Learner(m, "anomaly", None, alarms=0.1, judged=8640)
fails(h.predict, inputs)
example(1)
h.teach(inputs, "well")
fails(h.predict, inputs)
h.teach(inputs, "well")  # a repeat says no more
fails(h.predict, inputs)
example(1)
h.teach(inputs, "well")
print(h.predict(inputs))

fails(h.teach, inputs, "")
fails(h.teach, inputs, 5)
fails(h.teach, inputs, "a\nb")
fails(h.teach, inputs, "a" * 64)
fails(h.teach, [[1]], "well")
fails(h.teach, 5, "well")
fails(h.forget, "ill")
fails(h.save)
print(h.counts, h.labels)
fails(mica.Learner, m, "svm", None)
fails(mica.Learner, m, "prototype", None, keep=-1)
fails(mica.Learner, m, "prototype", None, loose=0)
fails(mica.Learner, m, "prototype", None, loose=1e9)
fails(mica.Learner, m, "anomaly", None, alarms=-1)
fails(mica.Learner, mica.Model(places), "prototype", None)
small_model = mica.Model(small)
fails(mica.Learner(small_model, "anomaly", None).restore, h.state())
h = mica.Learner(m, "prototype", None, keep=1)
for k in range(64):
    example(k)
    h.teach(inputs, "label %d" % k)
fails(h.teach, inputs, "one more")
print(h.predict(inputs), len(h.labels))
