"""A small model of rows of features: ranks and trees beside features on one scale, of one float32 input."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels import tabular
from mica.kernels.scratch import scratch_min

Array = np.ndarray
LEAF, MORE, INSIDE = tabular.LEAF, tabular.MORE, tabular.INSIDE


def _leaf(*entries: tuple[int, int]) -> list[int]:
    words = []
    for k, (target, value) in enumerate(entries):
        words += [LEAF | (MORE if k + 1 < len(entries) else 0) | target, INSIDE | value & 0x7FFF]
    return words


def _node(column: int, threshold: int, first: list[int], second: list[int]) -> list[int]:
    return [column, INSIDE | threshold & 255, INSIDE | len(first), *first, *second]


def tabular_model(seed: int = 1) -> ModelFile:
    """Three features in; scores of three classes by two trees, and the features themselves, out."""
    tensors: list[TensorRecord] = []

    def tensor(name: str, dims: tuple[int, ...], offset: int, dtype: str = "int8", **more: object) -> int:
        quant = {"scale": 0.05, "zero_point": -3} if dtype == "int8" else {}
        tensors.append(TensorRecord(name, dtype, dims, offset=offset, **quant | more))  # type: ignore[arg-type]
        return len(tensors) - 1

    x = tensor("x", (1, 3), 0, "float32")
    ranks = tensor("ranks", (1, 4), 16)
    scores = tensor("scores", (1, 3), 32)
    same = tensor("features", (1, 3), 48)
    small = tensor("small", (1, 3), 64)
    thresholds = [np.array(t, np.float32) for t in ([-2.5, 0.0, 1.5], [], [0.25], [-1e30, 7.0])]
    trees = [
        _node(0, -127, _leaf((0, 900)), _node(3, -128, _leaf((0, -300), (2, 500)), _leaf((1, 700)))),
        _node(2, -128, _node(0, -126, _leaf((2, 250)), _leaf((0, 9), (1, -16384), (2, 4))), _leaf((1, 16383))),
    ]
    nodes = np.array([w for t in trees for w in t], np.uint16)
    mark, shift, more = tabular.LEAF_MARK, tabular.FIELD_SHIFT, tabular.MORE_ENTRIES
    words = [-127 << 24 | 1 << shift, mark, -128 << 24 | 1 << shift | 3, mark | 1 << shift, mark | 3 << shift]
    words += [mark] * tabular.SPARE
    leaves = [900 << 16, -300 << 16 | more, 500 << 16 | 2, -32768 << 16 | more | 1, 32767 << 16 | 2]
    steps = [
        StepRecord(
            "ranks", "ranks_s8", (x,), (ranks,), {"count": 6},
            {
                "thresholds": tabular.keys(np.concatenate(thresholds).view(np.int32)).astype(np.int32),
                "first": np.array([0, 3, 3, 4, 6], np.uint32),
                "source": np.array([0, 1, 2, 0], np.uint16),
                "missing": np.array([-128, 0, -127, -126], np.int8),
            },
        ),
        StepRecord(
            "trees", "trees_s8", (ranks,), (scores,),
            {"words": len(nodes), "trees": 2, "mult": 2**30, "shift": 3, "act_min": -128, "act_max": 127},
            {
                "nodes": nodes,
                "roots": np.array([0, len(trees[0])], np.uint32),
                "bias": np.array([10, -20, 30], np.int32),
            },
        ),
        StepRecord(
            "forest", "forest_s8", (ranks,), (small,),
            {
                "words": len(words), "trees": 2, "units": len(leaves),
                "mult": 2**30, "shift": 3, "act_min": -128, "act_max": 127,
            },
            {
                "nodes": np.array(words, np.int32),
                "roots": np.array([0, 2], np.uint32),
                "leaves": np.array(leaves, np.int32),
                "bias": np.array([10, -20, 30], np.int32),
            },
        ),
        StepRecord(
            "features", "features_s8", (x,), (same,), {"act_min": -128, "act_max": 120},
            {
                "scale": np.array([2**30, -(2**30), 2**31 - 1], np.int32),
                "exponent": np.array([-18, -17, -16], np.int8),
                "offset": np.array([0, 700, -700], np.int32),
                "missing": np.array([0, 1, 127], np.int8),
            },
        ),
    ]  # fmt: skip
    for s in steps:
        s.scratch_min = s.scratch_want = scratch_min(s.kernel, tensors[s.outputs[0]].dims[-1])
    return ModelFile(tensors, steps, [x], [scores, same, small], {"name": "tabular"}, arena_bytes=80)
