# models: small signal two many state places
# A layer in pieces: any ranges of rows, in any order, give the bytes of the whole layer.
import mica


def one_by_one(rows):
    return [(i, i + 1) for i in range(rows)]


def backwards(rows):
    return [(i, i + 1) for i in range(rows - 1, -1, -1)]


def thirds(rows):
    cuts = sorted({0, rows // 3, 2 * rows // 3, rows})
    return [(cuts[i], cuts[i + 1]) for i in range(len(cuts) - 1)]


def fill(m, x):
    at = 0
    for i, t in enumerate(m._m.inputs):
        size = m._m.tensor(t).nbytes
        m._m.write(i, mica.Quantised(memoryview(x)[at : at + size]) if m._m.tensor(t).dtype != "f" else x)
        at += size


for name, file, x, y in (
    ("small", small, small_x, small_y),
    ("signal", signal, signal_x, signal_y),
    ("two", two, two_x, two_y),
    ("many", many, many_x, many_y),
    ("state", state, state_x, state_y),
    ("places", places, places_x, places_y),
):
    for cut in (one_by_one, backwards, thirds):
        m = mica.Model(file)
        fill(m, x)
        m._m.begin()
        for step in m._steps[:-1]:
            for begin, end in cut(step.rows):
                step(begin, end)
        for begin, end in one_by_one(m._steps[-1].rows):
            m._steps[-1](begin, end)
        m._m.end()
        got = b"".join([bytes(m.output(i)) for i in range(m._m.info.n_outputs)])
        print(name, [s.rows for s in m._steps][:7], got == y)

# Outputs are there when the last row of the last layer is.
m = mica.Model(small)
last = mica.Model(places)._steps[-1]
print("rows", last.rows)
p = mica.Model(places)
p._m.begin()
p._steps[0](0, 2)
fails(p.output)
p._steps[0](2, 3)
print(len(p.output()))
p._m.end()

step = m._steps[0]
for args in ((0,), (0, 1, 2), (0, 9), (-1, 2), (3, 3), (4, 2), (1000, 2000), ("a", 2)):
    fails(step, *args)
m.deinit()
fails(lambda: step.rows)
fails(step, 0, 1)
