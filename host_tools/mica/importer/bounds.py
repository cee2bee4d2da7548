"""Limits on the memory that an import takes. A size that is too large is refused before its array exists.

A file of 200 bytes can ask for a constant of 8 GB (ConstantOfShape, Tile, Range) or an input of 2**93 elements.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Shape = Sequence[int]

SLACK = 64 << 20  # bytes of one folded constant, besides 4 times the file: integers become float32
FACTOR = 4
TOGETHER = 4  # all folded constants together may take as much as this many of the largest
MAX_ELEMENTS = 1 << 24  # of an activation: 16 MB on a board, 64 MB in float32 here
MAX_TOGETHER = 1 << 26  # of all activations
MAX_MACS = 1 << 35  # multiplications of one node: minutes on the fastest board
_WINDOWS = ("Conv", "ConvInteger", "QLinearConv", "AveragePool", "LpPool", "MaxPool")


class Bound:
    """Limits for one file: bytes of folded constants and elements of activations, of each one and of all together."""

    def __init__(self, file_bytes: int) -> None:
        self.each = SLACK + FACTOR * file_bytes
        self.together = TOGETHER * self.each
        self.taken = 0
        self.elements = 0

    def check(self, results: Mapping[str, tuple[Shape, str]]) -> None:
        """Raises ValueError where constants of these shapes and types would be too large."""
        for shape, dtype in results.values():
            size = math.prod(shape) * _item_bytes(dtype)
            if size > self.each:
                raise ValueError(
                    f"it would fold to a constant of shape {list(shape)}, {size:,} bytes; expected at most "
                    f"{self.each:,} (64 MB and 4 times the file)"
                )

    def take(self, arrays: Iterable[np.ndarray]) -> None:
        """Counts constants that are there. Raises ValueError where they are too many."""
        self.taken += sum(a.nbytes for a in arrays)
        if self.taken > self.together:
            raise ValueError(
                f"the constants folded so far take {self.taken:,} bytes; expected at most {self.together:,}"
            )

    def activation(self, shape: Shape) -> None:
        """Counts a tensor. Raises ValueError where no board could hold it, and this computer need not try,
        or all are too many."""
        if (size := math.prod(shape)) > MAX_ELEMENTS:
            raise ValueError(
                f"a tensor of shape {list(shape)} has {size:,} elements; expected at most {MAX_ELEMENTS:,}"
            )
        self.elements += size
        if self.elements > MAX_TOGETHER:
            raise ValueError(
                f"all tensors up to here have {self.elements:,} elements; expected at most {MAX_TOGETHER:,}"
            )

    def windows(self, op: str, inputs: Sequence[Shape], y: Shape, attrs: Mapping[str, Any]) -> None:
        """Strides, dilations and pads of a few bytes make what a node's windows lie on large, though its output may be
        small. Raises ValueError where it is too large."""
        if op not in _WINDOWS and op != "ConvTranspose":
            return
        x, w = inputs[0], () if op.endswith("Pool") else inputs[3 if op == "QLinearConv" else 1]
        kernel = attrs.get("kernel_shape") or w[2:]
        axes = len(x) - 2
        ones = [1] * axes
        strides, dilations = attrs.get("strides") or ones, attrs.get("dilations") or ones
        if not axes == len(kernel) == len(strides) == len(dilations) == len(y) - 2:
            return  # ONNX's checker refuses it
        moved, channels = (x, y[1]) if op == "ConvTranspose" else (y, x[1])
        spans = [
            max(n, (m - 1) * s + d * (k - 1) + 1)
            for n, m, s, d, k in zip(x[2:], moved[2:], strides, dilations, kernel, strict=True)
        ]
        if (size := x[0] * channels * math.prod(spans)) > MAX_TOGETHER:
            raise ValueError(
                f"its windows lie on a tensor of shape {[x[0], channels, *spans]}, {size:,} elements; expected at most "
                f"{MAX_TOGETHER:,}"
            )
        macs = math.prod(moved) * math.prod(kernel) * (w[1] if len(w) > 1 else 1)
        if macs > MAX_MACS:
            raise ValueError(f"it multiplies {macs:,} times; expected at most {MAX_MACS:,}")


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
