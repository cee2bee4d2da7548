"""Constants that come as integers: real numbers that remember the step they are multiples of.

DequantizeLinear(int8 w, s, z)              =>   constant (w - z) * s with weight scale s
Transpose, Reshape ... of such a constant   =>   constant with its weight scale moved alike
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mica.ir.graph import Quant, Value
from mica.ir.ops import MOVES

STEPPED_MOVES = MOVES & frozenset(("Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))


def dequantised(
    name: str, q: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, attrs: Mapping[str, Any]
) -> Value:
    """DequantizeLinear of a constant. Raises ValueError where the scales do not fit the integers.

    float32, as ONNX gives it; float64 of 32-bit integers (a bias), which float32 would round.
    """
    weight_scale = _spread(scale.astype(np.float64), q, attrs, "scale")
    if not (np.all(np.isfinite(weight_scale)) and np.all(weight_scale > 0)):
        raise ValueError("a scale that is not a positive number")
    integers = q.astype(np.int64)
    if zero is not None:
        integers = integers - _spread(zero.astype(np.int64), q, attrs, "zero point")
    data = integers * weight_scale
    value = Value(name, tuple(q.shape), "float32", data if q.dtype.itemsize > 2 else data.astype(np.float32))
    value.weight_scale = weight_scale
    if scale.size == 1 and q.dtype in (np.int8, np.uint8):
        z = 0 if zero is None else int(zero.reshape(-1)[0])
        value.quant = Quant(float(weight_scale.reshape(-1)[0]), z - 128 if q.dtype == np.uint8 else z)
    return value


def _spread(p: np.ndarray, q: np.ndarray, attrs: Mapping[str, Any], what: str) -> np.ndarray:
    """Scales or zero points, shaped to broadcast to q: one for all, one each along `axis`, or one a block of it."""
    if p.size == 1:
        return p.reshape((1,) * q.ndim)
    axis = int(attrs.get("axis", 1))
    if not -q.ndim <= axis < q.ndim:
        raise ValueError(f"axis {axis} of a tensor of {q.ndim} dimensions")
    block = int(attrs.get("block_size", 0))
    if block:
        return np.take(p, np.arange(q.shape[axis]) // block, axis=axis)
    shape = [1] * q.ndim
    shape[axis] = q.shape[axis]
    if p.size != q.shape[axis]:
        raise ValueError(f"{what} of {p.size} entries along axis {axis} of {list(q.shape)}")
    return p.reshape(shape)


def moved_weight_scale(value: Value, move: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Steps of `value` after an operator that moves its elements."""
    assert value.weight_scale is not None
    return move(np.ascontiguousarray(np.broadcast_to(value.weight_scale, value.shape)))
