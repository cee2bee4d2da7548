"""The int8 kernels on any buffers, for experiments at the REPL.

    from mica.kernels import gemm, fold_bias, requant
    x = array("b", ...)          # [rows, k]
    w = array("b", ...)          # [n, k]: one row for each output
    mult, shift = requant(sx * sw / sy)
    gemm(x, w, fold_bias(bias, w, zx), array("i", [mult] * n), array("b", [shift] * n), out, y_zero=zy)

Each returns `out`. Arguments are checked: lengths must be exactly what the shapes say, and `out` may overlap no input
(add, softmax and lut may have it exactly on one). Shapes are tuples without the batch: (H, W, C).

The bias of gemm, conv2d and depthwise_conv2d holds -x_zero * sum(weights) already, and pads read as x_zero;
`fold_bias` makes such a bias. An accumulator becomes an output as in every model:
clamp(y_zero + ((acc * mult + 2**(30 + shift)) >> (31 + shift)), act_min, act_max).
"""

import math
from array import array

import _mica


def __getattr__(name):
    # A kernel that was left out of this firmware is an AttributeError here, not an ImportError of the whole module.
    return getattr(_mica, name)


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
