"""Each TensorFlow Lite operator, in int8, uint8, int16 and float, beside LiteRT's reference kernels.

Where LiteRT is not installed the same files run as ONNX in ONNX Runtime: the importer's own reading of them,
but not its arithmetic. int8 results lie within one step (LiteRT rounds twice where mica rounds once),
those of tables and moves are equal; float ones within some percent of the range,
which is what int8 costs a single operator with calibrated ranges.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import litert
import numpy as np
import onnxruntime
import pytest
from tflite_files import Tflite

from mica import engine
from mica.compile import Compiled, compile_file
from mica.format.values import dequantise_output, quantise_input
from mica.importer import tflite
from mica.importer.tflite.operators import OPERATORS

HAS_LITERT = importlib.util.find_spec("ai_edge_litert") is not None
SAMPLES = 12
IN, OUT = (0.05, 3), (0.06, -4)  # scale, zero point
Item = Any  # a shape: an input; an array: a constant


@dataclass(frozen=True)
class Case:
    """An operator over inputs (tuples: shapes) and constants (arrays).
    grid: of the output where its kernel fixes it."""

    kind: str
    items: tuple[Item, ...]
    y: tuple[int, ...] | list[tuple[int, ...]]
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    grid: tuple[float, int] = OUT
    same: bool = False  # the output has the input's scale
    positive: bool = False
    dtypes: str = "int8 float32"
    name: str = ""
    reference: bool = True  # LiteRT's reference kernel is right

    @property
    def label(self) -> str:
        return self.name or self.kind


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


RNG = np.random.default_rng(5)
W = np.round(RNG.uniform(-1, 1, (4, 3, 3, 2)), 2).astype(np.float32)
DW = np.round(RNG.uniform(-1, 1, (1, 3, 3, 2)), 2).astype(np.float32)
FC = np.round(RNG.uniform(-1, 1, (5, 8)), 2).astype(np.float32)
IMAGE = (1, 6, 7, 2)
STRIDE = {"stride_w": 2, "stride_h": 2, "activation": 0}
WINDOW = {"padding": 0, **STRIDE, "dilation_w": 1, "dilation_h": 1}
POOL = {"padding": 0, **STRIDE, "filter_width": 3, "filter_height": 2}


def cases() -> list[Case]:
    unary = [
        *(Case(k, ((1, 9),), (1, 9)) for k in ("ABS", "ELU", "HARD_SWISH", "RELU6", "RELU")),
        *(
            Case(k, ((1, 9),), (1, 9), dtypes="float32")
            for k in ("CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIGN", "SIN")
        ),
        *(Case(k, ((1, 9),), (1, 9), positive=True, dtypes="float32") for k in ("LOG", "SQRT", "RSQRT")),
        Case("RELU_N1_TO_1", ((1, 9),), (1, 9), dtypes="float32"),
        Case("RELU_0_TO_1", ((1, 9),), (1, 9), dtypes="float32"),
        Case("SQUARE", ((1, 9),), (1, 9), dtypes="float32"),
        Case("GELU", ((1, 9),), (1, 9), "GeluOptions", {"approximate": False}),
        Case("GELU", ((1, 9),), (1, 9), "GeluOptions", {"approximate": True}, name="GELU tanh"),
        Case("LEAKY_RELU", ((1, 9),), (1, 9), "LeakyReluOptions", {"alpha": 0.2}),
        Case("LOGISTIC", ((1, 9),), (1, 9), grid=(1 / 256, -128)),
        Case("TANH", ((1, 9),), (1, 9), grid=(1 / 128, 0)),
        Case("SOFTMAX", ((1, 9),), (1, 9), "SoftmaxOptions", {"beta": 1.0}, grid=(1 / 256, -128)),
        Case("SOFTMAX", ((1, 9),), (1, 9), "SoftmaxOptions", {"beta": 0.5}, grid=(1 / 256, -128), name="SOFTMAX beta"),
        Case("LOG_SOFTMAX", ((1, 9),), (1, 9), grid=(16 / 256, 127)),
        Case("L2_NORMALIZATION", ((1, 9),), (1, 9), "L2NormOptions", {"activation": 0}, grid=(1 / 128, 0)),
    ]
    two = [
        Case("ADD", (IMAGE, IMAGE), IMAGE, "AddOptions", {"activation": 1}),
        Case("ADD", (IMAGE, (1, 1, 1, 2)), IMAGE, "AddOptions", {"activation": 0}, name="ADD broadcast"),
        Case("SUB", (IMAGE, IMAGE), IMAGE, "SubOptions", {"activation": 0}),
        Case("MUL", (IMAGE, (1, 1, 1, 2)), IMAGE, "MulOptions", {"activation": 3}, grid=(0.2, -4)),
        Case(
            "DIV",
            (IMAGE, np.full((1, 1, 1, 2), 2, np.float32)),
            IMAGE,
            "DivOptions",
            {"activation": 0},
            dtypes="float32",
        ),
        Case("MAXIMUM", (IMAGE, IMAGE), IMAGE, same=True),
        Case("MINIMUM", (IMAGE, (1, 1, 1, 2)), IMAGE, same=True),
        Case("PRELU", (IMAGE, np.array([[[0.1, 0.3]]], np.float32)), IMAGE),
        Case("SQUARED_DIFFERENCE", ((1, 9), (1, 9)), (1, 9), grid=(0.5, -128), dtypes="float32"),
        Case("ADD_N", (IMAGE, IMAGE, IMAGE), IMAGE, dtypes="float32"),
        Case("POW", ((1, 9), np.array(2, np.float32)), (1, 9), positive=True, dtypes="float32"),
        Case("FLOOR_DIV", ((1, 9), np.array(0.7, np.float32)), (1, 9), dtypes="float32"),
        Case("FLOOR_MOD", ((1, 9), np.array(0.75, np.float32)), (1, 9), dtypes="float32"),
    ]
    products = [
        Case("CONV_2D", (IMAGE, W, np.array([0.1, -0.2, 0.3, 0], np.float32)), (1, 3, 4, 4), "Conv2DOptions", WINDOW),
        Case(
            "CONV_2D",
            (IMAGE, W, np.array([0.1, -0.2, 0.3, 0], np.float32)),
            (1, 4, 5, 4),
            "Conv2DOptions",
            {"padding": 1, "stride_w": 1, "stride_h": 1, "activation": 1},
            name="CONV_2D valid",
        ),
        Case(
            "DEPTHWISE_CONV_2D",
            (IMAGE, DW, np.array([0.1, -0.2], np.float32)),
            (1, 6, 7, 2),
            "DepthwiseConv2DOptions",
            {**WINDOW, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1, "dilation_w": 2, "dilation_h": 2},
        ),
        Case(
            "TRANSPOSE_CONV",
            (ints(1, 12, 14, 4), W, IMAGE),
            (1, 12, 14, 4),
            "TransposeConvOptions",
            {"padding": 0, **STRIDE},
        ),
        Case(
            "TRANSPOSE_CONV",
            (ints(1, 13, 15, 4), W, IMAGE),
            (1, 13, 15, 4),
            "TransposeConvOptions",
            {"padding": 1, **STRIDE},
            name="TRANSPOSE_CONV valid",
        ),
        Case(
            "FULLY_CONNECTED",
            ((1, 8), FC, np.array([0.1, -0.2, 0.3, 0, 1], np.float32)),
            (1, 5),
            "FullyConnectedOptions",
            {"activation": 0},
        ),
        Case(
            "FULLY_CONNECTED",
            ((1, 3, 8), FC),
            (3, 5),
            "FullyConnectedOptions",
            {"activation": 1},
            name="FULLY_CONNECTED rows",
        ),
        Case("BATCH_MATMUL", ((2, 3, 8), (2, 8, 4)), (2, 3, 4), "BatchMatMulOptions", {"adj_x": False}),
        Case(
            "BATCH_MATMUL",
            ((2, 3, 8), (2, 4, 8)),
            (2, 3, 4),
            "BatchMatMulOptions",
            {"adj_y": True},
            name="BATCH_MATMUL y",
        ),
        Case("AVERAGE_POOL_2D", (IMAGE,), (1, 3, 4, 2), "Pool2DOptions", {**POOL}, same=True),
        Case("MAX_POOL_2D", (IMAGE,), (1, 3, 4, 2), "Pool2DOptions", {**POOL}, same=True),
        Case("L2_POOL_2D", (IMAGE,), (1, 3, 3, 2), "Pool2DOptions", {**POOL, "padding": 1}, dtypes="float32"),
        Case("MEAN", (IMAGE, ints(1, 2)), (1, 1, 1, 2), "ReducerOptions", {"keep_dims": True}),
        Case("MEAN", (IMAGE, ints(-1)), (1, 6, 7), "ReducerOptions", {"keep_dims": False}, name="MEAN last"),
        Case(
            "SUM", (IMAGE, ints(2)), (1, 6, 2), "ReducerOptions", {"keep_dims": False}, grid=(0.2, 0), reference=False
        ),
        Case(
            "REDUCE_MAX", (IMAGE, ints(1, 2)), (1, 2), "ReducerOptions", {"keep_dims": False}, same=True, dtypes="int8"
        ),
        Case(
            "REDUCE_MIN",
            (IMAGE, ints(3)),
            (1, 6, 7, 1),
            "ReducerOptions",
            {"keep_dims": True},
            same=True,
            dtypes="float32",
        ),
        Case("CUMSUM", ((1, 9), np.array(1, np.int32)), (1, 9), "CumsumOptions", {}, dtypes="float32"),
    ]
    moves = [
        Case("RESHAPE", (IMAGE, ints(1, 84)), (1, 84)),
        Case("SQUEEZE", ((1, 3, 1),), (3,)),
        Case("EXPAND_DIMS", ((1, 3), ints(1)), (1, 1, 3)),
        Case("TRANSPOSE", (IMAGE, ints(0, 3, 1, 2)), (1, 2, 6, 7)),
        Case("CONCATENATION", (IMAGE, IMAGE), (1, 6, 7, 4), "ConcatenationOptions", {"axis": -1, "activation": 0}),
        Case("PACK", ((1, 4), (1, 4)), (1, 2, 4), "PackOptions", {"values_count": 2, "axis": 1}),
        Case("UNPACK", ((1, 2, 4),), [(1, 4), (1, 4)], "UnpackOptions", {"num": 2, "axis": 1}),
        Case("SPLIT", (ints(2)[0], IMAGE), [(1, 6, 7, 2)], "SplitOptions", {"num_splits": 1}),
        Case(
            "SPLIT_V", (IMAGE, ints(2, 5), ints(2)[0]), [(1, 6, 2, 2), (1, 6, 5, 2)], "SplitVOptions", {"num_splits": 2}
        ),
        Case("SLICE", (IMAGE, ints(0, 1, 2, 0), ints(1, 3, -1, 1)), (1, 3, 5, 1)),
        Case(
            "STRIDED_SLICE",
            (IMAGE, ints(0, 4, 0, 1), ints(1, 0, 7, 2), ints(1, -1, 3, 1)),
            (1, 4, 3),
            "StridedSliceOptions",
            {"shrink_axis_mask": 8},
        ),
        Case(
            "STRIDED_SLICE",
            (IMAGE, ints(0, 0, 1), ints(0, 0, 2), ints(1, 1, 1)),
            (1, 6, 7, 1, 1),
            "StridedSliceOptions",
            {"begin_mask": 0, "ellipsis_mask": 1, "new_axis_mask": 2},
            name="STRIDED_SLICE ellipsis",
        ),
        Case("REVERSE_V2", (IMAGE, ints(1)), IMAGE, dtypes="float32"),
        Case("GATHER", (IMAGE, ints(3, 0, 5)), (1, 3, 7, 2), "GatherOptions", {"axis": 1, "batch_dims": 0}),
        Case("GATHER_ND", ((3, 4), ints([0, 1], [2, 3])), (2,)),
        Case("TILE", ((1, 3, 2), ints(1, 2, 3)), (1, 6, 6), dtypes="float32"),
        Case("BROADCAST_TO", ((1, 1, 2), ints(1, 3, 2)), (1, 3, 2)),
        Case("PAD", (IMAGE, ints([0, 0], [1, 2], [0, 1], [0, 0])), (1, 9, 8, 2)),
        Case(
            "MIRROR_PAD", (IMAGE, ints([0, 0], [1, 2], [0, 1], [0, 0])), (1, 9, 8, 2), "MirrorPadOptions", {"mode": 0}
        ),
        Case(
            "MIRROR_PAD",
            (IMAGE, ints([0, 0], [1, 6], [0, 7], [1, 0])),
            (1, 13, 14, 3),
            "MirrorPadOptions",
            {"mode": 1},
            name="MIRROR_PAD symmetric",
        ),
        Case("DYNAMIC_UPDATE_SLICE", (IMAGE, (1, 2, 7, 1), ints(0, 3, 0, 1)), IMAGE),
        Case("DYNAMIC_UPDATE_SLICE", (IMAGE, (1, 4, 3, 2), ints(0, 9, -5, 0)), IMAGE, name="DYNAMIC_UPDATE_SLICE far"),
        Case("SPACE_TO_DEPTH", ((1, 4, 6, 2),), (1, 2, 3, 8), "SpaceToDepthOptions", {"block_size": 2}),
        Case("DEPTH_TO_SPACE", ((1, 2, 3, 8),), (1, 4, 6, 2), "DepthToSpaceOptions", {"block_size": 2}),
        Case("SPACE_TO_BATCH_ND", ((1, 4, 5, 2), ints(2, 2), ints([0, 0], [1, 0])), (4, 2, 3, 2)),
        Case("BATCH_TO_SPACE_ND", ((4, 2, 3, 2), ints(2, 2), ints([0, 0], [1, 0])), (1, 4, 5, 2)),
        Case(
            "RESIZE_BILINEAR",
            (IMAGE, ints(12, 9)),
            (1, 12, 9, 2),
            "ResizeBilinearOptions",
            {"half_pixel_centers": True},
        ),
        Case(
            "RESIZE_BILINEAR",
            (IMAGE, ints(11, 13)),
            (1, 11, 13, 2),
            "ResizeBilinearOptions",
            {"align_corners": True},
            name="RESIZE_BILINEAR corners",
        ),
        Case("RESIZE_NEAREST_NEIGHBOR", (IMAGE, ints(12, 9)), (1, 12, 9, 2), "ResizeNearestNeighborOptions", {}),
        Case(
            "RESIZE_NEAREST_NEIGHBOR",
            (IMAGE, ints(9, 10)),
            (1, 9, 10, 2),
            "ResizeNearestNeighborOptions",
            {"half_pixel_centers": True},
            name="RESIZE_NEAREST half",
        ),
        Case(
            "REVERSE_SEQUENCE",
            ((1, 4, 3), ints(3)),
            (1, 4, 3),
            "ReverseSequenceOptions",
            {"seq_dim": 1, "batch_dim": 0},
            dtypes="float32",
        ),
    ]
    return [*unary, *two, *products, *(move(c) for c in moves)]


def move(c: Case) -> Case:
    return Case(c.kind, c.items, c.y, c.options, c.values, c.grid, True, c.positive, c.dtypes, c.name, c.reference)


def build(case: Case, dtype: str) -> bytes:
    """The operator alone, in a file."""
    net, inputs, ids = Tflite(), [], []
    integers = dtype != "float32"
    shift = 128 if dtype == "uint8" else 0
    wide = 256 if dtype == "int16" else 1

    def tensor(shape: Sequence[int], grid: tuple[float, int]) -> int:
        if not integers:
            return net.tensor(shape, dtype)
        return net.tensor(shape, dtype, grid[0] / wide, 0 if dtype == "int16" else grid[1] + shift)

    window = case.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED")
    arrays = 0
    for item in case.items:
        if isinstance(item, tuple):
            ids.append(tensor(item, IN))
            inputs.append(ids[-1])
            continue
        item, arrays = np.asarray(item), arrays + (item.dtype == np.float32)
        if item.dtype != np.float32 or not integers:
            ids.append(net.constant(item))
        elif window and arrays == 2:
            ids.append(
                net.constant(
                    np.rint(item / (IN[0] / wide * 0.01)).astype("int64" if dtype == "int16" else np.int32),
                    IN[0] / wide * 0.01,
                )
            )
        elif window:
            ids.append(
                net.constant(
                    (np.rint(item / 0.01) + shift).astype("uint8" if dtype == "uint8" else np.int8), 0.01, shift
                )
            )
        else:
            ids.append(net.constant((np.rint(item / 0.01) + shift).astype(dtype), 0.01, shift))
    shapes = case.y if isinstance(case.y, list) else [case.y]
    outputs = [tensor(shape, IN if case.same else case.grid) for shape in shapes]
    net.operator(case.kind, ids, outputs, case.options, case.values)
    return net.bytes(inputs, outputs)


def samples(case: Case, dtype: str) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(1)
    shapes = [item for item in case.items if isinstance(item, tuple)]

    def one(shape: tuple[int, ...]) -> np.ndarray:
        if dtype == "float32":
            x = rng.uniform(0.2 if case.positive else -3, 3, shape)
            return x.astype(np.float32)
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    return [[one(s) for s in shapes] for _ in range(SAMPLES)]


def expected_outputs(
    case: Case, path: Path, inputs: list[list[np.ndarray]], compiled: Compiled
) -> list[list[np.ndarray]]:
    """LiteRT's outputs, without it ONNX Runtime's of the importer's ONNX form; integers where the file has them."""
    if HAS_LITERT:
        made = litert.interpreter(path.read_bytes(), case.reference)
        return [litert.run(made, xs) for xs in inputs]
    session = onnxruntime.InferenceSession(tflite.as_onnx(path).SerializeToString(), providers=["CPUExecutionProvider"])
    tensors = [compiled.model.tensors[t] for t in compiled.model.inputs]
    names = [i.name for i in session.get_inputs()]
    found = []
    for xs in inputs:
        real = [
            x if x.dtype == np.float32 else dequantise_output(as_int8(x), t) for x, t in zip(xs, tensors, strict=True)
        ]
        ys = session.run(None, dict(zip(names, real, strict=True)))
        outs = [compiled.model.tensors[t] for t in compiled.model.outputs]
        if xs[0].dtype != np.float32:
            ys = [quantise_input(y.reshape(t.dims), t) for y, t in zip(ys, outs, strict=True)]
        found.append(ys)
    return found


