"""Calibration methods: from the histogram of an activation to the range that 256 integers shall span.

    minmax      everything that was seen
    percentile  without the outermost 0.01 % on each side
    mse         the range with the smallest mean squared error of rounding plus clipping
    entropy     the range that keeps most of the distribution's information: smallest Kullback-Leibler divergence
                (S. Migacz, "8-bit inference with TensorRT", GTC 2017, here for asymmetric ranges)

Each returns a range inside [low, high] of what was seen. Which one serves best, `ranges.py` measures.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mica.quantise.histogram import Histogram, Range
from mica.reference import functions

TAIL = 1e-4  # share of the values that `percentile` gives up on each side
FRACTIONS = np.linspace(0.25, 1.0, 76)  # of each end, that the searches try
LEVELS = 256


def minmax(h: Histogram) -> Range:
    return Range(h.low, h.high)


def wider(h: Histogram, factor: float) -> Range:
    """More than was seen: what few samples suggest when other samples are clipped by their range."""
    return Range(min(h.low, 0.0) * factor, max(h.high, 0.0) * factor)


def percentile(h: Histogram, tail: float = TAIL) -> Range:
    """[tail, 1 - tail] quantiles, at the resolution of the bins."""
    x, n = h.points()
    below = np.cumsum(n)
    allowed = tail * below[-1]
    low = x[np.searchsorted(below, allowed, "right")]
    high = x[np.searchsorted(below, below[-1] - allowed, "left")]
    # A tail of less than one value cuts nothing.
    return Range(h.low if allowed < 1 else float(low), h.high if allowed < 1 else float(high))


def mse(h: Histogram) -> Range:
    """Each end in turn moves to the best fraction of what was seen, twice."""
    x, n = h.points()
    times = n.astype(np.float64)

    def error(low: float, high: float) -> float:
        scale, zero = _grid(low, high)
        q = _levels(x, scale, zero)
        q -= zero
        q *= scale
        q -= x
        q *= q
        q *= times
        return float(np.add.reduce(q))

    return _search(h, error, rounds=2)


def entropy(h: Histogram) -> Range:
    """KL(P || Q): P the histogram with its tails moved into the last bins, Q what is left of it after rounding.

    Zeros are left out: they are exact in any range, and behind a Relu would drown everything else.
    """
    x, n = h.points()
    x, n = x[x != 0], n[x != 0]
    if x.size == 0:
        return minmax(h)

    up_to = np.concatenate([[0], np.cumsum(n)])
    times = n.astype(np.float64)

    def divergence(low: float, high: float) -> float:
        first, end = np.searchsorted(x, low, "left"), np.searchsorted(x, high, "right")
        if first == end:
            return np.inf
        scale, zero = _grid(low, high)
        inside = slice(first, end)
        level = _levels(x[inside], scale, zero).astype(np.int64)
        p = times[inside].copy()
        p[0] += up_to[first]
        p[-1] += up_to[-1] - up_to[end]
        # Within a level all bins in use become alike: that is what rounding forgets. The tails are not part of Q.
        mass = np.bincount(level, times[inside], LEVELS) / np.maximum(np.bincount(level, minlength=LEVELS), 1)
        whole = np.zeros(x.size)  # for one order of the sum, whichever part is inside
        q = whole[inside]
        np.take(mass, level, out=q)
        q /= np.add.reduce(whole)
        p /= np.add.reduce(p)
        np.maximum(q, 1e-12, out=q)
        np.divide(p, q, out=q)
        p *= functions.log_of_normal(q)  # bins in use have counts, and levels in use a mass
        return float(np.add.reduce(p))

    return _search(h, divergence, rounds=1)


def _grid(low: float, high: float) -> tuple[float, int]:
    """(scale, integer of zero in 0..255) of a range that contains zero."""
    scale = (high - low) / (LEVELS - 1)
    return scale, round(-low / scale)


def _levels(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """The integers 0..255 that stand for x, float64."""
    q = x / scale
    np.rint(q, out=q)
    q += zero
    np.maximum(q, 0, out=q)
    np.minimum(q, LEVELS - 1, out=q)
    return q


def _search(h: Histogram, cost: Callable[[float, float], float], rounds: int) -> Range:
    low, high = min(h.low, 0.0), max(h.high, 0.0)
    if not low < high:
        return minmax(h)
    ends = [low, high]
    best = cost(low, high)
    asked = {(low, high)}  # what was no better then is no better now
    for _ in range(rounds):
        for side, end in enumerate((low, high)):
            for f in FRACTIONS[::-1] if end else ():
                tried = list(ends)
                tried[side] = float(end * f)
                if tuple(tried) in asked:
                    continue
                asked.add((tried[0], tried[1]))
                found = cost(*tried)
                if found < best:
                    best, ends = found, tried
    return Range(*ends)


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "minmax": minmax,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
}
