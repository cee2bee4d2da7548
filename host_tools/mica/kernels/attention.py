"""Attention of queries over the rows of a cache that are filled, and rotations that say at which place a row stands."""

import math
from collections.abc import Sequence

import numpy as np

from mica.kernels.base import ACT, Cost, Dims, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import copies, elements
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, requantise
from mica.kernels.rules import INT32_LIMIT, act, require, within

MOST_WIDTH = 32768  # of a query: 255 * 128 * this and as much again stay below 2**31
TABLE = 257  # ends of 256 intervals
FALL = 65535  # of a difference of scores, in 1/256 of an interval


def _attend_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    q, k, v = (t.dims for t in x[:3])
    require(
        2 <= len(q) == len(k) == len(v) == len(y.dims),
        "queries, keys, values and output differ in rank, or have one dimension",
    )
    require(
        q[:-2] == k[:-2] == v[:-2] == y.dims[:-2],
        "queries, keys, values and output differ before the last two dimensions",
    )
    require(
        q[-1] == k[-1] and k[-2] == v[-2] and y.dims[-2:] == (q[-2], v[-1]),
        f"{list(q)}, {list(k)} and {list(v)} do not make {list(y.dims)}",
    )
    require(q[-1] <= MOST_WIDTH, f"queries of {q[-1]}; {MOST_WIDTH} are supported")
    require(p["rows"] == k[-2], f"rows is {p['rows']}; there are {k[-2]}")
    require(p["width"] == q[-1], f"width is {p['width']}; queries have {q[-1]}")
    require(
        p["k_zero"] == x[1].zero_point and p["v_zero"] == x[2].zero_point,
        "k_zero or v_zero is not its tensor's zero point",
    )
    require(math.prod(x[3].dims) == 1, f"a length of {math.prod(x[3].dims)} numbers")
    within(p, more=(0, 1))
    require(1 <= p["limit"] < INT32_LIMIT and 0 <= p["fall"] < INT32_LIMIT, "limit or fall is out of its range")
    within(p, fall_shift=(0, 31))
    most = p["limit"] * p["fall"]
    require(most < 2**32 and most >> p["fall_shift"] <= FALL, "the largest difference leaves the table")
    require(0 <= p["mult"] < INT32_LIMIT and -6 <= p["shift"] <= 8, "mult or shift is out of its range")
    return {"table": (TABLE,)}


def _attend_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    table = blobs["table"].astype(np.int64)
    require(table[0] >= 256 and bool((np.diff(table) <= 0).all()), "the table begins below 256, or rises")
    require(255 * int(table[0]) * p["rows"] < INT32_LIMIT, f"sums of {p['rows']} weights of {table[0]} can reach 2**31")


def _attend_macs(xs: Sequence[Dims], y: Dims, blobs: Blobs) -> int:
    """Count those of a length that is the whole cache: each query with each key, each weight with each value."""
    q, k = xs[:2]
    return math.prod(q[:-1]) * k[-2] * (q[-1] + y[-1])


def _attend_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """Count for a length that is the whole cache."""
    queries, rows, d, e = math.prod(y.dims[:-1]), step.params["rows"], xs[0].dims[-1], y.dims[-1]
    return copies(d, e), {
        "query": float(queries),
        "wide": float(queries * (d + e)),
        "row": float(queries * rows),
        "score": float(queries * rows * d),
        "value": float(queries * rows * e),
        "rest": float(queries * rows * (e % 8)),  # of values that no eight take
    }


