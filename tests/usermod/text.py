# models: language
# Text from a language model: whole characters, stops, seeds, positions, and what is not allowed.
import asyncio

import mica

m = mica.Model(language)
g = mica.generate(m, "he", max_tokens=12)
pieces = list(g)
print(pieces, g.tokens)
m.reset()
print("".join(mica.generate(m, "he", max_tokens=12)) == "".join(pieces) == mica.complete(m, "he", 12))
for seed in (1, 2, 4294967295):
    print(seed, repr(mica.complete(m, "the a", 40, temperature=0.9, top_k=20, seed=seed)))
print(repr(mica.complete(m, "lo", 40, temperature=2, seed=3)))
whole = mica.complete(m, "the a", 40, temperature=0.9, top_k=20, seed=4294967295)
for stop in (whole[6:8], (whole[9:12], whole[4:9]), "zzz"):
    print(repr(mica.complete(m, "the a", 40, temperature=0.9, top_k=20, seed=4294967295, stop=stop)))

# What was said goes on: two halves are the whole, and the last token is not forgotten.
m.reset()
half = "".join(mica.generate(m, "the", max_tokens=9))
print(half + "".join(mica.generate(m, "", max_tokens=8)) == mica.complete(m, "the", 17))


# Beside another task, in slices.
async def main():
    seen = []

    async def other():
        while True:
            seen.append(1)
            await asyncio.sleep_ms(0)

    task = asyncio.create_task(other())
    m.reset()
    text = ""
    async for piece in mica.generate(m, "the a", 40, temperature=0.9, top_k=20, seed=4294967295):
        text += piece
    task.cancel()
    print(text == whole, len(seen) > 20)


asyncio.run(main())

# A token that was cut short is made again.
m.reset()
g = mica.generate(m, "the a", 40, temperature=0.9, top_k=20, seed=4294967295)
text = ""
fail = True


def trouble(layer):
    global fail
    fail = not fail
    if fail:
        raise OSError("trouble")


h = m.hook(after=trouble)
failed = 0
while True:
    try:
        text += next(g)
    except StopIteration:
        break
    except OSError:
        failed += 1
h.remove()
print(text == whole, failed > 20)

m.reset()
fails(mica.generate, m, "xyz")
fails(mica.generate, m, "a\u20ac\u00e9\u4e2d")
fails(mica.generate, m, b"he")
fails(mica.generate, m, "he", 0)
fails(mica.generate, m, "he", 1.5)
fails(mica.generate, m, "he", 100)
fails(mica.generate, m, "a" * 60)
fails(mica.generate, m, "he", temperature=-1)
fails(mica.generate, m, "he", temperature=10.5)
fails(mica.generate, m, "he", top_k=99)
print(len(mica.complete(m, "he", 3, top_k=m._m.tokens()[0])) > 0)  # all of them
m.reset()
fails(mica.generate, m, "he", seed=-1)
fails(mica.generate, m, "he", stop="")
g = mica.generate(m, "he")
n = len("".join(g))
fails(mica.generate, m, "he")
m.reset()
g = mica.generate(m, "he")
m.reset()
fails(next, g)
print(m._m.tokens()[:3], m._m.piece(17), m._m.encode("the a\u00e9"))
fails(m._m.piece, 99)
m.deinit()
fails(mica.generate, m, "he")
