"""MLPerf Tiny's streaming wake word from sound: integers from samples to answer beside a float front end and LiteRT's
network."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
from nets import MODELS
from tones import marvin

from mica import engine
from mica.cli.main import main

FILES = MODELS / "tflite"
FRONT_END = "logmel:mlperf-wakeword"
FRAME, HOP, ROWS = 1024, 512, 30

pytestmark = pytest.mark.skipif(
    not FILES.exists(), reason=f"{FILES} is missing: the reference models are not part of the repository"
)


def by_the_book(samples: np.ndarray) -> np.ndarray:
    """The features as the training code defines them, by numpy's FFT: float64 [frames, 40], 0 to 1."""
    x = samples / 32768
    x = x - (1 - 2**-5) * np.concatenate([x[:1], x[:-1]])
    frames = np.lib.stride_tricks.sliding_window_view(x, FRAME)[::HOP] * np.hamming(FRAME)
    power = np.maximum(np.abs(np.fft.rfft(frames)) ** 2 / FRAME, 1e-30)
    mel = 1127 * np.log(1 + np.arange(513) * 16000 / FRAME / 700)
    edges = np.linspace(0, 1127 * np.log(1 + 8000 / 700), 42)
    rise = (mel - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - mel) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(rise, fall))
    filters[:, 0] = 0
    return np.clip((10 * np.log10(np.maximum(power @ filters.T, 1e-30)) + 52) / 64, 0, 1)


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    return marvin(FILES / "sww_easy10s.wav")


@pytest.fixture(scope="module")
def expected(sound: np.ndarray) -> np.ndarray:
    """The word's probability in all windows, by LiteRT: float64 [282]."""
    network = litert.interpreter((FILES / "sww_int8.tflite").read_bytes(), reference=False)
    (given,), (_, zero) = network.get_input_details(), network.get_output_details()[0]["quantization"]
    scale, offset = given["quantization"]
    x = np.clip(np.rint(by_the_book(sound) / scale) + offset, -128, 127).astype(np.int8)
    windows = np.stack([x[k : k + ROWS] for k in range(len(x) - ROWS + 1)])
    answers = [litert.run(network, [w.reshape(given["shape"])])[0].reshape(-1)[0] for w in windows]
    p = (np.array(answers, np.float64) - zero) / 256
    assert len(p) == 282 and np.flatnonzero(p > 0.95).tolist() == [*range(13, 37), 126]  # as the folder's README says
    return p


def scores_of(words: list[str], sound: np.ndarray, n: int, folder: Path) -> np.ndarray:
    """The same by a packed model that is given n samples every HOP."""
    return (answers(words, sound, n, folder)[:, 0].astype(np.float64) + 128) / 256


def answers(words: list[str], sound: np.ndarray, n: int, folder: Path) -> np.ndarray:
    """int8 [runs, 3]"""
    packed = folder / "wake.mica"
    assert main(["pack", str(FILES / "sww_int8.tflite"), "--frontend", *words, "-o", str(packed)]) == 0
    model = engine.load(packed.read_bytes())
    outputs = []
    for begin in range(0, len(sound) - n + 1, HOP):
        model.set_input(0, sound[None, begin : begin + n])
        model.run()
        outputs.append(model.output(0).reshape(-1).copy())
    return np.array(outputs)


def assert_alike(p: np.ndarray, expected: np.ndarray) -> None:
    near = np.abs(p - expected) <= 0.03
    print(f"{near.mean():.2%} of windows within 0.03, worst {np.abs(p - expected).max():.3f}")
    assert near.mean() >= 0.98
    assert np.count_nonzero((p > 0.95) != (expected > 0.95)) <= 2


def test_a_row_at_a_time(sound: np.ndarray, expected: np.ndarray, tmp_path: Path) -> None:
    """A frame every 32 ms, and the rows before as state: the same answers, 29 runs later."""
    words = [f"{FRONT_END},before=yes", "--window", "input_1:1=1"]
    p = scores_of(words, np.concatenate([[0], sound]).astype(np.int16), FRAME + 1, tmp_path)
    assert len(p) == len(expected) + ROWS - 1
    assert_alike(p[ROWS - 1 :], expected)


def test_new_rows_only(sound: np.ndarray, tmp_path: Path) -> None:
    """Layers that keep their rows say the same as the whole window, byte for byte, as soon as there is one."""
    sound = np.concatenate([[0], sound]).astype(np.int16)
    window = answers([f"{FRONT_END},before=yes", "--window", "input_1:1=1"], sound, FRAME + 1, tmp_path)
    step = answers([FRONT_END, "--stream", "input_1:1=1"], sound, FRAME + 1, tmp_path)
    assert (window[ROWS - 1 :] == step[ROWS - 1 :]).all() and not (window == step).all()


def test_windows(sound: np.ndarray, expected: np.ndarray, tmp_path: Path) -> None:
    assert_alike(scores_of([FRONT_END], sound, FRAME + (ROWS - 1) * HOP, tmp_path), expected)
