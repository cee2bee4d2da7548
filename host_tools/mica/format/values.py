"""Real numbers <-> the int8 integers that stand for them: real = scale * (q - zero_point).

Every rounding is to the nearest integer, half to even, and saturates (ONNX QuantizeLinear).
There are two rules, one for each place where real numbers turn into integers,
because a number near the middle of two integers goes one way in float32 and the other in float64:

    quantise_f32, dequantise_f32   inputs and outputs of a model, and of a custom operator
        A board repeats this rule for every input, in single precision: few have more in hardware,
        and MicroPython's floats are 32 bits wide there. `usermod_c/binding/values.c` has the same operations in the
        same order, so both see the same int8.
    quantise_f64, dequantise_f64   tables, constants and clamps
        They are computed once, when a model is packed, and stored; no board repeats them.
        So they take all the precision there is.

Rounding in integers (requantisation) is a kernel's own affair: `mica.kernels.integers`.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

Array = np.ndarray
Rule = Callable[[Array, float, int], Array]  # numbers, scale, zero point

LOW, HIGH = -128, 127  # int8
LOW16, HIGH16 = -(2**15), 2**15 - 1  # int16
QUANTISED = ("int8", "int16")  # element types that stand for real numbers


class Quantised(Protocol):
    """Facts of a tensor of a file."""

    dtype: str
    dims: tuple[int, ...]
    scale: float
    zero_point: int


def clip_s8(q: Array) -> Array:
    """Numbers into the range of int8; the type stays."""
    out: Array = np.clip(q, LOW, HIGH)
    return out


def clip_s16(q: Array) -> Array:
    """The same for int16."""
    out: Array = np.clip(q, LOW16, HIGH16)
    return out


def saturate(q: Array) -> Array:
    """Whole numbers of any type -> int8."""
    return clip_s8(q).astype(np.int8)


def growth(rows: Array) -> Array:
    """Return by how much each channel's step has to grow so that int8 holds its integers [Cout, n]: [Cout], 1 where
    int8 holds them."""
    least, most = rows.min(axis=1, initial=0), rows.max(axis=1, initial=0)
    out: Array = np.where((least >= LOW) & (most <= HIGH), 1.0, np.maximum(-least, most) / HIGH)
    return out


def quantise_f32(x: Array, scale: float, zero_point: int) -> Array:
    """Real numbers -> int8 in single precision, as a board does."""
    return saturate(np.rint(np.asarray(x, np.float32) / np.float32(scale)) + zero_point)


def dequantise_f32(q: Array, scale: float, zero_point: int) -> Array:
    """Integers -> float32 in single precision, as a board does."""
    out: Array = (np.asarray(q, np.float32) - np.float32(zero_point)) * np.float32(scale)
    return out


def quantise_f64(x: Array, scale: float, zero_point: int) -> Array:
    """Real numbers -> int8 in double precision."""
    return saturate(np.rint(np.asarray(x, np.float64) / scale) + zero_point)


def quantise16_f64(x: Array, scale: float) -> Array:
    """Real numbers -> int16 in double precision; the zero point of int16 is 0."""
    return clip_s16(np.rint(np.asarray(x, np.float64) / scale)).astype(np.int16)


def dequantise_f64(q: Array, scale: float, zero_point: int) -> Array:
    """Integers -> float64."""
    out: Array = (np.asarray(q, np.float64) - zero_point) * scale
    return out


def levels(scale: float, zero_point: int) -> Array:
    """The real numbers of all 256 integers, from LOW to HIGH; float64 [256]."""
    return dequantise_f64(np.arange(LOW, HIGH + 1), scale, zero_point)


def quantise_input(x: Array, t: Quantised) -> Array:
    """Real numbers -> what an input of a model takes: int8 or int16 of its shape; int32 holds whole numbers, float32
    the numbers themselves."""
    if t.dtype == "float32":
        return np.asarray(x, np.float32).reshape(t.dims)
    if t.dtype == "int32":
        return np.rint(np.asarray(x, np.float64)).astype(np.int32).reshape(t.dims)
    if t.dtype == "int16":
        q = np.rint(np.asarray(x, np.float32) / np.float32(t.scale)) + t.zero_point
        return clip_s16(q).astype(np.int16).reshape(t.dims)
    return quantise_f32(x, t.scale, t.zero_point).reshape(t.dims)


def dequantise_output(q: Array, t: Quantised) -> Array:
    """Integers of a model's output -> float32."""
    return dequantise_f32(q, t.scale, t.zero_point)
