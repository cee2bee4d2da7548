"""Models that hold a row of features against vectors of their training data: nearest neighbours,
machines of support vectors."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

Program = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, eq=False, repr=False)  # equal to itself alone
class Vectors:
    """points float64 [S, F], by a measure of kernels/vectors.py; factor, shift, missing float64 [F].

    A row x [F] of the model's input is held against the points as x * factor + shift, as missing where it is a NaN; NaN
    where the model has no value for it.
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
    """The weighted mean of what the k nearest points say: value float64 [S], to number target int64 [S] of `numbers`.

    By weights of REACH a point says its distance, or its value where that is larger.
    """

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
    """bias [N] + the sum over points of factors [S, N] times a curve of the distance: `program`,
    of reference/unary.composed."""

    program: Program
    factors: np.ndarray
    bias: np.ndarray

    @property
    def results(self) -> int:
        return len(self.bias)


def machine(points: np.ndarray, measure: int, program: Program, factors: np.ndarray, bias: np.ndarray) -> Machine:
    """Return a machine whose input is a row as it is."""
    n = points.shape[1]
    tables = (np.asarray(a, np.float64) for a in (points, factors, bias))
    points, factors, bias = tables
    still = {"factor": np.ones(n), "shift": np.zeros(n), "missing": np.full(n, np.nan)}
    return Machine(points, measure, **still, program=program, factors=factors, bias=bias)


def unary(function: str, at: int, *arguments: float) -> tuple[Any, ...]:
    """Return an instruction of a program: a function of its value number `at`, of which 0 is the distance."""
    return "Unary", {"function": function, "arguments": arguments}, (f"v{at}",)


V = TypeVar("V", bound=Vectors)


def scaled(v: V, factor: np.ndarray, shift: np.ndarray) -> V:
    """The same for x where it was one for x * factor + shift."""
    return replace(v, factor=v.factor * factor, shift=v.factor * shift + v.shift)


def imputed(v: V, values: np.ndarray) -> V:
    """The same for an x with NaNs where it was one for values in their places."""
    return replace(v, missing=v.factor * values + v.shift)
