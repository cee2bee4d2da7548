"""The int8 kernels on any buffers, for experiments at the REPL.

    from mica.kernels import gemm, fold_bias, requant
    x = array("b", ...)          # [rows, k]
    w = array("b", ...)          # [n, k]: one row for each output
    mult, shift = requant(sx * sw / sy)
    gemm(x, w, fold_bias(bias, w, zx), array("i", [mult] * n), array("b", [shift] * n), out, y_zero=zy)

Each returns `out`. Arguments are checked as those of a model's steps are: lengths must be exactly what the shapes say,
and `out` may overlap no input (add, softmax and lut may have it exactly on one).
Shapes are tuples without the batch: (H, W, C). int8
buffers: bytes, bytearray, array("b"), memoryview; int32 buffers: array("i"). Slice a memoryview for a part.

The bias of gemm, conv2d and depthwise_conv2d holds -x_zero * sum(weights) already, and pads read as x_zero;
`fold_bias` makes such a bias. An accumulator becomes an output as in every model:
clamp(y_zero + ((acc * mult + 2**(30 + shift)) >> (31 + shift)), act_min, act_max).
"""

import math
from array import array

import _mica

from mica.fields import KERNELS


def _run(kernel, out, inputs, constants=(), params=()):
    """Run a kernel. out and inputs: (buffer, shape, zero point, scale). Return the buffer of `out`;
    raise ValueError where anything is wrong."""
    begin = KERNELS.find("\n" + kernel + " ") + 1
    words = KERNELS[begin : KERNELS.find("\n", begin)].split()
    bar = words.index("|")
    typecodes = "".join([word[-1] for word in words[2:bar]])
    wrong = _mica.run_kernel(kernel, out, inputs, constants, typecodes, params)
    if wrong:
        text, place = wrong
        names = [word[:-2] for word in words[2:bar]] + [""] * (8 - bar) + words[bar + 1 :]  # 6 places for constants
        name = names[place] + ": " if place >= 0 else ""
        raise ValueError(f"{kernel}: {name}{text}")
    return out[0]


# Keyword arguments, and their defaults where they have one.
_OUT = (("y_zero", 0), ("act_min", -128), ("act_max", 127))
_SHAPES = (
    ("x_shape",),
    ("out_shape",),
    ("kernel",),
    ("stride", (1, 1)),
    ("dilation", (1, 1)),
    ("pad", (0, 0)),
    ("x_zero", 0),
)
_SUM = (("a_shape",), ("b_shape",), ("out_shape",), ("mult_a",), ("mult_b",), ("offset",), ("shift",))


def _take(given, known):
    """Return the values of all that are known, in order; raise TypeError where one is missing, or another is given."""
    values = []
    for row in known:
        name = row[0]
        if name not in given and len(row) == 1:
            raise TypeError(f"{name} is missing")
        values.append(given.pop(*row))
    if given:
        raise TypeError(f"there is no argument {min(given)}")
    return values


def _windowed(name, x, constants, out, own, more):
    """own: parameters behind those of the window."""
    x_shape, out_shape, *pairs, x_zero, y_zero, low, high = _take(more, _SHAPES + _OUT)
    params = ()
    for pair in pairs:
        params += _pair(pair)
    y = out, (1,) + tuple(out_shape), y_zero, 1.0
    return _run(name, y, ((x, (1,) + tuple(x_shape), x_zero, 1.0),), constants, params + own + (low, high))


def _pair(numbers):
    if not isinstance(numbers, (tuple, list)) or len(numbers) != 2:
        raise ValueError("kernel, stride, dilation, pad and pad_end: a tuple of 2 numbers is expected")
    return tuple(numbers)


def gemm(
    x: Buffer, weights: Buffer, bias: Buffer, mult: Buffer, shift: Buffer, out: Buffer, **more: Unpack[Clamp]
) -> Buffer:
    """x [rows, k], weights [n, k] -> out [rows, n]; the lengths are the shapes."""
    y_zero, *clamp = _take(more, _OUT)
    n = len(bias)
    k = len(weights) // n if n else 0
    rows = len(x) // k if k else 0
    if not rows:
        raise ValueError("x[rows, k], weights[n, k], bias[n]: lengths do not fit")
    constants = weights, bias, mult, shift
    return _run("fully_connected_s8", (out, (rows, n), y_zero, 1.0), ((x, (rows, k), 0, 1.0),), constants, clamp)


