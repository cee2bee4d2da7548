"""Normalisation."""

import math

import numpy as np

from mica.exporter.step import Form, Step
from mica.kernels.norm import NORM_RESULT, ROOT_MEAN


def layer_norm(s: Step) -> None:
    """Rows of n elements; gamma and beta for each element of a row, or of all rows if they differ from row to row."""
    p, sx = s.p, s.x[0].scale
    n = math.prod(s.y.dims[p["axis"] :])
    rows = math.prod(s.y.dims[: p["axis"]])
    gamma, beta = (_of_elements(s, name, rows, n) for name in ("gamma", "beta"))
    epsilon = max(1e-30, ((p["epsilon_low"] & 0xFFFFFFFF) | p["epsilon_high"] << 32) * 2.0**-14 * sx**2)
    _rows(s, p["mode"], gamma, beta, epsilon)


def norm(s: Step) -> None:
    """The same of norm_s8, whose gamma is counted in what an element is normalised to."""
    p, n = s.p, math.prod(s.y.dims[s.p["axis"] :])
    terms = s.blobs["terms"].astype(np.float64).reshape(n, -1)
    unit = ROOT_MEAN * math.sqrt(63) * p["factor"] * 2.0 ** (p["up"] - 4 - p["fraction"] / 2 - NORM_RESULT)
    gamma = (terms[:, :1].T * unit * s.y.scale).astype(np.float32)
    offset = terms[:, 1] if p["each"] else np.full(n, p["offset"], np.float64)
    beta = (offset * 2.0**-NORM_RESULT - 128.5 - s.y.zero_point) * s.y.scale
    epsilon = max(1e-30, p["epsilon"] * 2.0 ** -p["fraction"] * s.x[0].scale ** 2)
    _rows(s, p["mode"], gamma, beta.astype(np.float32).reshape(1, n), epsilon)


def _rows(s: Step, mode: int, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> None:
    """gamma and beta float32 [1, n], or [rows, n]; epsilon as it is added to n**2 times the variance,
    or to the squares."""
    n, rows = gamma.shape[1], math.prod(s.y.dims) // gamma.shape[1]
    x = s.node("Reshape", s.real(), s.shape((rows, n)))
    last = s.const(np.array([-1], np.int64))
    if mode == 0 and len(gamma) == 1:
        constants = (s.const(gamma[0], "gamma"), s.const(beta[0], "beta"))
        y = s.node("LayerNormalization", x, *constants, axis=-1, epsilon=epsilon / n**2)
    else:
        if mode == 0:
            ones = s.const(np.ones(n, np.float32), "ones")
            y = s.node("LayerNormalization", x, ones, axis=-1, epsilon=epsilon / n**2)
        elif mode == 1:
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


FORMS: dict[str, Form] = {"layer_norm_s8": layer_norm, "norm_s8": norm}