def as_int8(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.uint8:
        return (x.astype(np.int16) - 128).astype(np.int8)
    if x.dtype == np.int16:
        return np.clip(np.rint(x / 256), -128, 127).astype(np.int8)
    return x


def no_warning(text: str) -> None:
    raise AssertionError(text)


FAILS = {"int16": no_warning}  # nothing of it may become int8


def difference(case: Case, dtype: str, folder: Path) -> np.ndarray:
    """Packed less expected: in steps of 8 bits, of float files in shares of the output's range."""
    path = folder / "net.tflite"
    path.write_bytes(build(case, dtype))
    inputs = samples(case, dtype)
    calibration = {f"t{k}": np.stack(x) for k, x in zip(_places(case), zip(*inputs, strict=True), strict=True)}
    compiled = compile_file(path, calibration if dtype == "float32" else None, warn=FAILS.get(dtype), plain=True)
    loaded, model, found = engine.load(compiled.data), compiled.model, []
    expected = expected_outputs(case, path, inputs, compiled)
    reach = max(float(np.ptp([w[k] for w in expected])) for k in range(len(expected[0]))) if dtype == "float32" else 1.0
    for xs, ys in zip(inputs, expected, strict=True):
        for k, x in enumerate(xs):
            t = model.tensors[model.inputs[k]]
            q = quantise_input(x, t) if x.dtype == np.float32 else x if t.dtype == "int16" else as_int8(x)
            loaded.set_input(k, q.reshape(t.dims))
        loaded.run()
        for k, y in enumerate(ys):
            t = model.tensors[model.outputs[k]]
            q = loaded.output(k)
            if dtype == "float32":
                found.append((dequantise_output(q, t).reshape(-1) - y.reshape(-1)) / (reach or 1.0))
            elif dtype == "int16":  # mica's 256 integers may lie elsewhere
                grid = IN if case.same else case.grid
                found.append(q.reshape(-1) - np.rint(y.reshape(-1) * (grid[0] / 256) / t.scale + t.zero_point))
            else:
                found.append(q.reshape(-1).astype(float) - as_int8(y).reshape(-1))
    return np.concatenate(found)


def _places(case: Case) -> list[int]:
    """Numbers of the tensors that are inputs."""
    return [k for k, item in enumerate(case.items) if isinstance(item, tuple)]


ALL = cases()
MOVES = [c.kind for c in cases() if c.same and c.name == "" and "Pool" not in c.options and "Reducer" not in c.options]
# Steps of int16 by which LiteRT may differ; functions come from tables in both, whose lines and roundings differ.
WIDE = {
    **dict.fromkeys(MOVES, 0),
    **dict.fromkeys(("ADD", "SUB", "MUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"), 0),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), 0),
    **dict.fromkeys(("ABS", "GELU", "LEAKY_RELU", "RELU", "RELU6"), 1),
    **{"LOGISTIC": 2, "TANH": 2, "SOFTMAX": 4},
}
del WIDE["RESIZE_BILINEAR"]
for kind in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"):  # LiteRT has none of int16: test_blocks in test_tflite_wide.py
    del WIDE[kind]
