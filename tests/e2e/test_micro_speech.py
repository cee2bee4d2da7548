"""tflite-micro's micro_speech on the virtual Picos: from recordings to words, and its preprocessor frame by frame."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from helpers import reference_model
from targets import VIRTUAL

from mica.compile import PlacedFrontEnd, compile_file
from mica.data.sounds import read
from mica.importer import import_model
from mica.run.board import BoardRunner
from mica.run.host import HostRunner
from mica.sound import front_ends

TARGETS = pytest.mark.parametrize("target", VIRTUAL)
PRESET = "pcan:micro-speech"
LABELS = ("silence", "unknown", "yes", "no")
FRAMES = 12
FEATURES = 0xBB5F7847  # CRC-32 of 12 x 40 features of "yes", from the interpreter of tflite-micro 0.dev20261023182759


def recording(word: str, samples: int) -> np.ndarray:
    return read(reference_model("tflite") / f"{word}_1000ms.wav", 16000)[None, :samples]


@TARGETS
def test_yes_no_and_silence(target: str) -> None:
    path, front_end = reference_model("tflite") / "micro_speech_int8.tflite", front_ends.parse(PRESET).front_end(49)
    (name,) = import_model(path).inputs
    data = compile_file(path, front_end=PlacedFrontEnd(name, front_end, PRESET)).data
    with HostRunner(data) as host, BoardRunner(data, target) as pico:
        for word in ("yes", "no", "silence"):
            x = [recording(word, front_end.samples)]
            (answer,), (expected,) = pico.run([x])[0], host.run([x])[0]
            assert LABELS[int(np.argmax(answer))] == word
            np.testing.assert_array_equal(answer, expected)


@TARGETS
def test_the_preprocessor(target: str) -> None:
    """The noise lives on the board from frame to frame."""
    x = recording("yes", 16000)
    with BoardRunner(compile_file(reference_model("tflite") / "audio_preprocessor_int8.tflite").data, target) as pico:
        rows = []
        for at in range(0, FRAMES * 320, 320):
            pico.begin([x[:, at : at + 480]])
            rows.append(pico.finish()[0].reshape(-1))
    assert zlib.crc32(np.array(rows).tobytes()) == FEATURES
