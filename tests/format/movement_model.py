"""A small model of the kernels that move elements, with an int32 input and tensors that are parts of others."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord

Array = np.ndarray


def entries(first: list[int], weights: list[list[int]], what: str) -> dict[str, Array]:
    """Positions and weights of one axis of resize_linear_s8."""
    return {f"{what}s": np.array(first, np.uint16), f"{what}_weights": np.array(weights, np.int16)}


def movement_model(seed: int = 1) -> ModelFile:
    """Word numbers [3] and an image 4x5x2 in; every kernel of movement once, twice where it has two ways."""
    rng = np.random.default_rng(seed)
    tensors: list[TensorRecord] = []

    def tensor(name: str, dims: tuple[int, ...], offset: int, dtype: str = "int8", **more: object) -> int:
        quant = {"scale": 0.05, "zero_point": -3} if dtype == "int8" else {}
        tensors.append(TensorRecord(name, dtype, dims, offset=offset, **quant | more))  # type: ignore[arg-type]
        return len(tensors) - 1

    words = tensor("words", (3,), 0, "int32")
    image = tensor("image", (1, 4, 5, 2), 16)
    embedded = tensor("embedded", (3, 4), 64)
    moved = tensor("moved", (1, 2, 5, 2), 80)
    joined = tensor("joined", (1, 6, 5, 2), 112)
    part = tensor("part", (1, 2, 5, 2), 112 + 20)  # rows 2 and 3 of `joined`: a slice without a step
    padded = tensor("padded", (1, 4, 8, 2), 176)
    gathered = tensor("gathered", (1, 4, 3, 2), 240)
    resized = tensor("resized", (1, 3, 2, 2), 272)
    turned = tensor("reversed", (3, 4), 288)
    more = tensor("more", (2, 4), 0, space="data", values=rng.integers(-128, 128, (2, 4), dtype=np.int8))
    all_words = tensor("all words", (8, 4), 304)
    news = tensor("news", (3, 1, 4), 64)  # `embedded` by another name
    ring = tensor("ring", (3, 5, 4), 0, space="state")
    ring_after = tensor("ring after", (3, 5, 4), 0, space="state")
    steps = [
        StepRecord(
            "embed", "embedding_s8", (words,), (embedded,), {"rows": 5},
            {"table": rng.integers(-128, 128, (5, 4), dtype=np.int8)},
        ),
        StepRecord(
            "slice", "move_s8", (image,), (moved,), {"begin": 30, "rank": 2},
            {"map": np.array([[2, -20], [10, 1]], np.int32)},
        ),
        StepRecord("join", "concat_s8", (image, moved), (joined,), {"axis": 1}),
        StepRecord(
            "pad", "pad_s8", (part,), (padded,),
            {"begin_1": 1, "begin_2": 2, "mode": 2, "value": -3},
        ),
        StepRecord(
            "pick", "gather_s8", (padded,), (gathered,), {"axis": 2}, {"indices": np.array([7, 0, 2], np.int32)},
        ),
        StepRecord(
            "resize", "resize_linear_s8", (gathered,), (resized,), {"row_taps": 2, "column_taps": 3},
            entries([0, 1, 2], [[2048, 0], [1024, 1024], [-424, 2472]], "row")
            | entries([0, 0], [[1, 2047, 0], [700, 700, 648]], "column"),
        ),
        StepRecord(
            "reverse", "move_s8", (embedded,), (turned,), {"begin": 11, "rank": 1},
            {"map": np.array([[12, -1]], np.int32)},
        ),
        StepRecord("all", "concat_s8", (embedded, more, turned), (all_words,), {"axis": 0}),
        StepRecord("write", "scatter_s8", (ring, news, words), (ring_after,), {"axis": 1, "circular": 1}),
    ]  # fmt: skip
    return ModelFile(
        tensors, steps, [words, image], [all_words, resized, ring_after], {"name": "movement"}, arena_bytes=336
    )
