"""Kernels whose activations are int16 with the zero point 0, and those that come from int8 and go back to it."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.values import HIGH16, LOW16
from mica.kernels.base import ACT, REQUANT, Cost, Kernel, Shapes, Step, Tensor, Tensors, weights_macs
from mica.kernels.counts import elements, rows_counts
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, requantise
from mica.kernels.rules import Broken, act, broadcast, image, per_channel, requant, require, same, within
from mica.kernels.windows import WINDOW, canvas, taps_of, window_rules, windows_of

REACH_LIMIT = 2**46  # of (reach / 2**16 + 1) * mult: a product stays below 2**62
MOST_TAPS = 2**16 - 1  # of a pool: their sum fits 32 bits
LUT_BITS = (1, 12)  # 2**bits pieces
EXP_BITS = 24  # of an exponential: its first factor counts in 2**-24
SOFTMAX_SCALE = 2.0**-15


def _centred(*tensors: Tensor) -> None:
    for t in tensors:
        require(t.zero_point == 0, f"a zero point of {t.zero_point}; int16 has 0")


def _act(p: Params) -> None:
    low, high = p["act_min"], p["act_max"]
    require(LOW16 <= low <= high <= HIGH16, f"clamp [{low}, {high}] is not inside [{LOW16}, {HIGH16}]")


def clamp16(y: Array, p: Params) -> Array:
    """Into the bounds of the activation, int16."""
    return np.clip(y, p.get("act_min", LOW16), p.get("act_max", HIGH16)).astype(np.int16)


def _conv_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _, _, cin = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    window_rules(p, oh, ow)
    _act(p)
    _centred(x[0], y)
    groups = p["groups"]
    require(
        groups >= 1 and cin % groups == 0 and cout % groups == 0,
        f"{groups} groups do not divide {cin} -> {cout} channels",
    )
    return {"weights": (cout, p["kernel_h"], p["kernel_w"], cin // groups)} | per_channel(cout)


def reach_of(weights: Array, bias: Array) -> Array:
    """The largest sum that each output channel can come to, int64."""
    w = np.abs(weights.astype(np.int64)).reshape(weights.shape[0], -1).sum(axis=1)
    out: Array = np.abs(bias.astype(np.int64)) + 2**15 * w
    return out


def _conv_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    reach = reach_of(blobs["weights"], blobs["bias"])
    bound = ((reach >> 16) + 1) * blobs["mult"].astype(np.int64)
    for i in np.flatnonzero((bound > REACH_LIMIT) | (reach >= 2**47))[:1]:
        raise Broken(f"channel {i} can reach {reach[i]} times {blobs['mult'][i]}; 64 bits do not hold that")


def _conv_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p, cout = step.params, y.dims[3]
    cin = xs[0].dims[3] // p["groups"]
    w = windows_of(step, xs[0], y)
    side_by_side = p["groups"] == 1 and p["dilation_w"] == 1
    return "", {
        "out": float(w.count * cout),
        "dot": float((w.rows if side_by_side else w.taps) * cout),
        "mac": float(w.taps * cin * cout),
    }


@Kernel(
    id=60,
    blobs=(("weights", "i8"), *REQUANT),
    params=(*WINDOW, "groups", *ACT),
    x_type="int16",
    y_type="int16",
    group="conv",
    rules=_conv_rules,
    constants=_conv_constants,
    macs=weights_macs,
    counts=_conv_counts,
)
def conv2d_s16(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """2-D convolution of int16. x [1,H,W,Cin], y [1,OH,OW,Cout], zero points 0, weights [Cout,KH,KW,Cin/groups], one
    bias, mult, shift per output channel. y = clamp(requant(bias + sum(x * w))), a tap outside x is 0; sum and product
    have 64 bits: reach = |bias| + 2**15 * sum|w| < 2**47, (reach / 2**16 + 1) * mult <= 2**46, the quotient rounded
    down. Depthwise convolutions have as many groups as channels; matrix products are convolutions of one row of pixels
    by a window of one."""
    weights, groups = blobs["weights"].astype(np.int64), p["groups"]
    taps = taps_of(canvas(xs[0][0], p, q, 0), p, q)
    acc = np.broadcast_to(blobs["bias"].astype(np.int64), q.dims[1:]).copy()
    n_in, n_out = xs[0].shape[3] // groups, q.dims[3] // groups
    for ky, row in enumerate(taps):
        for kx, tap in enumerate(row):
            parts = tap.reshape(*tap.shape[:2], groups, n_in)
            w = weights[:, ky, kx].reshape(groups, n_out, n_in)
            acc += np.einsum("hwgi,goi->hwgo", parts, w).reshape(acc.shape)
    return clamp16(requantise(acc, blobs["mult"], blobs["shift"]), p)[None]


def _pool_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _, _, c = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    window_rules(p, oh, ow)
    _act(p)
    _centred(x[0], y)
    require(c == cout, f"{c} input and {cout} output channels")
    within(p, largest=(0, 1))
    if p["largest"]:
        return {"mult": (0,), "shift": (0,)}
    taps = p["kernel_h"] * p["kernel_w"]
    require(taps <= MOST_TAPS, f"a window of {taps} taps can overflow")
    return {"mult": (-taps,), "shift": (-taps,)}


def _pool_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    w, c = windows_of(step, xs[0], y), y.dims[3]
    return "", {"window": float(w.count), "out": float(w.count * c), "in": float(w.taps * c)}


@Kernel(
    id=61,
    blobs=(("mult", "i32"), ("shift", "i8")),
    params=(*WINDOW, "largest", *ACT),
    x_type="int16",
    y_type="int16",
    group="pool",
    rules=_pool_rules,
    counts=_pool_counts,
)
def pool_s16(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Mean, or with largest = 1 largest value, of each window of int16. x [1,H,W,C], y [1,OH,OW,C], zero points 0. n is
    the number of taps inside x; others do not count. y = clamp(requant(|sum(x)|)), with the sign of the sum, mult and
    shift of entry n - 1 (0 where n is 0), or of the only entry where there is one, at most 65535 taps; y =
    clamp(max(x)) with no entries, where n is 0 act_min."""
    if p["largest"]:
        taps = taps_of(canvas(xs[0][0], p, q, LOW16), p, q)
        return clamp16(np.max([tap for row in taps for tap in row], axis=0), p)[None]
    acc = np.sum([tap for row in taps_of(canvas(xs[0][0], p, q, 0), p, q) for tap in row], axis=0)
    ones = np.ones_like(xs[0][0][..., :1])
    n = np.sum([tap for row in taps_of(canvas(ones, p, q, 0), p, q) for tap in row], axis=0)
    entry = np.maximum(n - 1, 0) if blobs["mult"].size > 1 else np.zeros_like(n)
    mean = requantise(np.abs(acc), blobs["mult"][entry], blobs["shift"][entry])
    return clamp16(np.where(acc < 0, -mean, mean), p)[None]


