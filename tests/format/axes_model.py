"""A small model of windows of three axes: statistics and bands beside statistics alone, of one int16 input."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import audio, axes
from mica.kernels.scratch import scratch_min


def _step(
    name: str, y: int, stats: list[int], bands: int, energy: int, flags: int, rng: np.random.Generator
) -> StepRecord:
    rows, n, fft = 12, 3, 32 if bands else 0
    angle = 2 * np.pi * np.arange(fft // 2 + 1) / max(fft, 1)
    turns = np.rint(np.stack([np.cos(angle), np.sin(angle)], 1) * 2**audio.UNIT)
    window = np.rint(32767 * np.sin(np.pi * (np.arange(rows) + 0.5) / rows))
    each = (len(stats) + bands) * n
    blobs = {
        "tables": np.concatenate([turns.reshape(-1), window])[: fft + 2 + rows if bands else 0].astype(np.int16),
        "filters": np.array([[1 + 4 * b, 4] for b in range(bands)], np.uint16).reshape(-1 if bands == 0 else (bands,
            2)),
        "least": np.array([-(3 << 16), 0, 5 << 16][: n if bands else 0], np.int32),
        "bias": rng.integers(-300000, 300000, each).astype(np.int32),
        "mult": rng.integers(2**30, 2**31, each).astype(np.int32),
        "shift": rng.integers(11, 19, each).astype(np.int8),
    }  # fmt: skip
    p = {"rows": rows, "axes": n, "bands": bands, "fft": fft, "energy": energy, "places": -3, "flags": flags}
    p |= {"stats": sum(v << 4 * k for k, v in enumerate(stats)), "act_min": -120, "act_max": 127}
    return StepRecord(name, "axes_s8", (0,), (y,), p, blobs)


def axes_model(seed: int = 1) -> ModelFile:
    """12 rows of 3 axes in; 4 statistics and 2 bands of each, 8 statistics, and 3 bands across, out."""
    rng = np.random.default_rng(seed)
    tensors = [
        TensorRecord("x", "int16", (1, 12, 3), offset=0),
        TensorRecord("both", "int8", (1, 3, 6), scale=0.25, zero_point=-5, offset=80),
        TensorRecord("statistics", "int8", (1, 3, 8), scale=0.1, zero_point=3, offset=112),
        TensorRecord("bands", "int8", (3, 3), scale=0.1, zero_point=3, offset=144),
    ]
    steps = [
        _step("both", 1, [0, 6, 3, 2], 2, axes.LOG, 0, rng),
        _step("statistics", 2, list(range(8)), 0, 0, 0, rng),
        _step("bands", 3, [], 3, axes.RMS, axes.ACROSS, rng),
    ]
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, tensors[s.outputs[0]].dims[-1], s.params)
    return ModelFile(tensors, steps, [0], [1, 2, 3], {"name": "axes"}, arena_bytes=160)
