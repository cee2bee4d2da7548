"""One or two tensors, element by element; softmax and its logarithm."""

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from mica.exporter.step import ALIKE, Form, NoForm, Step, alike
from mica.format.values import levels, quantise_f64


def plain(s: Step) -> bool:
    """True if the step can be computed on [1,C,H,W]: all inputs are there in that order, and all shapes are equal."""
    same = all(x.dims == s.y.dims for x in s.x) and len(s.y.dims) == 4
    return same and s.values.as_nchw(*s.record.inputs)


def add(s: Step) -> None:
    p, nchw = s.p, plain(s)
    unit = math.ldexp(s.y.scale, -p["shift"])  # of one in the sum, as a real number
    a, b = (p[f"mult_{k}"] * unit / x.scale for k, x in zip("ab", s.x, strict=True))
    rounding = (1 << p["shift"]) >> 1
    rest = p["offset"] - rounding + s.x[0].zero_point * p["mult_a"] + s.x[1].zero_point * p["mult_b"]
    exact = _small(s, rest * unit) and a and b
    both = alike(a, -1.0) and alike(b, -1.0)

    def side(i: int, factor: float, multiplier: int) -> str:
        less = alike(factor, -1.0) and not both
        x = s.real(i, nchw) if less else s.times(s.real(i, nchw), factor)
        return s.settled(x, (abs(multiplier) if less else multiplier) * unit) if exact else x

    sides = [side(0, a, p["mult_a"]), side(1, b, p["mult_b"])]
    if alike(b, -1.0) and not both:
        y = s.node("Sub", *sides)
    elif alike(a, -1.0) and not both:
        y = s.node("Sub", *reversed(sides))
    else:
        y = s.node("Add", *sides)
    if exact:
        s.put_sum(y, unit, math.ldexp(1.0, -p["shift"]), nchw, rest)
        return
    units = [x.scale * f / s.y.scale for x, f in zip(s.x, (a, b), strict=True)]
    s.put(_plus(s, y, rest * unit), nchw, units)


def _small(s: Step, number: float) -> bool:
    """True if a number is far below a step of the output."""
    return abs(number) < 100 * ALIKE * s.y.scale


def _plus(s: Step, name: str, number: float) -> str:
    """A value plus a number. A number that is far below a step of the output is left out, without a node."""
    return name if _small(s, number) else s.node("Add", name, s.const(number))


def mul(s: Step) -> None:
    nchw = plain(s)
    product = s.node("Mul", s.real(0, nchw), s.real(1, nchw))
    s.put_sum(product, s.x[0].scale * s.x[1].scale, s.factor(), nchw)


def minmax(s: Step) -> None:
    p, nchw = s.p, plain(s)
    unit = math.ldexp(s.y.scale, -p["shift"])
    rounding = (1 << p["shift"]) >> 1
    sides = []
    for i, (k, x) in enumerate(zip("ab", s.x, strict=True)):
        rest = p[f"offset_{k}"] - rounding + x.zero_point * p[f"mult_{k}"]
        sides.append(_plus(s, s.times(s.real(i, nchw), p[f"mult_{k}"] * unit / x.scale), rest * unit))
    s.put(s.node("Max" if p["larger"] else "Min", *sides), nchw)


def div(s: Step) -> None:
    if s.p["factor"] == 0:
        raise NoForm  # 0, but where b is
    nchw = plain(s)
    a, b = s.real(0, nchw), s.real(1, nchw)
    quotient = s.node("Div", a, b)
    zero = s.node("Equal", a, s.const(0.0))
    quotient = s.node("Where", zero, s.const(0.0), quotient)  # also 0 / 0
    factor = math.ldexp(s.p["factor"], -s.p["shift"])
    s.put(s.times(quotient, factor * s.y.scale * s.x[1].scale / s.x[0].scale), nchw)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x])


# ONNX's functions of one variable without attributes, the plainest first.
_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "": lambda x: x,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: np.asarray(0.5 * (1 + np.tanh(0.5 * x))),
    "Tanh": np.tanh,
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Abs": np.abs,
    "Neg": np.negative,
    "Exp": np.exp,
    "Sqrt": np.sqrt,
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Erf": _erf,
    "Elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "Sin": np.sin,
    "Cos": np.cos,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
}


