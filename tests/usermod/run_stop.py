# models: small two
# Runs that never came to their end, as after Ctrl-C: the error says how to get the arena back, and stop() does it.
import asyncio

import mica


m = mica.Model(small)
other = mica.Model(two)
want = m.predict([mica.Quantised(small_x)])


def interrupted(f):
    try:
        f()
        print("no exception")
    except KeyboardInterrupt:
        print("interrupted")


# Begun by hand, and not ended.
m._m.begin()
fails(other.run)
other.stop()  # not its run
print(m.arena.busy)
m.stop()
m.stop()
print(m.arena.busy, m.predict([mica.Quantised(small_x)]) == want)


# asyncio ends while arun() waits: its coroutine is never told.
async def main():
    asyncio.create_task(m.arun([mica.Quantised(small_x)], slice_us=0))
    await asyncio.sleep_ms(0)
    await asyncio.sleep_ms(0)
    raise KeyboardInterrupt


interrupted(lambda: asyncio.run(main()))
asyncio.new_event_loop()
fails(other.run)
fails(m.start)
m.stop()
print(m.arena.busy, m.predict([mica.Quantised(small_x)]) == want)


# In an input, in a piece: free without being told.
def fill(buffer, shape, dtype):
    raise KeyboardInterrupt


def hit(layer):
    raise KeyboardInterrupt


interrupted(lambda: m.start([fill]))
print(m.arena.busy)
m.start([mica.Quantised(small_x)])
with m.hook(1, before=hit):
    m.stop()
    m.start([mica.Quantised(small_x)])
    interrupted(lambda: m.resume(10**6))
print(m.arena.busy)
fails(m.resume)


# From a hook of the model's own run: it cannot be started there, and the run goes on.
def inside(layer):
    fails(m.start)


with m.hook(1, before=inside):
    print(m.predict([mica.Quantised(small_x)]) == want, m.arena.busy)


# Somebody else stops a run that arun() is waiting in: arun() says so, and spoils nothing.
async def stopped():
    t = asyncio.create_task(m.arun([mica.Quantised(small_x)], slice_us=0))
    await asyncio.sleep_ms(0)
    await asyncio.sleep_ms(0)
    m.stop()
    print(other.predict([[1] * 6, [1] * 3])[0])
    try:
        await t
    except RuntimeError as e:
        print("RuntimeError:", e)
    print(m.arena.busy, m.predict([mica.Quantised(small_x)]) == want)


asyncio.run(stopped())
m._m.begin()
fails(m.deinit)
m.stop()
m.deinit()
m.stop()
