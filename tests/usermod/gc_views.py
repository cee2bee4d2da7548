# models: small state big golden
# heap: 460000
# A view keeps the memory under it, whatever else is dropped; collecting in mid-run takes nothing away.
import gc

import _mica


def churn():
    # Take every free block and write into it, so that a block freed too early shows.
    gc.collect()
    held = []
    for size in (16, 32, 64, 256, 1024, 4096):
        for _ in range(40):
            held.append(bytearray(b"\xa5" * size))
    return held


def run(m, collect=False):
    m.begin()
    try:
        for step in m.steps:
            step()
            if collect:
                gc.collect()
    finally:
        m.end()


want = None
for what, arena in (("static", None), ("Arena", 4096), ("bytearray", "b")):
    if arena == 4096:
        arena = _mica.Arena(4096)
    elif arena == "b":
        arena = bytearray(4096)
    m = _mica.load(bytes(bytearray(small)), arena)
    for i in range(64):
        m.input(0)[i] = i - 32
    run(m, True)
    out = m.output(0)
    full = m.tensor_view(1)
    want = want or bytes(out)
    before = bytes(full)
    piece = full[100:200]
    del m, arena
    held = churn()
    print(what, bytes(out) == want, bytes(full) == before, bytes(piece) == before[100:200])
    del held, out, full, piece

# Views alone, of models that a function made: no word that is left on the stack holds their blocks by chance.
def lone(n):
    outputs, files, states = [], [], []
    for i in range(n):
        m = _mica.load(bytes(bytearray(golden)), bytearray(4096))
        for k in range(64):
            m.input(0)[k] = i + k - 32
        run(m)
        outputs.append((m.output(0), bytes(m.output(0))))
        files.append((m.golden(1), bytes(m.golden(1))))
        m = _mica.load(bytes(bytearray(state)), bytearray(1024))
        for k in range(4):
            m.input(0)[k] = i + 1
        run(m)
        states.append((m.tensor_view(1), bytes(m.tensor_view(1))))
    return outputs, files, states


gc.collect()  # what is free lies below the models then, and what churn() takes lies where they were
kept = lone(12)
held = churn()
for what, views in zip(("output", "file", "state"), kept):
    print("lone", what, sum([bytes(v) == before for v, before in views]))
del kept, held, views

# A heap arena of load()'s own, seen through an input view only.
m = _mica.load(big)
x = m.input(0)
for i in range(0, 66000, 1000):
    x[i] = i // 1000
del m
held = churn()
print("heap", all(x[i] == i // 1000 for i in range(0, 66000, 1000)))
del held, x

# memoryview(Arena) outlives the Arena.
v = memoryview(_mica.Arena(3000))
v[0], v[2999] = 1, 2
held = churn()
print("memoryview", v[0], v[2999], len(v))
del held, v

# State, and the step callables, hold on to the whole model.
m = _mica.load(bytes(bytearray(state)))
steps = m.steps
x = m.input(0)
for i in range(4):
    x[i] = 3
y = m.tensor_view(2)
del m
held = churn()
for _ in range(5):
    for step in steps:
        step()
print("steps", list(y))
one = steps[0]
del steps
held = churn()
one()
print("one step", list(y))
del held, one

# A view of the state, and of a constant in the file, keep those blocks.
m = _mica.load(bytes(bytearray(state)))
s = m.tensor_view(1)
run(m)
del m
held = churn()
print("state", len(s), list(s) == list(s))
del held

# An input view is the arena itself.
m = _mica.load(small)
v, w = m.input(0), m.input(0)
v[5] = 77
print("zero copy", w[5], m.tensor_data(0)[5], m.tensor_view(0)[5])
