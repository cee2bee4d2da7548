"""A network that tells bright pictures from dark ones, [1, height, width, channels] or channels first,
of pixels from 0 to 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import text_nets

HEIGHT, WIDTH = 12, 16


def shape(channels: int, planes: bool = False) -> list[int]:
    return [1, channels, HEIGHT, WIDTH] if planes else [1, HEIGHT, WIDTH, channels]


def save_net(path: Path, channels: int, planes: bool = False) -> Path:
    n = HEIGHT * WIDTH * channels
    mean = np.full(n, 8 / n, np.float32)
    text = f"(float{shape(channels, planes)} x) => (float[1,2] y) {{"
    text += "r = Reshape(x, flat) g = Gemm<transB = 1>(r, w, b) y = Softmax(g) }"
    return text_nets.save(path, text, w=np.stack([-mean, mean]), b=np.float32([4, -4]), flat=np.array([1, -1]))


def save_samples(path: Path, channels: int, planes: bool = False, scale: float = 1.0) -> Path:
    """Pictures from all black to all white, with noise."""
    rng = np.random.default_rng(3)
    level = np.linspace(0, 1, 24).reshape(-1, 1, 1, 1)
    x = np.clip(level + 0.1 * rng.standard_normal((24, *shape(channels, planes)[1:])), 0, 1)
    x[0], x[-1] = 0, 1
    np.savez(path, x=(x * scale).astype(np.float32))
    return path
