"""Features of a front end, in float64, with the same bits on every machine (`exact`, `functions`)."""

import weakref

import numpy as np

from mica.ir.front_end import FrontEnd, Pcen
from mica.kernels.audio import padded
from mica.kernels.speech import features as speech_features
from mica.reference import exact, functions

_tables: weakref.WeakKeyDictionary[FrontEnd, tuple[exact.Whole, ...]] = weakref.WeakKeyDictionary()


def turns(points: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2 pi k / points for k from 0 to points - 1, float64."""
    angle = np.arange(points) * (2 * np.pi / points)
    return functions.cos(angle), functions.sin(angle)


def features(f: FrontEnd, samples: np.ndarray) -> np.ndarray:
    """Samples in any shape, integers where f.step is 1, else so much to each -> float64 [frames, columns]."""
    x = np.asarray(samples, np.float64).reshape(-1) / f.step
    if f.speech is not None:
        samples = np.clip(np.rint(x), -(2**15), 2**15 - 1).astype(np.int64)
        y = speech_features(samples, f.speech.blobs, dict(f.speech.params), f.frames) * f.speech.worth
        return y if f.least is None and f.most is None else np.clip(y, f.least, f.most)
    if f not in _tables:
        bins = np.arange(f.fft // 2 + 1)[:, None] * np.arange(f.frame) % f.fft
        tables = [*(table[bins] * f.window for table in turns(f.fft)), f.filters, *(() if f.dct is None else (f.dct,))]
        _tables[f] = tuple(exact.whole_rows(t, exact.bits(t.shape[1])[1]) for t in tables)
    real, imaginary, filters, *dct = _tables[f]
    unit = 1 / max(float(x.max()), 1.0) if f.peak else f.unit
    if f.preemphasis:
        x = x - f.preemphasis * np.concatenate([x[:1], x[:-1]])
    x = x[1:] if f.before else x
    if f.edges:
        behind = (f.frames - 1) * f.hop + f.frame - f.pad - len(x)
        x = padded(x, f.pad, behind, f.edges == "mirror")
    # Each frame has a unit of its own, in which int16 samples are whole; so quiet frames lose nothing beside loud ones.
    frames = exact.whole_rows(
        np.lib.stride_tricks.sliding_window_view(x, f.frame)[:: f.hop][: f.frames], exact.bits(f.frame)[0]
    )
    spectrum = exact.rows_with_rows(frames, real) ** 2 + exact.rows_with_rows(frames, imaginary) ** 2
    sizes = spectrum * unit**2 if f.power else np.sqrt(spectrum) * unit
    places = exact.bits(sizes.shape[1])[0]
    whole = exact.whole_rows(sizes, places)
    sums = exact.rows_with_rows(whole, filters)
    if f.power:  # a square has twice the places: what the first part left out
        rest = exact.whole_rows(sizes - whole.numbers * whole.unit, places)
        sums = np.maximum(sums + exact.rows_with_rows(rest, filters), 0.0)
    if f.pcen is not None:
        y = normalised(f.pcen, sums)
        return y if f.least is None and f.most is None else np.clip(y, f.least, f.most)
    log = functions.log(np.maximum(sums, max(f.floor, 1e-300)) if f.limit else np.maximum(sums + f.floor, 1e-300))
    y = f.factor * (exact.with_rows(log, dct[0]) if dct else log) + f.shift
    return np.asarray(np.clip(y, f.least, f.most) if (f.least, f.most) != (None, None) else y)


def normalised(p: Pcen, energies: np.ndarray) -> np.ndarray:
    """Energies [frames, bands], each by those before."""
    smooth, before = np.empty_like(energies), energies[0] if p.start is None else np.full(energies.shape[1], p.start)
    for row, energy in zip(smooth, energies, strict=True):
        row[:] = before = (1 - p.s) * before + p.s * energy
    logs = functions.log(np.maximum(energies, 1e-300)) - p.alpha * functions.log(np.maximum(smooth + p.eps, 1e-300))
    return np.asarray(curve(p, logs))


def curve(p: Pcen, logs: np.ndarray) -> np.ndarray:
    """y where logs is ln(E / (eps + M)**alpha)."""
    if p.delta == 0:
        return np.asarray(functions.exp(p.r * logs))
    # delta**r * ((1 + x)**r - 1) loses nothing where x is small.
    ratio = functions.log1p(functions.exp(logs) / p.delta)
    return np.asarray(functions.power(np.array(p.delta), p.r) * functions.expm1(p.r * ratio))
