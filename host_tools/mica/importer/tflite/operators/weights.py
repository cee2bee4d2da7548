"""Weights and biases of products, as the integers that the file has.

int8 around zero      =>   Dequantize(the same integers)
uint8 and others      =>   Dequantize(integers less their zero point); channels beyond int8 get a larger scale
int32 bias            =>   Dequantize(bias, scale of x times scale of w), as the kernels read it
"""

from collections.abc import Sequence

import numpy as np

from mica.format.values import growth
from mica.importer.tflite.net import Net


def weights_of(net: Net, w: int, perm: Sequence[int], channel: int = 0) -> tuple[str, np.ndarray | None]:
    """(value of the weights with their dimensions in the order of perm, the file's scales of output channels).

    channel: the dimension of output channels behind perm. Scales are float64 [1] or [Cout]; None of float weights.
    """
    t = net.tensor(w)
    if t.data is None or t.grid is None or t.dtype in ("int16", "int32", "int64"):
        if t.data is not None and t.grid is not None:
            shape = [-1 if k == t.grid.axis else 1 for k in range(t.data.ndim)]
            real = (t.data.astype(np.int64) - t.grid.zero_point.reshape(shape)) * t.grid.scale.reshape(shape)
            return net.const(real.transpose(perm).astype(np.float32), t.name), None
        return net.transpose(net.x(w), perm), None
    grid = t.grid
    axis = list(perm).index(grid.axis)
    if grid.scale.size > 1 and axis != channel:
        raise ValueError(
            f"a scale for each index of dimension {grid.axis} of the weights, which are not output channels"
        )
    shape = [-1 if k == axis else 1 for k in range(len(perm))]
    q = t.data.transpose(perm).astype(np.int64) - grid.zero_point.reshape(shape)
    steps, factor = grid.scale, growth(np.moveaxis(q, channel, 0).reshape(q.shape[channel], -1))
    if np.any(factor > 1):
        steps = (steps * factor).astype(np.float32).astype(np.float64)
        q = np.rint(q / factor.reshape([-1 if k == channel else 1 for k in range(q.ndim)])).astype(np.int64)
    return net.integers(q.astype(np.int8), steps, np.zeros(steps.size, np.int64), channel), grid.scale


def bias_of(net: Net, b: int, x: int, scales: np.ndarray | None, n: int) -> list[str]:
    """[the value of a bias], [] where there is none; scales: of the weights. Raises ValueError."""
    if b < 0:
        return []
    t = net.tensor(b)
    if t.data is None or t.dtype not in ("int32", "int64"):
        return [net.x(b)]
    if t.data.size != n:
        raise ValueError(f"a bias of {t.data.size} entries for {n} channels")
    data, source = t.data.reshape(-1), net.tensor(x).grid
    if scales is not None and source is not None:
        scale = float(source.scale[0]) * scales
    elif t.grid is not None:
        scale = t.grid.scale
    else:
        raise ValueError("a bias of integers without a scale")
    if t.dtype == "int64" and np.abs(data).max(initial=0) < 2**31:
        data = data.astype(np.int32)
    elif t.dtype == "int64":
        return [net.const((data * scale).astype(np.float32), t.name)]
    return [net.integers(data, scale, np.zeros(scale.size, np.int64), 0)]
