"""Sound files as int16 samples of one channel: .wav, .flac and .ogg by the packages soundfile and soxr,
plain .wav without them."""

import io
import struct
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mica.errors import MicaError
from mica.notes import note

ENDING = ".wav"
ENDINGS = (ENDING, ".wave", ".flac", ".ogg")
LONGEST = 1 << 28  # bytes of int16: some two hours
SLOWEST = 1000  # samples a second
SLACK, FACTOR = 112 << 20, 64  # bytes of memory that a file may take, and so many times its own
_BLOCK = 1 << 16  # samples that are read at once
MOST_REAL = 2.0  # of sound from -1 to 1, which resampling may leave a little
INSTALL = "pip install 'mica-mcu[sound]' reads it"


def is_sound(path: str | Path) -> bool:
    """Return True if the name has a sound's ending."""
    return Path(path).suffix.lower() in ENDINGS


def read(path: str | Path, rate: int) -> np.ndarray:
    """int16 [n], n > 0, of one channel at `rate` samples a second: the mean of several channels, resampled.
    Raises MicaError."""
    return _read(Path(path), rate)[0]


def read_any(path: str | Path) -> tuple[np.ndarray, int]:
    """The same at the file's own rate, and that rate."""
    return _read(Path(path), None)


def _read(path: Path, rate: int | None) -> tuple[np.ndarray, int]:
    if not path.is_file():
        raise MicaError(f"{path}: no such file")
    try:
        import soundfile
    except ImportError:
        return _read_plain(path, rate)
    try:
        with soundfile.SoundFile(_opened(path)) as file:
            found, channels = file.samplerate, file.channels
            plain = file.subtype in _OF_16_BITS and channels == 1 and found == (rate or found)
            _require_room(path, file.frames, channels, found, None if plain else rate or found)
            if plain:
                x = file.read(dtype="int16")
            else:
                x = _mixed(path, file, "int16" if file.subtype in _OF_16_BITS else "float64")
    except (soundfile.SoundFileError, OSError) as e:
        raise MicaError(f"{path}: cannot be read as a sound file: {e}", todo="expected .wav, .flac or .ogg") from None
    if len(x) == 0:
        raise MicaError(f"{path}: holds no samples", todo="record it again")
    if plain:
        return x, found
    done = [f"the mean of its {channels} channels"] if channels > 1 else []
    if rate is not None and found != rate:
        x = _resampled(path, x, found, rate)
        done.append(f"resampled from {found:,} to {rate:,} Hz")
    if done:
        note(path, ", ".join(done))
    x *= 32768
    return np.clip(np.rint(x, out=x), -(2**15), 2**15 - 1, out=x).astype(np.int16), rate or found


def _require_room(path: Path, frames: int, channels: int, found: int, rate: int | None) -> None:
    """Raises MicaError where a file would take too much memory.
    rate: that its mean is resampled to, None of one taken as it is."""
    if found < SLOWEST:
        raise MicaError(f"{path}: has {found:,} samples a second", todo=f"expected {SLOWEST:,} or more")
    size = 2 * frames if rate is None else 8 * frames + 10 * frames * rate // found
    if frames * channels * 2 > LONGEST or size > SLACK + FACTOR * path.stat().st_size:
        raise MicaError(
            f"{path}: holds {frames:,} samples of {channels} channels, {size:,} bytes", todo="cut it into shorter files"
        )


def _mixed(path: Path, file: Any, dtype: str) -> np.ndarray:
    """Return the mean of a file's channels, float64 [n]: real numbers from about -1 to 1. Raises MicaError."""
    mixed, n = np.empty(file.frames), 0
    while n < len(mixed) and len(x := file.read(min(_BLOCK, len(mixed) - n), dtype=dtype, always_2d=True)):
        most = float(np.abs(x).max()) if dtype != "int16" else 0.0
        if not most <= MOST_REAL:
            raise MicaError(f"{path}: holds numbers of up to {most:.4g}", todo="expected floats from -1 to 1")
        mixed[n : n + len(x)] = (x / 32768 if dtype == "int16" else x).mean(axis=1)
        n += len(x)
    return mixed[:n]


