"""Front ends with a memory in front of models with a memory: microWakeWord's, whose networks keep their rows themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import litert
import numpy as np
import pytest
from nets import MODELS
from targets import ALL
from test_tflite_graphs import packed, run
from tflite_nets import NEW, ROWS, STREAM, WIDTH, stream

from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.engine import load
from mica.errors import MicaError
from mica.ir.front_end import FrontEnd
from mica.ir.graph import Quant
from mica.kernels.speech import features
from mica.listen.detection import usual_step
from mica.passes.streaming import Window
from mica.sound import front_ends

FRAME, HOP = 480, 160
SMALL = f"pcan:micro-speech,hop={HOP},mels={WIDTH}"
WAKE_WORD = "pcan:micro-wakeword"
SECONDS = 120 if ALL else 12
PREPROCESSOR = MODELS / "tflite" / "audio_preprocessor_int8.tflite"


def sound(seconds: int) -> np.ndarray:
    """int16, tones that come and go in noise: silence, whispers, clipping."""
    rng, t = np.random.default_rng(0), np.arange(seconds * 16000) / 16000
    loud = np.exp(6 * np.sin(1.7 * t) + 2 * np.sin(7 * t))
    tones = 10 * np.sin(2 * np.pi * t * (300 + 200 * np.sin(t))) + 5 * np.sign(np.sin(2 * np.pi * 171 * t))
    return np.clip(rng.normal(size=len(t)) * 40 + loud * tones, -32768, 32767).astype(np.int16)


def logarithms(text: str, x: np.ndarray) -> np.ndarray:
    """All frames of a sound at once, int64 [frames, bands]: the noise goes on by itself."""
    described = front_ends.parse(text)
    front = described.front_end(1 + (len(x) - FRAME) // HOP)
    assert front.speech is not None
    return features(x, front.speech.blobs, dict(front.speech.params), front.frames)


def in_steps(logs: np.ndarray) -> np.ndarray:
    """int8, as tflite-micro rounds them."""
    return np.clip((logs * 256 + 333) // 666 - 128, -128, 127).astype(np.int8)


def played(compiled: Compiled, x: np.ndarray, rows: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The features int8 [frames, bands] that the front end makes run by run, and the answers."""
    model, n = compiled.model, FRAME + (rows - 1) * HOP
    (at,) = [k for k, s in enumerate(model.steps) if s.kernel == "pcan_s8"]
    loaded, found, answers = load(compiled.data), [], []
    for begin in range(0, len(x) - n + 1, rows * HOP):
        loaded.set_input(0, x[None, begin : begin + n])
        made = loaded.layers()
        found.append(made[at].reshape(rows + 4, -1)[:rows].copy())
        answers.append(loaded.output(0).copy().reshape(-1))
    return np.concatenate(found), answers


def small(folder: Path, **options: Any) -> Compiled:
    """A network that keeps ROWS rows, of which NEW go in, behind a front end of so few bands."""
    path = folder / "net.tflite"
    path.write_bytes(stream())
    return compile_file(path, front_end=SMALL, **options)


def test_noise_and_rows_go_on(tmp_path: Path) -> None:
    """Run by run, the features are those of the whole sound, and answers those of LiteRT to them."""
    compiled, x = small(tmp_path), sound(3)
    model = compiled.model
    assert model.tensors[model.inputs[0]].dims == (1, FRAME + (NEW - 1) * HOP) and len(model.inputs) == 1
    assert usual_step(model) == NEW * HOP
    assert model.state_bytes == 4 * WIDTH + ROWS * WIDTH
    found, answers = played(compiled, x, NEW)
    worth = front_ends.parse(SMALL).front_end(1).speech
    assert worth is not None
    real = logarithms(SMALL, x)[: len(found)] * worth.worth
    expected = Quant(float(np.float32(STREAM["scale"])), int(STREAM["zero"])).quantise(real)
    assert np.abs(found.astype(int) - expected).max() <= 1 and np.mean(found == expected) > 0.999
    made = litert.interpreter(stream())
    for k, answer in enumerate(answers):
        rows = found[k * NEW : (k + 1) * NEW].reshape(1, NEW, 1, WIDTH)
        np.testing.assert_array_equal(answer, litert.run(made, [rows])[0].reshape(-1))
    assert len(np.unique(answers)) > 20
    np.testing.assert_array_equal(answers, run(packed(stream(), tmp_path), list(found.reshape(-1, 1, NEW, 1, WIDTH))))


def test_found_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --stream and without it the bytes are the same, but for what the file says of itself; other numbers of rows are refused."""
    notes = "all 2 rows of 'x' are new in each run, and the noise of the front end goes on: a run takes 640 samples, each time 320 further on"
    path = tmp_path / "net.tflite"
    path.write_bytes(stream())
    (name,) = [i for i in small(tmp_path).core.inputs if i != "samples"][:1] or ["x"]
    assert main(["pack", str(path), "--frontend", SMALL]) == 0
    assert notes.partition("'x'")[2] in capsys.readouterr().err
    del name
