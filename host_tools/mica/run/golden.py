"""Golden vectors: inputs and the outputs they must give, stored in the file for self-tests on any board."""

import dataclasses
import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from mica import engine
from mica.custom import NO_CUSTOM, CustomOps
from mica.file.codec import GoldenVector, ModelFile, TensorRecord
from mica.format.values import quantise_input
from mica.kernels import tabular, wide

LARGEST = float(np.finfo(np.float32).max)


def with_golden(
    model: ModelFile, data: bytes, arrays: Mapping[str, np.ndarray] | None, n: int, custom: CustomOps = NO_CUSTOM
) -> ModelFile:
    """The model with n vectors: its first calibration samples, or random inputs where there are none.

    data: the model as a file, without vectors, to run. custom: operators of the user's own. Each vector has the CRC-32
    of every layer's output, so that a self-test can say which layer is wrong.
    """
    loaded = engine.load(data, custom)
    rng = np.random.default_rng(0)
    vectors = []
    for k in range(n):
        inputs = [_sample(model, model.tensors[t], arrays, k, rng) for t in model.inputs]
        for i, q in enumerate(inputs):
            loaded.set_input(i, q)
        crcs = [zlib.crc32(y.tobytes()) for y in loaded.layers()]
        vectors.append(GoldenVector(inputs, [loaded.output(i) for i in range(len(model.outputs))], crcs))
    return dataclasses.replace(model, golden=vectors)


def _sample(
    model: ModelFile, t: TensorRecord, arrays: Mapping[str, np.ndarray] | None, k: int, rng: np.random.Generator
) -> np.ndarray:
    if arrays is None:
        return random_input(model, t, rng)
    samples = arrays[t.name]
    return quantise_input(samples[k % len(samples)].reshape(t.dims), t)


def random_input(model: ModelFile, t: TensorRecord, rng: np.random.Generator) -> np.ndarray:
    """Any integers; for row numbers of tables (int32), such as the smallest of them has;
    features around their thresholds; sound for int16."""
    if t.dtype == "float32":
        return _features(model, t, rng)
    if t.dtype == "int16" and any(s.kernel in wide.NAMES for s in model.steps):
        return rng.integers(-(2**15), 2**15, t.dims).astype(np.int16)
    if t.dtype == "int16":
        return _sound(t, rng)
    if t.dtype != "int32":
        return rng.integers(-128, 128, t.dims).astype(np.int8)
    return rng.integers(0, min(_numbers(model, t), default=1), t.dims).astype(np.int32)


def most_rows(model: ModelFile, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """These inputs, but row numbers and lengths (int32) at their largest: of a decoder the run that costs most,
    its cache full."""
    records = [model.tensors[t] for t in model.inputs]
    return [
        np.full(t.dims, min(_numbers(model, t), default=1) - 1, np.int32) if t.dtype == "int32" else x
        for t, x in zip(records, inputs, strict=True)
    ]


def _numbers(model: ModelFile, t: TensorRecord) -> list[int]:
    """The count of values, from 0 on, that differ to each step that reads an input as a row number or a length."""
    found = []
    for s in model.steps:
        if model.tensors[s.inputs[-1]].dtype != "int32" or model.tensors[s.inputs[-1]].offset != t.offset:
            continue
        if s.kernel == "embedding_s8":
            found.append(s.params["rows"])
        elif s.kernel == "attend_s8":
            found.append(s.params["rows"] + 1)
        elif s.kernel == "scatter_s8":
            found.append(model.tensors[s.inputs[0]].dims[s.params["axis"]])
    return found


def _sound(t: TensorRecord, rng: np.random.Generator) -> np.ndarray:
    """int16 samples: a tone that rises, in noise."""
    time = np.arange(math.prod(t.dims))
    size, pitch = 10.0 ** rng.uniform(2, 4), rng.uniform(0.01, 0.5)
    x = size * (np.sin(pitch * time * (1 + time / len(time))) + 0.2 * rng.standard_normal(len(time)))
    return np.clip(np.rint(x), -(2**15), 2**15 - 1).astype(np.int16).reshape(t.dims)


def _features(model: ModelFile, t: TensorRecord, rng: np.random.Generator) -> np.ndarray:
    """float32 features between the thresholds that they are compared with,
    or over the range that they are quantised from."""
    x = rng.standard_normal(t.dims)
    for s in (s for s in model.steps if model.tensors[s.inputs[0]] is t):
        if s.kernel == "ranks_s8":
            thresholds, first = tabular.reals(s.blobs["thresholds"]), s.blobs["first"]
            for c, f in enumerate(s.blobs["source"]):
                if first[c] < first[c + 1]:
                    low, high = thresholds[first[c]], thresholds[first[c + 1] - 1]
                    x[..., f] = low + (high - low) * rng.uniform(-0.2, 1.2, t.dims[:-1])
        elif s.kernel in ("features_s8", "distances_s8"):
            most = s.params.get("bound", 128)
            factor = np.ldexp(s.blobs["scale"].astype(np.float64), s.blobs["exponent"])
            steps = rng.uniform(-most, most, t.dims) * 2**tabular.FRACTION - s.blobs["offset"]
            x = np.where(factor == 0, x, steps / np.where(factor == 0, 1, factor))
    return np.clip(x, -LARGEST, LARGEST).astype(np.float32)
