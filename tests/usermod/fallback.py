# models: small two by_rows fed
# needs: mica.fallback
import gc

import mica


def fails(f, *args, **kw):
    try:
        f(*args, **kw)
    except Exception as e:
        print(type(e).__name__, e)


def runs(m):
    m._m.write(0, mica.Quantised(small_x))
    m.run()
    return bytes(m.output(0)) == small_y


m = mica.Model(small, python=True)
print([layer.runs_in for layer in m.layers], runs(m), m._m.missing_kernels)
m = mica.Model(small, python=("conv2d", "softmax_s8"))
print([layer.runs_in for layer in m.layers], runs(m))
print([s.rows for s in m._m.steps])
m = mica.Model(small, strict=True)
print([layer.runs_in for layer in m.layers], runs(m))
del m
gc.collect()

# Functions of the user's, on the tensors of any operator.
calls = []


def negative(inputs, outputs, attributes):
    x, y = inputs[0], outputs[0]
    calls.append((x.shape, y.shape, y.zero_point, sorted(attributes)))
    for i in range(len(x.data)):
        y.data[i] = -x.data[i] - 1


fails(mica.register, "softmax", 3)
fails(mica.register, 3, negative)
mica.register("softmax", negative)
m = mica.Model(small)
print([layer.runs_in for layer in m.layers])
m._m.write(0, mica.Quantised(small_x))
m.run()
print(calls, bytes(m.output(0)) == small_y)
x = bytes(m._m.tensor_view(4))
print([-1 - v if v < 128 else 255 - v for v in x] == list(m.output(0)), len(m.predict([mica.Quantised(small_x)])[0]))
mica.register("softmax", None)
print(runs(mica.Model(small)), runs(m))


def raises(inputs, outputs, attributes):
    raise OSError("sensor")


mica.register("conv2d_s8", raises)
m = mica.Model(small)
fails(m.run)
print(m.arena.busy)
fails(m.output)
mica.register("conv2d_s8", None)
m._m.replace(0, None)
print(runs(m))

# Steps as the binding shows them.
m = mica.Model(small)._m
print(m.step_info(0).layout, m.step_params(0), len(m.step_constant(0, 0, "b")), m.step_constant(0, 3, "b")[0])
print(len(m.step_constant(0, 5, "I")), len(m.step_constant(4, 0, "H")))
fails(m.step_constant, 0, 6, "b")
fails(m.step_constant, 9, 0, "b")
fails(m.step_constant, 0, 0, "q")
fails(m.step_params, -1)
fails(m.replace, 0, 5)
fails(m.replace, 7, print)
fails(m.tensor_view(1).__setitem__ if hasattr(m.tensor_view(1), "__setitem__") else exec, "m.tensor_view(1)[0] = 1")
m.tensor_view(1, True)[0] = 5
print(m.tensor_view(1)[0])
m.replace(4, lambda: print("instead"))
m.begin()
m.steps[4](0, 1)
fails(m.steps[4], 0, 2)
m.end()
del m

# Strips, all of one or a layer of it; and an input that is fed.
m = mica.Model(by_rows, python=True)


def strips():
    m.input()[:] = by_rows_x
    m.run()
    return bytes(m.output()) == by_rows_y


print("strips", strips(), m.selftest(), [layer.runs_in for layer in m.layers])
m = mica.Model(by_rows, python=("depthwise_conv2d",))
print("one", strips(), m.selftest())
m.start([mica.Quantised(by_rows_x)])
while m.resume(0):
    pass
print(bytes(m.output()) == by_rows_y)
m = mica.Model(fed, python=True)
print("fed", bytes(m.predict([mica.Quantised(fed_x)], raw=True)[0]) == fed_y, m.selftest())