@Kernel(
    id=48,
    n_inputs=4,
    blobs=(("table", "u16"),),
    params=("rows", "width", "k_zero", "v_zero", "limit", "fall", "fall_shift", "mult", "shift", *ACT, "more"),
    last_type="int32",
    group="activation",
    rules=_attend_rules,
    constants=_attend_constants,
    scratch_of=lambda p: 4 * (p["rows"] + p["width"]),  # a score for each row, and a query without its zero point
    macs=_attend_macs,
    counts=_attend_counts,
)
def attend_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Attention. q [...,M,D], k [...,T,D], v [...,T,E], y [...,M,E], length one number, n = length + more limited to
    1..T. For each row of q: s[t] = sum of (q - zq) * (k[t] - zk), t < n; u = min(max(s) - s[t], limit) * fall >>
    fall_shift; w[t] = table[u >> 8] - ((table[u >> 8] - table[(u >> 8) + 1]) * (u & 255) >> 8); W = sum of w; z = the
    zero bits before W's first of 32; R = min(2**62 / (W * 2**z) rounded down, 2**31 - 1); y = clamp(zy + requant(sum of
    w[t] * (v[t] - zv))) by R * mult >> 31 and 31 - z + shift, which is 2 to 31. rows is T, width D; k_zero and v_zero
    are the tensors' zero points; more is 0, or 1 where the number is the place of the last row. limit * fall < 2**32,
    (limit * fall) >> fall_shift <= 65535, -6 <= shift <= 8, D <= 32768. table falls from 256 or more, 255 * table[0] *
    T < 2**31. Needs scratch: 4 * (T + D) bytes."""
    a = xs[0].astype(np.int64) - q.x_zero
    n = int(np.clip(int(xs[3].reshape(-1)[0]) + p.get("more", 0), 1, p["rows"]))
    k = xs[1][..., :n, :].astype(np.int64) - p["k_zero"]
    v = xs[2][..., :n, :].astype(np.int64) - p["v_zero"]
    scores = int32(a @ np.swapaxes(k, -1, -2))
    apart = np.minimum(scores.max(axis=-1, keepdims=True) - scores, p["limit"])
    u = apart * p["fall"] >> p["fall_shift"]
    i, f, table = u >> 8, u & 255, blobs["table"].astype(np.int64)
    w = table[i] - ((table[i] - table[i + 1]) * f >> 8)
    total = w.sum(axis=-1, keepdims=True)
    acc = int32(w @ v)
    z = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)  # zeros before the first bit of 32
    inverse = np.minimum((1 << 62) // (total << z), INT32_LIMIT - 1)
    return clamp(q.y_zero + requantise(acc, inverse * p["mult"] >> 31, 31 - z + p["shift"]), p)


LARGEST = 255 * 255  # a product of two numbers without their zero points


def _rotate_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    rows, cosines, sines = (t.dims for t in x)
    require(rows == y.dims, f"the output is {list(y.dims)}, the input {list(rows)}")
    require(
        bool(rows) and bool(cosines) and cosines == sines and rows[-1] == 2 * cosines[-1],
        f"rows of {list(rows)} are not twice as long as cosines of {list(cosines)} and sines of {list(sines)}",
    )
    turns = math.prod(cosines[:-1])
    require(
        1 <= p["inner"] < INT32_LIMIT and math.prod(rows[:-1]) % (turns * p["inner"]) == 0,
        f"{turns} rotations of {p['inner']} rows do not divide {math.prod(rows[:-1])}",
    )
    require(
        p["c_zero"] == x[1].zero_point and p["s_zero"] == x[2].zero_point,
        "c_zero or s_zero is not its tensor's zero point",
    )
    within(p, shift=(1, 30))
    most = LARGEST * (p["mult_c"] + p["mult_s"]) + (1 << (p["shift"] - 1))
    require(p["mult_c"] >= 0 and p["mult_s"] >= 0 and most < INT32_LIMIT, "mult_c or mult_s is negative or too large")
    return {}


def _rotate_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    half = xs[1].dims[-1]
    return "", {
        "turn": elements(y) / (2 * half * step.params["inner"]),
        "angle": elements(y) / (2 * step.params["inner"]),
        "out": float(elements(y)),
    }


@Kernel(
    id=49,
    n_inputs=3,
    params=("inner", "c_zero", "s_zero", "mult_c", "mult_s", "shift", *ACT),
    group="arithmetic",
    in_place=True,
    rules=_rotate_rules,
    counts=_rotate_counts,
)
def rotate_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Rotary embedding. x and y [...,2*H]; cosines and sines [...,H], for one row after the other, each for `inner`
    rows of x, and then from the first on again. Of a row a = its first half - zx, b = the second - zx, c = (cosine -
    c_zero) * mult_c, s = (sine - s_zero) * mult_s: the first half of y = clamp(zy + ((a * c - b * s + 2**(shift-1)) >>
    shift)), the second clamp(zy + ((a * s + b * c + 2**(shift-1)) >> shift)). c_zero and s_zero are the tensors' zero
    points. mult_c, mult_s >= 0, 65025 * (mult_c + mult_s) + 2**(shift-1) < 2**31, 1 <= shift <= 30."""
    half = xs[1].shape[-1]
    c = (xs[1].reshape(-1, 1, half).astype(np.int64) - p["c_zero"]) * p["mult_c"]
    s = (xs[2].reshape(-1, 1, half).astype(np.int64) - p["s_zero"]) * p["mult_s"]
    x = xs[0].reshape(-1, len(c), p["inner"], 2 * half).astype(np.int64) - q.x_zero
    a, b = x[..., :half], x[..., half:]
    total = int32(np.concatenate([a * c - b * s, a * s + b * c], axis=-1) + (1 << (p["shift"] - 1)))
    return clamp(q.y_zero + (total >> p["shift"]), p).reshape(q.dims)


KERNELS = (attend_s8, rotate_s8)
