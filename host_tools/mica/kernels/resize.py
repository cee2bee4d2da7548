"""Resizing."""

from collections.abc import Sequence

import numpy as np

from mica.format.values import saturate
from mica.kernels.base import Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Array, Blobs, Output, Params, int32
from mica.kernels.rules import image, require, same_quantisation, within

RESIZE_ONE, RESIZE_MOST = 2048, 2896  # sum of the weights of an entry; largest sum of their absolute values


def _resize_linear_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    h, w, c = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    require(c == cout, f"{c} input and {cout} output channels")
    within(p, row_taps=(1, min(255, h)), column_taps=(1, min(255, w)))
    same_quantisation(x[0], y)
    a, b = p["row_taps"], p["column_taps"]
    return {"rows": (oh,), "row_weights": (oh, a), "columns": (ow,), "column_weights": (ow, b)}


def _resize_linear_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    _entries("rows", x[0].dims[1], blobs["rows"], blobs["row_weights"])
    _entries("columns", x[0].dims[2], blobs["columns"], blobs["column_weights"])


def _entries(what: str, size: int, first: Array, weights: Array) -> None:
    w = weights.astype(np.int64)
    inside = bool((first.astype(np.int64) + w.shape[1] <= size).all())
    require(inside, f"{what}: a tap lies outside the {size} of the input")
    require(bool((w.sum(axis=1) == RESIZE_ONE).all()), f"{what}: the weights of an entry do not sum to {RESIZE_ONE}")
    require(bool((np.abs(w).sum(axis=1) <= RESIZE_MOST).all()), f"{what}: |weights| sum to more than {RESIZE_MOST}")


def _resize_linear_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p, n = step.params, float(elements(y))
    return "", {
        "out": n,
        "row": n * p["row_taps"],
        "tap": n * p["row_taps"] * p["column_taps"],
        "window": n / y.dims[-1],
    }


@Kernel(
    id=14,
    blobs=(("rows", "u16"), ("row_weights", "i16"), ("columns", "u16"), ("column_weights", "i16")),
    params=("row_taps", "column_taps"),
    group="shape",
    rules=_resize_linear_rules,
    constants=_resize_linear_constants,
    counts=_resize_linear_counts,
)
def resize_linear_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Resizing as weighted sums. x [1,H,W,C], y [1,OH,OW,C] with the scale and zero point of x; rows [OH], row_weights
    [OH,row_taps] and columns, column_weights likewise. y[i,j] = clamp((2**21 + sum over a < row_taps of
    row_weights[i,a] * sum over b < column_taps of column_weights[j,b] * x[rows[i] + a, columns[j] + b]) >> 22). All
    taps lie inside x, 1 to 255 of them; the weights of an entry sum to 2048, their absolute values to at most 2896, so
    the sums stay below 2**31 and zero points cancel."""
    x = xs[0][0].astype(np.int64)
    for axis, entry, taps in ((1, "column", p["column_taps"]), (0, "row", p["row_taps"])):
        places = np.add.outer(blobs[f"{entry}s"].astype(np.int64), np.arange(taps))
        weights = blobs[f"{entry}_weights"].astype(np.int64)
        x = np.moveaxis(np.einsum("ot...,ot->o...", np.moveaxis(x, axis, 0)[places], weights), 0, axis)
    return saturate(int32(x + 2**21) >> 22)[None]


KERNELS = (resize_linear_s8,)
