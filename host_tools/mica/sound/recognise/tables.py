"""From lines of a spectrum, as a graph computes them, to the window and the filters of a FrontEnd."""

from dataclasses import dataclass

import numpy as np

from mica.kernels.audio import LEAST_POINTS, MOST_POINTS
from mica.sound.recognise.values import NOTHING, Bands, Logs

WAVE_ERROR = 2e-3  # of a row, in parts of its largest number, beside the cosine or sine that it is taken for
WINDOW_ERROR = 1e-3
GRID = 1e-3  # of the distance of bins: as near counts as on them
WIDER = 2.5  # times a frame: a transform whose bins are close enough to look between them
NEGATIVE = 1e-6  # of the largest weight: rounding of what made them


@dataclass(frozen=True)
class Tables:
    """window [frame], filters [bands, fft / 2 + 1], and which columns of the graph's frames the window covers.

    between: the lines lie between the bins of the transform. Of the graph's lines: turn [lines], how far each turns in
    a sample, in turns; given [bands, lines], its filters.
    """

    window: np.ndarray
    filters: np.ndarray
    fft: int
    first: int
    between: bool
    turn: np.ndarray
    given: np.ndarray


def band_tables(bands: Bands) -> Tables:
    """Raises ValueError where the lines are not those of a Fourier transform, or one that is too long."""
    used = np.flatnonzero((bands.filters != 0).any(axis=0))
    if len(used) == 0:
        raise ValueError("all of its filters are zero")
    if bands.filters.min() < -NEGATIVE * bands.filters.max():
        raise ValueError("its filters have weights below zero")
    real, imaginary = bands.of.real[used], bands.of.imaginary[used]
    size = np.sqrt(real**2 + imaginary**2)
    gains = size.max(axis=1)
    if not gains.all():
        raise ValueError("it has a line that is nothing of its frames")
    window = size[int(np.argmax(gains))] / gains.max()
    if np.abs(size - gains[:, None] * window).max(axis=1).max() > WINDOW_ERROR * gains.max():
        raise ValueError("its lines have different windows")
    turn = _frequencies(real / gains[:, None], imaginary / gains[:, None], window)
    first, last = _covered(window)
    filters = np.maximum(bands.filters[:, used], 0.0) * (gains**2 if bands.power else gains)
    table, fft, between = _on_bins(turn, filters, last - first)
    order = np.argsort(turn, kind="stable")
    return Tables(window[first:last], table, fft, first, between, turn[order], filters[:, order])


def _covered(window: np.ndarray) -> tuple[int, int]:
    """Begin and end of the samples where the window is not zero, if possible a multiple of four, for kernels."""
    some = np.flatnonzero(window > 0)
    first, last = int(some[0]), int(some[-1]) + 1
    more = -(last - first) % 4
    before = min(more, first)
    return first - before, min(last + more - before, len(window))


