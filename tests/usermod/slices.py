# models: small two many state places
# Runs in pieces: the same bytes, wherever they are cut; two at once; given up in the middle.
import asyncio

import mica


for name, file, x, y in (("small", small, small_x, small_y), ("many", many, many_x, many_y),
                         ("places", places, places_x, places_y)):
    m = mica.Model(file)
    for us in (0, 1, 30, 100, 1000, 10**6):
        m.start([mica.Quantised(x)])
        pieces = 1
        while m.resume(us):
            pieces += 1
        print(name, bytes(m.output()) == y, 0 < pieces <= sum(s.rows for s in m._steps), m.arena.busy, end="; ")
        if us == 0:
            print(pieces == sum(s.rows for s in m._steps), end=" ")
    print()

# Paused: its state is safe, because the arena is taken.
m = mica.Model(small)
other = mica.Model(two)
m.start([mica.Quantised(small_x)])
print("multiplications of a row:", list(m._run._macs))
print(m.resume(0), m.resume(0), m.arena.busy, (m._run.layer, m._run.row))
fails(m.run)
fails(m.start)
fails(other.run)
fails(m.output)
while m.resume():
    pass
print(bytes(m.output()) == small_y)
fails(m.resume)
m.stop()

# Given up: the model and the arena are as before.
m.start()
m.resume(0)
m.stop()
fails(m.output)
fails(m.start, [[1, 2]])
print(m.arena.busy, m.predict([mica.Quantised(small_x)],
                              raw=True)[0] == mica.Model(small).predict([mica.Quantised(small_x)], raw=True)[0])
m.start()
m.deinit()
print(other.arena.busy)

# Two at once, in arenas of their own.
a = mica.Model(small)
b = mica.Model(many, arena=mica.Arena(1024))
a.start([mica.Quantised(small_x)])
b.start([mica.Quantised(many_x)])
going = [a, b]
turns = 0
while going:
    going = [m for m in going if m.resume(0)]
    turns += 1
print("interleaved", bytes(a.output()) == small_y, bytes(b.output()) == many_y, turns > 20)

# Hooks before and after a layer that is cut; one around it keeps it whole.
calls = []
h = a.hook("conv*", before=lambda la: calls.append("<"), after=lambda la: calls.append(">"))
a.start([mica.Quantised(small_x)])
while a.resume(0):
    calls.append(".")
print("".join(calls[:10]), bytes(a.output()) == small_y)
calls.clear()
g = a.hook("conv*", around=lambda la, step: step())
a.start([mica.Quantised(small_x)])
a.resume(0)
print("".join(calls), a._run.layer)
a.stop()
g.remove()
h.remove()


# From inside of a piece it can neither be resumed nor ended, and goes on.
def inside(layer):
    for f in (a.resume, a.stop, a.deinit, a.start, a.run):
        fails(f)


with a.hook("pool", before=inside):
    a.start([mica.Quantised(small_x)])
    while a.resume(0):
        pass
print(bytes(a.output()) == small_y, a.arena.busy)


# With asyncio.
async def count(n):
    for _ in range(n):
        turns.append(1)
        await asyncio.sleep_ms(0)


async def main():
    t = asyncio.create_task(count(5))
    want = mica.Model(small, arena=bytearray(2048)).predict([mica.Quantised(small_x)])
    print(await a.arun([mica.Quantised(small_x)], slice_us=0) == want, len(turns))
    await t
    a._m.write(0, mica.Quantised(small_x))
    print(await a.arun(slice_us=10**6), bytes(a.output()) == small_y)

    # Two models at once.
    rs = await asyncio.gather(a.arun([mica.Quantised(small_x)], slice_us=1), b.arun([mica.Quantised(many_x)],
        slice_us=1))
    print(rs[0] == want, rs[1] == b.predict([mica.Quantised(many_x)]))

    # Cancelled.
    t = asyncio.create_task(a.arun([mica.Quantised(small_x)], slice_us=0))
    await asyncio.sleep_ms(0)
    await asyncio.sleep_ms(0)
    print(a.arena.busy, end=" ")
    t.cancel()
    try:
        await t
    except asyncio.CancelledError:
        print("cancelled", a.arena.busy, a.predict([mica.Quantised(small_x)]) == want)

    # A hook that raises comes out of the await.
    def fail(layer):
        raise OSError("sensor")

    with a.hook("pool", before=fail):
        try:
            await a.arun([mica.Quantised(small_x)])
        except OSError as e:
            print("OSError:", e, a.arena.busy)
    print(await a.arun([mica.Quantised(small_x)]) == want)


turns = []
asyncio.run(main())
