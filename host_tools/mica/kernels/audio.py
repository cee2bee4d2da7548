"""From sound to features: rows of logarithms of band energies, and their cosine transform."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from mica.format.schema import MAX_BYTES, MAX_DIM
from mica.kernels import speech
from mica.kernels.base import ACT, Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.counts import elements
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, int32, log2, requantise
from mica.kernels.rules import act, requant, require, within

POWER, PEAK, LIMIT, DCT, BEFORE, PAD, MIRROR = 1, 2, 4, 8, 16, 32, 64  # bits of `flags`
LEAST_POINTS, MOST_POINTS = speech.LEAST_POINTS, speech.MOST_POINTS
UNIT = 14  # binary places of twiddle factors
TWIDDLE_LIMIT = (1 << 28) + (1 << 15)  # of cos**2 + sin**2, each rounded
PART_BITS = 16  # of a part of a complex number, before each stage of the transform; after all of them one less
KEPT = 2  # binary places more that a stage leaves
BIN_BITS = 17  # of a part of a bin before it is squared, the last two of them behind the point
DCT_LIMIT = 1 << 18  # of a row's sum of magnitudes
BIAS_LIMIT = 1 << 29
DCT_CUT = 11  # binary places that a row's sum loses
FLOOR_BITS = 62


def frames_of(samples: int, frame: int, hop: int) -> int:
    """Number of frames in so many samples, which are at least one frame."""
    return 1 + (samples - frame) // hop


def _log_mel_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    act(p)
    requant(p)
    speech.frames_and_noise(x, y, p)
    fft, frame, hop, bands = p["fft"], p["frame"], p["hop"], p["bands"]
    dims, rows = x[0].dims, y.dims
    flags = p["flags"]
    within(p, flags=(0, 2 * MIRROR - 1))
    samples, pad = dims[-1] - bool(flags & BEFORE), p["pad"]
    if flags & PAD:
        plain = not flags & BEFORE and p["preemphasis"] == 0
        require(plain, "frames reach beyond the samples, and pre-emphasis does not")
        fits = 0 <= pad < samples and (rows[-2] - 1) * hop + frame < pad + 2 * samples
    else:
        require(pad == 0 and not flags & MIRROR, f"pad is {pad} and flags {flags}, without the flag pad")
        fits = samples >= frame and rows[-2] == frames_of(samples, frame, hop)
    require(fits, f"{rows[-2]} frames of {frame} every {hop} are not those of {samples} samples")
    within(p, bands=(1, MAX_DIM))
    columns = flags & DCT or bands == rows[-1]
    require(bool(columns), f"{bands} bands and {rows[-1]} columns, without a DCT")
    require(bands * rows[-1] <= MAX_BYTES // 2, f"{bands} bands times {rows[-1]} columns are too many")
    within(p, gains=(0, MAX_BYTES // 2), preemphasis=(0, 1 << 15), floor=(0, 2**31 - 1), floor_exponent=(-64, 63))
    return {
        "window": (frame,),
        "twiddles": (fft // 2 + 1, 2),
        "filters": (bands, 2),
        "gains": (p["gains"],),
        "dct": (rows[-1], bands) if flags & DCT else (0,),
        "bias": (rows[-1],),
    }


def _log_mel_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    check_turns(blobs)
    check_filters(p, blobs)
    if p["flags"] & DCT:
        sums = np.abs(blobs["dct"].astype(np.int64)).sum(axis=-1)
        require(bool((sums <= DCT_LIMIT).all()), "a sum of the DCT can overflow")
    bias = np.abs(blobs["bias"].astype(np.int64))
    require(bool((bias < BIAS_LIMIT).all()), f"a bias of {int(bias.max())}; expected less than {BIAS_LIMIT}")


@cache
def _roots() -> Array:
    """sqrt((32 + i) * 2**41) to the nearest integer, for i from 0 to 96; int64."""
    squares = [(32 + i) << 41 for i in range(97)]
    floors = [math.isqrt(v) for v in squares]
    return np.array([r + (v - r * r > r) for r, v in zip(floors, squares, strict=True)], np.int64)


@cache
def _logs() -> Array:
    """log2 of (64 + i) / 64 in units of 2**-16, for i from 0 to 64; int64."""
    return log2(np.arange(64, 129)) - (6 << 16)


def bit_length(v: Array) -> Array:
    """Count the bits of int64 numbers from 0 to 2**63 - 1."""
    n = np.zeros(v.shape, np.int64)
    v = v.copy()
    for step in (32, 16, 8, 4, 2, 1):
        large = v >> step > 0
        n += np.where(large, step, 0)
        v = np.where(large, v >> step, v)
    return n + v


def log2_table(v: Array) -> Array:
    """2**16 * log2(v) from a table of 64 intervals; v in [1, 2**63)."""
    b = bit_length(v) - 1
    m = np.where(b > 22, v >> np.maximum(b - 22, 0), v << np.maximum(22 - b, 0))
    i, f, logs = m >> 16 & 63, m & 0xFFFF, _logs()
    out: Array = (b << 16) + logs[i] + ((logs[i + 1] - logs[i]) * f >> 16)
    return out


def root_table(v: Array) -> Array:
    """2**8 * sqrt(v), rounded, from a table of 96 intervals; v in [0, 2**32)."""
    z = (32 - bit_length(v)) & ~1
    high = np.where(v > 0, v << z, 1 << 30)
    i, f, roots = (high >> 25) - 32, high >> 11 & 0x3FFF, _roots()
    root = roots[i] + (((roots[i + 1] - roots[i]) * f + 0x2000) >> 14)
    root = np.where(z > 0, (root + (np.int64(1) << np.maximum(z // 2 - 1, 0))) >> (z // 2), root)
    return np.where(v > 0, root, 0)


def _size(v: Array, axes: int | tuple[int, ...]) -> Array:
    """Number of bits that the largest of v and ~v needs."""
    return bit_length(np.maximum(v, ~v).max(axis=axes))


def _down(v: Array, s: Array) -> Array:
    """v * 2**-s, halves up; s >= 0."""
    return (int32(v + np.where(s > 0, np.int64(1) << np.maximum(s - 1, 0), 0))) >> s


def padded(x: Array, before: int, behind: int, mirror: bool) -> Array:
    """x [n] with so many zeros around it, or mirrored at its ends; behind may be negative."""
    widths = (before, max(behind, 0))
    return np.pad(x, widths, "reflect") if mirror else np.pad(x, widths)


def _frames(x: Array, p: Params, window: Array, rows: int) -> tuple[Array, Array]:
    """Frames times the window, int64 [n, fft], and the exponents [n] of their units."""
    x = x.astype(np.int64).reshape(-1)
    places = 0
    if p["preemphasis"]:
        x = x * 32768 - p["preemphasis"] * np.concatenate([x[:1], x[:-1]])
        places = 15
    x = x[1:] if p["flags"] & BEFORE else x
    if p["flags"] & PAD:
        x = padded(x, p["pad"], (rows - 1) * p["hop"] + p["frame"] - p["pad"] - len(x), bool(p["flags"] & MIRROR))
    cut = np.lib.stride_tricks.sliding_window_view(int32(x), p["frame"])[:: p["hop"]][:rows]
    s = np.maximum(_size(cut, 1) - 15, places - 15)
    down, up = np.maximum(s, 0)[:, None], np.maximum(-s, 0)[:, None]
    whole = np.where(down > 0, ((cut >> np.maximum(down - 1, 0)) + 1) >> 1, cut << up)
    return np.pad(int32(whole * window.astype(np.int64)), ((0, 0), (0, p["fft"] - p["frame"]))), s - 15 - places


def _transform(z: Array, twiddles: Array) -> tuple[Array, Array]:
    """z int64 [2 (real, imaginary), n, m], twiddles [m + 1, 2]: the transform, and what exponents [n] get."""
    m = z.shape[2]
    bits = m.bit_length() - 1
    order = [int(f"{i:0{bits}b}"[::-1], 2) for i in range(m)]
    z, exponent = _limited(z[:, :, order], PART_BITS)
    r, i = z.reshape(2, -1, m // 4, 4)
    sr, si, tr, ti = r[..., 0] + r[..., 1], i[..., 0] + i[..., 1], r[..., 0] - r[..., 1], i[..., 0] - i[..., 1]
    ur, ui, vr, vi = r[..., 2] + r[..., 3], i[..., 2] + i[..., 3], r[..., 2] - r[..., 3], i[..., 2] - i[..., 3]
    r = np.stack([sr + ur, tr + vi, sr - ur, tr - vi], axis=-1)
    i = np.stack([si + ui, ti - vr, si - ui, ti + vr], axis=-1)
    z = np.stack([r, i]).reshape(2, -1, m)
    h = 4
    while h < m:
        z, s = _limited(z, PART_BITS)
        exponent += s - KEPT
        parts = z.reshape(2, -1, m // (2 * h), 2, h)
        (ar, ai), (br, bi) = parts[:, :, :, 0], parts[:, :, :, 1]
        c, w = twiddles[np.arange(h) * (m // h)].T
        t = int32(np.stack([br * c + bi * w, bi * c - br * w]) + (1 << (UNIT - KEPT - 1))) >> (UNIT - KEPT)
        a = np.stack([ar, ai]) << KEPT
        z = np.stack([a + t, a - t], axis=3).reshape(2, -1, m)
        h *= 2
    return z, exponent


def _limited(z: Array, bits: int) -> tuple[Array, Array]:
    """[2, n, m] -> shifted to the right until all of [n] fit so many bits and a sign, and by how many."""
    s = np.maximum(_size(z, (0, 2)) - bits, 0)
    return _down(z, s[:, None]), s


def _bins(z: Array, twiddles: Array) -> tuple[Array, Array]:
    """Squares of the m + 1 bins of 2 * m real samples, [n, m + 1], below 2**32;
    and what is added to the exponents of their roots."""
    m = z.shape[2]
    z, exponent = _limited(z, PART_BITS - 1)
    k = np.arange(m + 1)
    (ar, ai), (br, bi) = z[:, :, k % m], z[:, :, -k % m]
    er, ei, pr, pi = ar + br, ai - bi, ai + bi, br - ar
    c, w = twiddles.T
    half = 1 << (UNIT - KEPT - 1)
    xr = (er << KEPT) + (int32(pr * c + pi * w + half) >> (UNIT - KEPT))
    xi = (ei << KEPT) + (int32(pi * c - pr * w + half) >> (UNIT - KEPT))
    first = z[:, :, 0]
    xr[:, 0], xi[:, 0] = (first[0] + first[1]) << (KEPT + 1), 0
    xr[:, m], xi[:, m] = (first[0] - first[1]) << (KEPT + 1), 0
    x, s = _limited(np.stack([xr, xi]), BIN_BITS)
    x = np.abs(x)
    square: Array = ((x >> 2) ** 2 + ((x >> 2) * (x & 3) >> 1)).sum(axis=0)
    assert square.max() < 1 << 32, "a bin leaves the uint32"
    return square, exponent + s - 1


def _with_floor(sums: Array, exponent: Array, p: Params, peak: int) -> tuple[Array, Array]:
    """Sums [n, bands] with the floor added, or limited to it, and their exponents [n];
    the floor takes at most FLOOR_BITS."""
    floor = p["floor"] * (1 if p["flags"] & POWER == 0 else peak) * peak
    up = p["floor_exponent"] - exponent
    down = np.maximum(up + floor.bit_length() - FLOOR_BITS, 0) if floor else np.zeros_like(up)
    floors = [floor << k if k > 0 else floor >> -k for k in (up - down).tolist()]
    sums = sums >> np.minimum(down, 63)[:, None]
    with_floor = np.maximum if p["flags"] & LIMIT else np.add
    return np.asarray(with_floor(sums, np.array(floors, np.int64)[:, None])), exponent + down


def spectrum(x: Array, p: Params, blobs: Blobs, rows: int) -> tuple[Array, Array]:
    """Squares of the bins of so many frames, int64 [rows, fft / 2 + 1], below 2**32;
    and the exponents [rows] of their roots."""
    twiddles = blobs["twiddles"].astype(np.int64)
    frames, exponent = _frames(x, p, blobs["window"], rows)
    z, more = _transform(np.stack([frames[:, 0::2], frames[:, 1::2]]), twiddles)
    bins, most = _bins(z, twiddles)
    return bins, exponent + more + most


def check_turns(blobs: Blobs) -> None:
    """Window and twiddle factors with which nothing overflows."""
    require(bool((blobs["window"] > -(2**15)).all()), "the window is -32768 somewhere")
    twiddles = blobs["twiddles"].astype(np.int64)
    sound = bool((twiddles > -(2**15)).all() and ((twiddles**2).sum(axis=-1) <= TWIDDLE_LIMIT).all())
    require(sound, "a twiddle factor is longer than 1")


def check_filters(p: Params, blobs: Blobs) -> None:
    """Filters lie within the bins, and the gains are theirs."""
    filters = blobs["filters"].astype(np.int64)
    require(bool((filters.sum(axis=1) <= p["fft"] // 2 + 1).all()), "a filter is none of the bins")
    require(int(filters[:, 1].sum()) == p["gains"], "the filters' gains are not all that there are")


def band_sums(x: Array, blobs: Blobs, p: Params, rows: int) -> tuple[Array, Array]:
    """Sums of powers or sizes times the gains, int64 [rows, bands], and their exponents [rows]."""
    bins, exponent = spectrum(x, p, blobs, rows)
    bins, exponent = (bins, 2 * exponent) if p["flags"] & POWER else (root_table(bins), exponent - 8)
    gains = blobs["gains"].astype(np.int64)
    sums, at = np.zeros((len(bins), p["bands"]), np.int64), 0
    for b, (first, n) in enumerate(blobs["filters"].astype(np.int64).tolist()):
        sums[:, b] = (bins[:, first : first + n] * gains[at : at + n] >> 16).sum(axis=1)
        at += n
    return sums, exponent


def logarithms(x: Array, blobs: Blobs, p: Params, rows: int) -> Array:
    """int64 [frames, bands]: logarithms to base 2 in units of 2**-16."""
    flags = p["flags"]
    peak, minus = 1, 0
    if flags & PEAK:
        peak = max(int(x.max()), 1)
        minus = int(log2_table(np.array([peak]))[0]) * (2 if flags & POWER else 1)
    sums, exponent = _with_floor(*band_sums(x, blobs, p, rows), p, peak)
    return log2_table(np.maximum(sums, 1)) + (exponent << 16)[:, None] - minus


def features(x: Array, blobs: Blobs, p: Params, rows: int) -> Array:
    """int64 [frames, columns]: what is rounded to int8, before the bias."""
    log = logarithms(x, blobs, p, rows)
    if not p["flags"] & DCT:
        return log
    dct = blobs["dct"].astype(np.int64)
    return int32((log[:, None, :] * dct).sum(axis=-1) >> DCT_CUT)


def _log_mel_scratch(p: Params) -> int:
    """The transform of a frame; after it bins and logarithms lie there."""
    copy = (p["frame"] + 1) // 2 if p["flags"] & PAD else 0
    return 4 * max(p["fft"] + copy, p["fft"] // 2 + 1 + p["bands"])


def size_or_power(p: Params) -> str:
    """The kind of its cost."""
    return "power" if p["flags"] & POWER else "size"


def bins_held(step: Step) -> int:
    """From the first bin that a filter holds to the last."""
    held = step.blobs["filters"].astype(np.int64)
    held = held[held[:, 1] > 0]
    return int(held.sum(axis=1).max() - held[:, 0].min()) if len(held) else 0


def _log_mel_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p = step.params
    frames, points = y.dims[-2], p["fft"]
    return size_or_power(p), {
        "sample": float(frames * p["frame"]),
        "turn": float(frames * points * (points.bit_length() - 1)),
        "point": float(frames * points),
        "bin": float(frames * bins_held(step)),
        "gain": float(frames * p["gains"]),
        "band": float(frames * p["bands"]),
        "product": float(elements(y) * (p["bands"] if p["flags"] & DCT else 1)),
    }


@Kernel(
    id=46,
    blobs=(
        ("window", "i16"),
        ("twiddles", "i16"),
        ("filters", "u16"),
        ("gains", "u16"),
        ("dct", "i16"),
        ("bias", "i32"),
    ),
    params=(
        *("frame", "hop", "fft", "bands", "gains", "flags", "preemphasis", "floor", "floor_exponent"),
        *("mult", "shift", *ACT, "pad"),
    ),
    x_type="int16",
    group="features",
    rules=_log_mel_rules,
    constants=_log_mel_constants,
    scratch_of=_log_mel_scratch,
    counts=_log_mel_counts,
)
def log_mel_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Sound to features. x int16 [...,S], y [...,F,C], all other dimensions 1, F = 1 + (S - frame) / hop rounded down:
    row r comes of the samples from r * hop on; with flag before one further, with flag pad `pad` earlier. y[r,c] =
    clamp(zy + requant(v + bias[c])), v the logarithm of band c, or row c of dct [C,bands] times the logarithms of all
    bands; see the notes. flags: 1 power, 2 peak, 4 limit, 8 dct, 16 before (S - 1 in place of S), 32 pad (any F with
    pad < S and (F - 1) * hop + frame - pad < 2 * S; no preemphasis, no before), 64 mirror, with pad only. fft a power
    of two, 32 to 2048, frame <= fft; twiddles [fft/2+1,2], cos**2 + sin**2 <= 2**28 + 2**15; filters [bands,2]; for
    each row sum|dct| <= 2**18; |bias| < 2**29; window, twiddles > -2**15. Needs scratch: 4 * max(fft + with flag pad
    (frame + 1) / 2, fft / 2 + 1 + bands) bytes."""
    acc = int32(features(xs[0], blobs, p, q.dims[-2]) + blobs["bias"].astype(np.int64))
    return clamp(q.y_zero + requantise(acc, p["mult"], p["shift"]), p).reshape(q.dims)


