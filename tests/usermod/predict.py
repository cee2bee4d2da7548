# models: small two state
# predict() and the quantising of values.
from array import array

import mica


m = mica.Model(small)
print(m)
print(m.name, m.labels[:3], m.len == len(small), m.ram < 8000)
print(m.input_shape, m.input_dtype, m.input_scale, m.input_zero_point)
print(m.output_shape, m.output_dtype, m.output_scale, m.output_zero_point)

# Against the oracle.
raw = memoryview(small_x)
m.input(0)[:] = array("b", raw)
m.run()
print("oracle", bytes(m.output(0)) == small_y)

# One picture, said in every way: scale 1/16, zero point -128, so 0 to 15.9375 in steps of 1/16.
floats = [((b ^ 0x80) / 16) for b in raw]
rows = [tuple([v] for v in floats[r * 8 : r * 8 + 8]) for r in range(8)]


def fill(buffer, shape, dtype):
    global seen
    seen = (len(buffer), shape, dtype)
    for i, b in enumerate(raw):
        buffer[i] = b - 256 if b > 127 else b


want = m.predict([mica.Quantised(small_x)])
print(len(want), len(want[0]), min(want[0]) >= 0, 0.9 < sum(want[0]) < 1.1)
for x in (
    floats, tuple(floats), rows, [rows], array("f", floats), [array("f", r) for r in (floats[:32], floats[32:])],
    mica.Quantised(bytearray(small_x)), mica.Quantised(raw), mica.Quantised(array("b", raw)), fill,
    mica.Quantised(small_x),
):
    print(m.predict([x]) == want, end=" ")
print(seen)
integers = [int(v) for v in floats]
print(m.predict([integers]) == m.predict([array("h", integers)]) == m.predict([array("i", integers)]))
# Pixels are numbers, whatever holds them.
for pixels in (array("B", integers), bytearray(integers), bytes(integers), memoryview(bytearray(integers)),
               memoryview(array("B", integers))):
    print(m.predict([pixels]) == m.predict([integers]), m.predict([[pixels]]) == m.predict([integers]), end=" ")
print(m.predict([array("B", [200] * 64)]) == m.predict([[200] * 64]))
for at in range(0, 256, 64):  # each value is divided once: all of them, and too many or too few
    m._m.write(0, bytes(range(at, at + 64)))
    by_bytes = bytes(m.input(0))
    m._m.write(0, list(range(at, at + 64)))
    print(by_bytes == bytes(m.input(0)), end=" ")
fails(m.predict, [bytes(65)])
fails(m.predict, [[bytes(60), bytes(5)]])
fails(m.predict, [bytes(63)])
# The tensor's own type may be either, and so has to say which.
fails(m.predict, [array("b", raw)])
fails(m.predict, [memoryview(m.input(0))])
fails(m.predict, [[mica.Quantised(raw)]])
fails(m.predict, [mica.Quantised(raw[:63])])
fails(m.predict, [mica.Quantised(array("f", floats))])
fails(mica.Quantised, floats)
print(bytes(mica.Quantised(raw)) == bytes(raw), bytes(memoryview(mica.Quantised(raw))[1:3]) == bytes(raw[1:3]))
print(m.predict((floats,)) == want)

# Rounding: half to even, then the zero point, then saturation. Model `two` has scale 1/2 and zero point 0.
t = mica.Model(two)
ask = [0.25, 0.75, 1.25, -0.25, -0.75, -1.25]
t._m.write(0, ask)
print(list(t.input(0)))
t._m.write(0, [1e9, -1e9, 3e38, -3e38, 63.5, -64.0])
print(list(t.input(0)))
t._m.write(0, [1e38, 63.24, 63.26, -0.0, True, 10**30])
print(list(t.input(0)))
# A sweep of eighths and their neighbours, against rounding half to even in integers.
worst = 0
for k in range(-1100, 1101, 5):
    for near in (k / 16, k / 16 + 1 / 4096, k / 16 - 1 / 4096):
        t._m.write(0, [near] * 6)
        twice = int(near * 2 * 4096)  # exact: near / scale in 4096ths
        q = (twice + 2048) // 4096
        q -= (twice + 2048) % 4096 == 0 and q & 1
        worst += t.input(0)[0] != max(-128, min(127, q))
print("rounded wrong:", worst)
print(t.predict([[1, 2, 3, 4, 5, 6], [10, 20, 30]]))
print(list(t.output(0)), list(t.output(1)))

fails(t.predict, [1, 2])
fails(t.predict, [[1, 2, 3, 4, 5, 6]])
fails(t.predict, 5)
fails(t.predict, [[1, 2, 3, 4, 5], [1, 2, 3]])
fails(t.predict, [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3]])
fails(t.predict, [b"12345", b"123"])
fails(t.predict, [b"1234567", b"123"])
fails(t.predict, [[1, 2, 3, 4, 5, float("nan")], [1, 2, 3]])
fails(t.predict, [[1, 2, 3, 4, 5, float("-inf")], [1, 2, 3]])
fails(t.predict, [[1, 2, 3, 4, 5, None], [1, 2, 3]])
fails(t.predict, ["123456", [1, 2, 3]])
fails(t.predict, [{1: 2}, [1, 2, 3]])
fails(t.predict, [array("O", [1, 2, 3, 4, 5, 6]), [1, 2, 3]])
loop = []
loop.append(loop)
try:
    t.predict([loop, [1, 2, 3]])
except (RuntimeError, MemoryError) as e:
    print("a list in itself:", type(e).__name__)


def broken(buffer, shape, dtype):
    raise OSError("camera")


fails(t.predict, [broken, [1, 2, 3]])
fails(t.output, 2)
# None of these left the arena taken.
print(t.predict([[1, 2, 3, 4, 5, 6], [10, 20, 30]])[0])

# State outlives a run.
s = mica.Model(state)
for _ in range(3):
    print(s.predict([[1, 2, 3, 4]]))

with mica.Model(two) as t:
    print(t)
    layers = t.layers
print(t)
fails(t.run)
for layer in layers:
    print(layer)
    print(layer.name, layer.op, layer.input_shape, layer.output_shape, layer.macs, layer.bytes, layer.runs_in)
fails(mica.Model, "no such file.mica")
fails(mica.Model, 5)
fails(mica.Model, [1.0, 2.0])
print(mica.load is mica.Model)
print(hasattr(mica, "nothing"))
