# The same answer as floats, as integers, by name, into a buffer of one's own, and with labels.
# boards: UNIX MPS2_AN385
from array import array

import mica

m = mica.Model("digits.mica")
x = array("f", [0.5] * 64)  # anything with numbers in it: lists, tuples, arrays, memoryviews, ulab arrays

floats = m.predict([x])[0]
integers = m.predict({m.input_names[0]: x}, raw=True)[0]
print(m.input_names, m.input_dtype, "->", m.output_names, m.output_shape)

y = array("f", bytes(40))
m.predict_into([x], [y])  # from the second call on nothing is allocated: right for a loop with a sensor
print(list(y) == floats)

scale, zero = m.output_scale[0], m.output_zero_point[0]
print([(q - zero) * scale for q in integers] == floats)

m.input(0)[:] = bytes(64)  # the quantised input itself: what a camera would fill
m.run()
for label, p in m.top(3):
    print(label, p)
#: ('image',) ('b',) -> ('probabilities',) ((1, 10),)
#: True
#: True
#: 1 0.449...
#: 9 0.195...
#: 8 0.144...
