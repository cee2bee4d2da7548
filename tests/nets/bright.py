"""A network that tells bright pictures from dark ones, [1, height, width, channels] or channels first, of pixels from 0 to 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEIGHT, WIDTH = 12, 16


def shape(channels: int, planes: bool = False) -> list[int]:
    return [1, channels, HEIGHT, WIDTH] if planes else [1, HEIGHT, WIDTH, channels]


def save_net(path: Path, channels: int, planes: bool = False) -> Path:
    n = HEIGHT * WIDTH * channels
    mean = np.full(n, 8 / n, np.float32)
    constants = [
        numpy_helper.from_array(np.stack([-mean, mean]), "w"),
        numpy_helper.from_array(np.array([4, -4], np.float32), "b"),
        numpy_helper.from_array(np.array([1, -1], np.int64), "flat"),
    ]
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Gemm", ["r", "w", "b"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape(channels, planes)),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2]),
    ]
    graph = helper.make_graph(nodes, "bright", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def save_samples(path: Path, channels: int, planes: bool = False, scale: float = 1.0) -> Path:
    """Pictures from all black to all white, with noise."""
    rng = np.random.default_rng(3)
    level = np.linspace(0, 1, 24).reshape(-1, 1, 1, 1)
    x = np.clip(level + 0.1 * rng.standard_normal((24, *shape(channels, planes)[1:])), 0, 1)
    x[0], x[-1] = 0, 1
    np.savez(path, x=(x * scale).astype(np.float32))
    return path
