"""A network that tells low tones from high ones by features of sound, and such tones."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Gemm", ["r", "w", "b"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.concatenate([-2 * high, 2 * high, 0 * high]), "w"),
        numpy_helper.from_array(
            np.array([2.4, -2.4, 3.5], np.float32), "b"
        ),  # noise alone is 1.2 louder in the upper bands
        numpy_helper.from_array(np.array([1, -1], np.int64), "flat"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, BANDS, FRAMES]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, len(LABELS)]),
    ]
    graph = helper.make_graph(nodes, "tones", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_wav(path: Path, x: np.ndarray, rate: int = 16000, channels: int = 1, width: int = 2) -> Path:
    """Samples as they come, whatever the header then says of them."""
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
