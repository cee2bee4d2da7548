"""The tables of TensorFlow Lite Micro's front end for speech, as its generators make them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mica.ir.front_end import Speech
from mica.reference import functions

WINDOW_BITS, FILTER_BITS, GAIN_BITS, SNR_BITS, NOISE_BITS = 12, 12, 21, 12, 14
SMOOTHING_BITS, LOG_BITS = 10, 6
EVEN, ODD, LEAST = (
    0.025,
    0.06,
    0.05,
)  # parts: of a band's signal that its noise follows by, in turn; that is left of it at least
STRENGTH, OFFSET = 0.95, 80.0
# Of a step of the logarithm: the preprocessor takes 666 of them as 256 steps of int8,
# of which micro_speech's input has 255 from 0 to 25.9375.
WORTH = 256 / 666 * 25.9375 / 255
WORTH_IN_LIBRARY = 10 / 256  # as pymicro-features and microWakeWord take the library's numbers


def tables(
    rate: int, frame: int, hop: int, fft: int, bands: int, fmin: float, fmax: float, library: bool = False
) -> Speech:
    """library: those of its C library, which computes in float32 and rounds where the preprocessor's generator cuts
    off.

    Raises ValueError if a band holds no bin of the transform.
    """
    real = np.dtype(np.float32 if library else np.float64)
    filters, gains = _filters(rate, fft, _edges(bands, fmin, fmax, real), fmin, 0.5 if library else 0.0)
    correction = fft.bit_length() - 1 - FILTER_BITS // 2
    turn = np.array(2 * np.pi / frame, real) * (np.arange(frame) + 0.5).astype(real)
    half = 0.5 - 0.5 * functions.cos(turn.astype(np.float64)).astype(real)
    window = np.floor(half * 2**WINDOW_BITS + 0.5).astype(np.int16)
    params = {
        **{"frame": frame, "hop": hop, "fft": fft, "bands": bands, "gains": len(gains)},
        **{name: int(v * 2**NOISE_BITS) for name, v in (("even", EVEN), ("odd", ODD), ("least", LEAST))},
        **{"places": SMOOTHING_BITS, "snr_shift": GAIN_BITS - correction - SNR_BITS},
        **{"correction": correction, "log_places": LOG_BITS},
    }
    return given(
        window, filters, gains, _curve(SMOOTHING_BITS - correction), params, WORTH_IN_LIBRARY if library else WORTH
    )


def given(
    window: np.ndarray, filters: np.ndarray, gains: np.ndarray, lut: np.ndarray, params: Mapping[str, int], worth: float
) -> Speech:
    """With tables of somebody else's; those of the transform and of the logarithm are always the same."""
    tables = {"window": window, "twiddles": _twiddles(params["fft"]), "filters": filters, "gains": gains}
    return Speech({**tables, "lut": lut, "logs": _logs()}, params, worth)


def _twiddles(fft: int) -> np.ndarray:
    """int16 [fft / 2 + fft / 4, 2]: those of the complex transform, and of its separation into real ones."""
    n = fft // 2
    angle = np.concatenate([-2 * np.pi / n * np.arange(n), -np.pi * ((np.arange(n // 2) + 1) / n + 0.5)])
    both = np.stack([functions.cos(angle), functions.sin(angle)], axis=1)
    return np.floor(0.5 + 32767 * both).astype(np.int16)


def _mel(hz: np.ndarray) -> np.ndarray:
    """In the type of hz."""
    return np.asarray(1127.0 * functions.log(1 + (hz / 700).astype(np.float64))).astype(hz.dtype)


def _edges(bands: int, fmin: float, fmax: float, real: np.dtype[Any]) -> np.ndarray:
    """Mels between which the filters lie."""
    low, high = _mel(np.array([fmin, fmax], real))
    return np.asarray(low + (high - low) / (bands + 1) * np.arange(bands + 2).astype(real))


def _filters(rate: int, fft: int, edges: np.ndarray, fmin: float, more: float) -> tuple[np.ndarray, np.ndarray]:
    """uint16 [bands + 1, 2] first bins and widths, uint16 [n, 2] gains for a band and for the one behind it, to which
    `more` is added before they are cut off."""
    bins = np.arange(int(1.5 + fmin * fft / rate), fft // 2 + 1)
    mel = _mel((bins * (rate / fft)).astype(edges.dtype))
    places, parts = [], []
    at = 0
    for k in range(len(edges) - 1):
        end = at + int(np.count_nonzero(mel[at:] <= edges[k + 1]))
        if end == at:
            raise ValueError(f"band {k} holds no bin of the transform")
        weight = (edges[k + 1] - mel[at:end]) / (edges[k + 1] - edges[k])
        parts.append(np.floor(np.stack([weight, 1 - weight], axis=1) * 2**FILTER_BITS + more))
        places.append((bins[at], end - at))
        at = end
    return np.array(places, np.uint16), np.concatenate(parts).astype(np.uint16)


def _gain(x: np.ndarray, bits: int) -> np.ndarray:
    power = functions.exp(-STRENGTH * functions.log(x / 2.0**bits + OFFSET))
    return np.asarray(np.floor(np.minimum(2.0**GAIN_BITS * power, 32767) + 0.5), np.int64)


def _curve(bits: int) -> np.ndarray:
    """int16 [125]: values at 0 and 1, then for each power of two a value, a slope and a bend, and nothing."""
    x = 2.0 ** np.arange(1, 32)
    ends = np.where(np.arange(2, 33) == 32, 2 * x - 1, 2 * x)
    y, middle, end = (_gain(v, bits) for v in (x, 1.5 * x, ends))
    slope = 4 * (middle - y) - (end - y)
    out = np.zeros(126, np.int64)
    out[:2] = _gain(np.array([0.0, 1.0]), bits)
    for i, part in enumerate((y, slope, end - y - slope)):
        out[2 + i :: 4] = part
    return out[:125].astype(np.int16)


def _logs() -> np.ndarray:
    """uint16 [129]: how far log2 lies above its chord between 1 and 2."""
    part = np.arange(129) / 128
    return np.rint((functions.log(1 + part) / functions.log(np.array(2.0)) - part) * 65536).astype(np.uint16)
