"""Matrix products."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.weights import CODES4, OFFSET_ROWS, PLAIN
from mica.kernels.base import (
    ACT,
    REQUANT,
    SCRATCH_FIXED,
    Cost,
    Dims,
    Kernel,
    Scratch,
    Shapes,
    Step,
    Tensor,
    Tensors,
    weights_macs,
)
from mica.kernels.counts import elements, is_fast
from mica.kernels.integers import Array, Blobs, Output, Params, both, clamp, dot, finish, int32, requantise
from mica.kernels.rules import act, broadcast, per_channel, requant, require, within


def _fully_connected_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    a, b = x[0].dims, y.dims
    require(
        len(a) == len(b) >= 1 and a[:-1] == b[:-1],
        f"input {list(a)} and output {list(b)} differ in their leading dimensions",
    )
    return {"weights": (b[-1], a[-1])} | per_channel(b[-1])


def _fully_connected_scratch(x: Dims, y: Dims, p: Params) -> Scratch:
    """One unpacked row of x."""
    tile = 2 * OFFSET_ROWS.row_bytes(x[-1])
    return tile + SCRATCH_FIXED, tile


def _fully_connected_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    k = xs[0].dims[-1]
    rows = elements(xs[0]) // k
    words = -(-k // 4)
    fast = is_fast(step) and 8 * words <= scratch
    return "" if fast else "plain", {
        "row": float(rows),
        "in": 4.0 * rows * words,
        "out": float(elements(y)),
        "mac": 4.0 * words * elements(y),
        "block": float(elements(y) * -(-k // 16)),  # of kernels that take sixteen elements at once
        "few_mac": float(elements(y) * k) if y.dims[-1] < 4 else 0.0,
        "rest_mac": float(rows * (y.dims[-1] % 4) * k),  # of kernels that take four channels at once
    }


@Kernel(
    id=3,
    blobs=(("weights", "i8"), *REQUANT),
    params=ACT,
    layouts=(OFFSET_ROWS, CODES4, PLAIN),
    group="matmul",
    rules=_fully_connected_rules,
    macs=weights_macs,
    scratch=_fully_connected_scratch,
    counts=_fully_connected_counts,
)
def fully_connected_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Matrix product with constant weights. x [...,K], y [...,N] with the same leading dimensions, weights [N,K]. y =
    clamp(zy + requant(bias + sum(x * w))); the bias already holds -zx * sum(w)."""
    return finish(blobs["bias"].astype(np.int64) + dot(xs[0], blobs["weights"]), blobs, p, q)


MATMUL_MOST = 33025  # products that can be summed: 255 * 255 * 33025 < 2**31


def _matmul_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    within(p, transpose_b=(0, 1))
    a, b = x[0].dims, x[1].dims
    require(min(len(a), len(b), len(y.dims)) >= 2, f"{list(a)} times {list(b)}: matrices have two dimensions at least")
    k, n = b[-2:] if not p["transpose_b"] else b[:-3:-1]
    require(a[-1] == k and y.dims[-2:] == (a[-2], n), f"{list(a)} times {list(b)} is not {list(y.dims)}")
    broadcast(a[:-2], b[:-2], y.dims[:-2])
    require(k <= MATMUL_MOST, f"sums of {k} products can overflow; the limit is {MATMUL_MOST}")
    return {}


def _matmul_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    k = xs[0].dims[-1]
    kind = "transposed" if step.params["transpose_b"] else ""
    return kind, {"row": elements(y) / y.dims[-1], "out": float(elements(y)), "mac": float(elements(y) * k)}


@Kernel(
    id=18,
    n_inputs=2,
    params=("transpose_b", "mult", "shift", *ACT),
    group="matmul",
    rules=_matmul_rules,
    macs=lambda xs, y, blobs: math.prod(y) * xs[0][-1],  # as many for each result as a row of the first matrix is long
    counts=_matmul_counts,
)
def matmul_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Matrix product of two tensors. a [...,M,K], b [...,K,N], or [...,N,K] with transpose_b = 1, y [...,M,N]; the
    leading dimensions broadcast as in numpy. y = clamp(zy + requant(sum((a - za) * (b - zb)))). K <= 33025."""
    a, b = (x.astype(np.float64) for x in both(xs, q))  # float64 holds these sums exactly
    acc = (a @ (b.swapaxes(-1, -2) if p["transpose_b"] else b)).astype(np.int64)
    return clamp(q.y_zero + requantise(int32(acc), p["mult"], p["shift"]), p)


KERNELS = (fully_connected_s8, matmul_s8)
