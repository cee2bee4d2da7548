# heap: 460000
# Odd arguments to the raw kernels: each raises, none writes outside its buffers, the board lives on.
from array import array

from mica.kernels import add, average_pool2d, conv2d, depthwise_conv2d, gemm, lut, max_pool2d, softmax, transpose

HALF = 1 << 30
x9 = array("b", range(9))
w4 = array("b", [1, 1, 1, 1])
one32 = array("i", [0])
mult = array("i", [HALF])
sh = array("b", [1])
guard = bytearray(b"\x5a" * 64)
out4 = memoryview(guard)[30:34]
kinds = {}
accepted = []


def bad(f, *args, **kw):
    try:
        f(*args, **kw)
    except (ValueError, TypeError, OverflowError) as e:
        assert len(str(e)) > 5 or isinstance(e, OverflowError), e
        f.__name__ if hasattr(f, "__name__") else str(f)
        kinds[type(e).__name__] = kinds.get(type(e).__name__, 0) + 1
        return
    accepted.append((args, kw))


def says(f, *args, **kw):
    try:
        f(*args, **kw)
        print("no exception")
    except Exception as e:
        print(type(e).__name__ + ":", e)


shapes = dict(x_shape=(3, 3, 1), out_shape=(2, 2, 1), kernel=(2, 2))


def but(**change):
    d = dict(shapes)
    d.update(change)
    return d


odd = (
    -1, 0, 1, 2, 5, 65536, 1 << 31, 1 << 32, 1 << 63, 1 << 70, -(1 << 40), 1.5, None, "text", b"bytes", [], (), [1],
    (1,), (0, 0),
    (-1, -1), (65535, 65535), (65536, 1), (1 << 40, 1), (1, "x"), (1, None), (1.0, 2.0), (1, 2, 3, 4, 5, 6, 7), {},
    object(),
    [[1, 2]], range(2), (3, 3), (0, 3, 1), (65535, 65535, 65535), (1 << 31, 1, 1), (-3, 3, 1), ("3", 3, 1), (3, 3, 2),
)

# Every argument of conv2d, depthwise_conv2d and the pools in turn, by each odd value.
conv = (x9, w4, one32, mult, sh, out4)
pool = (x9, out4)
avg = (x9, mult, sh, out4)
for f, args in ((conv2d, conv), (depthwise_conv2d, conv), (max_pool2d, pool), (average_pool2d, avg)):
    f(*args, **shapes)  # as it should be
    for value in odd:
        for i in range(len(args)):
            a = list(args)
            a[i] = value
            bad(f, *a, **shapes)
        for name in ("x_shape", "out_shape", "kernel", "stride", "dilation", "pad"):
            if value is None and name in ("stride", "dilation", "pad"):
                continue
            if value in ((0, 0), (3, 3), (65535, 65535)) and name != "x_shape" and name != "out_shape":
                # Windows that lie partly or wholly outside: refused or not, only pads are read.
                try:
                    f(*args, **but(**{name: value}))
                except ValueError:
                    pass
                continue
            bad(f, *args, **but(**{name: value}))
        for name in ("act_min", "act_max", "x_zero", "y_zero", "groups", "pad_end", "count_include_pad"):
            small = value == 1 or (name != "groups" and isinstance(value, int) and -128 <= value < 128)
            if isinstance(value, int) and (name == "count_include_pad" or small):
                continue  # nothing wrong with that
            if name == "pad_end" and (value is None or value in ((0, 0), (3, 3), (65535, 65535))):
                continue  # nor with that
            bad(f, *args, **but(**{name: value}))
    for i in range(len(args)):
        bad(f, *args[:i], **shapes)
    bad(f, *args)
    bad(f, *args, 1, 2, 3, **shapes)
    bad(f, *args, nonsense=1, **shapes)

# Buffers of a wrong length, type or place.
for n in (0, 1, 8, 10, 100):
    bad(conv2d, bytes(n), w4, one32, mult, sh, out4, **shapes)
    bad(max_pool2d, bytes(n), out4, **shapes)
