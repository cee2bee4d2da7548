"""Features of speech in the integers of TensorFlow Lite Micro's front end: its transform, noise that is taken off,
gains that follow it."""

import math
from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_BYTES, MAX_DIM
from mica.kernels.base import Cost, Shapes, Step, Tensor, Tensors
from mica.kernels.integers import Array, Blobs, Output, Params, clamp, requantise
from mica.kernels.rules import act, requant, require, within

LEAST_POINTS, MOST_POINTS = 32, 2048  # of the Fourier transform
LUT, LOGS = 125, 129
NOISE_BITS = 14
KEPT = 4  # rows of a noise that goes on from run to run: its bytes, the lowest first
_WORD = 0xFFFFFFFF


def frames_and_noise(x: Tensors, y: Tensor, p: Params) -> None:
    """One sound, frames of it that a Fourier transform takes, and as a second input the noise of the bands."""
    dims, rows, fft = x[0].dims, y.dims, p["fft"]
    one = len(dims) >= 1 and len(rows) >= 2 and math.prod(dims[:-1]) == math.prod(rows[:-2]) == 1
    require(one, f"input {list(dims)} and output {list(rows)}; expected the samples and the rows of one sound")
    power_of_two = LEAST_POINTS <= fft <= MOST_POINTS and fft & (fft - 1) == 0
    require(power_of_two, f"fft is {fft}; expected a power of two from {LEAST_POINTS} to {MOST_POINTS}")
    within(p, frame=(1, fft), hop=(1, MAX_DIM))
    if len(x) > 1:
        kept = x[1].dims
        alike = math.prod(kept[:-2]) == 1 and kept[-2:] == (KEPT, rows[-1])
        require(alike, f"a noise {list(kept)}; expected {[KEPT, rows[-1]]}")


def rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    """Shapes of the constants."""
    act(p)
    requant(p)
    frames_and_noise(x, y, p)
    dims, rows, fft, frame, hop = x[0].dims, y.dims, p["fft"], p["frame"], p["hop"]
    frames = frames_of(len(x), rows)
    fits = dims[-1] >= frame and frames == 1 + (dims[-1] - frame) // hop
    require(fits, f"{frames} frames of {frame} every {hop} are not those of {dims[-1]} samples")
    require(p["bands"] == rows[-1], f"{p['bands']} bands and {rows[-1]} columns")
    within(
        p, gains=(0, MAX_BYTES // 4), even=(0, 1 << NOISE_BITS), odd=(0, 1 << NOISE_BITS), least=(0, 1 << NOISE_BITS)
    )
    within(p, places=(0, 16), snr_shift=(0, 31), correction=(-31, 31), log_places=(0, 10))
    return {
        "window": (frame,),
        "twiddles": (fft // 2 + fft // 4, 2),
        "filters": (rows[-1] + 1, 2),
        "gains": (p["gains"], 2),
        "lut": (LUT,),
        "logs": (LOGS,),
    }


def frames_of(inputs: int, rows: Sequence[int]) -> int:
    """Number of rows of the output that are features, for a step with so many inputs."""
    return rows[-2] - (KEPT if inputs > 1 else 0)


def constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    """Filters lie within the bins."""
    filters = blobs["filters"].astype(np.int64)
    require(bool((filters.sum(axis=1) <= p["fft"] // 2 + 1).all()), "a filter is none of the bins")
    require(int(filters[:, 1].sum()) == p["gains"], "the filters' gains are not all that there are")


def scratch(p: Params) -> int:
    """The bins of a frame, and the noise of each band."""
    return 4 * (p["fft"] // 2 + 1 + p["bands"])


def counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """Counts of operations, from which the cost is estimated."""
    p, frames = step.params, frames_of(len(xs), y.dims)
    points = p["fft"]
    return "", {
        "sample": float(frames * p["frame"]),
        "turn": float(frames * points * (points.bit_length() - 1)),
        "point": float(frames * points),
        "gain": float(frames * p["gains"]),
        "band": float(frames * p["bands"]),
    }


def _word(v: Array) -> Array:
    """The lower 16 bits, with their sign."""
    out: Array = ((v + 0x8000) & 0xFFFF) - 0x8000
    return out


def _rounded(v: Array) -> Array:
    assert v.size == 0 or np.abs(v).max() < 2**31 - 0x4000, "a product leaves the int32"
    out: Array = (v + 0x4000) >> 15
    return out


def _times(r: Array, i: Array, t: Array) -> tuple[Array, Array]:
    c, s = t[..., 0], t[..., 1]
    return _rounded(r * c - i * s), _rounded(r * s + i * c)


def _order(n: int) -> Array:
    """Order of n numbers before the first stage: their digits of base 4, reversed.

    If n is no power of 4, the last digit is of base 2.
    """
    order, left = np.arange(n).reshape(1, n), n
    while left > 1:
        base = 4 if left % 4 == 0 else 2
        left //= base
        order = np.concatenate([order[:, k::base] for k in range(base)], axis=1).reshape(-1, left)
    return order.reshape(-1)


def transform(r: Array, i: Array, twiddles: Array) -> tuple[Array, Array]:
    """Complex int16 numbers [frames, n], n a power of two: their transforms / n, each stage scaled and rounded."""
    n = r.shape[1]
    order = _order(n)
    r, i, m = r[:, order], i[:, order], 1
    while m < n:
        base = 2 if m == 1 and n.bit_length() % 2 == 0 else 4
        shape, factor = (len(r), -1, base, m), 32767 // base
        pr, pi = _rounded(r * factor).reshape(shape), _rounded(i * factor).reshape(shape)
        k = np.arange(m) * (n // (base * m))
        f, a, *others = [
            (pr[:, :, q], pi[:, :, q]) if q == 0 else _times(pr[:, :, q], pi[:, :, q], twiddles[k * q])
            for q in range(base)
        ]
        if base == 2:
            out = [(f[0] + a[0], f[1] + a[1]), (f[0] - a[0], f[1] - a[1])]
        else:
            b, c = others
            low, high = (f[0] - b[0], f[1] - b[1]), (f[0] + b[0], f[1] + b[1])
            total, diff = (a[0] + c[0], a[1] + c[1]), (a[0] - c[0], a[1] - c[1])
            out = [
                (high[0] + total[0], high[1] + total[1]),
                (low[0] + diff[1], low[1] - diff[0]),
                (high[0] - total[0], high[1] - total[1]),
                (low[0] - diff[1], low[1] + diff[0]),
            ]
        r, i = (_word(np.stack([v[part] for v in out], axis=2)).reshape(-1, n) for part in (0, 1))
        m *= base
    return r, i


def energies(x: Array, twiddles: Array) -> Array:
    """Squares of the bins of real int16 samples [frames, 2 * n], int64 [frames, n + 1]."""
    n = x.shape[1] // 2
    r, i = transform(x[:, 0::2], x[:, 1::2], twiddles[:n])
    real, imaginary = np.zeros((len(x), n + 1), np.int64), np.zeros((len(x), n + 1), np.int64)
    first = _rounded(r[:, 0] * 16383), _rounded(i[:, 0] * 16383)
    real[:, 0], real[:, n] = first[0] + first[1], first[0] - first[1]
    k = np.arange(1, n // 2 + 1)
    ar, ai, br, bi = (_rounded(v * 16383) for v in (r[:, k], i[:, k], r[:, n - k], -i[:, n - k]))
    tr, ti = _times(ar - br, ai - bi, twiddles[n + k - 1])
    real[:, k], imaginary[:, k] = (ar + br + tr) >> 1, (ai + bi + ti) >> 1
    real[:, n - k], imaginary[:, n - k] = (ar + br - tr) >> 1, (ti - ai - bi) >> 1
    out: Array = _word(real) ** 2 + _word(imaginary) ** 2
    return out


def _root(v: int) -> int:
    r = math.isqrt(v)
    return min(r + (v - r * r > r), _WORD)


def gain_at(lut: Sequence[int], x: int) -> int:
    """The curve at x: a parabola between powers of two."""
    if x <= 2:
        return max(lut[x], 0)
    n = x.bit_length()
    at = 4 * n - 6
    f = (x << (11 - n) if n < 11 else x >> (n - 11)) & 0x3FF
    y = ((lut[at + 2] * f >> 5) + lut[at + 1] * 32) * f
    return max(((y + 0x4000) >> 15) + lut[at], 0)


def log_of(logs: Sequence[int], v: int, places: int) -> int:
    """2**places * ln(v), v > 1."""
    n = v.bit_length() - 1
    over = v - (1 << n)
    f = over << (16 - n) if n < 16 else over >> (n - 16)
    i = f >> 9
    two = ((n << 16) + f + logs[i] + ((logs[i + 1] - logs[i]) * (f & 511) >> 16)) & _WORD
    e = (45426 * two + 0x8000) >> 16 & _WORD
    return ((e << places) + 0x8000) >> 16 & _WORD


def features(x: Array, blobs: Blobs, p: Params, frames: int, noise: list[int] | None = None) -> Array:
    """int64 [frames, bands]: what is rounded to int8. noise: of each band, before the first frame;
    then it is that behind the last."""
    lut, logs = blobs["lut"].tolist(), blobs["logs"].tolist()
    gains, twiddles = blobs["gains"].astype(np.int64), blobs["twiddles"].astype(np.int64)
    bands, window = p["bands"], blobs["window"].astype(np.int64)
    noise = [0] * bands if noise is None else noise
    out = np.zeros((frames, bands), np.int64)
    cut = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), p["frame"])[:: p["hop"]][:frames] * window >> 12
    bits = np.array([int(k).bit_length() for k in np.abs(cut).max(axis=1)])
    up = np.maximum(15 - bits, 0)
    cut = np.clip(cut, -(2**15), 2**15 - 1) << up[:, None]
    every = energies(np.pad(cut, ((0, 0), (0, p["fft"] - p["frame"]))), twiddles)
    for r, bins in enumerate(every):
        at, total = 0, 0
        for b, (first, n) in enumerate(blobs["filters"].tolist()):
            part = bins[first : first + n, None] * gains[at : at + n]
            at += n
            total += int(part[:, 0].sum())
            if b:
                signal = _root(total) >> int(up[r])
                out[r, b - 1], noise[b - 1] = _feature(
                    p, lut, logs, signal, p["even" if b % 2 else "odd"], noise[b - 1]
                )
            total = int(part[:, 1].sum())
    return out


def _feature(p: Params, lut: list[int], logs: list[int], signal: int, smooth: int, noise: int) -> tuple[int, int]:
    """A band's feature, and its noise."""
    up = signal << p["places"] & _WORD
    noise = (up * smooth + noise * ((1 << NOISE_BITS) - smooth)) >> NOISE_BITS & _WORD
    left = max((up - min(noise, up)) >> p["places"], signal * p["least"] >> NOISE_BITS)
    ratio = left * gain_at(lut, noise) >> p["snr_shift"] & _WORD
    v = ratio * ratio >> 20 if ratio < 1 << 13 else (ratio >> 6) - 64
    v = v >> -p["correction"] if p["correction"] < 0 else v << p["correction"] & _WORD
    return min(log_of(logs, v, p["log_places"]), 65535) if v > 1 else 0, noise


_SHIFTS = 8 * np.arange(KEPT)[:, None]


def from_bytes(rows: Array, bands: int, zero: int) -> list[int]:
    """A noise, words of 32 bits, of the rows that go on."""
    words: list[int] = ((rows.reshape(KEPT, bands).astype(np.int64) - zero) % 256 << _SHIFTS).sum(axis=0).tolist()
    return words


def to_bytes(noise: Sequence[int], zero: int) -> Array:
    """int8 [KEPT, bands]."""
    return (((np.array(noise)[None] >> _SHIFTS) + zero) % 256).astype(np.uint8).view(np.int8)


def pcan_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Some seconds of speech, a row for each frame."""
    bands = p["bands"]
    noise = [0] * bands
    if len(xs) > 1:
        noise = from_bytes(xs[1], bands, q.b_zero)
    v = features(xs[0].reshape(-1), blobs, p, frames_of(len(xs), q.dims), noise)
    y = clamp(q.y_zero + requantise(v, p["mult"], p["shift"]), p)
    if len(xs) > 1:
        y = np.concatenate([y, to_bytes(noise, q.y_zero)])
    return y.reshape(q.dims)
