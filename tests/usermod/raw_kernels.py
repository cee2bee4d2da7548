# The kernels on plain buffers, against sums that a person can check.
from array import array

from mica.kernels import add, average_pool2d, conv2d, depthwise_conv2d, fold_bias, gemm, lut, max_pool2d, requant
from mica.kernels import softmax, transpose


def s8(*values):
    return array("b", values)


def s32(*values):
    return array("i", values)


HALF = 1 << 30  # with shift s: the factor 2**-(s + 1)

# y = x @ w.T / 2, rounded half up
out = bytearray(4)
y = gemm(s8(1, 2, 3, 4, 5, 6), s8(1, 1, 1, 2, 0, -2), s32(0, 0), s32(HALF, HALF), s8(0, 0), out)
print(y is out, list(memoryview(out)))
out = array("b", bytes(4))
gemm(s8(1, 2, 3, 4, 5, 6), s8(1, 1, 1, 2, 0, -2), s32(10, 20), s32(HALF, HALF), s8(0, 0), out, y_zero=3, act_max=15)
print(list(out))

# A zero point of x: the bias that holds -x_zero * sum(w) gives the result for x - x_zero.
w = s8(3, -4, 5, 1, 2, 7)
plain, folded = array("b", bytes(2)), array("b", bytes(2))
gemm(s8(1, 2, 3), w, s32(5, 6), s32(HALF, HALF), s8(0, 0), plain)
gemm(s8(11, 12, 13), w, fold_bias(s32(5, 6), w, 10), s32(HALF, HALF), s8(0, 0), folded)
print(list(plain), list(folded), list(fold_bias([5, 6], bytes(w), 10)))

print(requant(0.5), requant(1.0), requant(0.25), requant(3.0), requant(2.0**-20))

# 3x3 picture, 2x2 window of ones: sums of four.
x = s8(1, 2, 3, 4, 5, 6, 7, 8, 9)
out = array("b", bytes(4))
args = dict(x_shape=(3, 3, 1), out_shape=(2, 2, 1), kernel=(2, 2))
conv2d(x, s8(1, 1, 1, 1), s32(0), s32(HALF), s8(-1), out, **args)
print(list(out))
depthwise_conv2d(x, s8(1, 1, 1, 1), s32(0), s32(HALF), s8(-1), out, **args)
print(list(out))
max_pool2d(x, out, **args)
print(list(out))
average_pool2d(x, s32(HALF), s8(1), out, **args)
print(list(out))

# A pad reads as x_zero: with x_zero = 1 and the folded bias the border sums what is inside.
out = array("b", bytes(9))
ones = s8(*([1] * 9))
conv2d(
    x, ones, fold_bias(s32(0), ones, 1), s32(HALF), s8(-1), out,
    x_shape=(3, 3, 1), out_shape=(3, 3, 1), kernel=(3, 3), pad=(1, 1), x_zero=1,
)
print(list(out))

# Stride, dilation, groups, and two channels.
out = array("b", bytes(4))
max_pool2d(x, out, x_shape=(3, 3, 1), out_shape=(2, 2, 1), kernel=(1, 1), stride=(2, 2))
print(list(out))
out = array("b", bytes(1))
max_pool2d(x, out, x_shape=(3, 3, 1), out_shape=(1, 1, 1), kernel=(2, 2), dilation=(2, 2), act_max=8)
print(list(out))
out = array("b", bytes(2))
conv2d(
    s8(1, 2, 3, 4), s8(1, 1, 2, 2), s32(0, 0), s32(HALF, HALF), s8(-1, -1), out,
    x_shape=(1, 1, 4), out_shape=(1, 1, 2), kernel=(1, 1), groups=2,
)
print(list(out))

# Means with entries for 1 to 4 taps: corners have one tap, edges two, the middle four.
entries = s32(HALF, HALF, 1431655765, HALF)
out = array("b", bytes(9))
average_pool2d(
    s8(4, 8, 12, 16), entries, s8(-1, 0, 1, 1), out,
    x_shape=(2, 2, 1), out_shape=(3, 3, 1), kernel=(2, 2), pad=(1, 1), pad_end=(1, 1),
)
print(list(out))

out = array("b", bytes(6))
add(
    s8(1, 2, 3, 4, 5, 6), s8(10, 20, 30), out, mult_a=1, mult_b=1, offset=0, shift=0,
    a_shape=(2, 3), b_shape=(3,), out_shape=(2, 3),
)
print(list(out))
add(out, out, out, mult_a=1, mult_b=1, offset=1, shift=1, a_shape=(6,), b_shape=(6,), out_shape=(6,))
print("in place", list(out))

table = array("I", [max(1, (1 << 20) >> min(d, 31)) for d in range(256)])
out = array("b", bytes(4))
softmax(s8(1, 1, 0, 0), table, out)
print(list(out))
softmax(s8(5, 5, 3, 9), table, out, axis=2)
print(list(out))

mirror = bytes((127 - i) & 0xFF for i in range(256))
out = s8(-128, -1, 0, 127)
lut(out, mirror, out)
print("in place", list(out))

out = array("b", bytes(6))
transpose(s8(1, 2, 3, 4, 5, 6), out, x_shape=(2, 3), perm=(1, 0))
print(list(out))
print(len(lut(memoryview(s8(1, 2, 3, 4))[1:3], mirror, memoryview(out)[2:4])), list(out))
many = bytearray(70000)  # more than one axis can have
many[-1] = 5
lut(many, mirror, many)
print(many[0], many[-1])
