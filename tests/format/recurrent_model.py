"""A small model of the kernels that need their own tests: transposed convolution and recurrent layers, with scratch."""

from __future__ import annotations

import numpy as np
from rich_model import ACT, channels, weights, window

from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.kernels.scratch import scratch_min

Array = np.ndarray
UNITS = 3


def recurrent(
    rng: np.random.Generator, cell: int, n_in: int, peepholes: bool
) -> tuple[dict[str, int], dict[str, Array]]:
    """Parameters and constants of a recurrent_s8 that neither saturates nor stands still."""
    rows = (1, 4, 3, 3)[cell] * UNITS
    v = np.linspace(-8, 8, 257)
    tables = np.rint([16384 / (1 + np.exp(-v)), 16384 * np.tanh(v / 2), 16384 * np.tanh(v)]).astype(np.int16)
    used = (cell > 0, True, cell == 1)
    terms = [rng.integers(-500, 500, 2 * rows), rng.integers(2**28, 2**30, rows), rng.integers(2**21, 2**23, rows)]
    if peepholes:
        terms.append(rng.integers(-(2**29), 2**29, 3 * UNITS))
    params = {
        "cell": cell, "peepholes": int(peepholes), "hidden_zero": 2, "cell_shift": int(cell == 1), "output_shift": 0,
        "in_mult": 2**30, "in_shift": -6, "out_mult": 2**30, "out_shift": 6,
    }  # fmt: skip
    blobs = {
        "matrix": weights(rng, rows, n_in + UNITS),
        "terms": np.concatenate(terms).astype(np.int32),
        "shifts": np.full(rows, 29, np.int8),
    } | {name: t[: 257 * there] for name, t, there in zip(("gate", "candidate", "output"), tables, used, strict=True)}
    return params, blobs


def recurrent_model(seed: int = 1) -> ModelFile:
    """An image 2x3x2 and both initial states in; upsampled to 4x6x2, then each row of it a time step of an LSTM."""
    rng = np.random.default_rng(seed)
    tensors: list[TensorRecord] = []

    def tensor(name: str, dims: tuple[int, ...], offset: int, **more: object) -> int:
        quant = {"scale": 1 / 128, "zero_point": 2} | more
        tensors.append(TensorRecord(name, "int8", dims, offset=offset, **quant))  # type: ignore[arg-type]
        return len(tensors) - 1

    image = tensor("image", (1, 2, 3, 2), 0, zero_point=-5)
    h0 = tensor("h0", (1, 1, UNITS), 16)
    c0 = tensor("c0", (1, 1, UNITS), 32, zero_point=9)
    up = tensor("up", (1, 4, 6, 2), 48, zero_point=-3)
    rows = tensor("rows", (4, 1, 12), 48, zero_point=-3)
    states = tensor("states", (4, 1, UNITS), 96)
    cell = tensor("cell", (1, 1, UNITS), 112, scale=0.03, zero_point=-7)
    back = tensor("back", (4, 1, UNITS), 128)
    last = tensor("last", (1, 1, UNITS), 144)
    plain = tensor("plain", (1, 1, UNITS), 160)
    steps = []

    def add(
        name: str, kind: int, inputs: tuple[int, ...], out: int, n_in: int, peepholes: bool = False, **more: int
    ) -> None:
        params, blobs = recurrent(rng, kind, n_in, peepholes)
        step = StepRecord(name, "recurrent_s8", inputs, (out,), params | more, blobs)
        step.scratch_min = step.scratch_want = scratch_min("recurrent_s8", UNITS)
        steps.append(step)

    steps.append(
        StepRecord(
            "up", "conv_transpose2d_s8", (image,), (up,), window(3, 2, 1) | ACT | {"groups": 2},
            {"weights": weights(rng, 2, 3, 3, 1)} | channels(rng, 2, 9), macs=108,
        )
    )  # fmt: skip
    add("lstm", 1, (rows, h0, c0), states, 12, peepholes=True)
    add("lstm cell", 1, (rows, h0, c0), cell, 12, result=1, coupled=1)
    add("gru", 2, (states, h0), back, UNITS, reverse=1)
    add("gru after", 3, (back,), last, UNITS)
    add("simple", 0, (back, last), plain, UNITS)
    for s in steps:
        s.flags = codec.step_flags(s)
    return ModelFile(tensors, steps, [image, h0, c0], [cell, last, plain], {"name": "recurrent"}, arena_bytes=176)