for n in (0, 1, 3, 5, 100):
    bad(conv2d, x9, bytes(n), one32, mult, sh, out4, **shapes)
    bad(conv2d, x9, w4, one32, mult, sh, bytearray(n), **shapes)
    bad(max_pool2d, x9, bytearray(n), **shapes)
for n in (0, 2, 3):
    bad(conv2d, x9, w4, array("i", [0] * n), mult, sh, out4, **shapes)
    bad(conv2d, x9, w4, one32, array("i", [0] * n), sh, out4, **shapes)
    bad(conv2d, x9, w4, one32, mult, bytes(n), out4, **shapes)
bad(conv2d, x9, w4, array("b", [0]), mult, sh, out4, **shapes)
bad(conv2d, x9, w4, array("h", [0, 0]), mult, sh, out4, **shapes)
bad(conv2d, x9, w4, array("f", [0]), mult, sh, out4, **shapes)
bad(conv2d, x9, w4, array("q", [0]), mult, sh, out4, **shapes)
bad(conv2d, x9, w4, memoryview(bytes(8))[1:5], mult, sh, out4, **shapes)
bad(conv2d, array("h", [0] * 9), w4, one32, mult, sh, out4, **shapes)
bad(conv2d, array("O", [0] * 9), w4, one32, mult, sh, out4, **shapes)
bad(conv2d, x9, w4, one32, mult, sh, array("O", [0] * 4), **shapes)
bad(conv2d, x9, w4, one32, mult, sh, bytes(4), **shapes)
bad(conv2d, x9, w4, one32, mult, sh, memoryview(bytes(4)), **shapes)
bad(conv2d, x9, w4, one32, mult, sh, "1234", **shapes)

# Constants out of range.
for value in (-1, -HALF):
    bad(conv2d, x9, w4, one32, array("i", [value]), sh, out4, **shapes)
    bad(average_pool2d, x9, array("i", [value]), sh, out4, **shapes)
for value in (-31, 32, 127, -128):
    bad(conv2d, x9, w4, one32, mult, array("b", [value]), out4, **shapes)
    bad(average_pool2d, x9, mult, array("b", [value]), out4, **shapes)

# Overlaps: the output may touch nothing that is read.
both = bytearray(64)
view = memoryview(both)
for at in range(0, 9):
    bad(conv2d, view[:9], w4, one32, mult, sh, view[at : at + 4], **shapes)
    bad(max_pool2d, view[:9], view[at : at + 4], **shapes)
bad(conv2d, x9, view[:4], one32, mult, sh, view[2:6], **shapes)
bad(conv2d, x9, w4, view[:4], mult, sh, view[:4], **shapes)
max_pool2d(view[:9], view[9:13], **shapes)

# gemm: lengths that do not divide.
g = (array("b", [1, 2, 3]), array("b", [1, 2, 3]), one32, mult, sh)
gemm(*g, bytearray(1))
for x, w, b, o in ((0, 3, 1, 1), (2, 3, 1, 1), (3, 0, 1, 1), (3, 3, 0, 1), (3, 3, 2, 1), (4, 3, 1, 1), (6, 3, 1, 1),
                   (3, 3, 1, 0), (3, 3, 1, 2)):
    bad(gemm, bytes(x), bytes(w), array("i", [0] * b), array("i", [0] * b), bytes(b), bytearray(o))
for value in odd:
    for i in range(6):
        a = list(g) + [bytearray(1)]
        a[i] = value
        bad(gemm, *a)
big = bytearray(70000)
bad(gemm, big, big, array("i", [0]), mult, sh, bytearray(1))
bad(gemm, big, big, array("i", [0] * 70000), array("i", [0] * 70000), big, bytearray(70000))

