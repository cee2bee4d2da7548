"""Values between sound and its features: each element is a sample, a line of a frame's spectrum, a band of it,
or a logarithm.

Every stage keeps in `at` the origin of each element. A node that moves elements is applied to `at` as it is.
A node that computes is recognised by its meaning, in any shape and order that an exporter chose.
"""

from dataclasses import dataclass, replace

import numpy as np

NOTHING = -1  # in `at`: a zero that padding brought


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples times gains. at int64, gain float64, both in the shape of the value."""

    at: np.ndarray
    gain: np.ndarray


@dataclass(frozen=True, eq=False)
class Frames:
    """Linear functions of frames: row q of frame f is sum over j of rows[q, j] * sample[places[f, j]].

    places int64 [frames, n], NOTHING for a zero; rows float64 [Q, n].
    """

    places: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class Lines:
    """Elements f * Q + q of frames, times gains; squared: and then squared."""

    at: np.ndarray
    gain: np.ndarray
    of: Frames
    squared: bool = False


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Lines p of each frame: real and imaginary part by the rows of `real` and `imaginary`, float64 [P, n].
    places: as of Frames."""

    places: np.ndarray
    real: np.ndarray
    imaginary: np.ndarray


@dataclass(frozen=True, eq=False)
class Bands:
    """Elements f * B + b: filters [B, P] times the squares of lines, or with power = False their sizes.

    single: each band is one line. floor: is added; with limit, what is below becomes it; None where there is none yet.
    """

    at: np.ndarray
    of: Spectrum
    filters: np.ndarray
    power: bool
    single: bool
    floor: float | None = None
    limit: bool = False


@dataclass(frozen=True, eq=False)
class Logs:
    """Elements f * C + c: matrix [C, B] times the natural logarithms of bands, plus shift [C],
    limited to least and most."""

    at: np.ndarray
    of: Bands
    matrix: np.ndarray
    shift: np.ndarray
    least: float | None = None
    most: float | None = None


Recognised = Samples | Lines | Bands | Logs


def arrays(v: Recognised) -> list[np.ndarray]:
    """Arrays that have the shape of the value."""
    return [v.at, v.gain] if isinstance(v, (Samples, Lines)) else [v.at]


def with_arrays(v: Recognised, new: list[np.ndarray]) -> Recognised:
    """The same elements in other places."""
    return replace(v, at=new[0], gain=new[1]) if isinstance(v, (Samples, Lines)) else replace(v, at=new[0])


def width(v: Lines | Bands | Logs) -> int:
    """Elements of a frame: Q, B or C."""
    if isinstance(v, Lines):
        return len(v.of.rows)
    return len(v.filters) if isinstance(v, Bands) else len(v.matrix)


def joined(a: Recognised, b: Recognised) -> tuple[Recognised, Recognised] | None:
    """Two values as elements of one stage over one table; None where they are not."""
    if type(a) is not type(b):
        return None
    if isinstance(a, Samples):
        return a, b
    if isinstance(a, Lines) and isinstance(b, Lines):
        if a.squared != b.squared:
            return None
        if a.of is b.of:
            return a, b
        if not np.array_equal(a.of.places, b.of.places):
            return None
        n, m = len(a.of.rows), len(b.of.rows)
        both = Frames(a.of.places, np.concatenate([a.of.rows, b.of.rows]))

        def moved(v: Lines, width: int, first: int) -> Lines:
            at = np.where(v.at < 0, NOTHING, v.at // width * (n + m) + v.at % width + first)
            return replace(v, at=at, of=both)

        return moved(a, n, 0), moved(b, m, n)
    if isinstance(a, Bands) and isinstance(b, Bands):
        same = a.of is b.of and a.filters is b.filters and (a.power, a.floor, a.limit) == (b.power, b.floor, b.limit)
        return (a, b) if same else None
    if isinstance(a, Logs) and isinstance(b, Logs):
        same = a.of is b.of and a.matrix is b.matrix and a.shift is b.shift and (a.least, a.most) == (b.least, b.most)
        return (a, b) if same else None
    return None
