# models: small two places
# Outputs into a buffer of the caller's: real numbers, or the tensor as it is.
from array import array

import mica


m = mica.Model(small)
want = m.predict([mica.Quantised(small_x)])[0]
e = m._m
for buffer in (array("f", bytes(40)), array("d", bytes(80))):
    e.read_into(0, buffer)
    print(list(buffer) == want)
for buffer in (array("b", bytes(10)), bytearray(10), memoryview(bytearray(10)), array("B", bytes(10))):
    e.read_into(0, buffer)
    print(bytes(buffer) == bytes(m.output()) == small_y)

t = mica.Model(two)
values = t.predict([[1, 2, 3, 4, 5, 6], [10, 20, 30]])
out = array("f", bytes(24))
for i in range(2):
    t._m.read_into(i, out)
    print(list(out) == values[i], list(out))
# A buffer may be a part of another, and even the tensor itself.
both = memoryview(array("f", bytes(48)))
t._m.read_into(0, both[:6])
t._m.read_into(1, both[6:])
print(list(both))
t._m.read_into(0, t.output(0))
print(list(t.output(0)))

p = mica.Model(places)
p.predict([mica.Quantised(places_x)])
labels = array("i", bytes(12))
p._m.read_into(0, labels)
print(labels, bytes(labels) == places_y)

t.predict([[1, 2, 3, 4, 5, 6], [10, 20, 30]])
fails(t._m.read_into, 0, array("f", bytes(20)))
fails(t._m.read_into, 0, bytearray(7))
fails(t._m.read_into, 0, array("h", bytes(12)))
fails(t._m.read_into, 0, bytes(6))
fails(t._m.read_into, 0, [0.0] * 6)
fails(t._m.read_into, 2, bytearray(6))
fails(p._m.read_into, 0, labels)
