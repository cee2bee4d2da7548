# models: small many dense signal
# Two cores give the bytes of one. A board without a second one says so, and goes on with the first.
import gc

import mica


def runs(m, n):
    """The different outputs of n runs over the same input, which one run may overwrite."""
    found = set()
    for _ in range(n):
        for i in range(len(m.input(0))):
            m.input(0)[i] = (i * 37) % 256 - 128
        m.run()
        found.add(bytes(m.output(0)))
        gc.collect()  # nothing of a run is the worker's any more
    return found


print(mica.cores())
models = [mica.Model(f) for f in (small, many, dense, signal)]
expected = [runs(m, 1) for m in models]
available = mica.cores(2)
print(available in (1, 2), mica.cores() == available)
for m, w in zip(models, expected):
    print(m.name, runs(m, 20) == w)
m = models[0]
raw = memoryview(small_x)
for i in range(len(raw)):
    m.input(0)[i] = raw[i] if raw[i] < 128 else raw[i] - 256
m.run()
print("oracle", bytes(m.output(0)) == small_y)

for bad in (0, 3, -1):
    try:
        mica.cores(bad)
    except ValueError as e:
        print(e)
print(mica.cores(1), mica.cores())
print([runs(m, 1) == w for m, w in zip(models[1:], expected[1:])])
print(mica.cores(2) == available, mica.cores(1))
