"""Features of many recordings at once, in numpy: those that a front end computes on a board, but for the last digits.

`reference/front_end.py` has the same of one recording with the same bits on every machine, some hundred times slower.
"""

import numpy as np

from mica.ir.axes import AxisFeatures, Front
from mica.ir.front_end import FrontEnd
from mica.kernels.audio import padded
from mica.kernels.axes import STATS
from mica.reference import front_end
from mica.reference.axes import PER_LN

_AT_ONCE = 64  # recordings: spectra of more would leave the processor's caches


def compute(f: Front, x: np.ndarray) -> np.ndarray:
    """Return float32 [n, rows, columns] of sound [n, samples] in int16 steps, or [n, features] of motion [n, rows,
    axes]."""
    of = _of_sound if isinstance(f, FrontEnd) else _of_motion
    parts = [of(f, x[k : k + _AT_ONCE]) for k in range(0, len(x), _AT_ONCE)]  # type: ignore[arg-type]
    return np.concatenate(parts)


def _of_sound(f: FrontEnd, x: np.ndarray) -> np.ndarray:
    if f.has_noise:  # each frame changes the next: one recording after the other
        return np.stack([front_end.features(f, row) for row in np.rint(x)]).astype(np.float32)
    x = np.asarray(x, np.float32)
    unit = 1 / np.maximum(x.max(axis=1), 1.0)[:, None, None] if f.peak else np.float32(f.unit)
    if f.preemphasis:
        x = x - np.float32(f.preemphasis) * np.concatenate([x[:, :1], x[:, :-1]], axis=1)
    x = x[:, 1:] if f.before else x
    if f.edges:
        behind = (f.frames - 1) * f.hop + f.frame - f.pad - x.shape[1]
        x = np.stack([padded(row, f.pad, behind, f.edges == "mirror") for row in x])
    frames = np.lib.stride_tricks.sliding_window_view(x, f.frame, axis=1)[:, :: f.hop][:, : f.frames]
    spectrum = np.fft.rfft(frames * (f.window.astype(np.float32) * unit), f.fft)
    sizes = spectrum.real**2 + spectrum.imag**2
    energies = (sizes if f.power else np.sqrt(sizes)).astype(np.float32) @ f.filters.T.astype(np.float32)
    logs = np.log(np.maximum(energies, max(f.floor, 1e-30)) if f.limit else np.maximum(energies + f.floor, 1e-30))
    y = f.factor * (logs if f.dct is None else logs @ f.dct.T.astype(np.float32)) + f.shift
    return np.asarray(np.clip(y, f.least, f.most) if (f.least, f.most) != (None, None) else y, np.float32)


def _of_motion(f: AxisFeatures, x: np.ndarray) -> np.ndarray:
    u = np.clip(np.rint(x), -(2**15), 2**15 - 1) * f.unit
    mean = u.mean(axis=1, keepdims=True)
    c = u - mean
    sizes = [mean[:, 0], u.std(axis=1), np.sqrt((u * u).mean(axis=1)), u.min(axis=1), u.max(axis=1), np.ptp(u, axis=1)]
    counts = [(np.diff(side, axis=1) != 0).sum(axis=1) for side in (c >= 0, u >= 0)]
    every = [*sizes, *counts]
    assert len(every) == len(STATS)
    parts = [every[k] for k in f.stats]
    if f.bands:
        assert f.window is not None
        power = np.abs(np.fft.rfft(c * f.window[None, :, None], f.fft, axis=1)) ** 2
        bands = np.stack([power[:, k : k + n].sum(axis=1) for k, n in f.bands], axis=1) * f.times
        if f.energy == "rms":
            bands = np.sqrt(bands)
        elif f.energy != "power":
            bands = PER_LN[f.energy] * np.log(np.maximum(bands, f.least))
        parts += list(bands.swapaxes(0, 1))
    y = np.stack(parts, axis=1 if f.across else 2)
    return y.reshape(len(x), -1).astype(np.float32)
