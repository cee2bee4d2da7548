"""Windows of several axes: from the real numbers of their features to integers."""

import math

import numpy as np

from mica.ir.axes import AxisFeatures
from mica.ir.graph import Graph, Node
from mica.kernels import audio, axes
from mica.quantise.kernels.common import act, emit, quant
from mica.quantise.params import quantise_multiplier
from mica.reference.axes import PER_LN
from mica.reference.front_end import turns
from mica.reference.functions import log

LN2 = 0.6931471805599453
KINDS = {"power": axes.POWER, "rms": axes.RMS}
VALUE_BITS = 29  # of the largest energy that an int8 stands for


def _ln(v: np.ndarray | float) -> np.ndarray:
    return np.asarray(log(np.asarray(v, np.float64)))


def _axis_features(g: Graph, out: Graph, node: Node) -> None:
    f: AxisFeatures = node.attrs["front_end"]
    q = quant(out, node.outputs[0])
    factor, shift = (_by_axis(f, np.asarray(g.data(i), np.float64)) for i in node.inputs[1:])
    if not (factor > 0).all():
        raise ValueError("features that are multiplied with 0 or less; expected factors of more than 0")
    highest = ((127 - q.zero_point) * q.scale - shift) / factor  # of each feature, the largest that an int8 stands for
    worth, offset, places = _worth(f, highest)
    step = worth * factor
    bias = np.rint((offset * factor + shift) / step)
    if np.abs(bias).max() >= axes.BIAS_LIMIT:
        raise ValueError("a feature is too far from zero for its range; subtract its mean before the model")
    mult, shifts = quantise_multiplier(step / q.scale)
    n = len(f.stats)
    tables, least = np.zeros(0), np.zeros(0)
    if f.bands:
        assert f.window is not None
        cosine, sine = (np.rint(t[: f.fft // 2 + 1] * 2.0**audio.UNIT) for t in turns(f.fft))
        window = np.clip(np.rint(f.window * 32768), -32767, 32767)
        tables = np.concatenate([np.stack([cosine, sine], axis=1).reshape(-1), window])
        lowest = np.full(f.axes, -float(axes.VALUE_LIMIT))
        if f.energy not in KINDS and f.least > 0:
            lowest = (_ln(f.least) - _of_power(f)) / LN2 * 2.0**16
        least = np.clip(np.rint(lowest), -axes.VALUE_LIMIT, axes.VALUE_LIMIT)
    blobs = [
        tables.astype(np.int16),
        np.array(f.bands, np.uint16).reshape(-1, 2) if f.bands else np.zeros(0, np.uint16),
        least.astype(np.int32),
        *(_as_laid(f, v, t) for v, t in ((bias, np.int32), (mult, np.int32), (shifts, np.int8))),
    ]
    params = {
        "rows": f.rows,
        "axes": f.axes,
        "stats": sum(v << 4 * k for k, v in enumerate(f.stats)),
        "bands": f.each - n,
        "fft": f.fft,
        "energy": KINDS.get(f.energy, axes.LOG),
        "places": places,
        "flags": axes.ACROSS if f.across else 0,
        **act(q, (None, None)),
    }
    emit(out, node, "axes_s8", node.inputs[:1], blobs, params)


def _by_axis(f: AxisFeatures, v: np.ndarray) -> np.ndarray:
    """A number for each feature, as they lie -> [axes, features of each]."""
    laid = v.reshape(f.shape)
    return laid.T if f.across else laid


def _as_laid(f: AxisFeatures, v: np.ndarray, kind: type[np.generic]) -> np.ndarray:
    return np.ascontiguousarray(v.T if f.across else v).reshape(-1).astype(kind)


def _of_power(f: AxisFeatures) -> np.ndarray:
    """ln of what a step of the kernel's squares is worth, of each axis."""
    return _ln(f.times) + 2 * _ln(f.unit / f.rows)


def _worth(f: AxisFeatures, highest: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Real value of one step of the kernel's values, and their offset, both [axes, features], and `places`."""
    of_sums, of_counts = f.unit / (f.rows << axes.SUM_FRACTION), f.unit / (1 << axes.FRACTION)
    of_stat = [*[of_sums] * 3, *[of_counts] * 3, *[np.full(f.axes, 2.0**-axes.FRACTION)] * 2]
    worth = np.stack([*(of_stat[k] for k in f.stats), *[np.ones(f.axes)] * len(f.bands)], axis=1)
    offset, places = np.zeros_like(worth), 0
    if not f.bands:
        return worth, offset, places
    n = len(f.stats)
    if f.energy in KINDS:
        power = f.times * (f.unit / f.rows) ** 2
        step = (power if f.energy == "power" else np.sqrt(power))[:, None]
        most = float((highest[:, n:] / step).max())
        places = VALUE_BITS - math.frexp(most)[1] if most > 0 else 0
        places = min(max(places, axes.PLACES[0]), axes.PLACES[1])
        worth[:, n:] = step * 2.0**-places
    else:
        worth[:, n:] = PER_LN[f.energy] * LN2 * 2.0**-16
        offset[:, n:] = (PER_LN[f.energy] * _of_power(f))[:, None]
    return worth, offset, places


STEPS = {"AxisFeatures": _axis_features}