def conv2d(
    x: Buffer, weights: Buffer, bias: Buffer, mult: Buffer, shift: Buffer, out: Buffer, **more: Unpack[Groups]
) -> Buffer:
    """weights [Cout, KH, KW, Cin / groups]; pad: rows above, columns on the left."""
    own = (more.pop("groups", 1),)
    return _windowed("conv2d_s8", x, (weights, bias, mult, shift), out, own, more)


def depthwise_conv2d(
    x: Buffer, weights: Buffer, bias: Buffer, mult: Buffer, shift: Buffer, out: Buffer, **more: Unpack[Window]
) -> Buffer:
    """weights [Cout, KH, KW]; Cout is a multiple of Cin."""
    return _windowed("depthwise_conv2d_s8", x, (weights, bias, mult, shift), out, (), more)


def max_pool2d(x: Buffer, out: Buffer, **more: Unpack[Window]) -> Buffer:
    return _windowed("max_pool2d_s8", x, (), out, (), more)


def average_pool2d(x: Buffer, mult: Buffer, shift: Buffer, out: Buffer, **more: Unpack[Mean]) -> Buffer:
    """mult and shift have one entry, or one for each number of taps that a window can have inside x."""
    own = _pair(more.pop("pad_end", (0, 0))) + (more.pop("count_include_pad", 0),)
    return _windowed("average_pool2d_s8", x, (mult, shift), out, own, more)


def add(a: Buffer, b: Buffer, out: Buffer, **more: Unpack[Sum]) -> Buffer:
    """y_zero + ((a * mult_a + b * mult_b + offset) >> shift); shapes broadcast as in numpy."""
    a_shape, b_shape, out_shape, mult_a, mult_b, offset, shift, y_zero, low, high = _take(more, _SUM + _OUT)
    inputs = (a, a_shape, 0, 1.0), (b, b_shape, 0, 1.0)
    return _run("add_s8", (out, out_shape, y_zero, 1.0), inputs, (), (mult_a, mult_b, offset, shift, low, high))


def softmax(x: Buffer, table: Buffer, out: Buffer, *, axis: int = 0) -> Buffer:
    """table: array("I") of 256 exponentials; axis: how many elements belong together, 0: all."""
    if axis == 0:
        axis = len(x) or 1
    shape = (len(x) // axis, axis)
    return _run("softmax_s8", (out, shape, -128, 1 / 256), ((x, shape, 0, 1.0),), (table,))


def lut(x: Buffer, table: Buffer, out: Buffer) -> Buffer:
    """out[i] = table[x[i] + 128], element by element."""
    n = 65535  # of one axis
    if len(x) > n and len(x) == len(out):
        parts, to = memoryview(x), memoryview(out)
        for i in range(0, len(x), n):
            lut(parts[i : i + n], table, to[i : i + n])
        return out
    shape = (len(x),)
    return _run("lut_s8", (out, shape, 0, 1.0), ((x, shape, 0, 1.0),), (table,))


def transpose(x: Buffer, out: Buffer, *, x_shape: Sequence[int], perm: Sequence[int]) -> Buffer:
    """out's dimension i is x's dimension perm[i]."""
    if sorted(perm) != list(range(len(x_shape))):
        raise ValueError("perm: not a permutation")
    y = out, tuple([x_shape[i] for i in perm]), 0, 1.0
    return _run("transpose_s8", y, ((x, x_shape, 0, 1.0),), (), tuple(perm))


def fold_bias(bias: Sequence[int], weights: Any, x_zero: int) -> array[int]:
    """Return bias[o] - x_zero * sum(weights[o]) as array("i"). weights: [n, anything], one row for each bias."""
    n = len(bias)
    w = memoryview(weights)
    k = len(w) // n
    if k * n != len(w):
        raise ValueError(f"fold_bias: {len(w)} weights are not {n} rows")
    folded = array("i", bias)
    for o in range(n):
        total = 0
        for i in range(o * k, o * k + k):
            v = w[i]
            total += v - 256 if v > 127 else v  # bytes show int8 as 0 to 255
        folded[o] -= x_zero * total
    return folded


def requant(real: float) -> tuple[int, int]:
    """Return (mult, shift) with real = mult * 2**-(31 + shift), as exactly as this board's floats can say it."""
    if not real > 0:
        raise ValueError("requant: a factor above 0 is expected")
    m, e = math.frexp(real)  # m in [0.5, 1)
    mult = int(m * 4294967296.0 + 1) >> 1  # rounded in integers: m * 2**31 + 1/2
    if mult == 1 << 31:
        mult, e = 1 << 30, e + 1
    if not -30 <= -e <= 31:
        raise ValueError("requant: not between 2**-32 and 2**30")
    return mult, -e