def _opened(path: Path) -> str | BinaryIO:
    """A sound file's path; of a .wav that a pipe left with lengths of 0 a copy whose lengths are those of a stream."""
    with path.open("rb") as file:
        head, at = file.read(1 << 12), 12
        while head[:4] == b"RIFF" and at + 8 < len(head) and head[at : at + 4] != b"data":
            at += 8 + (int.from_bytes(head[at + 4 : at + 8], "little") + 1 & -2)
        if head[:4] != b"RIFF" or at + 8 >= len(head) or (any(head[4:8]) and any(head[at + 4 : at + 8])):
            return str(path)  # libsndfile reads it without us: errors in what it calls would end in a traceback
        data = bytearray(head + file.read(LONGEST))
    struct.pack_into("<I", data, 4, 2**32 - 1)
    struct.pack_into("<I", data, at + 4, int.from_bytes(data[at + 4 : at + 8], "little") or 2**32 - 1)
    return _Copy(data)


class _Copy(io.BytesIO):
    """Bytes in which a seek before the beginning ends there."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = (0, self.tell(), self.getbuffer().nbytes)[whence]
        return super().seek(max(0, start + offset))


_OF_16_BITS = ("PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW")  # and fewer: libsndfile makes int16 of them without loss


def _resampled(path: Path, x: np.ndarray, found: int, rate: int) -> np.ndarray:
    try:
        import soxr
    except ImportError:
        raise MicaError(f"{path}: has {found} samples a second; the model takes {rate}", todo=INSTALL) from None
    return np.asarray(soxr.resample(x, found, rate))


def _read_plain(path: Path, rate: int | None) -> tuple[np.ndarray, int]:
    """Read one channel of 16 bits and that rate, by the standard library. Raises MicaError."""
    expected = f"expected one channel, 16 bits{f', {rate} Hz' if rate else ''}: {INSTALL}"
    try:
        with wave.open(_opened(path), "rb") as file:
            channels, width, found = file.getparams()[:3]
            data = file.readframes(path.stat().st_size // (channels * width))  # a pipe leaves no length
    except (wave.Error, EOFError, OSError) as e:
        raise MicaError(
            f"{path}: cannot be read as a plain .wav file: {e or 'it ends too early'}", todo=expected
        ) from None
    _require_room(path, len(data) // 2, 1, found, None)
    if channels != 1 or width != 2 or found != (rate or found):
        raise MicaError(f"{path}: has {channels} channels of {8 * width} bits, {found} Hz", todo=expected)
    if len(data) < 2:
        raise MicaError(f"{path}: holds no samples", todo="record it again")
    return np.frombuffer(data[: len(data) & -2], "<i2"), found


def clipped(samples: np.ndarray) -> str:
    """A warning if three or more int16 samples in a row are at an end of their range, else ""."""
    ends = (samples == 32767) | (samples == -32768)
    runs = int(np.count_nonzero(ends[:-2] & ends[1:-1] & ends[2:])) if len(samples) > 2 else 0
    share = float(np.count_nonzero(ends)) / max(len(samples), 1)
    return f"{share:.2%} of its samples are clipped; record with less gain" if runs else ""


def pieces(path: str | Path, rate: int, n: int) -> np.ndarray:
    """Return a file as int16 [pieces, n]: see `cut`. Raises MicaError."""
    return cut(read(path, rate), n)


def cut(x: np.ndarray, n: int) -> np.ndarray:
    """Return int16 samples as [pieces, n]: a short clip with silence around it, the loudest part of one that is a
    little longer, the parts of a long one. Training, calibration, evaluation and listening take a file so."""
    if len(x) <= n:
        before = (n - len(x)) // 2
        return np.pad(x, (before, n - len(x) - before))[None]
    if len(x) < 1.5 * n:
        energy = np.cumsum(np.concatenate([[0.0], x.astype(np.float64) ** 2]))
        start = int(np.argmax(energy[n:] - energy[:-n]))
        return x[None, start : start + n]
    return x[: len(x) // n * n].reshape(-1, n)


def padding(paths: Sequence[str | Path], rate: int, n: int) -> str:
    """The line that says which of these files are shorter than the n samples that a model takes, and so padded;
    "" where none is. Raises MicaError."""
    short = {path: length / rate for path in paths if (length := len(read(path, rate))) < n}
    if not short:
        return ""
    if len(paths) == 1:
        return f"{paths[0]} has {min(short.values()):.2f} s; the model takes {n / rate:.2f} s: silence was added"
    return (
        f"{len(short)} of {len(paths)} recordings are shorter than the {n / rate:.2f} s that the model takes "
        f"(the shortest: {min(short.values()):.2f} s): silence was added"
    )


def as_reals(x: np.ndarray, step: float) -> np.ndarray:
    """Sound for a model to which an int16 sample is worth `step`: whole numbers beyond 1 are samples,
    others are taken as they are.

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