def _binary_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _act(p)
    _centred(*x, y)
    broadcast(x[0].dims, x[1].dims, y.dims)
    within(p, shift=(1, 62))
    return {}


def _pair_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    return "", {"out": float(elements(y))}


@Kernel(
    id=62,
    n_inputs=2,
    params=("mult_a", "mult_b", "mult_ab", "shift", *ACT),
    x_type="int16",
    y_type="int16",
    group="arithmetic",
    in_place=True,
    rules=_binary_rules,
    counts=_pair_counts,
)
def binary_s16(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Sum, difference or product of two int16 tensors with numpy broadcasting, zero points 0. y = clamp((a * mult_a + b
    * mult_b + a * b * mult_ab + 2**(shift - 1)) >> shift) in 64 bits, 1 <= shift <= 62. With one tensor as both inputs
    it rescales that."""
    a, b = (x.astype(np.int64) for x in xs)
    acc = a * p["mult_a"] + b * p["mult_b"] + a * b * p["mult_ab"] + (1 << (p["shift"] - 1))
    return clamp16(acc >> p["shift"], p).reshape(q.dims)


def _lut_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    same(x[0], y)
    _centred(x[0], y)
    within(p, bits=LUT_BITS)
    return {"table": (2 ** p["bits"] + 1,)}


@Kernel(
    id=63,
    blobs=(("table", "i16"),),
    params=("bits",),
    x_type="int16",
    y_type="int16",
    group="activation",
    in_place=True,
    rules=_lut_rules,
    counts=_pair_counts,
)
def lut_s16(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Any function of one variable, from a table of 2**bits + 1 entries and the lines between them, x and y int16 with
    zero points 0. u = x + 2**15, d = 16 - bits, i = u >> d, f = u mod 2**d; y = table[i] + (((table[i + 1] - table[i])
    * f + 2**(d - 1)) >> d). 1 <= bits <= 12."""
    down = 16 - p["bits"]
    u = xs[0].astype(np.int64) + 2**15
    table = blobs["table"].astype(np.int64)
    low, high, part = table[u >> down], table[(u >> down) + 1], u & ((1 << down) - 1)
    return (low + (((high - low) * part + (1 << (down - 1))) >> down)).astype(np.int16)


def _softmax_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    require(len(y.dims) >= 1, "softmax of a single element")
    same(x[0], y)
    _centred(x[0], y)
    require(np.float32(y.scale) == np.float32(SOFTMAX_SCALE), "an output scale other than 2**-15")
    return {"exponentials": (512,)}


def _softmax_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    table, axis = blobs["exponentials"].astype(np.int64), x[0].dims[-1]
    sound = table[0] == 2**EXP_BITS and table[:256].max() <= 2**EXP_BITS and table[256] >= 1
    require(bool(sound), "the table of softmax_s16 does not begin with 2**24 and 1 or more, or passes 2**24")
    require(axis * int(table[256:].max()) <= 2**31, f"softmax over {axis} elements can overflow; use a smaller table")


@Kernel(
    id=64,
    blobs=(("exponentials", "u32"),),
    x_type="int16",
    y_type="int16",
    group="activation",
    in_place=True,
    rules=_softmax_rules,
    constants=_softmax_constants,
    counts=rows_counts,
)
def softmax_s16(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Softmax over the last axis, x and y int16 with zero points 0, the scale of y 2**-15. t = exponentials, d = max -
    x in 0..65535; e = (t[d >> 8] * t[256 + (d mod 256)] + 2**23) >> 24, t being round(2**24 * exp(-256 * i * sx)), then
    round(2**q * exp(-i * sx)), 256 entries each; y = min(32767, (2**16 * e / sum(e) + 1) >> 1), the quotient rounded
    down, sum over the axis. t[0] = 2**24, t[1] to t[255] at most that, t[256] >= 1, axis length * each of the last 256
    <= 2**31."""
    x = xs[0].astype(np.int64)
    table = blobs["exponentials"].astype(np.int64)
    d = x.max(axis=-1, keepdims=True) - x
    e = (table[d >> 8] * table[256 + (d & 255)] + 2 ** (EXP_BITS - 1)) >> EXP_BITS
    total = e.sum(axis=-1, keepdims=True)
    return np.minimum(HIGH16, ((e << 16) // total + 1) >> 1).astype(np.int16)


def _widen_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _act(p)
    requant(p)
    require(math.prod(x[0].dims) == math.prod(y.dims), f"{list(x[0].dims)} and {list(y.dims)} differ in size")
    _centred(y)
    return {}


@Kernel(id=65, params=("mult", "shift", *ACT), y_type="int16", group="shape", rules=_widen_rules, counts=_pair_counts)
def widen_s16(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """int8 to int16 with the zero point 0. y = clamp(requant(x - zx)), x and y of one size."""
    x = xs[0].astype(np.int64) - q.x_zero
    return clamp16(requantise(x, p["mult"], p["shift"]), p).reshape(q.dims)


def _narrow_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    require(math.prod(x[0].dims) == math.prod(y.dims), f"{list(x[0].dims)} and {list(y.dims)} differ in size")
    _centred(x[0])
    return {}


@Kernel(id=66, params=("mult", "shift", *ACT), x_type="int16", group="shape", rules=_narrow_rules, counts=_pair_counts)
def narrow_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """int16 with the zero point 0 to int8. y = clamp(zy + requant(x)), x and y of one size."""
    return clamp(q.y_zero + requantise(xs[0].astype(np.int64), p["mult"], p["shift"]), p).reshape(q.dims)


KERNELS = (conv2d_s16, pool_s16, binary_s16, lut_s16, softmax_s16, widen_s16, narrow_s8)
NAMES = tuple(k.name for k in KERNELS)
