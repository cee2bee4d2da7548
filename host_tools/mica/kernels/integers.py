"""Integers as the C kernels compute them: accumulators are int64, asserted to stay inside the int32 that C has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Blobs = Mapping[str, Array]
Params = Mapping[str, int]


@dataclass(frozen=True)
class Output:
    """Facts that a kernel needs beyond its parameters."""

    dims: tuple[int, ...]
    x_zero: int = 0
    y_zero: int = 0
    b_zero: int = 0  # of the second input


def requantise(acc: Array, mult: Array | int, shift: Array | int) -> Array:
    """(acc * mult + 2**(30 + shift)) >> (31 + shift): acc * mult / 2**(31 + shift), rounded once, halves up. int64."""
    acc, s = np.asarray(acc, np.int64), np.asarray(shift, np.int64)
    out: Array = (acc * np.asarray(mult, np.int64) + (np.int64(1) << (30 + s))) >> (31 + s)
    return out


def int32(acc: Array) -> Array:
    assert acc.size == 0 or (acc.min() >= -(2**31) and acc.max() < 2**31), "the accumulator leaves the int32"
    return acc


def clamp(y: Array, p: Params) -> Array:
    return np.clip(y, p.get("act_min", -128), p.get("act_max", 127)).astype(np.int8)


def finish(acc: Array, blobs: Blobs, p: Params, q: Output) -> Array:
    """Accumulators [..., channels] to int8."""
    return clamp(q.y_zero + requantise(int32(acc), blobs["mult"], blobs["shift"]), p)


def dot(x: Array, w: Array) -> Array:
    """x [..., K] times w [N, K]. float64 holds these sums exactly (below 2**53), and numpy multiplies floats faster."""
    return (x.astype(np.float64) @ w.astype(np.float64).T).astype(np.int64)


def both(xs: Sequence[Array], q: Output) -> tuple[Array, Array]:
    """Two inputs without their zero points."""
    return xs[0].astype(np.int64) - q.x_zero, xs[1].astype(np.int64) - q.b_zero


def root(v: Array) -> Array:
    """sqrt(v) to the nearest integer, at most 65535; v in [0, 2**32)."""
    r = np.floor(np.sqrt(v.astype(np.float64))).astype(np.int64)  # float64 holds v: its root never rounds up to r + 1
    assert np.all((r * r <= v) & (v < (r + 1) ** 2))
    out: Array = np.minimum(r + (v - r * r > r), 65535)
    return out


def log2(v: Array) -> Array:
    """floor(2**16 * log2(v)) as mica_log2 has it: 16 squarings of a 32-bit mantissa. v in [1, 2**32)."""
    log = np.floor(np.log2(v.astype(np.float64))).astype(np.int64)
    log -= v < (np.int64(1) << log)  # where the float was rounded up
    m = v << (31 - log)
    for _ in range(16):
        square = m.astype(np.uint64) ** np.uint64(2)
        two = square >> np.uint64(63)
        m = (square >> (np.uint64(31) + two)).astype(np.int64)
        log = log << 1 | two.astype(np.int64)
    return log
