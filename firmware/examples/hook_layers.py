# Hooks: look at layers as they run, take one's place, and leave no trace behind.
# boards: UNIX MPS2_AN385
import mica
from mica import hooks

m = mica.Model("digits.mica")
x = [0.5] * 64
answer = m.predict([x])

log = m.hook(
    "conv*", before=lambda layer: print("before", layer.kernel), after=lambda layer: print("after", layer.kernel)
)
m.predict([x])
log.remove()

with hooks.tap(m, "pool") as seen, hooks.minmax(m) as span:  # groups: conv matmul pool activation shape ...
    m.predict([x])
    pool = seen.layers[0]
    print(pool.kernel, len(seen[pool.index]), "bytes;", len(span.ranges()), "layers were seen")


def half(layer):  # a softmax of our own: everything is equally likely
    y = layer.output()
    for i in range(len(y)):
        y[i] = -128 + 256 // len(y)


with hooks.replace(m, "softmax", half):
    print(m.predict([x])[0][:3])
print(m.predict([x]) == answer)
#: before conv2d_s8
#: after conv2d_s8
#: before conv2d_s8
#: after conv2d_s8
#: before conv2d_s8
#: after conv2d_s8
#: max_pool2d_s8 512 bytes; 9 layers were seen
#: [0.0976..., 0.0976..., 0.0976...]
#: True
