"""Pooling; and resizing, as products with the weights of rows and of columns."""

import math

import numpy as np

from mica.exporter.conv import picture, window
from mica.exporter.step import Form, NoForm, Step, alike, factors
from mica.kernels.resize import RESIZE_ONE


def _pads(s: Step) -> tuple[str, list[int]]:
    """Return what `conv.picture` does. ONNX has no pads as wide as the window."""
    x, pads = picture(s)
    if max(pads[0], pads[2]) >= s.p["kernel_h"] or max(pads[1], pads[3]) >= s.p["kernel_w"]:
        raise NoForm
    return x, pads


def max_pool(s: Step) -> None:
    x, pads = _pads(s)
    s.put(s.node("MaxPool", x, pads=pads, **window(s)), nchw=True)


def average_pool(s: Step) -> None:
    p, taps = s.p, s.p["kernel_h"] * s.p["kernel_w"]
    x, pads = _pads(s)
    real = factors(s.blobs) * (s.y.scale / s.x[0].scale)  # what a sum of n numbers is multiplied by
    attributes = window(s)
    del attributes["dilations"]
    include = int(len(real) == 1 or p["count_include_pad"] == 1)
    if len(real) == 1:
        factor = float(real[0]) * taps  # pads count as zeros, and all windows have all their taps
    elif not all(alike(f, real[0] / n) for n, f in enumerate(real, 1)):
        raise NoForm
    else:
        factor = float(real[0])
        if include and pads[2:] != [p["pad_bottom"], p["pad_right"]]:
            raise NoForm  # windows reach beyond the pads, where nothing counts
    y = s.node("AveragePool", x, pads=pads, count_include_pad=include, **attributes)
    of_all = float(factors(s.blobs)[-1])
    if len(real) == 1 or not any(pads):
        s.put_sum(s.times(y, factor), of_all * s.y.scale, of_all, nchw=True)
    else:
        s.put(s.times(y, factor), nchw=True, units=[of_all])


def resize_linear(s: Step) -> None:
    h, w = s.x[0].dims[1:3]
    rows, columns = (
        _matrix(s.blobs[f"{k}s"], s.blobs[f"{k}_weights"], size) for k, size in (("row", h), ("column", w))
    )
    y = s.node("MatMul", s.const(rows, "rows"), s.real(0, nchw=True))
    unit = math.prod(int(np.gcd.reduce(s.blobs[f"{k}_weights"], axis=None)) / RESIZE_ONE for k in ("row", "column"))
    y = s.node("MatMul", y, s.const(np.ascontiguousarray(columns.T), "columns"))
    s.put_sum(y, unit * s.y.scale, unit, nchw=True)


def _matrix(first: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """float32 [outputs, size]."""
    matrix = np.zeros((len(first), size), np.float32)
    for k, (at, row) in enumerate(zip(first.astype(int), weights, strict=True)):
        matrix[k, at : at + len(row)] = row / np.float32(RESIZE_ONE)
    return matrix


FORMS: dict[str, Form] = {
    "average_pool2d_s8": average_pool,
    "max_pool2d_s8": max_pool,
    "resize_linear_s8": resize_linear,
}
