"""From sound to energies of bands, each divided by a power of what it was before: per-channel energy normalisation
(PCEN).

Y. Wang et al., "Trainable frontend for robust and far-field keyword spotting", ICASSP 2017.
"""

from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_BYTES, MAX_DIM
from mica.kernels import audio
from mica.kernels.audio import BEFORE, POWER
from mica.kernels.base import Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.integers import Array, Blobs, Output, Params
from mica.kernels.rules import require, within
from mica.kernels.speech import frames_and_noise, frames_of, from_bytes, to_bytes

PLACES = 16  # binary places of smooth and alpha
LEAST_EXPONENT, MOST_EXPONENT = -128, 127
LEAST_STEPS, MOST_STEPS = 2, 8  # binary places of the logarithms between which the curve is a line
FRACTION = 8  # binary places of the curve
ORIGIN_LIMIT = 1 << 24
_WHOLE = 31  # bits of a number
_KEPT_BITS = 24  # and of those that go on

Number = tuple[int, int]  # m, e: m * 2**e, m of 31 bits or 0


def _rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    frames_and_noise(x, y, p)
    fft, frame, hop, bands, flags = p["fft"], p["frame"], p["hop"], p["bands"], p["flags"]
    dims, rows = x[0].dims, y.dims
    require(not flags & ~(POWER | BEFORE), f"flags is {flags}; expected power and before alone")
    frames, samples = frames_of(len(x), rows), dims[-1] - bool(flags & BEFORE)
    fits = samples >= frame and frames == audio.frames_of(samples, frame, hop)
    require(fits, f"{frames} frames of {frame} every {hop} are not those of {samples} samples")
    require(1 <= bands == rows[-1], f"{bands} bands and {rows[-1]} columns")
    exponents = LEAST_EXPONENT, MOST_EXPONENT
    within(p, gains=(0, MAX_BYTES // 2), preemphasis=(0, 1 << 15), smooth=(1, 1 << PLACES), alpha=(0, 1 << PLACES))
    within(p, eps=(0, 2**31 - 1), eps_exponent=exponents, start=(0, 2**31 - 1), start_exponent=exponents)
    within(p, origin=(-ORIGIN_LIMIT, ORIGIN_LIMIT), points=(2, MAX_DIM), places=(LEAST_STEPS, MOST_STEPS))
    return {
        "window": (frame,),
        "twiddles": (fft // 2 + 1, 2),
        "filters": (bands, 2),
        "gains": (p["gains"],),
        "curve": (p["points"],),
    }


def _constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    audio.check_turns(blobs)
    audio.check_filters(p, blobs)


def number(v: int, e: int) -> Number:
    """v * 2**e, v from 0 to 2**64 - 1, bits below the 31st cut off."""
    more = v.bit_length() - _WHOLE
    return (v >> more if more > 0 else v << -more), e + more


def _sum(a: Number, b: Number) -> Number:
    if a[0] == 0 or (b[0] and b[1] > a[1]):
        a, b = b, a
    return number(a[0] + (b[0] >> min(a[1] - b[1], _WHOLE) if b[0] else 0), a[1])


def _part(a: Number, k: int) -> Number:
    return number(a[0] * k >> 15, a[1] - 1)


def _log(a: Number) -> int:
    """2**16 * log2."""
    return int(audio.log2_table(np.array([a[0]], np.int64))[0]) + (a[1] << 16)


def _packed(a: Number) -> int:
    """Pack it into a word, never 0."""
    if a[0] == 0 or a[1] < LEAST_EXPONENT:
        return 1 << 31
    return 0xFFFFFFFF if a[1] > MOST_EXPONENT else a[0] >> (_WHOLE - _KEPT_BITS) << 8 | (a[1] - LEAST_EXPONENT)


def _curve_at(curve: Sequence[int], p: Params, at: int) -> int:
    bits = 16 - p["places"]
    i, last = at >> bits, len(curve) - 1
    if at < 0 or i >= last:
        return curve[0 if at < 0 else last]
    return curve[i] + ((curve[i + 1] - curve[i]) * (at & (1 << bits) - 1) >> bits)


def _value(p: Params, curve: Sequence[int], energy: Number, noise: int) -> tuple[int, int]:
    """A band's output in units of 2**-8, and its noise."""
    smooth = number(noise >> 8, (noise & 255) + LEAST_EXPONENT + _WHOLE - _KEPT_BITS)
    if noise == 0:
        smooth = number(p["start"], p["start_exponent"]) if p["start"] else energy
    smooth = _sum(_part(smooth, (1 << PLACES) - p["smooth"]), _part(energy, p["smooth"]))
    noise = _packed(smooth)
    if energy[0] == 0:
        return curve[0], noise
    under = _log(_sum(smooth, number(p["eps"], p["eps_exponent"])))
    return _curve_at(curve, p, _log(energy) - (under * p["alpha"] >> PLACES) - p["origin"]), noise


def features(x: Array, blobs: Blobs, p: Params, frames: int, noise: list[int]) -> Array:
    """int64 [frames, bands] in units of 2**-8. noise: of each band, before the first frame;
    then it is that behind the last."""
    sums, exponents = audio.band_sums(x, blobs, p, frames)
    curve = blobs["curve"].tolist()
    out = np.zeros(sums.shape, np.int64)
    for r, (row, e) in enumerate(zip(sums.tolist(), exponents.tolist(), strict=True)):
        for b, v in enumerate(row):
            out[r, b], noise[b] = _value(p, curve, number(v, e), noise[b])
    return out


def _counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    p = step.params
    frames, points = frames_of(len(xs), y.dims), p["fft"]
    return audio.size_or_power(p), {
        "sample": float(frames * p["frame"]),
        "turn": float(frames * points * (points.bit_length() - 1)),
        "point": float(frames * points),
        "bin": float(frames * audio.bins_held(step)),
        "gain": float(frames * p["gains"]),
        "band": float(frames * p["bands"]),
    }


@Kernel(
    id=57,
    n_inputs=2,
    blobs=(("window", "i16"), ("twiddles", "i16"), ("filters", "u16"), ("gains", "u16"), ("curve", "i16")),
    params=(
        *("frame", "hop", "fft", "bands", "gains", "flags", "preemphasis"),
        *("smooth", "alpha", "eps", "eps_exponent", "start", "start_exponent", "origin", "points", "places"),
    ),
    min_inputs=1,
    x_type="int16",
    last_type="int8",
    group="features",
    rules=_rules,
    constants=_constants,
    scratch_of=lambda p: 4 * (p["fft"] + p["bands"]),  # the transform of a frame, and the noise of each band
    counts=_counts,
)
def pcen_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """Sound to energies of bands, each divided by a power of what it was before (PCEN). x int16 [...,S], y [...,F,C],
    all other dimensions 1, F = 1 + (S - frame) / hop rounded down: row r comes of the samples from r * hop on, with
    flag before one further, and of the noise in the rows before. A second input and the last rows of y as of `pcan_s8`.
    See the notes. flags: of log_mel_s8, 1 power and 16 before; frame, fft, window, twiddles, filters and gains as
    there; bands = C; curve [points], points 2 to 65535, places 2 to 8; smooth 1 to 2**16; alpha 0 to 2**16; eps, start
    0 to 2**31 - 1, their exponents -128 to 127; |origin| <= 2**24. Needs scratch: 4 * (fft + C) bytes."""
    noise = from_bytes(xs[1], p["bands"], q.b_zero) if len(xs) > 1 else [0] * p["bands"]
    v = features(xs[0].reshape(-1), blobs, p, frames_of(len(xs), q.dims), noise)
    y = np.minimum((v + (1 << (FRACTION - 1))) >> FRACTION, 127).astype(np.int8)
    if len(xs) > 1:
        y = np.concatenate([y, to_bytes(noise, q.y_zero)])
    return y.reshape(q.dims)


KERNELS = (pcen_s8,)
