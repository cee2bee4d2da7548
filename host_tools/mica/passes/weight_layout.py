"""The one ONNX operator whose weights do not begin with the output channel."""

import numpy as np


def transposed_rows(w: np.ndarray, groups: int) -> np.ndarray:
    """Weights of a ConvTranspose, [C, M/groups, ...] -> [M, ..., C/groups]: output channel first, input last."""
    c, m = w.shape[:2]
    split = w.reshape(groups, c // groups, m, *w.shape[2:])
    return np.moveaxis(split, 1, -1).reshape(groups * m, *w.shape[2:], c // groups)
