"""A network that tells low tones from high ones by features of sound, and such tones."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import text_nets

BANDS, FRAMES = 8, 9
FRONT_END = "logmel:frame=320,hop=160,mels=8,fmin=50,fmax=8000,floor=1e-6"  # 1,600 samples have nine frames
LABELS = ("low", "high", "silence")


def tone(rng: np.random.Generator, label: str, n: int = 1600) -> np.ndarray:
    """int16 [n], in some noise; "silence" is the noise alone."""
    pitch = {"low": 0.1, "high": 1.5, "silence": 0.0}[label] * rng.uniform(0.9, 1.1)
    return (3000 * np.sin(pitch * np.arange(n)) + 100 * rng.standard_normal(n)).astype(np.int16)


def save_net(path: Path) -> None:
    """An ONNX file whose input [1, 1, bands, frames] has the bands before the frames."""
    upper = np.repeat((np.arange(BANDS) >= BANDS // 2).astype(np.float32), FRAMES)[None]
    high = (upper - (1 - upper)) / (BANDS * FRAMES / 2)
    w = np.concatenate([-2 * high, 2 * high, 0 * high])
    b = np.float32([2.4, -2.4, 3.5])  # noise alone is 1.2 louder in the upper bands
    text = f"(float{[1, 1, BANDS, FRAMES]} x) => (float{[1, len(LABELS)]} y) {{"
    text += "r = Reshape(x, flat) g = Gemm<transB = 1>(r, w, b) y = Softmax(g) }"
    text_nets.save(path, text, w=w, b=b, flat=np.array([1, -1]))


def write_wav(path: Path, x: np.ndarray, rate: int = 16000, channels: int = 1, width: int = 2) -> Path:
    """Write samples as they are, with any header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(x.astype({1: "u1", 2: "<i2", 4: "<i4"}[width]).tobytes())
    return path


def marvin(path: Path) -> np.ndarray:
    """int16 [n], one of the two channels of the reference models' recording, which are the same."""
    with wave.open(str(path), "rb") as file:
        both = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)
    assert (both[:, 0] == both[:, 1]).all()
    return both[:, 0].copy()
