"""Results of framing and arithmetic on recognised values (`values`); None if the result is not recognised."""

from dataclasses import replace

import numpy as np

from mica.sound.recognise.values import NOTHING, Bands, Frames, Lines, Logs, Recognised, Samples, Spectrum, width

# Of a square: what exporters add before a square root for its gradient, below what int16 samples hold.
ROOT_FLOOR = 1e-8
MOST_PLACES = 1 << 24  # of all samples of all frames


def framed(v: Samples, rows: np.ndarray) -> Lines | None:
    """Lines [..., Q] of the last axis of samples; rows [Q, n]."""
    n = v.at.shape[-1]
    if v.at.size > MOST_PLACES:
        return None
    places, gains = v.at.reshape(-1, n), v.gain.reshape(-1, n)
    if (gains != gains[:1]).any():
        return None
    used = np.flatnonzero((places != NOTHING).any(axis=0))
    n = int(used[-1]) + 1 if used.size else n  # zeros behind every frame lengthen its spectrum alone
    count = len(rows)
    at = np.arange(len(places) * count).reshape(*v.at.shape[:-1], count)
    return Lines(at, np.ones(at.shape), Frames(places[:, :n], (rows * gains[0])[:, :n]))


def times(at: np.ndarray, v: Bands | Logs, w: np.ndarray) -> Bands | Logs | None:
    """Elements `at` [..., K] of v times w [K, M], over their last axis."""
    if (isinstance(v, Bands) and v.floor is not None) or (isinstance(v, Logs) and (v.least, v.most) != (None, None)):
        return None
    n, (k, m) = width(v), w.shape
    flat = at.reshape(-1, k)
    frame, place = flat // n, flat[:1] % n
    if (frame != frame[:, :1]).any() or (flat % n != place).any():
        return None
    source = v.filters if isinstance(v, Bands) else v.matrix
    table = np.zeros((m, source.shape[1]))
    for i, p in enumerate(place[0]):  # in this order on every machine
        table += w[i][:, None] * source[p]
    new = (frame[:, :1] * m + np.arange(m)).reshape(*at.shape[:-1], m)
    if isinstance(v, Bands):
        return replace(v, at=new, filters=table, single=False)
    shift = np.zeros(m)
    for i, p in enumerate(place[0]):
        shift = shift + w[i] * v.shift[p]
    return replace(v, at=new, matrix=table, shift=shift)


def _each(v: Bands | Logs, c: np.ndarray) -> np.ndarray | None:
    """c as one number for each place in a frame, where it is that."""
    n = width(v)
    try:
        wide = np.broadcast_to(c, v.at.shape)
    except ValueError:
        return None
    out = np.full(n, np.nan)
    out[(v.at % n).reshape(-1)] = wide.reshape(-1)
    if not np.array_equal(out[v.at % n], wide):
        return None
    return np.where(np.isnan(out), 1.0, out)


def scaled(v: Recognised, c: np.ndarray) -> Recognised | None:
    if isinstance(v, (Samples, Lines)):
        if isinstance(v, Lines) and v.squared:
            if (c < 0).any():
                return None
            c = np.sqrt(c)
        try:
            return replace(v, gain=v.gain * np.broadcast_to(c, v.at.shape))
        except ValueError:
            return None
    each = _each(v, c)
    if each is None:
        return None
    if isinstance(v, Bands):
        if (each <= 0).any() or (v.floor is not None and (each != each[0]).any()):
            return None
        floor = None if v.floor is None else v.floor * float(each[0])
        return replace(v, filters=v.filters * each[:, None], floor=floor)
    if (each != each[0]).any() or each[0] == 0 or (v.least, v.most) != (None, None):
        return None
    return replace(v, matrix=v.matrix * each[0], shift=v.shift * each[0])


def shifted(v: Recognised, c: np.ndarray) -> Recognised | None:
    if not c.any():
        return v if np.broadcast_shapes(v.at.shape, c.shape) == v.at.shape else None
    if isinstance(v, Bands):
        same = c.size == 1 or bool((c == c.reshape(-1)[0]).all())
        value = float(c.reshape(-1)[0])
        if v.floor is not None or not same or value < 0:
            return None
        return replace(v, floor=value)
    if not isinstance(v, Logs) or (v.least, v.most) != (None, None):
        return None
    each = _each(v, c)
    return None if each is None else replace(v, shift=v.shift + each)


def limited(v: Recognised, low: float | None, high: float | None) -> Recognised | None:
    if isinstance(v, Bands):
        bounded = high is not None and high < 1e30
        if bounded or v.floor is not None or low is None or low < 0:
            return None
        return replace(v, floor=low, limit=True)
    if isinstance(v, Logs) and (v.least, v.most) == (None, None):
        return replace(v, least=low, most=None if high is None or high > 1e30 else high)
    return None


def squares(v: Lines | Bands) -> Recognised | None:
    if isinstance(v, Lines):
        return None if v.squared else replace(v, squared=True)
    if v.power or not v.single or v.floor is not None:
        return None
    return replace(v, power=True, filters=v.filters**2)


def root(v: Recognised) -> Recognised | None:
    if not isinstance(v, Bands) or not v.power or not v.single:
        return None
    if v.floor is not None and v.floor > ROOT_FLOOR * float(v.filters.max()):
        return None
    return replace(v, power=False, filters=np.sqrt(v.filters), floor=None, limit=False)


def logarithm(v: Recognised) -> Recognised | None:
    if not isinstance(v, Bands):
        return None
    n = len(v.filters)
    return Logs(v.at, v, np.eye(n), np.zeros(n))


def squared_sums(a: Lines, b: Lines) -> Bands | None:
    """Squares of lines of the same frames, two by two."""
    if a.at.shape != b.at.shape or min(a.at.min(), b.at.min()) < 0:
        return None
    n = len(a.of.rows)
    frame, p, q = a.at // n, a.at % n, b.at % n
    if (frame != b.at // n).any():
        return None
    _, first, place = np.unique(p * n + q, return_index=True, return_inverse=True)
    place = place.reshape(a.at.shape)
    one, two = a.gain.reshape(-1)[first], b.gain.reshape(-1)[first]
    if (one[place] != a.gain).any() or (two[place] != b.gain).any():
        return None
    real, imaginary = p.reshape(-1)[first], q.reshape(-1)[first]
    rows = a.of.rows
    spectrum = Spectrum(a.of.places, rows[real] * one[:, None], rows[imaginary] * two[:, None])
    return Bands(frame * len(first) + place, spectrum, np.eye(len(first)), power=True, single=True)
