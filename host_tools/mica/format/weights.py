"""Weights in a file: a type defines one weight, and layouts define how rows of weights are stored.

A row is the weights of one output channel. A step names its layout by a code; a kernel's row (`mica.kernels`) names the
layouts that it reads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class WeightType:
    """Type of one weight: a symmetric integer, -largest to largest."""

    name: str
    bits: int  # in the file

    @property
    def largest(self) -> int:
        """The largest weight that a scale makes; its opposite is the smallest."""
        return int(2 ** (self.bits - 1) - 1)

    def row_bytes(self, k: int) -> int:
        """Length in bytes of k weights, one behind the other."""
        return -(-k * self.bits // 8)

    def round(self, values: Array) -> Array:
        """Weights in units of their scale -> the nearest integers of the type, as floats."""
        largest = self.largest
        out: Array = np.rint(np.atleast_1d(values))
        np.minimum(out, largest, out=out)
        np.maximum(out, -largest, out=out)
        return out


INT8 = WeightType("int8", 8)


@dataclass(frozen=True)
class Layout:
    """Order and size of rows of weights in a file."""

    name: str
    code: int  # in a step's record
    doc: str
    weights: WeightType = INT8
    align: int = 1  # bytes: rows are filled up with zeros to a multiple
    offset: int = 0  # added to each byte, the filling too

    @property
    def bits(self) -> int:
        """Bits of a weight in the file."""
        return self.weights.bits

    @property
    def head(self) -> int:
        """Bytes before the first row."""
        return 0

    def row_bytes(self, k: int) -> int:
        """Length in bytes of a row of k weights."""
        return -(-self.weights.row_bytes(k) // self.align) * self.align

    def total(self, rows: int, k: int) -> int:
        """Length in bytes of all rows and of what stands before them."""
        return self.head + rows * self.row_bytes(k)

    def unpacking(self, k: int) -> int:
        """Bytes of scratch that a kernel takes in addition to those for int8 rows of k weights."""
        return 0

    def fault(self, weights: Array) -> str:
        """Why weights cannot be stored so, or nothing."""
        return ""

    def stored(self, weights: bytes, rows: int) -> bytes:
        """Rows of int8 weights, one behind the other, as the file has them."""
        a = np.frombuffer(weights, np.uint8).reshape(rows, -1)
        a = np.pad(a, ((0, 0), (0, self.row_bytes(a.shape[1]) - a.shape[1])))
        return (a + np.uint8(self.offset)).tobytes()

    def read(self, stored: Array, shape: Sequence[int]) -> Array:
        """The inverse of `stored`: int8 weights of the kernel's shape."""
        a = stored.view(np.uint8).reshape(shape[0], -1)[:, : math.prod(shape[1:])]
        return np.ascontiguousarray(a - np.uint8(self.offset)).view(np.int8).reshape(shape)


CODES = 16  # weights of a table
CODE_BITS = 4
PAIRS_BYTES = 1024  # of a table of all pairs of codes, which kernels make to unpack two weights at once


@dataclass(frozen=True)
class CodeLayout(Layout):
    """Rows of codes: each weight is one of 16 int8 values, which stand before the rows,
    and its row has its place among them.

    The weights are int8 for everybody but the file: biases, the proof that no sum overflows,
    oracle and fallback stay as they are.
    """

    @property
    def bits(self) -> int:
        """Bits of a weight in the file."""
        return CODE_BITS

    @property
    def head(self) -> int:
        """Bytes of the table."""
        return CODES

    def row_bytes(self, k: int) -> int:
        """Length in bytes of a row of k codes."""
        return -(-k * CODE_BITS // (8 * self.align)) * self.align

    def unpacking(self, k: int) -> int:
        """A table of pairs, and bytes to fill x up; or one more int8 row for cores that need it."""
        return max(PAIRS_BYTES + 16, -(-k // ROW_ALIGN) * ROW_ALIGN)

    def fault(self, weights: Array) -> str:
        """Why weights cannot be stored so, or nothing."""
        n = len(np.unique(weights))
        return f"{n} different weights; a table holds {CODES}" if n > CODES else ""

    def stored(self, weights: bytes, rows: int) -> bytes:
        """The table, ascending and filled up with its last value, then the rows: of each four codes first the pair 0
        and 2, then 1 and 3, the first of a pair in the lower half of its byte."""
        a = np.frombuffer(weights, np.int8).reshape(rows, -1)
        table, codes = np.unique(a, return_inverse=True)
        codes = codes.reshape(a.shape).astype(np.uint8)
        codes = np.pad(codes, ((0, 0), (0, 2 * self.row_bytes(a.shape[1]) - a.shape[1]))).reshape(-1, 2, 2)
        return np.pad(table, (0, CODES - len(table)), "edge").tobytes() + (codes[:, 0] | codes[:, 1] << 4).tobytes()

    def read(self, stored: Array, shape: Sequence[int]) -> Array:
        """The inverse of `stored`: int8 weights of the kernel's shape."""
        table, pairs = stored.view(np.int8)[:CODES], stored.view(np.uint8)[CODES:].reshape(-1, 1, 2)
        codes = np.concatenate([pairs & 15, pairs >> 4], axis=1).reshape(shape[0], -1)
        return np.ascontiguousarray(table[codes[:, : math.prod(shape[1:])]]).reshape(shape)


# A row is one output channel of K weights. The kernels of every core read words of four weights, so a row begins on a
# word. All cores share one order. Cores that need another one (pairs, four channels interleaved) make it while they
# unpack words into scratch, once for a tile of pixels. So no core would be faster with a file of its own. A fully
# connected layer uses a weight once, without a tile that shares the unpacking. There the offset saves the slowest core
# one instruction for four weights. `plain` is for files made by hand.
ROW_ALIGN = 4
PLAIN = Layout("plain", 0, "K bytes a row, row behind row")
ROWS = Layout("rows", 1, f"each row is filled up with zeros to a multiple of {ROW_ALIGN} bytes", align=ROW_ALIGN)
OFFSET_ROWS = Layout(
    "offset_rows",
    2,
    "as `rows`, and each byte, the filling too, is the weight + 128: a core without an instruction that "
    "widens bytes with their sign takes them apart with a mask, and one that has it loses nothing",
    align=ROW_ALIGN,
    offset=128,
)
# Two codes of a byte are weights that all cores with pairs of 16 bits multiply at once, so a byte is the number of a
# pair. One table serves a layer; a channel has its own scale anyway.
CODES4 = CodeLayout(
    "codes4",
    3,
    f"{CODES} int8 values, then a row of 4-bit numbers of them for each channel, filled up with zeros to a multiple "
    f"of {ROW_ALIGN} bytes: of each four weights first a byte for weights 0 and 2, then one for 1 and 3, the first of "
    "both in the lower half",
    align=ROW_ALIGN,
)
LAYOUTS = (PLAIN, ROWS, OFFSET_ROWS, CODES4)
LAYOUT_BY_CODE = {layout.code: layout for layout in LAYOUTS}
