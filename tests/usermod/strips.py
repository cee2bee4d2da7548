# models: small by_rows
# A strip is one step: the same bytes as layer by layer, whoever looks on, and in whatever pieces.
import mica
from mica import hooks

m = mica.Model(by_rows)
whole = mica.Model(small)
print(m.arena is whole.arena, m._m.info.arena_bytes, whole._m.info.arena_bytes)
print(m)
print([(s.first, s.strip, s.rows) for s in m._steps], [(s.first, s.strip) for s in whole._steps])
print([layer.name for layer in m.layers],
      [layer.bytes for layer in m.layers] == [layer.bytes for layer in whole.layers])


def run():
    m.input()[:] = by_rows_x
    m.run()
    return bytes(m.output()) == by_rows_y


print("run", run(), run(), m.selftest())

# In pieces.
step = m._steps[0]
m.input()[:] = by_rows_x
m._m.begin()
for i in range(step.rows):
    step(i, i + 1)
fails(step, 3, 5)
step(0, 7)
fails(step, 8, 9)
step(7, step.rows)
for s in m._steps[1:]:
    s()
m._m.end()
print("pieces", bytes(m.output()) == by_rows_y)
for us in (0, 30, 300, 10**6):
    m.start([mica.Quantised(by_rows_x)])
    while m.resume(us):
        pass
    print(us, bytes(m.output()) == by_rows_y, end="; ")
m.start([mica.Quantised(by_rows_x)])
m.resume(0)
m.resume(0)
m.stop()
print("given up", run())

# Hooks see rows; what they have seen is what the layers of the other model write.
whole.input()[:] = by_rows_x
with hooks.tap(whole) as other:
    whole.run()
seen = hooks.tap(m)
said = []
h = m.hook("dw", before=lambda layer: said.append(layer.rows), after=lambda layer: said.append(len(layer.output())))
k = m.hook("dw", around=lambda layer, step: step())
print("hooked", run(), [seen[i] == other[i] for i in range(5)], said[:4], len(said))
k.remove()
h.remove()
seen.remove()


def zeros(layer):
    y = layer.output()
    said.append((len(layer.input()), len(y)))
    y[:] = bytes(len(y))


said.clear()
with hooks.replace(m, "dw", zeros):
    a = run(), bytes(m.output())
with hooks.replace(whole, "dw", zeros):
    whole.input()[:] = by_rows_x
    whole.run()
print("replaced", a[0], a[1] == bytes(whole.output()), said[:3], said[-2:], run())

with hooks.fault(m, "conv", RuntimeError("broken")):
    fails(m.run)
print("free", m.arena.busy, run())

p = m.profile(2)
print(len(p.us), p.us[3] <= p.total, len(repr(p).split("\n")))

# With a function of the user's.
def biggest(inputs, outputs, attributes):
    x, y = inputs[0], outputs[0]
    said.append((x.shape, y.shape, attributes["pad_top"]))
    w, c = x.shape[2:]
    for i in range(len(y.data)):
        at = i // c * 2 * c + i % c
        y.data[i] = max(x.data[at], x.data[at + c], x.data[at + w * c], x.data[at + w * c + c])


said.clear()
mica.register("max_pool2d", biggest)
m = mica.Model(by_rows)
print("user", run(), said[0], len(said))
mica.register("max_pool2d", None)

s = mica.Supervisor(by_rows, feed=lambda: said.append(1))
said.clear()
print("supervised", bytes(s.predict([mica.Quantised(by_rows_x)], raw=True)[0]) == by_rows_y, len(said))
