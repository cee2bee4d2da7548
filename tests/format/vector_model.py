"""A small model of one float32 row against vectors: its nearest neighbours, and a machine of support vectors."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import vectors
from mica.kernels.scratch import scratch_min


def vector_model(seed: int = 1) -> ModelFile:
    """Three features in; the shares of three classes among the four nearest of seven points, and two scores, out."""
    rng = np.random.default_rng(seed)
    n, points = 3, 7
    real = {"scale": 0.05, "zero_point": -3}
    tensors = [
        TensorRecord("x", "float32", (1, n), offset=0),
        TensorRecord("squares", "int32", (1, points), offset=16),
        TensorRecord("products", "int32", (1, points), offset=48),
        TensorRecord("shares", "int8", (1, 3), offset=80, **real),  # type: ignore[arg-type]
        TensorRecord("scores", "int8", (1, 2), offset=96, **real),  # type: ignore[arg-type]
    ]

    def measured(name: str, y: int, kind: int, bound: int) -> StepRecord:
        blobs = {
            "points": rng.integers(-bound, bound + 1, (n, points)).astype(np.int16),
            "scale": np.array([2**30, -(2**30), 2**31 - 1], np.int32),
            "exponent": np.array([-12, -11, -13], np.int8),
            "offset": np.array([0, 70000, -70000], np.int32),
            "missing": np.array([0, -bound, bound], np.int16),
        }
        return StepRecord(name, "distances_s8", (0,), (y,), {"kind": kind, "bound": bound}, blobs)

    clamp = {"act_min": -128, "act_max": 127}
    steps = [
        measured("squares", 1, vectors.SQUARES, 13000),
        measured("products", 2, vectors.PRODUCTS, 20000),
        StepRecord(
            "nearest", "nearest_s8", (1,), (3,),
            {"k": 4, "kind": vectors.BY_ROOT, "mult": 2**30, "shift": 15, **clamp},
            {
                "target": np.array([0, 1, 2, 0, 1, 2, 0], np.uint16),
                "value": np.array([16384, 16384, 16384, -9000, 32767, -32768, 1], np.int16),
            },
        ),
        StepRecord(
            "machine", "machine_s8", (2,), (4,),
            {"in_mult": 2**30, "in_shift": 14, "in_offset": 32768, "down": 16, "mult": 2**30, "shift": 14, **clamp},
            {
                "table": rng.integers(-(2**22), 2**22, vectors.PARTS + 1).astype(np.int32),
                "factors": rng.integers(-4000, 4000, (points, 2)).astype(np.int16),
                "bias": np.array([1000, -500000], np.int32),
            },
        ),
    ]  # fmt: skip
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, tensors[s.outputs[0]].dims[-1])
    return ModelFile(tensors, steps, [0], [3, 4], {"name": "vectors"}, arena_bytes=112)
