"""The filter behind a PDM microphone: the engine's C equals the oracle, and both keep the sound."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pdm_oracle as pdm
import pytest
from nets import MODELS
from pdm_streams import Filter, sent

from mica.reference.front_end import features
from mica.sound import front_ends

ROOT = Path(__file__).resolve().parents[2]
RATE = 16000


@pytest.mark.parametrize("ratio", pdm.RATIOS)
def test_equal(ratio: int) -> None:
    """Bits of every density, all ones, all zeros, and of a microphone; in pieces of all lengths about a chunk."""
    rng = np.random.default_rng(ratio)
    n = 330
    noise = (rng.random(n * ratio) < np.repeat(rng.random(n), ratio)).astype(np.uint8)
    for bits in (noise, np.ones_like(noise), np.zeros_like(noise), np.tile([0, 1], n * ratio // 2).astype(np.uint8)):
        packed = np.packbits(bits, bitorder="little")
        for gain in (1, pdm.MOST_GAIN):
            of = Filter(ratio, gain)
            pieces = np.split(packed, np.cumsum([0, 1, 2, 31, 32, 33, 63, 64, 65]) * ratio // 8)
            found = np.concatenate([of.samples(piece) for piece in pieces])
            np.testing.assert_array_equal(found, pdm.filtered(bits, ratio, gain))


def test_refused() -> None:
    for words in ((0, 1), (63, 1), (32, 1), (512, 1), (-64, 1), (64, 0), (64, 65), (64, -1)):
        with pytest.raises(ValueError):
            Filter(*words)


def test_taps() -> None:
    source = (ROOT / "usermod_c" / "kernels" / "pdm.c").read_text()
    (found,) = re.findall(r"taps\[\] = \{([^}]*)\}", source)
    assert [int(v) for v in found.split(",")] == pdm.TAPS.tolist()
    assert pdm.TAPS.sum() == 1 << 12


def _spectrum(x: np.ndarray) -> np.ndarray:
    """Powers of the last 8,000 samples, in steps of 2 Hz."""
    return np.abs(np.fft.rfft(x[-8000:].astype(np.float64))) ** 2


@pytest.mark.parametrize(("ratio", "least"), [(64, 54), (128, 66)])
def test_noise(ratio: int, least: float) -> None:
    """Twelve tones at the level of speech, -26 dB of full scale: each arrives with its level,
    and little beside them."""
    tones = np.array([126, 248, 500, 802, 1000, 1498, 2002, 2600, 3302, 4100, 5200, 5900])
    rng = np.random.default_rng(1)
    fine = 4  # samples of the sound for each of ours: a straight line between them is the sound itself
    t = np.arange(10000 * fine) / (RATE * fine)
    lines = 1 / np.sinc(tones / (RATE * fine)) ** 2  # straight lines between samples are weaker at high tones
    sound = (lines[:, None] * np.sin(2 * np.pi * tones[:, None] * t + rng.random((12, 1)) * 6)).sum(0)
    sound *= 32768 * 10 ** (-26 / 20) / np.sqrt(6)
    x = Filter(ratio).samples(sent(sound, ratio // fine, RATE * fine))
    power = _spectrum(x)
    levels = 10 * np.log10(power[tones // 2] / power[tones // 2].mean())
    assert np.abs(levels).max() < 0.25, levels
    of_one = 10 * np.log10(power[tones // 2].mean() / (_spectrum(sound[::fine])[tones // 2].mean()))
    noise = np.delete(power, tones // 2)[50:3500].sum()  # 100 to 7000 Hz
    db = 10 * np.log10(power[tones // 2].sum() / noise)
    print(f"{db:.1f} dB, level {of_one:.2f} dB")
    assert db >= least and abs(of_one) < 0.1


@pytest.mark.skipif(not (MODELS / "kws").exists(), reason="the reference models are not there")
def test_keywords() -> None:
    """The float network of ONNX Runtime understands the same words."""
    front_end = front_ends.parse("mfcc:mlperf-kws").front_end(49)
    network = onnxruntime.InferenceSession(str(MODELS / "kws" / "model.onnx"), providers=["CPUExecutionProvider"])
    clips = np.load(MODELS / "kws" / "pcm_calib.npz")["x"][:24]

    def answers(sounds: np.ndarray) -> np.ndarray:
        rows = np.stack([features(front_end, x) for x in sounds]).astype(np.float32)
        return np.argmax(network.run(None, {"input": rows.reshape(-1, 49, 10, 1)})[0], axis=1)

    same = answers(clips) == answers(np.stack([Filter().samples(sent(x)) for x in clips]))
    assert same.sum() >= 23


def test_nothing_folds_back() -> None:
    """A tone at 10.5 kHz would be one of 5.5 kHz; the constant part of a microphone goes in a tenth of a second."""
    t = np.arange(10000 * 4) / (RATE * 4)
    sound = 3000 + 8000 * np.sin(2 * np.pi * 10500 * t)
    x = Filter().samples(sent(sound, 16, RATE * 4))
    power = _spectrum(x) / (4000.0 * 8000) ** 2
    assert 10 * np.log10(power[2750]) < -45
    assert abs(x[1600:].mean()) < 6
