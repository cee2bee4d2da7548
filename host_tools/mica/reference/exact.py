"""Matrix products with the same bits on every machine.

A sum of floats depends on the order of its terms, and a BLAS chooses the order by the processor and the number of
threads. So both operands are first rounded to whole numbers times a power of two, with so few bits that every partial
sum is a whole number of at most 2**53. float64 holds all of those: it adds them without rounding, in any order, with
fused multiplications or without. What is left to round happens element by element, as IEEE 754 says.

Of K products the operands share 53 - log2(K) bits: 21 and 22 for K = 1024. One unit is 2**-21 of an operand's largest
value, some 10,000 times finer than int8. Beside products, host code may add with `np.sum`, whose order follows from
shapes and strides alone, and should use `functions` for what is no addition, multiplication, division or square root.
"""

import math
import weakref
from typing import NamedTuple

import numpy as np

ROOM = 53  # bits of a float64's significand


class Whole(NamedTuple):
    """Real numbers = numbers * unit."""

    numbers: np.ndarray  # float64, whole
    unit: np.ndarray | float  # a power of two: one, or one for each row, [..., 1]


def bits(terms: int) -> tuple[int, int]:
    """Limits of the operands of a sum of products: at most 2**a and 2**b."""
    room = ROOM - (max(terms, 1) - 1).bit_length()
    return room // 2, room - room // 2


def whole(x: np.ndarray, most: int) -> Whole:
    """x rounded to whole numbers of at most 2**most in one unit."""
    numbers = np.array(x, np.float64)
    if numbers.size == 0:
        return Whole(numbers, 1.0)
    # 2**exponent is above the largest value. Infinity and NaN make other such values: whoever called finds them.
    exponent = max(math.frexp(max(float(np.maximum.reduce(x, None)), -float(np.minimum.reduce(x, None))))[1], -900)
    numbers *= 2.0 ** (most - exponent)
    return Whole(np.rint(numbers, out=numbers), 2.0 ** (exponent - most))


def whole_each(x: np.ndarray, most: int) -> Whole:
    """x [n, ...] likewise with one unit for each of n arrays, [n, 1, ...]: what `whole` makes of each of them."""
    if len(x) <= 1:
        return whole(x, most)
    numbers = np.array(x, np.float64)
    flat = x.reshape(len(x), -1)
    largest = np.maximum(np.maximum.reduce(flat, 1), -np.minimum.reduce(flat, 1)).astype(np.float64)
    exponent = np.maximum(np.frexp(largest)[1], -900).reshape(-1, *[1] * (x.ndim - 1))
    numbers *= np.ldexp(1.0, most - exponent)
    return Whole(np.rint(numbers, out=numbers), np.ldexp(1.0, exponent - most))


def whole_rows(w: np.ndarray, most: int) -> Whole:
    """Likewise with one unit for each row, the last axis."""
    numbers = np.array(w, np.float64)
    if numbers.size == 0:
        return Whole(numbers, np.ones((*w.shape[:-1], 1)))
    largest = np.maximum(w.max(axis=-1, keepdims=True), -w.min(axis=-1, keepdims=True))
    exponent = np.maximum(np.frexp(largest.astype(np.float64))[1], -900)
    numbers *= np.ldexp(1.0, most - exponent)
    return Whole(np.rint(numbers, out=numbers), np.ldexp(1.0, exponent - most))


KEPT = (
    4_000_000  # constants, of all networks that live, up to which they are made once: 8 bytes each, twice the float32's
)
_constants: dict[int, tuple[weakref.ref[np.ndarray], Whole]] = {}


def constant_rows(w: np.ndarray) -> Whole:
    """The second operand of products with rows of an array [N, ...]: numbers [N, K].

    Kept as long as the array lives, where there is room; nobody may write into the array after that. Large networks
    have most of theirs made again for every run: that is little beside the products, and keeping them takes twice the
    file's size.
    """
    known = _constants.get(id(w))
    if known is not None and known[0]() is w:
        return known[1]
    rows = w.reshape(len(w), -1)
    found = whole_rows(rows, bits(rows.shape[1])[1])
    if w.size + sum(kept.numbers.size for _, kept in _constants.values()) > KEPT:
        return found
    key = id(w)
    _constants[key] = (weakref.ref(w, lambda _: _constants.pop(key, None)), found)
    return found


def with_rows(x: np.ndarray, w: Whole) -> np.ndarray:
    """x [..., M, K] times the rows of w [..., N, K] -> float64 [..., M, N]."""
    return rows_with_rows(whole(x, bits(x.shape[-1])[0]), w)


def rows_with_rows(a: Whole, b: Whole) -> np.ndarray:
    """a [..., M, K] times the rows of b [..., N, K] -> float64 [..., M, N]. Both were made with `bits` of K."""
    y = a.numbers @ b.numbers.swapaxes(-1, -2)
    y *= a.unit
    y *= np.swapaxes(b.unit, -1, -2)
    return np.asarray(y)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a [..., N, K] @ b [..., K, M], float64."""
    most = bits(a.shape[-1])
    left, right = whole(a, most[0]), whole(b, most[1])
    y = left.numbers @ right.numbers
    y *= left.unit * right.unit
    return np.asarray(y)