# LiteRT computes these in another way than by a table of the exact function; two steps.
ROUGH = {"HARD_SWISH": 1, "LOG_SOFTMAX": 1}


@pytest.mark.parametrize("case", [c for c in ALL if "int8" in c.dtypes], ids=lambda c: c.label)
def test_int8(case: Case, tmp_path: Path) -> None:
    d = difference(case, "int8", tmp_path)
    assert np.abs(d).max() <= 1 + ROUGH.get(case.kind, 0)
    if case.same and case.kind not in ("AVERAGE_POOL_2D", "RESIZE_BILINEAR"):
        assert not d.any()


@pytest.mark.parametrize("case", [c for c in ALL if "float32" in c.dtypes], ids=lambda c: c.label)
def test_float(case: Case, tmp_path: Path) -> None:
    """A rounded input may land on the other side of a step of FLOOR and its like: few values, by a whole step."""
    d = np.abs(difference(case, "float32", tmp_path))
    stepped = case.kind in ("CEIL", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "ROUND", "SIGN")
    assert np.mean(d) < (0.05 if stepped else 0.02)
    assert stepped or d.max() < 0.05


@pytest.mark.parametrize(
    "case", [c for c in ALL if c.kind in ("CONV_2D", "FULLY_CONNECTED", "ADD", "RESHAPE")], ids=lambda c: c.label
)
def test_uint8(case: Case, tmp_path: Path) -> None:
    assert np.abs(difference(case, "uint8", tmp_path)).max() <= 1


