# models: joined stacked misjoined
# Outputs that are parts of one array, each with a scale of its own: joined as floats, apart as integers.
from array import array

import mica

m = mica.Model(joined)
x = [1, 2, 3, 4, 5, 6]
print(m.output_names, m.output_shape, m.output_scale)
y = m.predict([x])
print(y)
print(m.predict([x], raw=True))
print(list(m.output(1)), list(m.output("all.0")))
print(m.top(3), m.top(2, "all"), m.top(1, 1))

a = array("f", [0] * 12)
b = array("f", [0] * 6)
print(m.predict_into([x], [a, b])[0] is a, list(a) == y[0], list(b) == y[1])
m.predict_into([x], {"sum": b})
fails(m.predict_into, [x], [array("f", [0] * 6), None])
fails(m.predict_into, [x], [bytearray(12), None])
fails(m.predict_into, [x], {"all.0": a})
fails(m.top, 1, "all.1")

# Along the outermost axis the parts are one behind the other.
n = mica.Model(stacked)
print(n.predict([x]))
a = array("d", [0] * 18)
n.predict_into([x], [a])
print(list(a) == n.predict([x])[0], n.top(2))

fails(mica.Model, misjoined)
