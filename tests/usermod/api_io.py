# models: small two places
# Inputs and outputs by name, as integers, into buffers of the caller's; the largest of them.
import gc
import micropython
from array import array

import mica


m = mica.Model(small)
t = mica.Model(two)
print(m.input_names, m.output_names, t.input_names, t.output_names)

# By name.
a, b = [1, 2, 3, 4, 5, 6], [10, 20, 30]
want = t.predict([a, b])
print(want)
print(t.predict({"b": b, "a": a}) == want, t.predict({"a": array("f", a), "b": b}) == want)
print(list(t.output("sum")) == list(t.output(0)), list(t.output("minus")) == list(t.output(1)))
print(list(t.input("b")) == list(t.input(1)))
fails(t.predict, {"a": a})
fails(t.predict, {"a": a, "c": b})
fails(t.predict, {"a": a, "b": b, "c": b})
fails(t.output, "a")
fails(t.input, "minus")

# As integers.
print(t.predict([a, b], raw=True))
print(bytes(m.predict([mica.Quantised(small_x)], raw=True)[0]) == small_y)
print(mica.Model(places).predict([mica.Quantised(places_x)], raw=True))


# Something with a buffer of floats that is no array, as ulab's are: it has a shape and a dtype.
class NdArray(array):
    shape = (2, 3)
    dtype = ord("f")


print(t.predict([NdArray("f", a), NdArray("f", b)]) == want, t.predict([NdArray("d", a),
    memoryview(array("f", b))]) == want)

# The largest.
p = m.predict([mica.Quantised(small_x)])[0]
print(m.top(3) == [(m.labels[i], p[i]) for i in sorted(range(10), key=lambda i: (-p[i], i))[:3]],
      m.top()[0][1] == max(p))
print(len(m.top(99)), m.top(0))
t.predict([[1, 1, 1, 2, 2, 2], [0, 0, 0]])
print(t.top(4), t.top(2, 1), t.top(1, "minus"))
fails(t.top, 1, 2)
fails(m.top)


# Into buffers, with the heap locked.
def locked(m, x, y):
    micropython.heap_lock()
    try:
        m.predict_into(x, y)
    finally:
        micropython.heap_unlock()


ys = [array("f", bytes(24)), bytearray(6)]
as_dict = {"minus": array("f", bytes(24))}
inputs = [array("f", a), array("d", b)]
named = {"a": tuple(a), "b": array("h", b)}
for x in ([a, b], inputs, named, (array("i", a), mica.Quantised(array("b", [20, 40, 60])))):
    for y in (ys, as_dict):
        t.predict_into(x, y)
        for buffer in ys:
            for i in range(len(buffer)):
                buffer[i] = 0
        locked(t, x, y)
        print([list(v) for v in ys], list(as_dict["minus"]))
print(t.predict_into([a, b], [None, ys[0]])[1] is ys[0], list(ys[0]) == want[1])
m.predict_into([mica.Quantised(small_x)], [None])
locked(m, [mica.Quantised(small_x)], [None])


def allocated(n):
    before = gc.mem_alloc()
    for _ in range(n):
        t.predict_into(inputs, ys)
    return gc.mem_alloc() - before


allocated(1)
print("allocated", allocated(300))
fails(t.predict_into, [a, b], [ys[0]])
fails(t.predict_into, [a], ys)
fails(t.predict_into, [a, b], {"sum": ys[0], "no": ys[1]})
fails(t.predict_into, [a, b], [bytearray(5), None])
print(t.predict([a, b]) == want)

print(str(t))
print(repr(t))
with mica.Model(two) as c:
    pass
print(repr(c))
fails(c.predict_into, [a, b], ys)
fails(lambda: c.input_names)
