"""Resizing, as products with the weights of rows and of columns."""

import math

import numpy as np

from mica.exporter.step import Form, Step
from mica.kernels.resize import RESIZE_ONE


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


FORMS: dict[str, Form] = {"resize_linear_s8": resize_linear}