@pytest.mark.skipif(not HAS_LITERT, reason="LiteRT is not installed (pip install ai-edge-litert)")
@pytest.mark.parametrize("case", [c for c in ALL if c.kind in WIDE], ids=lambda c: c.label)
def test_int16(case: Case, tmp_path: Path) -> None:
    """In steps of int16."""
    grid = (1 / 128, 0) if case.kind in ("LOGISTIC", "SOFTMAX", "TANH") else (0.25, 0)
    case = replace(case, grid=grid)
    assert np.abs(difference(case, "int16", tmp_path)).max() <= WIDE[case.kind]


@pytest.mark.parametrize("dtype", ("int8", "int16"))
def test_int16_is_warned_of(dtype: str, tmp_path: Path) -> None:
    """Nothing is lost in silence: where the file's 16 bits become 8."""
    case = next(c for c in ALL if c.kind == "BATCH_MATMUL" and c.label == c.kind)
    path, said = tmp_path / "net.tflite", []
    path.write_bytes(build(case, dtype))
    compile_file(path, warn=said.append)
    if dtype == "int8":
        assert said == []
    else:
        (warning,) = said
        assert warning.startswith("int16 tensors become int8, the same range in steps 256 times larger: 't0', ")


def test_every_operator_is_tried() -> None:
    elsewhere = {"PADV2", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "QUANTIZE", "DEQUANTIZE", "CAST", "EMBEDDING_LOOKUP"}
    elsewhere |= {"TOPK_V2", "RANGE", "RANK", "REDUCE_PROD"}  # test_tflite_newer.py
    elsewhere |= {"ARG_MAX", "ARG_MIN", "SHAPE", "FILL", "ZEROS_LIKE", "BROADCAST_ARGS", "SELECT", "SELECT_V2"}
    elsewhere |= {"EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"}
    elsewhere |= {"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}
    elsewhere |= {"LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"}
    elsewhere |= {"WHILE", "RFFT2D", "COMPLEX_ABS"}  # test_recurrence.py, test_tflite_newer.py
    assert {c.kind for c in ALL} | elsewhere == set(OPERATORS)
