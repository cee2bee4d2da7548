# models: places
# A model that ends in ArgMax gives int32: whole numbers, as floats from predict(), as they are from output().
import struct

import mica

m = mica.Model(places)
print(m.output_dtype, m.output_shape, m.output_scale, m.output_zero_point)
print(m.predict([[[0, 1, 2, 3, 4], [9, 1, 2, 3, 4], [0, 1, 7, 7, 4]]]))

m.input()[:] = memoryview(places_x)
m.run()
view = m.output()
print(len(view), bytes(view) == places_y, tuple(view) == struct.unpack("<3i", places_y))
for layer in m.layers:
    print(layer.op, layer.output_shape, layer.bytes)
