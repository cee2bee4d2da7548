"""Real numbers <-> the integers of a tensor."""

from __future__ import annotations

import numpy as np

from mica.format.codec import TensorRecord


def quantise_input(x: np.ndarray, t: TensorRecord) -> np.ndarray:
    """float32 -> int8 of a tensor's shape, round half to even (ONNX QuantizeLinear); int32 holds whole numbers."""
    if t.dtype == "int32":
        return np.rint(np.asarray(x, np.float64)).astype(np.int32).reshape(t.dims)
    q = np.rint(np.asarray(x, np.float32) / np.float32(t.scale)) + t.zero_point
    return np.clip(q, -128, 127).astype(np.int8).reshape(t.dims)


def dequantise_output(q: np.ndarray, t: TensorRecord) -> np.ndarray:
    """int8 -> float32."""
    return (q.astype(np.float32) - np.float32(t.zero_point)) * np.float32(t.scale)
