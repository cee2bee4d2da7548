"""Softmax and its logarithm."""

import math

import numpy as np

from mica.exporter.step import Form, NoForm, Step, alike

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


FORMS: dict[str, Form] = {"softmax_s8": softmax, "log_softmax_s8": log_softmax}
