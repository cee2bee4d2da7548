"""Features of a front end for sensors, in float64, with the same bits on every machine (`exact`, `functions`)."""

import weakref

import numpy as np

from mica.ir.axes import AxisFeatures, Front
from mica.ir.front_end import FrontEnd
from mica.kernels import axes
from mica.reference import exact, front_end, functions

PER_LN = {"ln": 1.0, "log2": 1 / 0.6931471805599453, "log10": 0.4342944819032518, "db": 4.342944819032518}

_tables: weakref.WeakKeyDictionary[AxisFeatures, tuple[exact.Whole, ...]] = weakref.WeakKeyDictionary()


def compute(f: Front, samples: np.ndarray) -> np.ndarray:
    """Features of samples, by either kind of front end."""
    return front_end.features(f, samples) if isinstance(f, FrontEnd) else features(f, samples)


def features(f: AxisFeatures, samples: np.ndarray) -> np.ndarray:
    """Samples in any shape, integers -> float64 [axes, features], or across [features, axes]."""
    x = (
        np.clip(np.rint(np.asarray(samples, np.float64)), -(2**15), 2**15 - 1)
        .astype(np.int64)
        .reshape(f.rows, f.axes)
        .T
    )
    sums = x.sum(axis=1, keepdims=True)
    mean = sums / f.rows
    squares = (x * x).sum(axis=1, keepdims=True)
    deviation = np.sqrt((f.rows * squares - sums * sums).astype(np.float64)) / f.rows
    least, most = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    sizes = [mean, deviation, np.sqrt(squares / f.rows), least, most, most - least]
    above, positive = f.rows * x >= sums, x >= 0
    counts = [(v[:, 1:] != v[:, :-1]).sum(axis=1, keepdims=True) for v in (above, positive)]
    unit = f.unit[:, None]
    every = np.concatenate([*(v * unit for v in sizes), *(v.astype(np.float64) for v in counts)], axis=1)
    assert every.shape[1] == len(axes.STATS)
    out = np.concatenate([every[:, list(f.stats)], _energies(f, f.rows * x - sums)], axis=1)
    return out.T.copy() if f.across else out


def _energies(f: AxisFeatures, x: np.ndarray) -> np.ndarray:
    """x: samples times rows, less their sum, int64 [axes, rows]."""
    if not f.bands:
        return np.zeros((f.axes, 0))
    real, imaginary = _constants(f)
    # Each axis has a unit of its own; so a quiet one loses nothing beside a loud one.
    rows = exact.whole_rows(x.astype(np.float64), exact.bits(f.rows)[0])
    bins = exact.rows_with_rows(rows, real) ** 2 + exact.rows_with_rows(rows, imaginary) ** 2
    sums = np.stack([np.ascontiguousarray(bins[:, k : k + n]).sum(axis=1) for k, n in f.bands], axis=1)
    power = f.times * sums * (f.unit[:, None] / f.rows) ** 2
    if f.energy == "power":
        return np.asarray(power)
    return np.asarray(
        np.sqrt(power) if f.energy == "rms" else PER_LN[f.energy] * functions.log(np.maximum(power, f.least))
    )


def _constants(f: AxisFeatures) -> tuple[exact.Whole, ...]:
    if f not in _tables:
        bins = np.arange(f.fft // 2 + 1)[:, None] * np.arange(f.rows) % f.fft
        tables = [table[bins] * f.window for table in front_end.turns(f.fft)]
        _tables[f] = tuple(exact.whole_rows(t, exact.bits(t.shape[1])[1]) for t in tables)
    return _tables[f]
