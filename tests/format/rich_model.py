"""A small model that uses every kernel, every space and every section: the seed of the format's tests."""

from __future__ import annotations

import numpy as np

from mica.file import codec
from mica.file.codec import GoldenVector, ModelFile, StepRecord, TensorRecord
from mica.kernels import KERNEL_BY_NAME

Array = np.ndarray


def channels(rng: np.random.Generator, n: int, k: int) -> dict[str, Array]:
    """bias, mult and shift of n channels that map a dot product of length k onto about +-100."""
    return {
        "bias": rng.integers(-1000, 1000, n, dtype=np.int32),
        "mult": rng.integers(2**30, 2**31 - 1, n, dtype=np.int64).astype(np.int32),
        "shift": np.full(n, 5 + int(np.log2(k) / 2), np.int8),
    }


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Random weights in [-127, 127]."""
    return rng.integers(-127, 128, shape, dtype=np.int8)


def window(k: int, s: int = 1, pad: int = 0) -> dict[str, int]:
    """Parameters of a square window."""
    p = {"kernel": k, "stride": s, "dilation": 1}
    return {f"{n}_{a}": v for n, v in p.items() for a in "hw"} | {"pad_top": pad, "pad_left": pad}


ACT = {"act_min": -128, "act_max": 127}


def rich_model(seed: int = 1) -> ModelFile:
    """Every kernel once: 6x5x2 image and a state tensor in, softmax of 3 classes out."""
    rng = np.random.default_rng(seed)
    tensors: list[TensorRecord] = []

    def tensor(name: str, dims: tuple[int, ...], offset: int = 0, space: str = "arena", **more: object) -> int:
        quant = {"scale": 0.05, "zero_point": -3} | more
        tensors.append(TensorRecord(name, "int8", dims, space=space, offset=offset, **quant))  # type: ignore[arg-type]
        return len(tensors) - 1

    x = tensor("image", (1, 6, 5, 2), 0)
    conv = tensor("conv", (1, 6, 5, 4), 64, zero_point=4)
    dw = tensor("dw", (1, 3, 3, 8), 192)
    mp = tensor("max", (1, 2, 2, 8), 0)
    ap = tensor("mean", (1, 1, 1, 8), 32, scale=0.02)
    tr = tensor("turned", (1, 8, 1, 1), 48, scale=0.02)
    flat = tensor("flat", (1, 8), 48, scale=0.02)
    const = tensor("offsets", (8,), space="data", values=rng.integers(-128, 128, 8, dtype=np.int8))
    memory = tensor("memory", (1, 8), 0, "state", zero_point=7)
    added = tensor("added", (1, 8), 0, "state", zero_point=7)
    lut = tensor("lut", (1, 8), 0)
    fc = tensor("logits", (1, 3), 16)
    soft = tensor("classes", (1, 3), 16, scale=1 / 256, zero_point=-128)
    del memory

    steps = [
        StepRecord(
            "conv", "conv2d_s8", (x,), (conv,), window(3, 1, 1) | ACT | {"groups": 2},
            {"weights": weights(rng, 4, 3, 3, 1)} | channels(rng, 4, 9), macs=1080,
        ),
        StepRecord(
            "dw", "depthwise_conv2d_s8", (conv,), (dw,), window(3, 2, 1) | {"act_min": -3, "act_max": 120},
            {"weights": weights(rng, 8, 3, 3)} | channels(rng, 8, 9), macs=648,
        ),
        StepRecord("max", "max_pool2d_s8", (dw,), (mp,), window(2, 2, 1) | ACT),
        StepRecord(
            "mean", "average_pool2d_s8", (mp,), (ap,), window(2) | ACT | {"count_include_pad": 1},
            {"mult": np.array([2**30] * 4, np.int32), "shift": np.array([-1, 0, 0, 1], np.int8)}, scratch_want=64,
        ),
        StepRecord("turn", "transpose_s8", (ap,), (tr,), {f"perm_{i}": v for i, v in enumerate((0, 3, 1, 2))}),
        StepRecord(
            "add", "add_s8", (flat, const), (added,),
            ACT | {"mult_a": 1 << 20, "mult_b": -(1 << 19), "offset": 1 << 19, "shift": 20},
        ),
        StepRecord("lut", "lut_s8", (added,), (lut,), {}, {"table": np.arange(127, -129, -1).astype(np.int8)}),
        StepRecord(
            "fc", "fully_connected_s8", (lut,), (fc,), ACT,
            {"weights": weights(rng, 3, 8)} | channels(rng, 3, 8), macs=24,
        ),
        StepRecord(
            "softmax", "softmax_s8", (fc,), (soft,), {},
            {"table": np.round(2.0**23 * np.exp(-0.05 * np.arange(256))).astype(np.uint32)},
        ),
    ]  # fmt: skip
    for s in steps:
        s.flags = codec.step_flags(s)
        s.layout = KERNEL_BY_NAME[s.kernel].layout.code
    golden = GoldenVector(
        [rng.integers(-128, 128, tensors[x].dims, dtype=np.int8)],
        [np.zeros((1, 8), np.int8), np.zeros((1, 3), np.int8)],
        [k * 0x12345678 & 0xFFFFFFFF for k in range(len(steps))],
    )
    return ModelFile(
        tensors, steps, [x], [added, soft],
        {"name": "rich", "producer": "tests/format/rich_model.py", "labels": "a\nb\nc\u00e9"}, [golden],
    )  # fmt: skip
