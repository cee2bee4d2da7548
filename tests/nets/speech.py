"""Words that espeak-ng speaks, as the package espeakng-loader brings it, recordings made of them,
and models that wait for some.

python speech.py [[WORD, VOICE, WORDS A MINUTE], ...] writes each to stdout: its length as int32, then int16 samples.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

RATE = 16000
VOICES = ("en-us", "en-us+f4", "en-gb-x-rp", "en-us+m3")  # that always speak alike; +f2 does not
WAKE_WORD = "pcan:micro-wakeword"  # their front end
GAP = RATE  # samples of faint noise before each word


def spoken(*words: tuple[str, str, int]) -> list[np.ndarray]:
    """int16 [n] at 16 kHz for each text, voice and speed in words a minute.
    In processes of their own: a word changes the next."""
    pytest.importorskip("espeakng_loader", reason="espeak-ng is not installed (pip install espeakng-loader)")
    data = subprocess.run([sys.executable, __file__, json.dumps(words)], stdout=subprocess.PIPE, check=True).stdout
    found = []
    while data:
        end = 4 + 2 * int(np.frombuffer(data[:4], "<i4")[0])
        found.append(np.frombuffer(data[4:end], "<i2"))
        data = data[end:]
    return found


def talk(words: list[str], voices: Sequence[str] = VOICES, speed: int = 150) -> tuple[np.ndarray, list[str]]:
    """Each word by each voice, a second of faint noise before each: int16 [n],
    and lines of BEGIN END WORD in seconds."""
    rng, parts, lines, at = np.random.default_rng(0), [], [], 0
    asked = [(word, voice, speed) for word in words for voice in voices]
    for (word, _, _), said in zip(asked, spoken(*asked), strict=True):
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


def _say(text: str, voice: str, speed: int) -> None:
    import espeakng_loader
    import soxr

    library, pieces = ctypes.CDLL(espeakng_loader.get_library_path()), []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def take(samples, n, events):
        if samples and n > 0:
            pieces.append(np.ctypeslib.as_array(samples, (n,)).copy())
        return 0

    rate = library.espeak_Initialize(2, 0, str(Path(espeakng_loader.get_data_path())).encode(), 0)
    library.espeak_SetSynthCallback(take)
    assert library.espeak_SetVoiceByName(voice.encode()) == 0
    library.espeak_SetParameter(1, speed, 0)
    data = text.encode()
    assert library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None) == 0
    library.espeak_Synchronize()
    x = soxr.resample(np.concatenate(pieces) // 2, rate, RATE)
    sys.stdout.buffer.write(np.int32(len(x)).tobytes() + x.astype("<i2").tobytes())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    for word in json.loads(sys.argv[1]):
        if not (child := os.fork()):
            _say(*word)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
