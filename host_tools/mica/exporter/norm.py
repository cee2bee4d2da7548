"""Normalisation."""

from __future__ import annotations

import math

import numpy as np

from mica.exporter.step import Form, Step


def layer_norm(s: Step) -> None:
    """Rows of n elements; gamma and beta for each element of a row, or of all rows where they differ from row to row."""
    p, sx = s.p, s.x[0].scale
    n = math.prod(s.y.dims[p["axis"] :])
    rows = math.prod(s.y.dims[: p["axis"]])
    gamma, beta = (_of_elements(s, name, rows, n) for name in ("gamma", "beta"))
    epsilon = max(1e-30, ((p["epsilon_low"] & 0xFFFFFFFF) | p["epsilon_high"] << 32) * 2.0**-14 * sx**2)
    x = s.node("Reshape", s.real(), s.shape((rows, n)))
    last = s.const(np.array([-1], np.int64))
    if p["mode"] == 0 and len(gamma) == 1:
        y = s.node(
            "LayerNormalization",
            x,
            s.const(gamma[0], "gamma"),
            s.const(beta[0], "beta"),
            axis=-1,
            epsilon=epsilon / n**2,
        )
    else:
        if p["mode"] == 0:
            ones = s.const(np.ones(n, np.float32), "ones")
            y = s.node("LayerNormalization", x, ones, axis=-1, epsilon=epsilon / n**2)
        elif p["mode"] == 1:
            square = s.node("ReduceSum", s.node("Mul", x, x), last, keepdims=1)
            y = s.node("Div", x, s.node("Sqrt", s.node("Add", square, s.const(epsilon))))
        else:
            total = s.node("ReduceSum", s.node("Abs", x), last, keepdims=1)
            square = s.node("Add", s.node("Mul", total, total), s.const(epsilon))
            y = s.node("Div", x, s.node("Sqrt", square))
        y = s.node("Add", s.node("Mul", y, s.const(gamma, "gamma")), s.const(beta, "beta"))
    s.put(s.node("Reshape", y, s.shape(s.y.dims)))


def _of_elements(s: Step, name: str, rows: int, n: int) -> np.ndarray:
    """float32 [1, n], or [rows, n] where rows differ, as real numbers."""
    at = np.arange(rows * n).reshape(rows, n) // s.p["inner"] % s.p["channels"]
    values = (s.blobs[name].astype(np.float64) * math.ldexp(s.y.scale, -s.p["shift"])).astype(np.float32)[at]
    return values[:1] if np.all(values == values[:1]) else values


FORMS: dict[str, Form] = {"layer_norm_s8": layer_norm}
