"""From a window of samples of several axes to features of each axis: statistics, crossings, energies of bands."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_DIM
from mica.kernels import audio
from mica.kernels.audio import LEAST_POINTS, MOST_POINTS
from mica.kernels.base import ACT, REQUANT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, requantise
from mica.kernels.rules import act, per_channel, require, within

STATS = ("mean", "std", "rms", "min", "max", "ptp", "cross", "zeros")  # by their number in `stats`
ENERGIES = ("power", "rms", "log")  # by the number `energy`
POWER, RMS, LOG = range(3)
ACROSS = 1  # of `flags`
MOST_ROWS = 2048
MOST_STATS = 8
BIAS_LIMIT = 1 << 30
VALUE_LIMIT = 1 << 30  # of what is rounded to int8
FRACTION = 12  # binary places of extremes and counts
SUM_FRACTION = 4  # and of what stands in units of 1 / rows
MANTISSA = 24  # bits of an energy
PLACES = (-96, 96)


def _rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    rows, axes, bands, fft = p["rows"], p["axes"], p["bands"], p["fft"]
    within(p, rows=(2, MOST_ROWS), axes=(1, MAX_DIM))
    dims, out = x[0].dims, y.dims
    ends = ((rows, axes), (rows,)) if axes == 1 else ((rows, axes),)
    fits = math.prod(dims) == rows * axes and any(tuple(dims[-len(end) :]) == end for end in ends)
    require(fits, f"input {list(dims)}; expected {rows} rows of {axes}")
    require(p["flags"] in (0, ACROSS), f"flags is {p['flags']}; expected 0 or {ACROSS}")
    fits = len(out) >= 2 and out[-1 if p["flags"] else -2] == axes and math.prod(out[:-2]) == 1
    require(fits, f"output {list(out)}; expected features of {axes} axes")
    each = math.prod(out) // axes
    within(p, bands=(0, each))
    require(each - bands <= MOST_STATS, f"{each - bands} statistics; expected {MOST_STATS} at most")
    known = p["stats"] >= 0 and p["stats"] & ~(0x77777777 & (1 << 4 * (each - bands)) - 1) == 0
    require(known, f"stats is {p['stats']:#x}; expected {each - bands} digits of 0 to {len(STATS) - 1}")
    power_of_two = LEAST_POINTS <= fft <= MOST_POINTS and fft & (fft - 1) == 0 and rows <= fft
    require(
        power_of_two if bands else fft == 0,
        f"fft is {fft}; expected a power of two from {LEAST_POINTS} to {MOST_POINTS}, {rows} at least; without bands 0",
    )
    within(p, energy=(0, len(ENERGIES) - 1), places=PLACES)
    return {
        "tables": (fft + 2 + rows if bands else 0,),
        "filters": (bands, 2) if bands else (0,),
        "least": (axes if bands else 0,),
        **per_channel(each * axes),
    }


def _parts(blobs: Blobs, p: Params) -> Blobs:
    """The tables in the blob `tables`, by name."""
    tables, n = blobs["tables"], p["fft"] + 2
    return {"twiddles": tables[:n].reshape(-1, 2), "window": tables[n:]}


def stats_of(p: Params, each: int) -> list[int]:
    """Statistics of each axis, by their numbers in STATS."""
    return [p["stats"] >> 4 * k & 7 for k in range(each - p["bands"])]


def _constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    if p["bands"]:
        audio.check_turns(_parts(blobs, p))
        ends = blobs["filters"].astype(np.int64).sum(axis=1)
        require(bool((ends <= p["fft"] // 2 + 1).all()), "a band is none of the bins")
        low = np.abs(blobs["least"].astype(np.int64))
        require(
            bool((low <= VALUE_LIMIT).all()), f"a least logarithm of {int(low.max())}; expected {VALUE_LIMIT} at most"
        )
    bias = np.abs(blobs["bias"].astype(np.int64))
    require(bool((bias < BIAS_LIMIT).all()), f"a bias of {int(bias.max())}; expected less than {BIAS_LIMIT}")


def centred(x: Array) -> tuple[Array, Array]:
    """int64 [axes, rows] -> the same less their means, int16 numbers, and the exponents [axes] of their unit of 1 /
    rows."""
    d = x.shape[1] * x - x.sum(axis=1, keepdims=True)
    s = audio.bit_length(np.abs(d).max(axis=1)) - 15
    down, up = np.maximum(s, 0)[:, None], np.maximum(-s, 0)[:, None]
    rounded = (d + np.where(down > 0, np.int64(1) << np.maximum(down - 1, 0), 0)) >> down << up
    return np.minimum(int32(rounded), 2**15 - 1), s


def statistics(x: Array) -> Array:
    """int64 [axes, rows] -> [axes, those of STATS]."""
    n, sums, squares = x.shape[1], x.sum(axis=1), (x * x).sum(axis=1)
    low, high = x.min(axis=1), x.max(axis=1)
    above = n * x >= sums[:, None]

    def roots(v: Array) -> Array:
        return np.array([math.isqrt(k << 2 * SUM_FRACTION) for k in v.tolist()], np.int64)

    def changes(v: Array) -> Array:
        return np.asarray((v[:, 1:] != v[:, :-1]).sum(axis=1, dtype=np.int64))

    counts = [low, high, high - low, changes(above), changes(x >= 0)]
    of_sums = [sums << SUM_FRACTION, roots(n * squares - sums**2), roots(n * squares)]
    return np.stack([*of_sums, *(v << FRACTION for v in counts)], axis=1)


def _shifted(mantissa: Array, exponent: Array) -> Array:
    """mantissa * 2**exponent, halves up, at most VALUE_LIMIT; the mantissas have MANTISSA bits, or are 0."""
    down = np.clip(-exponent, 0, 31)
    up = np.clip(exponent, 0, 31 - MANTISSA)
    v = (mantissa << up) + np.where(down > 0, np.int64(1) << np.maximum(down - 1, 0), 0) >> down
    return np.minimum(np.where(exponent > 30 - MANTISSA, np.where(mantissa > 0, VALUE_LIMIT, 0), v), VALUE_LIMIT)


def energies(x: Array, blobs: Blobs, p: Params) -> Array:
    """int64 [axes, rows] -> [axes, bands]."""
    c, s = centred(x)
    parts = _parts(blobs, p)
    frame = {"frame": p["rows"], "hop": 1, "fft": p["fft"], "flags": audio.POWER, "preemphasis": 0}
    out = np.zeros((len(x), p["bands"]), np.int64)
    for a in range(len(x)):
        bins, exponent = audio.spectrum(c[a], frame, parts, 1)
        e = exponent[0] + s[a]
        sums = np.array([bins[0, k : k + n].sum() for k, n in blobs["filters"].astype(np.int64).tolist()], np.int64)
        length = audio.bit_length(sums)
        if p["energy"] == LOG:
            out[a] = np.maximum(audio.log2_table(np.maximum(sums, 1)) + (2 * e << 16), int(blobs["least"][a]))
        elif p["energy"] == RMS:
            up = (64 - length) & ~1  # as a number of 64 bits, so that its upper half has 31 or 32
            root = audio.root_table(np.where(up >= 32, sums << np.maximum(up - 32, 0), sums >> np.maximum(32 - up, 0)))
            out[a] = _shifted(root, e + 8 - up // 2 + p["places"])
        else:
            down = length - MANTISSA
            top = np.where(down > 0, sums >> np.maximum(down, 0), sums << np.maximum(-down, 0))
            out[a] = _shifted(top, 2 * e + down + p["places"])
    return out


def values(x: Array, blobs: Blobs, p: Params) -> Array:
    """int64 [axes, features]: what is rounded to int8, before the bias."""
    rows = x.astype(np.int64).reshape(p["rows"], p["axes"]).T
    stats = statistics(rows)[:, stats_of(p, len(blobs["bias"]) // p["axes"])]
    return np.concatenate([stats, energies(rows, blobs, p)], axis=1) if p["bands"] else stats


def _counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p = step.params
    axes, points = p["axes"], p["fft"]
    stats = stats_of(p, math.prod(y.dims) // axes)
    counts = {
        "axis": float(axes),
        "sample": float(axes * p["rows"]),
        "crossing": float(axes * p["rows"] * sum(v in (6, 7) for v in stats)),
        "root": float(axes * sum(v in (1, 2) for v in stats)),
        "out": float(math.prod(y.dims)),
    }
    if not p["bands"]:
        return "", counts
    held = step.blobs["filters"].astype(np.int64)
    return "bands", counts | {
        "turn": float(axes * points * (points.bit_length() - 1)),
        "point": float(axes * points),
        "bin": float(axes * held[:, 1].sum()),
        "band": float(axes * p["bands"]),
    }


@Kernel(
    id=56,
    blobs=(("tables", "i16"), ("filters", "u16"), ("least", "i32"), *REQUANT),
    params=("rows", "axes", "stats", "bands", "fft", "energy", "places", "flags", *ACT),
    x_type="int16",
    group="features",
    rules=_rules,
    constants=_constants,
    # The transform, and the samples of an axis less their mean.
    scratch_of=lambda p: 4 * (p["fft"] + (p["rows"] + 1) // 2) if p["bands"] else 0,
    counts=_counts,
)
def axes_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """A window of samples of some axes to features of each. x int16 [...,N,A], for A = 1 also [...,N], y [...,A,F],
    with flag 1 (across) [...,F,A], all other dimensions 1; N = rows, A = axes. y[a,f] = clamp(zy + requant(v + bias)),
    each y with a bias, mult and shift of its own; see the notes. For f < F - bands, which is at most 8, v is a
    statistic of the axis. Digit f of stats, 4 bits each from the lowest on, names it: 0 mean, 1 deviation, 2 root of
    the mean square, 3 least, 4 most, 5 their difference, 6 crossings of the mean, 7 of zero. For the other f, v is the
    energy of a band: energy 0 sum of squares, 1 its root, 2 its logarithm. rows 2 to 2048; bands 0 to F; fft a power of
    two, 32 to 2048, rows <= fft, without bands 0; places -96 to 96; with bands: tables twiddles [fft/2+1,2], cos**2 +
    sin**2 <= 2**28 + 2**15, then window [rows], filters [bands,2], least [A], |least| <= 2**30; window, twiddles >
    -2**15; |bias| < 2**30. Needs scratch: with bands 4 * (fft + (rows + 1) / 2) bytes."""
    v = values(xs[0], blobs, p)
    v = (v.T if p["flags"] & ACROSS else v).reshape(-1)
    acc = int32(v + blobs["bias"].astype(np.int64))
    return clamp(q.y_zero + requantise(acc, blobs["mult"], blobs["shift"]), p).reshape(q.dims)


KERNELS = (axes_s8,)
