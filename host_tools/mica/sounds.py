"""Sound files: .wav of one channel and 16 bits, by the standard library."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mica.errors import MicaError

ENDING = ".wav"
LONGEST = 1 << 28  # bytes: some two hours
MOST_REAL = 2.0  # of sound from -1 to 1, which resampling may leave a little


def read(path: str | Path, rate: int) -> np.ndarray:
    """int16 [n], n > 0. Raises MicaError where the file is something else than one channel of 16 bits at `rate` samples a second."""
    return _read(Path(path), rate)[0]


def read_any(path: str | Path) -> tuple[np.ndarray, int]:
    """The same, of any number of samples a second, and that number."""
    return _read(Path(path), None)


def _read(path: Path, rate: int | None) -> tuple[np.ndarray, int]:
    expected = "expected one channel, 16 bits" + (f", {rate} Hz" if rate else "")
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, found, n = file.getparams()[:4]
            if channels * width * n > LONGEST:
                raise MicaError(
                    f"{path}: claims {channels * width * n:,} bytes of sound", todo="cut it into shorter files"
                )
            data = file.readframes(n)
    except FileNotFoundError:
        raise MicaError(f"{path}: no such file") from None
    except (wave.Error, EOFError, OSError) as e:
        raise MicaError(f"{path}: cannot be read as a .wav file: {e or 'it ends too early'}", todo=expected) from None
    if channels != 1:
        raise MicaError(f"{path}: has {channels} channels", todo=f"{expected}; keep one: sox IN.wav OUT.wav remix 1")
    if width != 2:
        raise MicaError(f"{path}: has samples of {8 * width} bits", todo=f"{expected}: sox IN.wav -b 16 OUT.wav")
    if rate is not None and found != rate:
        raise MicaError(f"{path}: has {found} samples a second", todo=f"{expected}: sox IN.wav -r {rate} OUT.wav")
    samples = np.frombuffer(data[: len(data) & -2], "<i2")
    if len(samples) == 0:
        raise MicaError(f"{path}: holds no samples", todo="record it again")
    return samples, found


def clipped(samples: np.ndarray) -> str:
    """What to say of int16 samples of which some stay at an end of their range for three and more, or nothing."""
    ends = (samples == 32767) | (samples == -32768)
    runs = int(np.count_nonzero(ends[:-2] & ends[1:-1] & ends[2:])) if len(samples) > 2 else 0
    share = float(np.count_nonzero(ends)) / max(len(samples), 1)
    return f"{share:.2%} of its samples are clipped; record with less gain" if runs else ""


def pieces(path: str | Path, rate: int, n: int) -> np.ndarray:
    """A file as int16 [pieces, n], one behind the other; what is left at its end counts for nothing. Shorter than one piece, it is padded. Raises MicaError."""
    samples = padded(read(path, rate), n)
    return samples[: len(samples) // n * n].reshape(-1, n)


def padded(samples: np.ndarray, n: int) -> np.ndarray:
    """int16 samples, with silence behind them where they are fewer than n."""
    return np.pad(samples, (0, max(0, n - len(samples))))


def padding(paths: Sequence[str | Path], rate: int, n: int) -> str:
    """The line that says which of these files are shorter than the n samples that a model takes, and so padded; "" where none is. Raises MicaError."""
    short = {path: length / rate for path in paths if (length := len(read(path, rate))) < n}
    if not short:
        return ""
    if len(paths) == 1:
        return (
            f"{paths[0]} has {min(short.values()):.2f} s; the model takes {n / rate:.2f} s: silence was put behind it"
        )
    return (
        f"{len(short)} of {len(paths)} recordings are shorter than the {n / rate:.2f} s that the model takes "
        f"(the shortest: {min(short.values()):.2f} s): silence was put behind them"
    )


def as_reals(x: np.ndarray, step: float) -> np.ndarray:
    """Sound for a model to which an int16 sample is worth `step`: whole numbers beyond 1 are samples, others are taken as they are.

    Raises MicaError where they are neither samples nor about -1 to 1.
    """
    most = float(np.abs(x).max(initial=0))
    if step == 1 or most <= 1:
        return x
    if most <= 2**15 and np.array_equal(x, np.rint(x)):
        return np.asarray(x, np.float32) * np.float32(step)
    if most > MOST_REAL:
        raise MicaError(
            f"sound of numbers of up to {most:.4g}",
            todo="expected int16 samples, or numbers from -1 to 1: scale what the model was trained on",
        )
    return x
