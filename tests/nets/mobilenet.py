"""MobileNetV2 (Sandler et al., 2018) with weights from a seed, which needs strips. Pictures are [1, H, W, 3]."""

from __future__ import annotations

import numpy as np
from nets import Net

# Expansion, channels, blocks, stride of the first: table 2 of the paper.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def channels(n: float) -> int:
    """A multiple of 8 near n, at least 90 % of it."""
    rounded = max(8, int(n + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * n else rounded


class MobileNetV2(Net):
    """For pictures of size x size, all channels times `width`."""

    def __init__(self, size: int, width: float, classes: int) -> None:
        super().__init__(opset=17, seed=1)
        y = self.add("Transpose", self.input([1, size, size, 3]), perm=[0, 3, 1, 2])
        c = channels(32 * width)
        y = self._conv(y, 3, c, 3, 2)
        for expansion, wide, blocks, first in BLOCKS:
            out = channels(wide * width)
            for k in range(blocks):
                stride = first if k == 0 else 1
                inner = c * expansion
                z = y if expansion == 1 else self._conv(y, c, inner, 1)
                z = self._conv(z, inner, inner, 3, stride, inner)
                z = self._conv(z, inner, out, 1, relu=False)
                y = self.add("Add", y, z) if stride == 1 and c == out else z
                c = out
        last = max(1280, channels(1280 * width))
        y = self.add("Flatten", self.add("GlobalAveragePool", self._conv(y, c, last, 1)))
        weights = self.const((self.rng.normal(size=(classes, last)) * 0.03).astype(np.float32))
        self.output(self.add("Gemm", y, weights, transB=1))

    def _conv(self, x: str, n_in: int, n_out: int, k: int, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        fan = n_in // groups * k * k
        weights = self.rng.normal(size=(n_out, n_in // groups, k, k)) * np.sqrt(2 / fan)
        pads, strides = [k // 2] * 4, [stride, stride]
        y = self.add("Conv", x, self.const(weights.astype(np.float32)), pads=pads, strides=strides, group=groups)
        return self.add("Clip", y, self.const(np.float32(0)), self.const(np.float32(6))) if relu else y
