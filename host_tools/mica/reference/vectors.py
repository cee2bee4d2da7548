"""Nearest neighbours and machines of support vectors (ir/vectors.py) in float64: sums in an order of their own,
no BLAS."""

import numpy as np

from mica.ir.vectors import Machine, Neighbours, Vectors
from mica.kernels import vectors
from mica.reference import unary

TOO_NEAR = 1e-6  # distances below it weigh what it weighs


def distances(v: Vectors, x: np.ndarray) -> np.ndarray:
    """float64 [S] of one row x [F]."""
    row = np.where(np.isnan(x), v.missing, x.astype(np.float64) * v.factor + v.shift)
    if v.measure == vectors.PRODUCTS:
        return np.asarray((v.points * row).sum(axis=1))
    d = v.points - row
    return np.asarray((d * d if v.measure == vectors.SQUARES else np.abs(d)).sum(axis=1))


def curve(m: Machine, d: np.ndarray) -> np.ndarray:
    """Return a machine's curve at distances d."""
    return unary.composed(np.asarray(d, np.float64), m.program)


def _neighbours(v: Neighbours, x: np.ndarray) -> np.ndarray:
    d = distances(v, x)
    at = np.argsort(d, kind="stable")[: v.k]
    far = np.sqrt(d[at]) if v.weights in (vectors.BY_ROOT, vectors.REACH) else d[at]
    w = 1 / np.maximum(far, TOO_NEAR) if v.weights in (vectors.BY_ROOT, vectors.BY_VALUE) else np.ones(len(at))
    y = np.zeros(v.results)
    np.add.at(y, v.target[at], w * (np.maximum(far, v.value[at]) if v.weights == vectors.REACH else v.value[at]))
    return np.asarray(y / w.sum())


def _machine(m: Machine, x: np.ndarray) -> np.ndarray:
    values = curve(m, distances(m, x))
    return np.asarray(m.bias + (m.factors * values[:, None]).sum(axis=0))


def run(v: Vectors, x: np.ndarray) -> np.ndarray:
    """[..., F] -> float64 [..., N]."""
    samples = x.reshape(-1, x.shape[-1])
    if isinstance(v, Machine):
        rows = [_machine(v, row) for row in samples]
    else:
        rows = [_neighbours(v, row) for row in samples]  # type: ignore[arg-type]
    return np.stack(rows).reshape(*x.shape[:-1], v.results)
