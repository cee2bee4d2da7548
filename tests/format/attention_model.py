"""A small model of attention: a row of a cache is written in place, and read by two heads of two queries each,
which are turned."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels.scratch import scratch_min


def attention_model(seed: int = 1) -> ModelFile:
    """Queries, a row of keys, two angles and a position in, means of the keys out; they are the values too.
    The position is the length."""
    tensors = [
        TensorRecord("position", "int32", (1,), offset=0),
        TensorRecord("queries", "int8", (2, 2, 4), scale=0.5, zero_point=4, offset=16),
        TensorRecord("row", "int8", (2, 1, 4), scale=0.1, zero_point=-3, offset=32),
        TensorRecord("cosines", "int8", (2, 1, 2), scale=0.01, zero_point=5, offset=48),
        TensorRecord("sines", "int8", (2, 1, 2), scale=0.02, zero_point=-9, offset=64),
        TensorRecord("turned", "int8", (2, 2, 4), scale=0.5, zero_point=2, offset=16),
        TensorRecord("cache", "int8", (2, 5, 4), scale=0.1, zero_point=-3, space="state", offset=0),
        TensorRecord("cache after", "int8", (2, 5, 4), scale=0.1, zero_point=-3, space="state", offset=0),
        TensorRecord("means", "int8", (2, 2, 4), scale=0.1, zero_point=7, offset=80),
    ]
    table = np.rint(2**15 * np.exp(-np.arange(257) * 11 / 256)).astype(np.uint16)
    p = {
        "rows": 5,
        "width": 4,
        "k_zero": -3,
        "v_zero": -3,
        "limit": 4000,
        "fall": 65535 * 2**4 // 4000,
        "fall_shift": 4,
    }
    p |= {"mult": 2**30, "shift": -1, "act_min": -128, "act_max": 120}
    turn = {
        "inner": 2,
        "c_zero": 5,
        "s_zero": -9,
        "mult_c": 82,
        "mult_s": 164,
        "shift": 13,
        "act_min": -128,
        "act_max": 127,
    }
    steps = [
        StepRecord("turn", "rotate_s8", (1, 3, 4), (5,), turn),
        StepRecord("write", "scatter_s8", (6, 2, 0), (7,), {"axis": 1, "circular": 1}),
        StepRecord("attend", "attend_s8", (5, 7, 7, 0), (8,), p, {"table": table}),
    ]
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, 4, s.params)
    return ModelFile(tensors, steps, [0, 1, 2, 3, 4], [8], {"name": "attention"}, arena_bytes=96)
