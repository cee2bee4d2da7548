"""A small model of int16: from int8, through every kernel of int16, and back."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels.scratch import scratch_min

OPEN = {"act_min": -(2**15), "act_max": 2**15 - 1}
WINDOW = {"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 2}


def _table(scale: float, places: int) -> np.ndarray:
    d = np.arange(256.0)
    return np.rint(np.concatenate([2**24 * np.exp(-256 * scale * d), 2.0**places * np.exp(-scale * d)])).astype(
        np.uint32
    )


def wide_model(seed: int = 1) -> ModelFile:
    """[1,4,5,4] int8 in; [1,1,1,4] and [1,2,5,4] int16 and [2,20] int8 out."""
    rng = np.random.default_rng(seed)

    def channels(n: int) -> dict[str, np.ndarray]:
        return {
            "bias": rng.integers(-(2**20), 2**20, n).astype(np.int32),
            "mult": rng.integers(2**29, 2**30, n).astype(np.int32),
            "shift": rng.integers(5, 8, n).astype(np.int8),
        }

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape).astype(np.int8)

    image, made = (1, 4, 5, 4), (1, 2, 5, 4)
    shapes = [image, image, made, made, made, made, (1, 1, 1, 4), made, (2, 20)]
    types = ["int8", *["int16"] * 7, "int8"]
    zeros, scales = {0: -4, 8: 3}, {7: 2.0**-15}
    tensors, at = [], 16
    for k, (shape, dtype) in enumerate(zip(shapes, types, strict=True)):
        t = TensorRecord(f"t{k}", dtype, shape, scale=scales.get(k, 0.01), zero_point=zeros.get(k, 0), offset=at)
        tensors.append(t)
        at += (t.bytes + 15) & -16
    pads = {"pad_top": 1, "pad_left": 1}
    grouped = {"weights": weights(4, 3, 2, 2), **channels(4)}
    mean = {"mult": np.full(6, 2**30, np.int32), "shift": np.array([-1, 0, 1, 1, 2, 2], np.int8)}
    none = {"mult": np.zeros(0, np.int32), "shift": np.zeros(0, np.int8)}
    whole = {**WINDOW, "kernel_h": 2, "kernel_w": 5, "stride_h": 1, "dilation_w": 1, "pad_top": 0, "pad_left": 0}
    sums = {"mult_a": 2**29, "mult_b": -(2**29), "mult_ab": 2**14, "shift": 30, **OPEN}
    steps = [
        StepRecord("widen", "widen_s16", (0,), (1,), {"mult": 2**30, "shift": -7, **OPEN}, {}),
        StepRecord("conv", "conv2d_s16", (1,), (2,), {**WINDOW, **pads, "groups": 2, **OPEN}, grouped),
        StepRecord("mean", "pool_s16", (2,), (3,), {**WINDOW, "stride_h": 1, **pads, "largest": 0, **OPEN}, mean),
        StepRecord("function", "lut_s16", (3,), (4,), {"bits": 3}, {"table": rng.integers(-32768, 32768,
            9).astype(np.int16)}),
        StepRecord("sum", "binary_s16", (4, 2), (5,), sums, {}),
        StepRecord("largest", "pool_s16", (5,), (6,), {**whole, "largest": 1, **OPEN}, none),
        StepRecord("softmax", "softmax_s16", (5,), (7,), {}, {"exponentials": _table(1e-4, 24)}),
        StepRecord("narrow", "narrow_s8", (5,), (8,), {"mult": 2**30, "shift": 7, "act_min": -128, "act_max": 127}, {}),
    ]  # fmt: skip
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, tensors[s.outputs[0]].dims[-1], s.params)
    return ModelFile(tensors, steps, [0], [6, 7, 8], {"name": "wide"}, arena_bytes=at)
