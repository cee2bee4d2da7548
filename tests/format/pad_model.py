"""A small model of steps that are sound, and that `mica pack` never writes: windows of one pixel with padding,
and the like.

A kernel or the engine may cut such a step in another way than its neighbours,
and has to look at all of its parameters for that.
"""

from __future__ import annotations

import numpy as np
from rich_model import ACT, channels, weights, window

from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import KERNEL_BY_NAME


def pad_model(seed: int = 1) -> ModelFile:
    """[1,4,5,8] in; every step reads it, as it is or as one row of 20 pixels."""
    rng = np.random.default_rng(seed)
    image, row = (1, 4, 5, 8), (1, 1, 20, 8)
    tensors = [
        TensorRecord("image", "int8", image, 0.05, -3, offset=0),
        TensorRecord("row", "int8", row, 0.05, -3, offset=0),
    ]
    steps: list[StepRecord] = []
    at = 160

    def step(
        name: str, kernel: str, y: tuple[int, ...], p: dict[str, int], n: int = 0, *shape: int, x: int = 0
    ) -> None:
        nonlocal at
        blobs = {"weights": weights(rng, n, *shape)} | channels(rng, n, int(np.prod(shape))) if n else {}
        tensors.append(TensorRecord(name, "int8", y, 0.05, -3, offset=at))
        steps.append(StepRecord(name, kernel, (x,), (len(tensors) - 1,), p | ACT, blobs))
        at += -(-int(np.prod(y)) // 16) * 16

    def conv(name: str, y: tuple[int, ...], p: dict[str, int], *shape: int, x: int = 0) -> None:
        step(name, "conv2d_s8", y, {"groups": 1} | p, y[3], *shape, x=x)

    one = window(1)
    conv("down", (1, 4, 5, 4), one | {"pad_top": 2}, 1, 1, 8)
    conv("right", (1, 4, 5, 4), one | {"pad_left": 1}, 1, 1, 8)
    conv("out of sight", (1, 4, 5, 3), one | {"pad_top": 4, "pad_left": 9}, 1, 1, 8)
    conv("groups", (1, 4, 5, 8), one | {"pad_top": 1, "groups": 2}, 1, 1, 4)
    conv("dilated", (1, 4, 5, 8), one | {"dilation_h": 7, "dilation_w": 9}, 1, 1, 8)
    conv("part", (1, 2, 5, 4), one, 1, 1, 8)
    conv("narrow", (1, 4, 3, 4), one, 1, 1, 8)
    conv("beyond", (1, 5, 6, 4), one, 1, 1, 8)
    conv("beside a row", (1, 1, 20, 4), window(3) | {"pad_top": 1, "pad_left": 3}, 3, 3, 8, x=1)
    conv("below a row", (1, 2, 20, 4), one | {"pad_top": 1}, 1, 1, 8, x=1)
    step("one each", "depthwise_conv2d_s8", (1, 4, 5, 8), one | {"pad_top": 1, "pad_left": 2}, 8, 1, 1)
    step("line", "depthwise_conv2d_s8", (1, 1, 20, 8), window(3) | {"kernel_h": 1, "pad_left": 4}, 8, 1, 3, x=1)
    step("largest", "max_pool2d_s8", (1, 4, 5, 8), one | {"pad_top": 3, "pad_left": 1})
    means = {"mult": np.full(20, 2**30, np.int32), "shift": np.arange(20, dtype=np.int8) // 4 - 1}
    whole = window(4, 3) | {"kernel_w": 5, "pad_bottom": 2, "pad_right": 1, "count_include_pad": 1}
    step("mean", "average_pool2d_s8", (1, 1, 1, 8), whole)
    step("mean of a part", "average_pool2d_s8", (1, 1, 1, 8), whole | {"pad_top": 1, "pad_left": 2})
    step("turned", "conv_transpose2d_s8", (1, 4, 5, 4), {"groups": 1} | one | {"pad_top": 1, "pad_left": 1}, 4, 1, 1, 8)
    for s in steps:
        if s.kernel == "average_pool2d_s8":
            s.blobs = dict(means)
        s.flags = codec.step_flags(s)
        s.layout = KERNEL_BY_NAME[s.kernel].layout.code
        s.scratch_want = 512
    outputs = [s.outputs[0] for s in steps]
    return ModelFile(tensors, steps, [0], outputs, {"name": "pads"}, arena_bytes=at)
