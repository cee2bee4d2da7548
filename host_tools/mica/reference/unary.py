"""The functions behind the lookup-table kernel, on float64 arrays. Names and arguments: `ir/ops.py`.

Where a function has no finite value it gives infinity or NaN, as floats do; `finite` says what becomes of those.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mica.format.values import clip_s8, clip_s16
from mica.reference import functions, pointwise

SQRT_HALF = math.sqrt(0.5)
GELU_TANH = math.sqrt(2.0 / math.pi)


def _clip(x: np.ndarray, low: float | None, high: float | None) -> np.ndarray:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # exp of a negative number only: no overflow on either side.
    e = functions.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def _hard_sigmoid(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.clip(alpha * x + beta, 0.0, 1.0)


def _quantise(x: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """The nearest real number that int8 with this scale and zero point can stand for."""
    return (clip_s8(np.rint(x / scale) + zero_point) - zero_point) * scale


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0) + functions.log1p(functions.exp(-np.abs(x)))


def _elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x < 0, alpha * functions.expm1(np.minimum(x, 0.0)), x)


def composed(x: np.ndarray, program: tuple[tuple[Any, ...], ...]) -> np.ndarray:
    """A chain or a small graph of pointwise operators: (operator, attributes, operands), the last one's result.

    Operands are numbers, or "v0" for x, "v1" for the first instruction's result, and so on. No rounding in between.
    """
    values = [x]
    for op, attrs, operands in program:
        arrays = [values[int(i[1:])] if isinstance(i, str) else np.asarray(i, np.float64) for i in operands]
        if op == "Unary":
            values.append(apply(attrs["function"], arrays[0], attrs["arguments"]))
        else:
            values.append(pointwise.FUNCTIONS[op](attrs, arrays))
    return np.broadcast_to(values[-1], x.shape)


# These have the names of their own functions in `reference.functions`.
_SAME = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "log",
    "power",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    **{name: getattr(functions, name) for name in _SAME},
    "abs": np.abs,
    "affine": lambda x, scale, shift: scale * x + shift,
    "ceil": np.ceil,
    "celu": lambda x, alpha: np.maximum(x, 0.0) + np.minimum(0.0, alpha * functions.expm1(np.minimum(x, 0.0) / alpha)),
    "clip": _clip,
    "composed": composed,
    "elu": _elu,
    "equal": lambda x, value: np.equal(x, value).astype(np.float64),
    "floor": np.floor,
    "gelu": lambda x: 0.5 * x * (1.0 + functions.erf(x * SQRT_HALF)),
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + functions.tanh(GELU_TANH * (x + 0.044715 * (x * x * x)))),
    "greater": lambda x, value: np.greater(x, value).astype(np.float64),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5),
    "leaky_relu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "less": lambda x, value: np.less(x, value).astype(np.float64),
    "mish": lambda x: x * functions.tanh(_softplus(x)),
    "network": lambda x, network: network(x),
    "not": lambda x: np.equal(x, 0).astype(np.float64),
    "not_zero": lambda x: np.not_equal(x, 0).astype(np.float64),
    "power_of": lambda x, base: functions.power(base, x),
    "quantise": _quantise,
    "quantise16": lambda x, scale: clip_s16(np.rint(x / scale)) * scale,  # the same with int16, whose zero point is 0
    "reciprocal": lambda x, numerator: numerator / x,
    "round": np.rint,
    "selu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "shrink": lambda x, bias, lambd: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0)),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "softplus": _softplus,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "sqrt": np.sqrt,
    "swish": lambda x, alpha: x * _sigmoid(alpha * x),
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0.0),
    "truncate": np.trunc,
}


def apply(function: str, x: np.ndarray, arguments: tuple[Any, ...]) -> np.ndarray:
    """function(x), elementwise."""
    with np.errstate(all="ignore"):
        return FUNCTIONS[function](np.asarray(x, np.float64), *arguments)


def finite(y: np.ndarray) -> np.ndarray:
    """Infinities become the largest and smallest finite value beside them (so they saturate), NaN becomes 0.

    That keeps a single zero that meets a logarithm from deciding the range of all its results.
    """
    if np.all(np.isfinite(y)):
        return y
    known = y[np.isfinite(y)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    return np.nan_to_num(y, nan=0.0, posinf=max(high, 0.0), neginf=min(low, 0.0))
