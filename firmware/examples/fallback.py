# Layers in MicroPython instead of C: the same bytes, slower. A firmware that lacks a kernel does so by itself.
# boards: UNIX MPS2_AN385
import mica


def run(m):
    for i in range(64):
        m.input(0)[i] = i * 7 % 200 - 100
    m.run()
    return bytes(m.output(0))


m = mica.Model("digits.mica")
in_c = run(m)
m = mica.Model("digits.mica", python=["conv2d", "softmax"])  # with strict=True a missing kernel is an error instead
print([layer.kernel for layer in m.layers if layer.runs_in == "Python"])
print("equal", run(m) == in_c)
#: ['conv2d_s8', ...'softmax_s8']
#: equal True
