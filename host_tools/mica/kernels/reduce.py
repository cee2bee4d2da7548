"""Reductions."""

import math
from collections.abc import Sequence

import numpy as np

from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements, quotient_bits
from mica.kernels.dense import MATMUL_MOST
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, log2, requantise, root
from mica.kernels.rules import act, beside_axis, requant, require, same_quantisation, within

REDUCE_MODES = ("sum", "max", "min", "squares", "absolute", "root", "log")


def _reduce_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    dims, axis, axes = x[0].dims, p["axis"], p["axes"]
    require(axis >= 0 and axes >= 0 and axis + axes <= len(dims), f"dimensions {axis} to {axis + axes} of {list(dims)}")
    n = math.prod(dims[axis : axis + axes])
    rest = math.prod(dims) == n * math.prod(y.dims)
    require(rest, f"{list(dims)} without {axes} dimensions from {axis} on is not {list(y.dims)}")
    within(p, mode=(0, len(REDUCE_MODES) - 1))
    mode = REDUCE_MODES[p["mode"]]
    if mode in ("max", "min"):
        same_quantisation(x[0], y)
    else:
        most = MATMUL_MOST if mode in ("squares", "root") else 2**23
        require(n <= most, f"{n} numbers can overflow; the limit is {most}")
    bias = abs(p["bias"])
    require(bias <= (2**24 if mode == "log" else 0), f"bias is {p['bias']}; expected 0, for logarithms at most 2**24")
    return {}


@Kernel(
    id=19,
    params=("axis", "axes", "mode", "mult", "shift", "bias", *ACT),
    group="reduce",
    rules=_reduce_rules,
    counts=lambda step, xs, y, scratch: (
        f"mode {step.params['mode']}",
        {"out": float(elements(y)), "in": float(elements(xs[0]))},
    ),
)
def reduce_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """One number of all those along `axes` dimensions from `axis` on; y has what remains, in any shape. With d = x -
    zx, mode 0: y = clamp(zy + requant(sum(d))). 1 and 2: y = clamp(max(x)), clamp(min(x)), y has the scale and zero
    point of x. 3: sum(d * d), and 4: sum(|d|), as 0. 5: y = clamp(zy + requant(root)), root = 2**15 * sqrt(sum(d * d))
    to 16 bits. 6: y = clamp(zy + requant(log + bias)), log = floor(2**16 * log2(sum(d))); act_min where sum(d) <= 0. At
    most 2**23 numbers, for 3 and 5 33025; |bias| <= 2**24, 0 but for mode 6."""
    x, mode = xs[0].astype(np.int64), p["mode"]
    over = tuple(range(p["axis"], p["axis"] + p["axes"]))
    if mode in (1, 2):
        return clamp((x.max if mode == 1 else x.min)(axis=over), p).reshape(q.dims)
    d = x - q.x_zero
    acc = int32((d * d if mode in (3, 5) else np.abs(d) if mode == 4 else d).sum(axis=over)).reshape(q.dims)
    dead = np.zeros(q.dims, bool)
    if mode == 5:
        places = np.full(q.dims, 15)
        for _ in range(15):
            small = (acc > 0) & (acc < 2**30)
            acc, places = np.where(small, acc << 2, acc), places - small
        acc = root(acc) << places
    elif mode == 6:
        dead = acc <= 0
        acc = log2(np.where(dead, 1, acc)) + p["bias"]
    y = clamp(q.y_zero + requantise(acc, p["mult"], p["shift"]), p)
    return np.where(dead, np.int8(p.get("act_min", -128)), y)


def _argmax_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    dims, axis = x[0].dims, p["axis"]
    require(0 <= axis < len(dims), f"axis is {axis}; the input has {len(dims)} dimensions")
    require(p["minimum"] in (0, 1) and p["select_last"] in (0, 1), "minimum or select_last is not 0 or 1")
    require(
        math.prod(dims) == dims[axis] * math.prod(y.dims), f"{list(dims)} without axis {axis} is not {list(y.dims)}"
    )
    return {}


@Kernel(id=20, params=("axis", "minimum", "select_last"), y_type="int32", group="reduce", rules=_argmax_rules)
def argmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Index along an axis of the largest element, with minimum = 1 of the smallest. Of equal ones it is the first, with
    select_last = 1 the last. y has the other dimensions, in any shape."""
    x = -xs[0].astype(np.int64) if p["minimum"] else xs[0]
    if p["select_last"]:
        found = x.shape[p["axis"]] - 1 - np.argmax(np.flip(x, p["axis"]), axis=p["axis"])
    else:
        found = np.argmax(x, axis=p["axis"])
    return np.asarray(found, np.int32).reshape(q.dims)


def _top_k_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    axis = p["axis"]
    within(p, smallest=(0, 1))
    beside_axis(x[0], y, axis)
    require(y.dims[axis] <= x[0].dims[axis], f"{y.dims[axis]} places of {x[0].dims[axis]} elements")
    return {}


def _top_k_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """Count for elements in no order: the i-th goes among the k best so far with the probability k / i, and half of
    those move on for it."""
    axis = step.params["axis"]
    n, k = xs[0].dims[axis], y.dims[axis]
    columns = elements(y) / k
    later = k * sum(1.0 / i for i in range(k + 1, n + 1))
    front = sum(1.0 / i for i in range(1, k + 1)) + later / k  # are better than all before them
    moved = k * (k - 1) / 4 + later * (k - 1) / 2
    counts = {"in": n, "placed": k + later, "behind": k + later - front, "moved": moved}
    divided = quotient_bits(math.prod(y.dims[:axis]), math.prod(y.dims[axis + 1 :]))
    return "", {"column": columns, "divided": divided, **{name: columns * count for name, count in counts.items()}}


@Kernel(id=53, params=("axis", "smallest"), y_type="int32", group="reduce", rules=_top_k_rules, counts=_top_k_counts)
def top_k_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Indices along an axis of the largest elements, with smallest = 1 of the smallest: as many as y has there, best
    first, of equal ones the first. Beside the axis y has the dimensions of x."""
    x = xs[0].astype(np.int64) * (1 if p["smallest"] else -1)
    order = np.argsort(x, axis=p["axis"], kind="stable")
    return np.asarray(np.take(order, np.arange(q.dims[p["axis"]]), axis=p["axis"]), np.int32)


KERNELS = (reduce_s8, argmax_s8, top_k_s8)
