"""How much memory an import may take: a size is known, and refused, before there is an array of it.

A file of 200 bytes can ask for a constant of 8 GB (ConstantOfShape, Tile, Range) or an input of 2**93 elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Shape = Sequence[int]

SLACK = 64 << 20  # bytes of one folded constant, besides 4 times the file: integers become float32
FACTOR = 4
TOGETHER = 4  # all folded constants together may take as much as this many of the largest
MAX_ELEMENTS = 1 << 26  # of an activation: 64 MB on a board, 256 MB in float32 here


class Bound:
    """What the folded constants of one file may take, in bytes, each of them and together."""

    def __init__(self, file_bytes: int) -> None:
        self.each = SLACK + FACTOR * file_bytes
        self.together = TOGETHER * self.each
        self.taken = 0

    def check(self, results: Mapping[str, tuple[Shape, str]]) -> None:
        """Raises ValueError where constants of these shapes and types would be too large."""
        for shape, dtype in results.values():
            size = math.prod(shape) * _item_bytes(dtype)
            if size > self.each:
                raise ValueError(
                    f"it would fold to a constant of shape {list(shape)}, {size:,} bytes; expected at most {self.each:,} "
                    "(64 MB and 4 times the file)"
                )

    def take(self, arrays: Iterable[np.ndarray]) -> None:
        """Counts constants that are there. Raises ValueError where they are too many."""
        self.taken += sum(a.nbytes for a in arrays)
        if self.taken > self.together:
            raise ValueError(
                f"the constants folded so far take {self.taken:,} bytes; expected at most {self.together:,}"
            )


def _item_bytes(dtype: str) -> int:
    try:
        return np.dtype(dtype).itemsize
    except TypeError:  # a type of ONNX that numpy does not know; mica refuses what is made of it
        return 1


def range_size(*ends: np.ndarray) -> tuple[Shape, str]:
    """Shape and type of Range(start, limit, delta), one number each. Raises ValueError where there is no such thing."""
    if any(a.size != 1 for a in ends):
        raise ValueError("a start, limit or step that is not one number")
    start, limit, delta = (float(a.item()) for a in ends)
    steps = (limit - start) / delta if delta else math.nan
    if not math.isfinite(steps):
        raise ValueError(f"there are no steps of {delta:g} from {start:g} to {limit:g}")
    return (max(0, math.ceil(steps)),), str(ends[0].dtype)


def check_activation(shape: Shape) -> None:
    """Raises ValueError where no board could hold such a tensor, and this computer need not try."""
    if (size := math.prod(shape)) > MAX_ELEMENTS:
        raise ValueError(f"a tensor of shape {list(shape)} has {size:,} elements; expected at most {MAX_ELEMENTS:,}")