# add
fit = dict(mult_a=1, mult_b=1, offset=0, shift=0, a_shape=(4,), b_shape=(4,), out_shape=(4,))
add(w4, w4, out4, **fit)
for value in odd:
    for name in fit:
        d = dict(fit)
        d[name] = value
        if value in (1, 2, 5, 0) and name not in ("a_shape", "b_shape", "out_shape"):
            continue
        if name in ("mult_a", "mult_b", "offset") and value in (-1, 65536):
            continue
        bad(add, w4, w4, out4, **d)
d = dict(fit)
d["mult_a"] = (1 << 31) - 1
bad(add, w4, w4, out4, **d)
d = dict(fit)
d["b_shape"] = (3,)
bad(add, w4, w4[:3], out4, **d)
d["b_shape"] = (2, 2)
bad(add, w4, w4, out4, **d)
bad(add, view[:4], view[4:8], view[2:6], **fit)
bad(add, view[:4], view[4:8], view[1:5], **fit)
d = dict(fit, a_shape=(1,))
bad(add, view[:1], view[4:8], view[:4], **d)
bad(add, w4, w4, out4)

# softmax, lut, transpose
table = array("I", [1 << 20] + [1] * 255)
bad(softmax, w4, array("I", [0] * 256), out4)
bad(softmax, w4, array("I", [1 << 24] * 256), out4)
bad(softmax, w4, array("I", [1] * 255), out4)
bad(softmax, w4, array("H", [1] * 512), out4)
bad(softmax, b"", table, bytearray(0))
bad(softmax, bytes(70000), table, bytearray(70000))
bad(softmax, view[:4], table, view[1:5])
for axis in (-1, 3, 5, 1 << 20, 1 << 33, 1 << 66, "x", None, 1.5):
    bad(softmax, w4, table, out4, axis=axis)
same = bytes(range(256))
for n in (0, 1, 255, 257):
    bad(lut, w4, bytes(n), out4)
bad(lut, b"", same, bytearray(0))
bad(lut, w4, same, bytearray(3))
bad(lut, view[:4], same, view[1:5])
bad(lut, view[:4], memoryview(bytearray(256)), bytes(4))
whole = memoryview(bytearray(300))
bad(lut, whole[:4], whole[4:260], whole[258:262])
six = array("b", range(6))
for shape, perm in (
    ((2, 3), (0, 0)), ((2, 3), (0,)), ((2, 3), (0, 2)), ((2, 3), (-1, 0)), ((2, 3), (0, 1, 2)), ((2, 4), (1, 0)),
    ((0, 3), (1, 0)),
    ((2, 3), (0, 1 << 33)), ((65535, 65535), (1, 0)), ((65535,) * 6, (0, 1, 2, 3, 4, 5)),
    ((1,) * 7, (0, 1, 2, 3, 4, 5, 6)),
    (None, None), (6, 0), ((6,), ("0",)), ((), ()),
):
    bad(transpose, six, bytearray(6), x_shape=shape, perm=perm)
bad(transpose, view[:6], view[3:9], x_shape=(2, 3), perm=(1, 0))

print("accepted", len(accepted))
for a in accepted[:20]:
    print(a)
print(sorted(kinds), sum(kinds.values()) > 1500)
print("guard", set(guard[:30]) == {0x5A}, set(guard[34:]) == {0x5A})

# Texts a person can act on.
says(max_pool2d, x9, bytearray(5), **shapes)
says(max_pool2d, bytes(8), out4, **shapes)
says(max_pool2d, x9, bytes(4), **shapes)
says(max_pool2d, view[:9], view[5:9], **shapes)
says(max_pool2d, x9, out4, **but(kernel=2))
says(max_pool2d, x9, out4, **but(act_min=200))
says(conv2d, x9, w4, array("f", [0]), mult, sh, out4, **shapes)
says(conv2d, x9, w4, array("i", [0, 0]), mult, sh, out4, **shapes)
says(gemm, bytes(3), bytes(3), array("i"), mult, sh, out4)
