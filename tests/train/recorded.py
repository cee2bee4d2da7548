"""Pretend recordings for the tests of training, as `mica record` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mica.listen import recorder

RATE = 16000


def whistle(kind: str, rng: np.random.Generator, rate: int = RATE, seconds: float = 1.0) -> np.ndarray:
    """Return int16 [n]: a tone that goes up or down, or a steady one."""
    t = np.arange(int(rate * 0.4)) / rate
    low, high = rng.uniform(500, 700), rng.uniform(1500, 2000)
    ends = {"up": (low, high), "down": (high, low)}.get(kind, (low, low))
    tone = np.sin(2 * np.pi * np.cumsum(np.linspace(*ends, len(t))) / rate) * np.hanning(len(t))
    x = rng.normal(0, 80, int(rate * seconds))
    at = rng.integers(0, len(x) - len(tone) + 1)
    x[at : at + len(tone)] += 8000 * tone
    return x.astype(np.int16)


def gesture(kind: str, rng: np.random.Generator, rows: int = 200) -> np.ndarray:
    """Return int16 [rows, 6] of a motion sensor that is shaken, turned, or left alone."""
    t = np.arange(rows) / 100
    x = rng.normal(0, 300, (rows, 6))
    x[:, 2] += 16384
    if kind == "shake":
        x[:, 0] += 9000 * np.sin(2 * np.pi * rng.uniform(4, 6) * t + rng.uniform(0, 6))
    if kind == "turn":
        x[:, 5] += 12000 * np.sin(2 * np.pi * rng.uniform(0.8, 1.2) * t + rng.uniform(0, 6))
    return np.clip(x, -32768, 32767).astype(np.int16)


def words(folder: Path, labels: Sequence[str] = ("up", "down", "other"), n: int = 12) -> Path:
    rng = np.random.default_rng(0)
    for label in labels:
        for k in range(n):
            recorder.save(folder / label, k + 1, whistle(label, rng), RATE)
    return folder


def gestures(folder: Path, labels: Sequence[str] = ("rest", "shake", "turn"), n: int = 12) -> Path:
    rng = np.random.default_rng(0)
    for label in labels:
        for k in range(n):
            recorder.save(folder / label, k + 1, gesture(label, rng), 100)
    return folder


def picture(kind: str, rng: np.random.Generator, side: int = 24) -> np.ndarray:
    """Return uint8 [side, side, 1]: a bright half on a dark ground, above or at the left."""
    x = rng.integers(20, 60, (side, side, 1))
    if kind == "top":
        x[: side // 2] += 120
    else:
        x[:, : side // 2] += 120
    return x.astype(np.uint8)


def pictures(folder: Path, labels: Sequence[str] = ("left", "top"), n: int = 12, side: int = 24) -> Path:
    from PIL import Image

    rng = np.random.default_rng(0)
    for label in labels:
        (folder / label).mkdir(parents=True, exist_ok=True)
        for k in range(n):
            Image.fromarray(picture(label, rng, side)[..., 0]).save(folder / label / f"{k:04d}.png")
    return folder


def table(path: Path, rows: int = 60) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (rows, 3))
    lines = ["wind,rain,sun,label"]
    lines += [f"{a:.4f},{b:.4f},{c:.4f},{'good' if a + b > 0 else 'bad'}" for a, b, c in x]
    path.write_text("\n".join(lines) + "\n")
    return path
