# models: many small
# KeyboardInterrupt in mid-run comes out; model, arena and heap stay usable. (A real Ctrl-C: test_usermod.py.)
import gc
import micropython

import mica

m = mica.Model(many)
want = m.predict([[0, 1, 2, 3]])
print(want)

hits = 0


def run(model, at):
    engine = model._m
    engine.begin()
    try:
        for i, step in enumerate(engine.steps):
            if i == at:
                raise KeyboardInterrupt
            step()
    finally:
        engine.end()


for at in range(0, 64, 7):
    try:
        run(m, at)
        print("ran to the end")
    except KeyboardInterrupt:
        hits += 1
    assert not m.arena.busy
    assert m.predict([[0, 1, 2, 3]]) == want
print("interrupted", hits)


# A timer's callback in mid-run that starts a run itself: refused there, and the outer run ends well.
seen = []


def nested(_):
    try:
        m.run()
        seen.append("ran")
    except RuntimeError as e:
        seen.append(str(e))


engine = m._m
engine.begin()
try:
    for i, step in enumerate(engine.steps):
        if i == 10:
            micropython.schedule(nested, None)
        step()
finally:
    engine.end()
print(seen)
print(m.predict([[0, 1, 2, 3]]) == want)
gc.collect()
print(mica.Model(small).predict([bytes(64)]) is not None)
