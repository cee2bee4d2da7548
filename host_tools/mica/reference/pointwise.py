"""Operators that compute each element of the output from one of each input, with numpy broadcasting.

`function(attrs, arrays)`; `float_ops` calls them on float32 arrays, `unary.composed` on float64 ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Attrs = Mapping[str, Any]
Arrays = Sequence[np.ndarray]


def clamp(y: np.ndarray, attrs: Attrs) -> np.ndarray:
    """The fused clamp of operators that have one."""
    low, high = attrs.get("clip", (None, None))
    return y if low is None and high is None else np.clip(y, low, high)


def _div(attrs: Attrs, a: Arrays) -> np.ndarray:
    with np.errstate(all="ignore"):
        return clamp(a[0] / a[1], attrs)


FUNCTIONS: dict[str, Callable[[Attrs, Arrays], np.ndarray]] = {
    "Add": lambda attrs, a: clamp(attrs["signs"][0] * a[0] + attrs["signs"][1] * a[1], attrs),
    "Div": _div,
    "Greater": lambda attrs, a: np.greater(a[0], a[1]).astype(a[0].dtype),
    "MinMax": lambda attrs, a: clamp(np.maximum(a[0], a[1]) if attrs["larger"] else np.minimum(a[0], a[1]), attrs),
    "Mul": lambda attrs, a: clamp(a[0] * a[1], attrs),
    "PRelu": lambda attrs, a: clamp(np.where(a[0] < 0, a[0] * a[1], a[0]), attrs),
    "Where": lambda attrs, a: clamp(np.where(a[0] != 0, a[1], a[2]), attrs),
}
