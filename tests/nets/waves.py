"""A network that tells gestures by how much each axis moves, and movements of an MPU6050: rows of acceleration and
rotation, 100 a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import text_nets

ROWS, AXES, RATE = 50, 6, 100
LABELS = ("shake", "turn", "unknown")
G = 16384  # counts


def movement(rng: np.random.Generator, label: str, rows: int = ROWS) -> np.ndarray:
    """int16 [rows, 6]: x shakes 4 times a second, or z turns twice, or it lies there; always with some noise."""
    t = np.arange(rows)[:, None] / RATE + rng.uniform(0, 1)
    x = 100 * rng.standard_normal((rows, AXES))
    x[:, 2] += G
    if label == "shake":
        x[:, :1] += rng.uniform(10000, 14000) * np.sin(2 * np.pi * 4 * t)
    if label == "turn":
        x[:, 5:] += rng.uniform(12000, 18000) * np.sin(2 * np.pi * 2 * t)
    return x.astype(np.int16)


# Of each axis the deviation in g, and what is below 3.2 Hz and above it.
FRONT_END = f"features:rows={ROWS},axes={AXES},rate={RATE},unit=1/{G},stats=std,edges=1+3.2+8"


def save_features_net(path: Path) -> None:
    """An ONNX file whose input [1, axes, 3] are the features of FRONT_END."""
    w = np.zeros((AXES, 3, 3), np.float32)
    w[0, 2, 0], w[5, 1, 1] = 1.5, 1.5  # x quickly, z slowly
    save_linear(path, w, [-4, -4, 1])


def save_linear(path: Path, w: np.ndarray, b: list[float]) -> None:
    """An ONNX file whose input [1, axes, features] one layer w [axes, features, classes] tells classes from."""
    text = f"(float{[1, *w.shape[:2]]} x) => (float{[1, w.shape[2]]} y) "
    text += "{ f = Flatten(x) z = Gemm(f, w, b) y = Softmax(z) }"
    text_nets.save(path, text, w=w.reshape(-1, w.shape[2]).astype(np.float32), b=np.float32(b))


def save_net(path: Path) -> None:
    """An ONNX file whose input [1, rows, axes] is in counts."""
    w = np.zeros((3, AXES), np.float32)
    w[0, 0], w[1, 5] = 30, 30
    text = f"""(float{[1, ROWS, AXES]} x) => (float{[1, len(LABELS)]} y) {{
        g = Mul(x, unit)
        squares = Mul(g, g)
        power = ReduceMean<axes = [1], keepdims = 0>(squares)
        z = Gemm<transB = 1>(power, w, b)
        y = Softmax(z)
    }}"""
    text_nets.save(path, text, unit=np.float32(1 / G), w=w, b=np.float32([-3, -3, 2]))
