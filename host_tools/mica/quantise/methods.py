"""Calibration methods: from the histogram of an activation to the range that 256 integers shall span.

    minmax      everything that was seen
    percentile  without the outermost 0.01 % on each side
    mse         the range with the smallest mean squared error of rounding plus clipping
    entropy     the range that keeps most of the distribution's information: smallest Kullback-Leibler divergence
                (S. Migacz, "8-bit inference with TensorRT", GTC 2017, here for asymmetric ranges)

Each returns a range inside [low, high] of what was seen. Which one serves best, `ranges.py` measures.
"""

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

    def error(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        scale, zero = _grid(low, high)
        q = _levels(x, scale, zero)
        q -= zero
        q *= scale
        q -= x
        q *= q
        q *= times
        return np.asarray(np.add.reduce(q, axis=1))

    return _search(h, error, rounds=2)


def entropy(h: Histogram) -> Range:
    """KL(P || Q): P the histogram with its tails moved into the last bins, Q what is left of it after rounding.

    Zeros are left out: they are exact in any range, and behind a Relu would drown everything else.
    """
    x, n = h.points()
    x, n = x[x != 0], n[x != 0]
    if x.size == 0:
        return minmax(h)

    times = n.astype(np.float64)
    up_to = np.concatenate([[0.0], np.cumsum(times)])
    own_up_to = np.concatenate([[0.0], np.cumsum(_of_itself(times))])

    def divergence(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        first, end = np.searchsorted(x, low, "left"), np.searchsorted(x, high, "right")
        some = first < end
        first, last = np.where(some, first, 0), np.where(some, end, 1) - 1
        each = np.arange(len(low))
        level = _levels(x, *_grid(low, high)).astype(np.int64)
        of_all = (level + LEVELS * each[:, None]).reshape(-1)
        inside = (np.arange(x.size) >= first[:, None]) & (np.arange(x.size) <= last[:, None])
        size = LEVELS * len(low)
        bins = np.bincount(of_all, inside.reshape(-1), size).reshape(-1, LEVELS)
        mass = np.bincount(of_all, (inside * times).reshape(-1), size).reshape(-1, LEVELS)
        # Within a level all bins in use become alike: that is what rounding forgets. The tails are not part of Q.
        q = mass / np.maximum(bins, 1) / (up_to[last + 1] - up_to[first])[:, None]
        q[bins == 0] = 1
        logs = functions.log_of_normal(np.maximum(q, 1e-12).reshape(-1)).reshape(q.shape)
        # P, times what all of it comes to: its sum(p log p) is the bins' own but for the two that a tail comes to.
        below, above = up_to[first], up_to[-1] - up_to[last + 1]
        one = first == last
        p = own_up_to[last + 1] - own_up_to[first]
        p -= _of_itself(times[first]) + np.where(one, 0, _of_itself(times[last]))
        p += _of_itself(times[first] + below + np.where(one, above, 0))
        p += np.where(one, 0, _of_itself(times[last] + above))
        mass[each, level[each, first]] += below
        mass[each, level[each, last]] += above
        p -= np.add.reduce(mass * logs, axis=1)
        return np.where(some, p / up_to[-1] - functions.log_of_normal(up_to[-1:]), np.inf)

    return _search(h, divergence, rounds=1)


def _of_itself(x: np.ndarray) -> np.ndarray:
    """x log x of numbers above 0: counts of bins in use."""
    return np.asarray(x * functions.log_of_normal(x))


def _grid(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(scales, integers of zero in 0..255), columns, of ranges that contain zero."""
    scale = (high - low) / (LEVELS - 1)
    return scale[:, None], np.rint(-low / scale)[:, None]


def _levels(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The integers 0..255 that stand for x, float64, a row for each range."""
    q = x / scale
    np.rint(q, out=q)
    q += zero
    np.maximum(q, 0, out=q)
    np.minimum(q, LEVELS - 1, out=q)
    return q


def _search(h: Histogram, cost: Callable[[np.ndarray, np.ndarray], np.ndarray], rounds: int) -> Range:
    """The range of the smallest cost, of equals the first; `cost` takes some ranges at once."""
    low, high = min(h.low, 0.0), max(h.high, 0.0)
    if not low < high:
        return minmax(h)
    ends = [low, high]
    best = float(cost(np.array([low]), np.array([high]))[0])
    asked = {(low, high)}  # what was no better then is no better now
    for _ in range(rounds):
        for side, end in enumerate((low, high)):
            tried = [(end * f, ends[1]) if side == 0 else (ends[0], end * f) for f in FRACTIONS[::-1] if end]
            tried = [t for t in tried if t not in asked]
            if not tried:
                continue
            asked.update(tried)
            found = cost(*np.array(tried).T)
            k = int(np.argmin(found))
            if found[k] < best:
                best, ends = float(found[k]), [float(v) for v in tried[k]]
    return Range(*ends)


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "minmax": minmax,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
}
