"""Words that espeak-ng speaks, as the package espeakng-loader brings it, recordings made of them, and models that wait for some."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import pytest

RATE = 16000
VOICES = ("en-us", "en-us+f2", "en-gb-x-rp", "en-us+m3")
WAKE_WORD = "pcan:micro-wakeword"  # their front end
GAP = RATE  # samples of faint noise before each word


@cache
def _library() -> tuple[ctypes.CDLL, int, list[np.ndarray], object]:
    """The library, its sample rate, where its callback puts samples, and the callback, which has to stay."""
    loader = pytest.importorskip("espeakng_loader", reason="espeak-ng is not installed (pip install espeakng-loader)")
    library, pieces = ctypes.CDLL(loader.get_library_path()), []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def take(samples, n, events):
        if samples and n > 0:
            pieces.append(np.ctypeslib.as_array(samples, (n,)).copy())
        return 0

    rate = library.espeak_Initialize(2, 0, str(Path(loader.get_data_path())).encode(), 0)
    library.espeak_SetSynthCallback(take)
    return library, rate, pieces, take


def spoken(text: str, voice: str = VOICES[0], speed: int = 150) -> np.ndarray:
    """int16 [n] at 16 kHz. speed: words a minute."""
    import soxr

    library, rate, pieces, _ = _library()
    pieces.clear()
    assert library.espeak_SetVoiceByName(voice.encode()) == 0
    library.espeak_SetParameter(1, speed, 0)
    data = text.encode()
    assert library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None) == 0
    library.espeak_Synchronize()
    return soxr.resample(np.concatenate(pieces) // 2, rate, RATE)


def talk(words: list[str], voices: tuple[str, ...] = VOICES, speed: int = 150) -> tuple[np.ndarray, list[str]]:
    """Each word by each voice, a second of faint noise before each: int16 [n], and lines of BEGIN END WORD in seconds."""
    rng, parts, lines, at = np.random.default_rng(0), [], [], 0
    for word in words:
        for voice in voices:
            said = spoken(word, voice, speed)
            parts += [rng.normal(size=GAP) * 20, said]
            at += GAP
            lines.append(f"{at / RATE:.3f} {(at + len(said)) / RATE:.3f} {word}")
            at += len(said)
    return np.concatenate([*parts, rng.normal(size=GAP) * 20]).astype(np.int16), lines


def wake_word(name: str) -> Path:
    """A model of the package pymicro-wakeword."""
    package = pytest.importorskip(
        "pymicro_wakeword", reason="microWakeWord's models are not installed (pip install pymicro-wakeword)"
    )
    return Path(package.__file__).parent / "models" / f"{name}.tflite"
