"""Models that hold a row of features against vectors of their training data: nearest neighbours, machines of support vectors."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)  # equal to itself alone
class Vectors:
    """points float64 [S, F], by a measure of kernels/vectors.py; factor, shift, missing float64 [F].

    A row x [F] of the model's input is held against the points as x * factor + shift, as missing where it is a NaN; NaN where the model has no
    value for it.
    """

    points: np.ndarray
    measure: int
    factor: np.ndarray
    shift: np.ndarray
    missing: np.ndarray

    @property
    def results(self) -> int:
        """Number of results for a row."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours(Vectors):
    """The weighted mean of what the k nearest points say: value float64 [S], to number target int64 [S] of `numbers`."""

    weights: int  # of kernels/vectors.py
    k: int
    target: np.ndarray
    value: np.ndarray
    numbers: int

    @property
    def results(self) -> int:
        return self.numbers


@dataclass(frozen=True, eq=False, repr=False)
class Machine(Vectors):
    """bias [N] + the sum over points of factors [S, N] times function(slope * distance + origin): exp, tanh, power."""

    function: str
    slope: float
    origin: float
    degree: int
    factors: np.ndarray
    bias: np.ndarray

    @property
    def results(self) -> int:
        return len(self.bias)


V = TypeVar("V", bound=Vectors)


def scaled(v: V, factor: np.ndarray, shift: np.ndarray) -> V:
    """The same for x where it was one for x * factor + shift."""
    return replace(v, factor=v.factor * factor, shift=v.factor * shift + v.shift)


def imputed(v: V, values: np.ndarray) -> V:
    """The same for an x with NaNs where it was one for values in their places."""
    return replace(v, missing=v.factor * values + v.shift)
