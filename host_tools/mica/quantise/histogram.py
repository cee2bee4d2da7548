"""Histogram of an activation's values, in bounded memory and one pass.

Bins are a power of two wide and begin at zero. When a value does not fit, the width doubles and neighbours merge. So
the bins depend on the values and not on their order, and two histograms add up exactly. Zeros are
counted apart: an int8 zero point stands for zero exactly, and behind a Relu most values are zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

BINS = 4096  # on each side of zero; at least half of them are in use on the longer side, 8 for each of 256 integers


@dataclass(frozen=True)
class Range:
    """Smallest and largest real value that a tensor's integers shall stand for."""

    low: float
    high: float


class Histogram:
    """Counts of the values of one tensor over all samples."""

    def __init__(self) -> None:
        self.low = math.inf
        self.high = -math.inf
        self.zeros = 0
        self.exponent: int | None = None  # a bin is 2**exponent wide; None until something other than zero comes
        self.bins = np.zeros(2 * BINS, np.int64)  # bin k holds [(k - BINS) * width, (k - BINS + 1) * width)

    def add(self, x: np.ndarray) -> None:
        """Counts the values of an array, all finite."""
        x = np.asarray(x).reshape(-1)
        if x.size == 0:
            return
        low, high = float(x.min()), float(x.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        zeros = x.size - int(np.count_nonzero(x))
        self.zeros += zeros
        if zeros == x.size:
            return
        self._widen(math.frexp(max(-low, high))[1] - BINS.bit_length() + 1)  # largest < 2**exponent * BINS
        assert self.exponent is not None
        if not -100 < self.exponent < 100:
            x = x.astype(np.float64)  # where 2**-exponent is no float32
        scaled = x * x.dtype.type(2.0**-self.exponent)  # exact
        place = (scaled if low >= 0 else np.floor(scaled)).astype(np.int64)
        place += BINS
        counts = np.bincount(place, minlength=2 * BINS)
        counts[BINS] -= zeros
        self.bins += counts

    def merged(self, other: Histogram) -> Histogram:
        """The histogram of both sets of values."""
        result = Histogram()
        exponents = [h.exponent for h in (self, other) if h.exponent is not None]
        for h in (self, other):
            result.low, result.high = min(result.low, h.low), max(result.high, h.high)
            result.zeros += h.zeros
            if h.exponent is not None:
                wide = Histogram()
                wide.exponent, wide.bins = h.exponent, h.bins.copy()
                wide._widen(max(exponents))
                result.exponent = wide.exponent
                result.bins += wide.bins
        return result

    def _widen(self, exponent: int) -> None:
        if self.exponent is None:
            self.exponent = exponent
        while self.exponent < exponent:
            half = self.bins.reshape(-1, 2).sum(axis=1)
            self.bins[:] = 0
            self.bins[BINS // 2 : BINS // 2 + BINS] = half
            self.exponent += 1

    @property
    def count(self) -> int:
        """Number of values seen."""
        return self.zeros + int(self.bins.sum())

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """(value at the middle of each bin that is in use, ascending; how many). Zeros are a bin of their own."""
        used = np.flatnonzero(self.bins)
        if self.exponent is None or used.size == 0:
            return np.zeros(1), np.array([self.zeros])
        middle = np.ldexp(used - BINS + 0.5, self.exponent).clip(self.low, self.high)
        at = int(np.searchsorted(middle, 0.0))
        return np.insert(middle, at, 0.0), np.insert(self.bins[used], at, self.zeros)
