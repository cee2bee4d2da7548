# models: small dense two
# One run at a time in an arena: a second from a hook raises, and the flag is down again after any exception.
import mica


def fails(f, *args, **kw):
    try:
        f(*args, **kw)
        print("no exception")
    except BaseException as e:
        print(type(e).__name__ + ":", e)


m = mica.Model(small)
other = mica.Model(dense)
apart = mica.Model(two, arena=mica.Arena(512))


def run_with(hook, model=m):
    # What model.run() does, with somebody's code between two layers.
    engine = model._m
    engine.begin()
    try:
        for i, step in enumerate(engine.steps):
            hook(i)
            step()
    finally:
        engine.end()


def again(i):
    if i == 2:
        print("busy", m.arena.busy, other.arena.busy, apart.arena.busy)
        fails(m.run)
        fails(m._m.begin)
        fails(other.run)
        fails(other.predict, [bytes(64)])
        fails(m.deinit)
        fails(other._m.write, 0, bytes(64))
        fails(other._m.store, 0, bytes(64))
        apart.run()  # another arena: nothing against it
        other._m.end()  # not its run, so this ends nothing
        fails(other.run)


want = m.predict([bytes(64)])
run_with(again)
print("free", m.arena.busy, m.predict([bytes(64)]) == want)


def stop(i):
    if i == 3:
        raise ValueError("stop at layer 3")


fails(run_with, stop)
print("free", m.arena.busy)
fails(m.output)
print(m.predict([bytes(64)]) == want)


def interrupt(i):
    if i == 1:
        raise KeyboardInterrupt


fails(run_with, interrupt)
print("free", m.arena.busy, m.predict([bytes(64)]) == want)


def leave(i):
    if i == 1:
        raise SystemExit


fails(run_with, leave)
print("free", m.arena.busy, m.predict([bytes(64)]) == want)

# Two models in one bytearray share the flag, though each was given the buffer by itself.
buffer = bytearray(2048)
a = mica.Model(small, arena=buffer)
b = mica.Model(dense, arena=buffer)
a._m.begin()
fails(b.run)
a._m.end()
b.run()
b._m.begin()
fails(a.run)
b._m.end()
a.run()

# end() without begin(), and twice.
a._m.end()
a._m.end()
a.run()
print(len(a.output()))

# Steps may be called whenever one likes: wrong numbers at worst.
for step in reversed(m._m.steps):
    step()
for _ in range(3):
    m._m.steps[2]()
    other._m.steps[1]()
    m._m.steps[0]()
print(m.predict([bytes(64)]) == want)