def lut(s: Step) -> None:
    """A function that has the table's values at all 256 points; else the table itself."""
    table, nchw = s.blobs["table"].reshape(-1), plain(s)
    x = levels(s.x[0].scale, s.x[0].zero_point)
    with np.errstate(all="ignore"):
        for op, function in _FUNCTIONS.items():
            y = function(x)
            if np.all(np.isfinite(y)) and np.array_equal(quantise_f64(y, s.y.scale, s.y.zero_point), table):
                real = s.real(0, nchw)
                s.put(s.node(op, real) if op else real, nchw)
                return
    place = s.node("Add", s.node("Cast", s.integers(0, nchw), to=TensorProto.INT32), s.const(np.int32(128)))
    s.put_integers(s.node("Gather", s.const(table, "table"), place), nchw)


FINE = 2**12  # entries of a table whose rounding does not show


def _sharpness(s: Step) -> float:
    """Factor of the input before the exponential, from the table, which holds exp(-d * sx * sharpness) at d.

    Raises NoForm where the table is no exponential.
    """
    table = s.blobs["table"].reshape(-1)[:256].astype(np.float64)
    d = int(np.flatnonzero(table > table[0] * 1e-4)[-1])
    if table[0] < FINE:
        raise NoForm
    if _off(table, s.x[0].scale) <= 1:
        return 1.0
    if d == 0 or table[0] == table[d]:
        raise NoForm
    sharp = math.log(table[0] / table[d]) / (d * s.x[0].scale)
    if _off(table, s.x[0].scale * sharp) > 1 + 1e-3 * table[0]:
        raise NoForm
    return sharp


def _off(table: np.ndarray, scale: float) -> float:
    """Largest difference between a table and exp(-d * scale)."""
    return float(np.abs(np.rint(table[0] * np.exp(-np.arange(256) * scale)) - table).max())


def softmax(s: Step) -> None:
    x = s.times(s.real(), _sharpness(s))
    table, numerators = (s.blobs["table"].reshape(-1).astype(np.float64)[k : k + 256] for k in (0, 256))
    factor = numerators[0] / table[0] * s.y.scale if numerators.size else 1.0
    s.put(s.times(s.node("Softmax", x, axis=-1), factor))


def log_softmax(s: Step) -> None:
    p, sharp = s.p, _sharpness(s)
    unit = math.ldexp(s.y.scale, -p["shift"])
    factor = p["mult"] * unit / (s.x[0].scale * sharp)
    log = p["mult_log"] * unit / math.log(2)  # of the natural logarithm of the sum
    rounding = (1 << p["shift"]) >> 1
    rest = (p["offset"] - rounding + (s.x[0].zero_point * p["mult"] if p["sum"] else 0)) * unit
    rest += log * math.log(float(s.blobs["table"].reshape(-1)[0]))
    x, last = s.times(s.real(), sharp), s.const(np.array([-1], np.int64))
    if not p["sum"] and alike(log, -factor):
        y = s.times(s.node("LogSoftmax", x, axis=-1), factor)
    elif p["sum"] and alike(log, factor):
        y = s.times(s.node("ReduceLogSumExp", x, last, keepdims=1), factor)
    else:
        most = s.node("ReduceMax", x, last, keepdims=1)
        below = s.node("Sub", x, most)
        spread = s.times(s.node("ReduceLogSumExp", below, last, keepdims=1), log)
        y = s.node("Add", s.times(most if p["sum"] else below, factor), spread)
    if abs(rest) > 0.01 * s.y.scale:
        y = s.node("Add", y, s.const(rest))
    s.put(s.node("Reshape", y, s.shape(s.y.dims)) if p["sum"] else y)


FORMS: dict[str, Form] = {
    "add_s8": add,
    "div_s8": div,
    "log_softmax_s8": log_softmax,
    "lut_s8": lut,
    "minmax_s8": minmax,
    "mul_s8": mul,
    "softmax_s8": softmax,
}