def _frequencies(real: np.ndarray, imaginary: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Turns a sample, 0 to 0.5, of rows [P, n] that are the window times a wave. Raises ValueError if they are none."""
    z = real + 1j * imaginary
    n = len(window)
    if n < 2:
        raise ValueError("its frames are too short")
    step = (z[:, 1:] * np.conj(z[:, :-1])).sum(axis=1)
    turn = np.angle(step) / (2 * np.pi)
    for points in (n, 2 * n, *(1 << k for k in range(3, 13))):  # exactly, where they are those of a transform
        near = np.rint(turn * points) / points
        turn = np.where(np.abs(turn - near) * points < GRID, near, turn)
    wave = np.exp(2j * np.pi * turn[:, None] * np.arange(n)) * window
    phase = (z * np.conj(wave)).sum(axis=1)
    size = np.abs(phase)
    if not size.all() or np.abs(z - wave * (phase / size)[:, None]).max() > WAVE_ERROR:
        raise ValueError("its lines are not those of a Fourier transform")
    return np.abs(turn)


def _on_bins(turn: np.ndarray, filters: np.ndarray, frame: int) -> tuple[np.ndarray, int, bool]:
    """Filters [bands, lines] as filters of the bins of a transform; its points; whether lines lie between bins.
    Raises ValueError."""
    least = max(LEAST_POINTS, 1 << (frame - 1).bit_length())
    if least > MOST_POINTS:
        raise ValueError(f"its frames have {frame:,} samples; expected at most {MOST_POINTS:,}")
    fft = next((n for n in (1 << k for k in range(5, 12)) if n >= least and _near(turn * n)), 0)
    between = fft == 0
    if between:
        fft = min(MOST_POINTS, 4 * least)
    if fft < WIDER * frame and between:
        raise ValueError(
            f"its transform of frames of {frame} samples has no power of two as its points; take n_fft = "
            f"{least} for training"
        )
    table = np.zeros((len(filters), fft // 2 + 1))
    for p, place in enumerate(turn * fft):
        low = int(np.floor(place)) if between else int(np.rint(place))
        part = place - low if between else 0.0
        table[:, low] += (1 - part) * filters[:, p]
        if part > 0:
            table[:, min(low + 1, fft // 2)] += part * filters[:, p]
    return table, fft, between


def _near(places: np.ndarray) -> bool:
    return bool((np.abs(places - np.rint(places)) < GRID).all())


@dataclass(frozen=True)
class Places:
    """Places of frames: the first begins `pad` samples before the sound; outside is `edges` ("" for nothing)."""

    hop: int
    pad: int
    edges: str


def places_of(places: np.ndarray, samples: int) -> Places:
    """places [frames, n] of a sound of so many samples. Raises ValueError where they are not in a row."""
    n = places.shape[1]
    inside = np.flatnonzero((np.diff(places, axis=1) == 1).all(axis=1) & (places[:, 0] >= 0))
    if len(inside) == 0:
        raise ValueError("no frame lies wholly inside the sound")
    one = int(inside[0])
    if len(inside) > 1:
        hop, rest = divmod(int(places[inside[-1], 0] - places[one, 0]), int(inside[-1]) - one)
    elif len(places) > 1:  # the frame before or behind it says, by the sample that both hold
        other = one + 1 if one + 1 < len(places) else one - 1
        hop, rest = _apart(places[one], places[other], other - one), 0
    else:
        hop, rest = n, 0
    begin = int(places[one, 0]) - one * hop
    if rest or hop < 1 or hop > 65535:
        raise ValueError("its frames do not follow each other at one distance")
    at = begin + hop * np.arange(len(places))[:, None] + np.arange(n)
    outside = (at < 0) | (at >= samples)
    mirrored = np.where(at < 0, -at, np.where(at >= samples, 2 * (samples - 1) - at, at))
    if begin > 0:
        raise ValueError(f"its first frame begins {begin} samples into the sound; cut the sound before")
    if np.array_equal(places, np.where(outside, NOTHING, at)):
        return Places(hop, -begin, "zeros" if outside.any() else "")
    if np.array_equal(places, mirrored):
        return Places(hop, -begin, "mirror")
    raise ValueError(
        "its frames do not follow each other, or what is put around the sound is neither zeros nor its mirror image"
    )


def _apart(a: np.ndarray, b: np.ndarray, way: int) -> int:
    """The hop from frame a, which is whole, to b."""
    for hop in range(1, len(a) + 1):
        shared = slice(0, len(a) - hop)
        ahead, behind = (a[hop:], b[shared]) if way > 0 else (b[hop:], a[shared])
        if np.array_equal(ahead, behind):
            return hop
    return len(a)


def layout(at: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Return for elements f * C + c: frames, columns, and whether each column lies whole; None where they lie in no
    such order."""
    frame, column = at // columns, at % columns
    count = len(np.unique(column))
    flat = at.size // count
    if at.size != flat * count:
        return None
    for turned in (False, True):
        shape = (count, flat) if turned else (flat, count)
        f, c = frame.reshape(shape), column.reshape(shape)
        f, c = (f.T, c.T) if turned else (f, c)
        if (f == f[:, :1]).all() and (c == c[:1]).all():
            return f[:, 0], c[0], turned
    return None


def rate_of(tables: Tables) -> int:
    """Samples a second by the mel scale of the filters; 0 where they do not say."""
    hz = _edges(tables)
    return 0 if hz is None else _by_scale(hz)


RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


def _edges(tables: Tables) -> np.ndarray | None:
    """Begin, peak and end of triangles in turns a sample, [bands, 3], of filters with 4 lines on either side."""
    found = []
    for row in tables.given:
        some = np.flatnonzero(row > 1e-3 * row.max()) if row.any() else np.zeros(0, np.int64)
        if len(some) < 10:
            continue
        peak = int(np.argmax(row))
        up, down = some[some < peak][1:], some[some > peak][:-1]
        if len(up) < 3 or len(down) < 3:
            continue
        (rise, left), (fall, right) = (_line(tables.turn[part], row[part]) for part in (up, down))
        if rise <= 0 or fall >= 0:
            continue
        middle = (right - left) / (rise - fall)
        found.append([-left / rise, middle, -right / fall])
    return np.array(found) if len(found) > 2 else None


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and offset of a line through points."""
    slope = float((y[-1] - y[0]) / (x[-1] - x[0]))
    return slope, float(y[0] - slope * x[0])


def _by_scale(edges: np.ndarray) -> int:
    """HTK's scale: edges + 700 / rate follow each other by one factor."""
    a, b, c = edges.T
    bent = a + c - 2 * b
    if (bent <= 0).any():
        return 0
    guess = np.median((b**2 - a * c) / bent)
    if guess <= 0:
        return 0
    rate = 700 / float(guess)
    near = min(RATES, key=lambda r: abs(r - rate))
    return near if abs(near - rate) < 0.03 * near else 0


def as_factor(logs: Logs) -> tuple[float, np.ndarray | None]:
    """(factor, None) where columns are the bands times one number above 0, else (1, matrix)."""
    m = logs.matrix
    if m.shape[0] == m.shape[1] and m[0, 0] > 0 and np.array_equal(m, np.eye(len(m)) * m[0, 0]):
        return float(m[0, 0]), None
    return 1.0, m
