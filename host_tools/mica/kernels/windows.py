"""Windows that move over a picture: their parameters, rules, taps, and how many lie inside."""

from dataclasses import dataclass

import numpy as np

from mica.format.schema import MAX_DIM
from mica.kernels.base import Step, Tensor
from mica.kernels.integers import Array, Output, Params
from mica.kernels.rules import require

WINDOW = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left")
WINDOW_LIMIT = 2**30  # bytes of address arithmetic in C are int32: no window may begin or end beyond this


def window_rules(p: Params, oh: int, ow: int) -> None:
    """The parameters WINDOW, for an output of oh rows of ow pixels."""
    for axis, size in (("h", oh), ("w", ow)):
        kernel, stride, dilation = p[f"kernel_{axis}"], p[f"stride_{axis}"], p[f"dilation_{axis}"]
        pad = p["pad_top" if axis == "h" else "pad_left"]
        for name, value, low in (
            ("kernel", kernel, 1),
            ("stride", stride, 1),
            ("dilation", dilation, 1),
            ("pad", pad, 0),
        ):
            require(low <= value <= MAX_DIM, f"{name}_{axis} is {value}; expected {low} to {MAX_DIM}")
        reach = (size - 1) * stride + (kernel - 1) * dilation
        require(reach <= WINDOW_LIMIT, f"the windows reach {reach} along {axis}; the limit is {WINDOW_LIMIT}")


def canvas(x: Array, p: Params, q: Output, fill: int) -> Array:
    """x [H, W, C] laid on a canvas of `fill` that holds every tap of every window; the first tap is at (0, 0)."""
    h, w, c = x.shape
    oh, ow = q.dims[1:3]
    height = (oh - 1) * p["stride_h"] + (p["kernel_h"] - 1) * p["dilation_h"] + 1
    width = (ow - 1) * p["stride_w"] + (p["kernel_w"] - 1) * p["dilation_w"] + 1
    top, left = p["pad_top"], p["pad_left"]
    canvas = np.full((height, width, c), fill, np.int64)
    rows, cols = max(0, min(h, height - top)), max(0, min(w, width - left))
    canvas[top : top + rows, left : left + cols] = x[:rows, :cols]
    return canvas


def taps_of(canvas: Array, p: Params, q: Output) -> list[list[Array]]:
    """taps[ky][kx]: the element that each output pixel reads there, [OH, OW, C]."""
    oh, ow = q.dims[1:3]
    out = []
    for ky in range(p["kernel_h"]):
        y0 = ky * p["dilation_h"]
        rows = canvas[y0 : y0 + (oh - 1) * p["stride_h"] + 1 : p["stride_h"]]
        starts = [kx * p["dilation_w"] for kx in range(p["kernel_w"])]
        out.append([rows[:, x0 : x0 + (ow - 1) * p["stride_w"] + 1 : p["stride_w"]] for x0 in starts])
    return out


@dataclass(frozen=True)
class Windows:
    """Counts of windows that move over a picture: taps inside, rows of taps inside, windows, and those inside whole."""

    taps: int
    rows: int
    count: int
    whole: int
    runs: int  # of neighbours in a row that have the same taps inside


def _inside(out: int, size: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[int, int]:
    """Along one dimension: taps of all windows that lie inside, and windows that lie inside whole."""
    taps = whole = 0
    for i in range(out):
        at = i * stride - pad
        n = sum(0 <= at + k * dilation < size for k in range(kernel))
        taps += n
        whole += n == kernel
    return taps, whole


def windows_of(step: Step, x: Tensor, y: Tensor) -> Windows:
    p, (_, h, w, _), (_, oh, ow, _) = step.params, x.dims, y.dims
    rows, whole_rows = _inside(oh, h, p["kernel_h"], p["stride_h"], p["dilation_h"], p["pad_top"])
    columns, whole_columns = _inside(ow, w, p["kernel_w"], p["stride_w"], p["dilation_w"], p["pad_left"])
    runs = oh * (ow - max(0, whole_columns - 1))
    return Windows(rows * columns, rows * ow, oh * ow, whole_rows * whole_columns, runs)
