"""Pooling."""

from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_DIM
from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, requantise
from mica.kernels.rules import INT32_LIMIT, act, image, require, same_quantisation, within
from mica.kernels.windows import WINDOW, canvas, taps_of, window_rules, windows_of


def _max_pool_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    _, _, c = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    window_rules(p, oh, ow)
    act(p)
    require(c == cout, f"{c} input and {cout} output channels")
    same_quantisation(x[0], y)
    return {}


def _pool_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    w, c = windows_of(step, xs[0], y), y.dims[3]
    return "", {
        "window": float(w.count),
        "edge": float(w.count - w.whole),
        "row": float(w.rows),
        "tap": float(w.taps),
        "out": float(w.count * c),
        "in": float(w.taps * c),
    }


def _max_pool_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    kind, counts = _pool_counts(step, xs, y, scratch)
    p = step.params
    two = p["kernel_h"] == p["kernel_w"] == 2 and (p["act_min"], p["act_max"]) == (-128, 127) and not counts["edge"]
    return ("2x2" if two else kind), counts


@Kernel(id=4, params=(*WINDOW, *ACT), group="pool", rules=_max_pool_rules, counts=_max_pool_counts)
def max_pool2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Largest value in each window. x [1,H,W,C], y [1,OH,OW,C] with the scale and zero point of x. Taps outside x do
    not count. y = clamp(max(x))."""
    taps = taps_of(canvas(xs[0][0], p, q, -128), p, q)
    return clamp(np.max([tap for row in taps for tap in row], axis=0), p)[None]


def _average_pool_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    h, w, c = image(x[0], "input")
    oh, ow, cout = image(y, "output")
    window_rules(p, oh, ow)
    act(p)
    require(c == cout, f"{c} input and {cout} output channels")
    require(p["dilation_h"] == 1 and p["dilation_w"] == 1, "dilation is not 1")
    within(p, count_include_pad=(0, 1))
    for axis, size, osize, begin, end in (("h", h, oh, "pad_top", "pad_bottom"), ("w", w, ow, "pad_left", "pad_right")):
        require(0 <= p[end] <= MAX_DIM, f"{end} is {p[end]}; expected 0 to {MAX_DIM}")
        last = (osize - 1) * p[f"stride_{axis}"] - p[begin]
        require(p[begin] < p[f"kernel_{axis}"] and last < size, f"a window lies wholly outside the input along {axis}")
    taps = p["kernel_h"] * p["kernel_w"]
    require(255 * taps < INT32_LIMIT, f"a window of {taps} taps can overflow")
    return {"mult": (-taps,), "shift": (-taps,)}


@Kernel(
    id=5,
    blobs=(("mult", "i32"), ("shift", "i8")),
    params=(*WINDOW, "pad_bottom", "pad_right", "count_include_pad", *ACT),
    group="pool",
    rules=_average_pool_rules,
    counts=_pool_counts,
)
def average_pool2d_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Mean of each window, rescaled. x [1,H,W,C], y [1,OH,OW,C]. n is the number of taps inside x, or, with
    count_include_pad, inside x and its pads. y = clamp(zy + requant(sum(x - zx))) with mult and shift of entry n - 1,
    or of the only entry where there is one. Dilation must be 1."""
    x = xs[0][0].astype(np.int64) - q.x_zero
    acc = sum(tap for row in taps_of(canvas(x, p, q, 0), p, q) for tap in row)
    assert isinstance(acc, np.ndarray)

    def count(axis: str, size: int, outs: int, pad: int, pad_end: int) -> Array:
        """Taps along one axis that count, for each output."""
        first = np.arange(outs) * p[f"stride_{axis}"] - pad
        low, high = (-pad, size + pad_end) if p["count_include_pad"] else (0, size)
        return np.minimum(first + p[f"kernel_{axis}"], high) - np.maximum(first, low)

    n = np.outer(
        count("h", x.shape[0], q.dims[1], p["pad_top"], p["pad_bottom"]),
        count("w", x.shape[1], q.dims[2], p["pad_left"], p["pad_right"]),
    )
    entry = n - 1 if blobs["mult"].size > 1 else np.zeros_like(n)
    y = q.y_zero + requantise(int32(acc), blobs["mult"][entry][..., None], blobs["shift"][entry][..., None])
    return clamp(y, p)[None]


KERNELS = (max_pool2d_s8, average_pool2d_s8)
