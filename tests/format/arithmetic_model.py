"""A small model of the kernels of arithmetic, reduction and normalisation, with an int32 output."""

from __future__ import annotations

import numpy as np

from mica.file.codec import ModelFile, StepRecord, TensorRecord

Array = np.ndarray
ACT = {"act_min": -128, "act_max": 127}


def arithmetic_model(seed: int = 1) -> ModelFile:
    """Two tensors [2,3,4] and [4] in; every kernel of arithmetic once or twice, a normalised tensor and indices out."""
    rng = np.random.default_rng(seed)
    tensors: list[TensorRecord] = []

    def tensor(name: str, dims: tuple[int, ...], offset: int = 0, dtype: str = "int8", **more: object) -> int:
        quant = {"scale": 0.05, "zero_point": -3} if dtype == "int8" else {}
        tensors.append(TensorRecord(name, dtype, dims, offset=offset, **quant | more))  # type: ignore[arg-type]
        return len(tensors) - 1

    a = tensor("a", (2, 3, 4), 0)
    b = tensor("b", (4,), 32, zero_point=7)
    product = tensor("product", (2, 3, 4), 48)
    larger = tensor("larger", (2, 3, 4), 80)
    ratio = tensor("ratio", (2, 3, 4), 112)
    gram = tensor("gram", (2, 3, 3), 144)
    total = tensor("total", (2, 3), 176)
    norm = tensor("norm", (2, 1, 3), 192)
    most = tensor("most", (3, 3), 208)
    where = tensor("where", (2, 3), 224, "int32")
    normal = tensor("normal", (2, 3, 3), 248)
    groups = tensor("groups", (2, 3, 4), 272)
    short = tensor("short", (2, 3, 3), 248)  # in place
    shorts = tensor("shorts", (2, 3, 4), 272)
    logs = tensor("logs", (2, 3, 4), 112)
    sums = tensor("sums", (6,), 296)
    deep = tensor("gram of six axes", (2, 1, 3, 1, 3, 1), 144)  # `gram` again, of MICA_MAX_RANK
    least = tensor("least", (2, 3, 2), 304, "int32")
    picked = tensor("picked", (2, 3, 2), 352)
    const = tensor("constant", (3, 1), space="data", values=rng.integers(-128, 128, (3, 1), dtype=np.int8))
    table = {"table": np.round(2.0**23 * np.exp(-0.05 * np.arange(256))).astype(np.uint32)}

    def norm_constants(n: int) -> dict[str, Array]:
        return {
            "gamma": rng.integers(-(2**19), 2**19, n).astype(np.int32),
            "beta": rng.integers(-(2**17), 2**17, n).astype(np.int32),
        }

    def short_terms(n: int, each: bool) -> dict[str, Array]:
        gamma, offset = rng.integers(-(2**13), 2**13, n), rng.integers(100 << 20, 150 << 20, n)
        return {"terms": (np.stack([gamma, offset], axis=1).reshape(-1) if each else gamma).astype(np.int32)}

    axis = {"axis": 1, "axes": 1, "mode": 0, "mult": 2**30 + 5, "shift": 1}
    steps = [
        StepRecord("mul", "mul_s8", (a, b), (product,), ACT | {"mult": 2**30 + 9, "shift": 6}),
        StepRecord(
            "max", "minmax_s8", (product, const), (larger,),
            {"mult_a": 1 << 20, "offset_a": 1 << 19, "mult_b": -(1 << 19), "offset_b": 5 << 19, "shift": 20,
             "larger": 1}
            | {"act_min": -100, "act_max": 120},
        ),
        StepRecord("div", "div_s8", (larger, b), (ratio,), ACT | {"factor": 2**20 + 3, "shift": 15}),
        StepRecord("gram", "matmul_s8", (ratio, a), (gram,), ACT | {"transpose_b": 1, "mult": 2**30 + 77, "shift": 8}),
        StepRecord("sum", "reduce_s8", (deep,), (total,), ACT | axis | {"axis": 2}),
        StepRecord("root", "reduce_s8", (gram,), (norm,), ACT | axis | {"axis": 2, "mode": 5, "shift": 14}),
        StepRecord("most", "reduce_s8", (gram,), (most,), ACT | axis | {"axis": 0, "mode": 1}),
        StepRecord("where", "argmax_s8", (gram,), (where,), {"axis": 2, "select_last": 1}),
        StepRecord(
            "norm", "layer_norm_s8", (gram,), (normal,),
            ACT | {"axis": 2, "inner": 1, "channels": 3, "epsilon_low": 1 << 20, "shift": 14}, norm_constants(3),
        ),
        StepRecord(
            "groups", "layer_norm_s8", (a,), (groups,),
            ACT | {"axis": 1, "inner": 4, "channels": 6, "mode": 1, "epsilon_high": 1, "shift": 14}, norm_constants(6),
        ),
        StepRecord(
            "short", "norm_s8", (normal,), (short,),
            ACT | {"axis": 2, "each": 1, "fraction": 14, "epsilon": 1000, "factor": 46616, "up": 7},
            short_terms(3, True),
        ),
        StepRecord(
            "shorts", "norm_s8", (groups,), (shorts,),
            ACT | {"axis": 1, "mode": 1, "fraction": 14, "factor": 32962, "up": 8, "offset": 125 << 20},
            short_terms(12, False),
        ),
        StepRecord(
            "logs", "log_softmax_s8", (shorts,), (logs,),
            ACT | {"mult": 2**20, "mult_log": -(2**21), "offset": 2**26, "shift": 20}, table,
        ),
        StepRecord(
            "sums", "log_softmax_s8", (logs,), (sums,),
            ACT | {"sum": 1, "mult": 2**20, "mult_log": 2**21, "offset": -(2**26), "shift": 20}, table,
        ),
        StepRecord("least", "top_k_s8", (gram,), (least,), {"axis": 2, "smallest": 1}),
        StepRecord("picked", "pick_s8", (gram, least), (picked,), {"axis": 2}),
    ]  # fmt: skip
    outputs = [short, where, total, norm, most, sums, least, picked]
    return ModelFile(tensors, steps, [a, b], outputs, {"name": "arithmetic"}, arena_bytes=364)
