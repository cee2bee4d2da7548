"""How weights lie in a file: a type, which says what one weight is, and layouts, which say how rows of them are stored.

A row is the weights of one output channel. A step names its layout by a code; a kernel's row (`mica.kernels`) names the layouts
that it reads. Weights of fewer bits are a type more and a layout more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class WeightType:
    """What one weight is: a symmetric integer, -largest to largest."""

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
        out: Array = np.clip(np.rint(values), -self.largest, self.largest)
        return out


INT8 = WeightType("int8", 8)


@dataclass(frozen=True)
class Layout:
    """How rows of weights are stored."""

    name: str
    code: int  # in a step's record
    doc: str
    weights: WeightType = INT8
    align: int = 1  # bytes: rows are filled up with zeros to a multiple
    offset: int = 0  # added to each byte, the filling too

    def row_bytes(self, k: int) -> int:
        """Length in bytes of a row of k weights."""
        return -(-self.weights.row_bytes(k) // self.align) * self.align

    def stored(self, weights: bytes, rows: int) -> bytes:
        """Rows of int8 weights, one behind the other, as the file has them."""
        a = np.frombuffer(weights, np.uint8).reshape(rows, -1)
        a = np.pad(a, ((0, 0), (0, self.row_bytes(a.shape[1]) - a.shape[1])))
        return (a + np.uint8(self.offset)).tobytes()

    def read(self, stored: Array, shape: Sequence[int]) -> Array:
        """The inverse of `stored`: int8 weights of the kernel's shape."""
        a = stored.view(np.uint8).reshape(shape[0], -1)[:, : math.prod(shape[1:])]
        return np.ascontiguousarray(a - np.uint8(self.offset)).view(np.int8).reshape(shape)


# One row an output channel of K weights. The kernels of every core read words of four weights, so a row begins on one. It is
# one order for all cores: what they want beyond it (pairs, four channels interleaved) they make while they unpack words into
# scratch, once for a tile of pixels, so that a file costs no core more than another's would. A fully connected layer uses a
# weight once and has no tile to spread the unpacking over; there the offset saves the core that is slowest at it an instruction
# for four weights. `plain` is for files made by hand.
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
LAYOUTS = (PLAIN, ROWS, OFFSET_ROWS)
LAYOUT_BY_CODE = {layout.code: layout for layout in LAYOUTS}
