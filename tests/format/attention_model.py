"""A small model of attention: a row of a cache is written in place, and read by two heads of two queries each."""

from __future__ import annotations

import numpy as np

from mica.format.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels.scratch import scratch_min


def attention_model(seed: int = 1) -> ModelFile:
    """Queries, a row of keys and a position in, means of the keys out; they are the values too. The position is the length."""
    tensors = [
        TensorRecord("position", "int32", (1,), offset=0),
        TensorRecord("queries", "int8", (2, 2, 3), scale=0.5, zero_point=4, offset=16),
        TensorRecord("row", "int8", (2, 1, 3), scale=0.1, zero_point=-3, offset=32),
        TensorRecord("cache", "int8", (2, 5, 3), scale=0.1, zero_point=-3, space="state", offset=0),
        TensorRecord("cache after", "int8", (2, 5, 3), scale=0.1, zero_point=-3, space="state", offset=0),
        TensorRecord("means", "int8", (2, 2, 3), scale=0.1, zero_point=7, offset=48),
    ]
    table = np.rint(2**15 * np.exp(-np.arange(257) * 11 / 256)).astype(np.uint16)
    p = {
        "rows": 5,
        "width": 3,
        "k_zero": -3,
        "v_zero": -3,
        "limit": 4000,
        "fall": 65535 * 2**4 // 4000,
        "fall_shift": 4,
    }
    p |= {"mult": 2**30, "shift": -1, "act_min": -128, "act_max": 120}
    steps = [
        StepRecord("write", "scatter_s8", (3, 2, 0), (4,), {"axis": 1, "circular": 1}),
        StepRecord("attend", "attend_s8", (1, 4, 4, 0), (5,), p, {"table": table}),
    ]
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, 3, s.params)
    return ModelFile(tensors, steps, [0, 1, 2], [5], {"name": "attention"}, arena_bytes=64)
