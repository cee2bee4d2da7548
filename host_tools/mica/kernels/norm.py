"""Normalisation."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_DIM
from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, root
from mica.kernels.rules import INT32_LIMIT, act, require, same, within


def _layer_norm_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    same(x[0], y)
    axis, inner, channels = p["axis"], p["inner"], p["channels"]
    require(0 <= axis <= len(y.dims), f"axis is {axis}; the input has {len(y.dims)} dimensions")
    n = math.prod(y.dims[axis:])
    require(n <= MAX_DIM, f"{n} elements to normalise together; the limit is {MAX_DIM}")
    sizes = 1 <= inner <= MAX_DIM and 1 <= channels <= MAX_DIM
    divides = sizes and n % inner == 0 and (channels % (n // inner) == 0 or (inner == 1 and n % channels == 0))
    require(divides, f"{channels} channels of {inner} do not divide rows of {n}")
    within(p, mode=(0, 2), epsilon_high=(0, 2**30 - 1), shift=(0, 30))
    return {"gamma": (channels,), "beta": (channels,)}


def norm_reach(n: int) -> int:
    """No element of n lies this many standard deviations from their mean, nor norms from 0; with room for rounding."""
    root = math.isqrt(n)
    return root + (n - root * root > root) + 2


def _layer_norm_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    gamma, beta = (np.abs(blobs[b].astype(np.int64)) for b in ("gamma", "beta"))
    most = int((gamma * norm_reach(math.prod(y.dims[p["axis"] :])) + beta).max()) + ((1 << p["shift"]) >> 1)
    require(most < INT32_LIMIT - 1, f"a result can reach {most}; expected less than 2**31 - 1")


WIDE = (2**15 - 1) // 255  # beyond it a row's sums times its length need products of 64 bits


def _layer_norm_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    n = math.prod(xs[0].dims[step.params["axis"] :])
    wide = " wide" if step.params["mode"] == 0 and n > WIDE else ""
    rows, inner = elements(xs[0]) / n, step.params["inner"]
    parts = rows * max(1, n // step.params["channels"]) if inner == 1 else rows * n / inner
    return f"mode {step.params['mode']}{wide}", {"row": rows, "part": parts, "in": float(elements(xs[0]))}


@Kernel(
    id=22,
    blobs=(("gamma", "i32"), ("beta", "i32")),
    params=("axis", "inner", "channels", "mode", "epsilon_low", "epsilon_high", "shift", *ACT),
    group="reduce",
    in_place=True,
    rules=_layer_norm_rules,
    constants=_layer_norm_constants,
    counts=_layer_norm_counts,
)
def layer_norm_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Normalisation of rows: the n elements along the dimensions from `axis` on. y = clamp(zy + ((((normal * gamma[c])
    >> 20) + beta[c] + 2**(shift-1)) >> shift)), normal in units of 2**-20. With d = x - zx and e = epsilon * 2**-14,
    mode 0: normal = (n * x - sum(x)) / sqrt(n * sum(x * x) - sum(x)**2 + e); 1: d / sqrt(sum(d * d) + e); 2: d /
    sqrt(sum(|d|)**2 + e). Element i of row r has c = (r * n / inner + i / inner) % channels. x and y have one shape;
    epsilon < 2**62; n <= 65535; (root(n) + 2) * |gamma| + |beta| + 2**(shift-1) < 2**31 - 1; 0 <= shift <= 30."""
    n = int(np.prod(q.dims[p["axis"] :], dtype=np.int64))
    x = xs[0].reshape(-1, n).astype(np.int64) - (0 if p["mode"] == 0 else q.x_zero)
    total, squares, absolute = x.sum(axis=1), (x * x).sum(axis=1), np.abs(x).sum(axis=1)
    spread = (n * squares - total**2, squares, absolute**2)[p["mode"]]
    wide = (spread << 14) + ((p["epsilon_low"] & 0xFFFFFFFF) | p["epsilon_high"] << 32)
    assert wide.min() >= 0, "the spread leaves the uint64"
    shift = np.zeros_like(wide)
    mantissa = wide.astype(np.uint64)
    for _ in range(31):
        small = (mantissa > 0) & (mantissa >> np.uint64(62) == 0)
        mantissa, shift = np.where(small, mantissa << np.uint64(2), mantissa), shift + small
    r = root((mantissa >> np.uint64(32)).astype(np.int64))
    scale = np.where(wide == 0, 0, (2**31 + r // 2) // np.maximum(r, 1))
    d = n * x - total[:, None] if p["mode"] == 0 else x
    left, right = np.maximum(shift - 20, 0)[:, None], np.maximum(20 - shift, 0)[:, None]
    normal = int32((d * scale[:, None] << left) >> right)
    channel = np.arange(x.size).reshape(x.shape) // p["inner"] % p["channels"]
    acc = ((normal * blobs["gamma"].astype(np.int64)[channel]) >> 20) + blobs["beta"].astype(np.int64)[channel]
    acc = int32(int32(acc) + ((1 << p["shift"]) >> 1)) >> p["shift"]
    return clamp(q.y_zero + acc, p).reshape(q.dims)


# Of norm_s8. An element of a row is at most this large, so that with what rounding adds it is an int16.
NORM_MOST = 2**15 - 64
ROOT_SQUARE = 63 << 24  # m * R**2 / 2**16, R being the reciprocal root of m: R of the least m is below 2**16
ROOT_MEAN = 1 - 1.8e-5  # what reciprocal_root() gives, of the truth, in the mean
NORM_RESULT = 20  # bits behind the point of a result
MOST_OF_FACTOR = 2**24  # n * factor, mode 0: sum(x) times the scale of a row fits 32 bits


def norm_reach_squared(mode: int, n: int) -> int:
    """An element is at most the root of this many times what its row is divided by, mode 0 or 1."""
    return max(n - 1, 1) if mode == 0 else 1


def most_spread(mode: int, n: int, x_zero: int) -> int:
    """n**2 times the variance of n int8 numbers at most, mode 0; 1: the sum of squares of x - x_zero."""
    return (255 * n) ** 2 // 4 if mode == 0 else n * max(127 - x_zero, x_zero + 128) ** 2


def _norm_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    same(x[0], y)
    axis, mode = p["axis"], p["mode"]
    require(0 <= axis <= len(y.dims), f"axis is {axis}; the input has {len(y.dims)} dimensions")
    n = math.prod(y.dims[axis:])
    require(n <= MAX_DIM, f"{n} elements to normalise together; the limit is {MAX_DIM}")
    within(p, mode=(0, 1), each=(0, 1))
    fraction, epsilon, factor, up = p["fraction"], p["epsilon"], p["factor"], p["up"]
    within(p, fraction=(0, 16), epsilon=(0, INT32_LIMIT - 1), factor=(1, 65535), up=(-24, 16))
    require(abs(p["offset"]) < 2**30, f"offset is {p['offset']}; expected less than 2**30")
    most = (most_spread(mode, n, x[0].zero_point) << fraction) + epsilon
    require(most < 2**32, f"the spread of a row can reach {most}; expected less than 2**32")
    require(mode == 1 or n * factor <= MOST_OF_FACTOR, f"n * factor is {n * factor}; expected {MOST_OF_FACTOR} at most")
    down = 8 + fraction - 2 * up
    fits = down >= 0 and norm_reach_squared(mode, n) * 63 * factor**2 <= NORM_MOST**2 << down
    require(fits, f"factor {factor} and up {up} are too large: elements that are normalised can leave 16 bits")
    return {"terms": (n * (1 + p["each"]),)}


def _norm_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    terms = blobs["terms"].astype(np.int64).reshape(-1, 1 + p["each"])
    gamma = terms[:, 0]
    require(bool(np.all((gamma >= -(2**15)) & (gamma < 2**15))), "a gamma leaves 16 bits")
    require(bool(np.all(np.abs(terms[:, 1:]) < 2**30)), "an offset is 2**30 or more")


def reciprocal_root(m: Array) -> Array:
    """About 2**8 * sqrt(63 * 2**24 / m), to 1.4 at most; m in [2**14, 2**16].
    Three of Newton's steps, products of 32 bits."""
    m = m.astype(np.int64)
    r = 69250 - (m * 39500 >> 16)
    for _ in range(3):
        r = r + (int32(((ROOT_SQUARE - (m >> 1) - (r * r >> 16) * m) >> 14) * r) >> 17)
    return r


def _shifted(v: Array, up: Array) -> Array:
    """v * 2**up, rounded, halves up."""
    down = np.maximum(-up, 0)
    return np.where(up >= 0, v << np.maximum(up, 0), (v + ((1 << down) >> 1)) >> down)


def _norm_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    n = math.prod(xs[0].dims[step.params["axis"] :])
    kind = f"mode {step.params['mode']}{' each' if step.params['each'] else ''}{'' if n % 8 == 0 else ' odd'}"
    return kind, {"row": elements(xs[0]) / n, "in": float(elements(xs[0]))}


@Kernel(
    id=58,
    blobs=(("terms", "i32"),),
    params=("axis", "mode", "each", "fraction", "epsilon", "factor", "up", "offset", *ACT),
    group="reduce",
    in_place=True,
    rules=_norm_rules,
    constants=_norm_constants,
    counts=_norm_counts,
)
def norm_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Normalisation of rows in 32 bits: the n elements along the dimensions from `axis` on. y = clamp(((t * gamma[i] +
    offset[i]) >> 20) - 128), t = (x * F - C + 2**15) >> 16. F and C of a row: with mode 0 V = n * sum(x * x) -
    sum(x)**2, 1: V = sum((x - zx)**2); W = V * 2**fraction + epsilon, R the reciprocal root of its mantissa and h half
    of the shift that makes it one (see the notes), S = (R * factor + 2**15) >> 16; mode 0: F = n * S, C = sum(x) * S;
    1: F = S, C = zx * S; each times 2**(h + up) and rounded, halves up. Both are 0 where W is. terms: gamma [n], and
    `offset` is that of all; or with `each` [n, 2] of gamma and offset. -2**15 <= gamma < 2**15, |offset| < 2**30; 0 <=
    fraction <= 16; 0 <= epsilon < 2**31; 1 <= factor <= 65535; -24 <= up <= 16; most of V * 2**fraction + epsilon <
    2**32, V being (255 * n)**2 / 4 at most in mode 0, n * max(127 - zx, zx + 128)**2 in mode 1; mode 0: n * factor <=
    2**24; reach * 63 * factor**2 <= 32704**2 * 2**(8 + fraction - 2 * up), reach = n - 1 (but 1 for n = 1) in mode 0, 1
    in mode 1, 2 * up <= 8 + fraction."""
    n = int(np.prod(q.dims[p["axis"] :], dtype=np.int64))
    x = xs[0].reshape(-1, n).astype(np.int64)
    total, d = x.sum(axis=1), x - q.x_zero
    spread = n * (x * x).sum(axis=1) - total**2 if p["mode"] == 0 else (d * d).sum(axis=1)
    wide = (spread << p["fraction"]) + p["epsilon"]
    assert wide.max(initial=0) < 2**32, "the spread leaves the uint32"
    mantissa, up = wide, np.full_like(wide, p["up"])
    for _ in range(15):
        small = (mantissa > 0) & (mantissa >> 30 == 0)
        mantissa, up = np.where(small, mantissa << 2, mantissa), up + small
    scale = reciprocal_root(np.maximum(((mantissa >> 15) + 1) >> 1, 2**14))
    scale = np.where(wide == 0, 0, ((scale * p["factor"] >> 15) + 1) >> 1)
    often, middle = (n, total) if p["mode"] == 0 else (1, np.full_like(total, q.x_zero))
    factor, centre = _shifted(often * scale, up), _shifted(int32(middle * scale), up)
    t = int32(x * factor[:, None] - centre[:, None] + 2**15) >> 16
    terms = blobs["terms"].astype(np.int64).reshape(n, 1 + p["each"])
    acc = int32(t * terms[:, 0] + (terms[:, 1] if p["each"] else p["offset"]))
    return clamp((acc >> NORM_RESULT) - 128, p).reshape(q.dims)


KERNELS = (layer_norm_s8, norm_s8)
