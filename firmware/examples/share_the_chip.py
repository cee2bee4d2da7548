# asyncio: other tasks run while a model does, in the middle of its layers too.
# boards: UNIX MPS2_AN385
import asyncio

import mica

m = mica.Model("digits.mica")
x = [0.5] * 64
answer = m.predict([x])
blinks = 0


async def blink():
    global blinks
    while True:
        blinks += 1  # led.toggle()
        await asyncio.sleep_ms(0)


async def main():
    led = asyncio.create_task(blink())
    print(await m.arun([x], slice_us=10) == answer, blinks > 5)
    slow = asyncio.create_task(m.arun([x], slice_us=10))
    await asyncio.sleep_ms(0)
    slow.cancel()  # nothing of it remains, and the arena is free
    await asyncio.sleep_ms(0)
    print(m.arena.busy, m.predict([x]) == answer)


asyncio.run(main())
#: True True
#: False True
