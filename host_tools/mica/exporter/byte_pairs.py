"""int16 as bytes, and bytes as int16, in ONNX's operators: on tensors of one dimension, the lower byte first."""

import numpy as np
from onnx import TensorProto

from mica.exporter.builder import Builder

PARTS = np.array([1, 256], np.int32)


def apart(b: Builder, x: str, base: str) -> str:
    """int16 [n] -> int8 [2 * n]."""
    v = b.node("Reshape", b.node("Cast", x, to=TensorProto.INT32, base=base), _shape(b, -1, 1), base=base)
    v = b.node("Div", b.node("Mod", v, _number(b, 65536), base=base), b.const(PARTS), base=base)
    return b.node("Reshape", _signed(b, v, 256, TensorProto.INT8, base), _shape(b, -1), base=base)


def joined(b: Builder, x: str, base: str) -> str:
    """int8 [2 * n] -> int16 [n]."""
    v = b.node("Reshape", b.node("Cast", x, to=TensorProto.INT32, base=base), _shape(b, -1, 2), base=base)
    v = b.node("Mul", b.node("Mod", v, _number(b, 256), base=base), b.const(PARTS), base=base)
    v = b.node("ReduceSum", v, _shape(b, 1), base=base, keepdims=0)
    return _signed(b, v, 65536, TensorProto.INT16, base)


def _signed(b: Builder, v: str, size: int, kind: int, base: str) -> str:
    """v modulo size, from -size / 2 on."""
    half = _number(b, size // 2)
    v = b.node("Mod", b.node("Add", v, half, base=base), _number(b, size), base=base)
    return b.node("Cast", b.node("Sub", v, half, base=base), to=kind, base=base)


def _number(b: Builder, value: int) -> str:
    return b.const(np.array(value, np.int32))


def _shape(b: Builder, *dims: int) -> str:
    return b.const(np.array(dims, np.int64))
