"""Softmax and its logarithm."""

import math
from collections.abc import Sequence

import numpy as np

from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import rows_counts
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, log2
from mica.kernels.rules import INT32_LIMIT, act, require, same, within


def _softmax_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    require(len(y.dims) >= 1, "softmax of a single element")
    same(x[0], y)
    return {"table": (256 if y.zero_point == -128 and y.scale == 1 / 256 else 512,)}


def _table_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    table, numerators, axis = blobs["table"][:256], blobs["table"][256:], x[0].dims[-1]
    require(int(table[0]) >= 1 and int(table.max()) <= 2**23, "softmax table outside 1 to 2**23")
    require(int(numerators.max(initial=0)) <= 2**31, "a numerator of softmax passes 2**31")
    require(axis * int(table.max()) <= 2**31, f"softmax over {axis} elements can overflow; use a smaller table")


def _softmax_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """Count quotients that are not 0, which are divided, of elements anywhere. Wide tables have all of them."""
    _, counts = rows_counts(step, xs, y, scratch)
    table, n = step.blobs["table"].astype(float), xs[0].dims[-1] if xs[0].dims else 1
    total = table[0] + (n - 1) * table[:256].mean()
    share = float((512 * table[:256] >= total).mean())
    return "wide" if len(table) > 256 else "", counts | {"quotient": counts["row"] * (1 + (n - 1) * share)}


@Kernel(
    id=7,
    blobs=(("table", "u32"),),
    group="activation",
    in_place=True,
    rules=_softmax_rules,
    constants=_table_constants,
    counts=_softmax_counts,
)
def softmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Softmax over the last axis. e = table[d] = round(2**q * exp(-d * sx)), d = max - x in 0..255; y = min(127, (n +
    sum(e) / 2) / sum(e) + zy) in unsigned 32-bit integers, sum over the axis. Where y has scale 1/256 and zero point
    -128, the table has 256 entries and n = 256 * e. Elsewhere it has 512, and n = table[256 + d] = round(2**q * exp(-d
    * sx) / sy). table[0] >= 1, e <= 2**23, axis length * max(e) <= 2**31, n <= 2**31."""
    x = xs[0].astype(np.int64)
    table = blobs["table"].astype(np.int64)
    d = x.max(axis=-1, keepdims=True) - x
    e = table[d]
    total = e.sum(axis=-1, keepdims=True)
    scaled = (table[256 + d] if len(table) == 512 else 256 * e) + total // 2
    assert scaled.max() < 2**32, "the quotient leaves the uint32"
    return np.minimum(127, scaled // total + q.y_zero).astype(np.int8)


def _log_softmax_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    dims = x[0].dims
    require(len(dims) >= 1, "the softmax of a single element")
    within(p, sum=(0, 1))
    if p["sum"]:
        require(math.prod(y.dims) == math.prod(dims[:-1]), f"{list(dims)} without its last axis is not {list(y.dims)}")
    else:
        same(x[0], y)
    bound = 255 * abs(p["mult"]) + 32 * abs(p["mult_log"]) + abs(p["offset"])
    require(bound < INT32_LIMIT, f"the sum can reach {bound}; expected less than 2**31")
    within(p, shift=(0, 30))
    return {"table": (256,)}


@Kernel(
    id=30,
    blobs=(("table", "u32"),),
    params=("sum", "mult", "mult_log", "offset", "shift", *ACT),
    group="activation",
    in_place=True,
    rules=_log_softmax_rules,
    constants=_table_constants,
    counts=rows_counts,
)
def log_softmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Logarithm of the softmax over the last axis. y = clamp(zy + (((x - max(x)) * mult + ((log * mult_log) >> 16) +
    offset) >> shift)), log = floor(2**16 * log2(sum(table[max(x) - x]))), table as for softmax_s8. With sum = 1 max(x)
    stands in the place of x - max(x), and y has one number for each row: the logarithm of the sum of the exponentials.
    255 * |mult| + 32 * |mult_log| + |offset| < 2**31, 0 <= shift <= 30."""
    x = xs[0].astype(np.int64)
    most = x.max(axis=-1, keepdims=True)
    log = log2(blobs["table"].astype(np.int64)[most - x].sum(axis=-1, keepdims=True))
    base = ((log * p["mult_log"]) >> 16) + p["offset"]
    acc = int32((most if p["sum"] else x - most) * p["mult"] + base)
    return clamp(q.y_zero + (acc >> p["shift"]), p).reshape(q.dims)


KERNELS = (softmax_s8, log_softmax_s8)