PCAN = Kernel(
    id=50,
    name="pcan_s8",
    n_inputs=2,
    blobs=(
        ("window", "i16"),
        ("twiddles", "i16"),
        ("filters", "u16"),
        ("gains", "u16"),
        ("lut", "i16"),
        ("logs", "u16"),
    ),
    params=(
        *("frame", "hop", "fft", "bands", "gains", "even", "odd", "places", "least", "snr_shift", "correction"),
        *("log_places", "mult", "shift", *ACT),
    ),
    doc=(
        "Sound to features of speech, a gain for each band that follows its noise. x int16 [...,S], y [...,F,C], all "
        "other dimensions 1, F = 1 + (S - frame) / hop rounded down: row r comes of the samples from r * hop on, and "
        "of the noise in the rows before. Where there is a second input, int8 [...,4,C], the noise goes on from it: y "
        "[...,F+4,C] has that behind the last frame in its last 4 rows, which are bytes of 32 bits, the lowest first, "
        "each counted from its tensor's zero point on, modulo 256. See the notes. fft a power of two, 32 to 2048, "
        "frame <= fft; bands = C; twiddles [fft/2+fft/4,2]; filters [C+1,2]; gains [gains,2]; lut [125]; logs [129]; "
        "even, odd, least 0 to 2**14; places 0 to 16; snr_shift 0 to 31; correction -31 to 31; log_places 0 to 10. "
        "Needs scratch: 4 * (fft / 2 + 1 + C) bytes."
    ),
    min_inputs=1,
    x_type="int16",
    last_type="int8",
    group="features",
    rules=speech.rules,
    constants=speech.constants,
    oracle=speech.pcan_s8,
    scratch_of=speech.scratch,
    counts=speech.counts,
)

KERNELS = (log_mel_s8, PCAN)
