"""The oracle against ONNX Runtime, an implementation that is not ours.

QDQ form: integers are dequantised, the float operator runs, the result is quantised; with all optimisations off,
because ONNX Runtime's fused int8 kernels saturate 16-bit sums on x86 without VNNI. Tolerance: 1 in the last place,
seldom. ONNX Runtime adds in float32 and rounds halves to even; ours adds exactly, scales by a 31-bit factor and rounds
halves up (so the scales here are odd numbers that make no halves). Where nothing is computed (MaxPool, Transpose) every
byte is equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mica.kernels import conv, dense, elementwise, movement, pool, softmax
from mica.kernels.integers import Output

Array = np.ndarray


def multiplier(real: float) -> tuple[int, int]:
    """mult and shift with mult * 2**-(31 + shift) nearest to real."""
    f, e = math.frexp(real)
    m = round(f * 2**31)
    return (m // 2, -e - 1) if m == 2**31 else (m, -e)


def multipliers(reals: Array) -> dict[str, Array]:
    pairs = [multiplier(float(r)) for r in np.atleast_1d(reals)]
    return {"mult": np.array([m for m, _ in pairs], np.int32), "shift": np.array([s for _, s in pairs], np.int8)}


def session(nodes: list[Any], inputs: dict[str, Array], constants: dict[str, Array]) -> Array:
    """Run nodes that end in "y", an int8 tensor."""
    kinds = {np.dtype(np.int8): TensorProto.INT8, np.dtype(np.float32): TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, kinds[a.dtype], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT8, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    run = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (y,) = run.run(None, inputs)
    return np.asarray(y)


def qdq(op: str, xs: list[tuple[Array, float, int]], y: tuple[float, int], **attributes: Any) -> Array:
    """DequantizeLinear -> op -> QuantizeLinear. xs and y carry scale and zero point."""
    nodes, constants = [], {"ys": np.float32(y[0]), "yz": np.int8(y[1])}
    for i, (_, scale, zero) in enumerate(xs):
        constants |= {f"s{i}": np.float32(scale), f"z{i}": np.int8(zero)}
        nodes.append(helper.make_node("DequantizeLinear", [f"x{i}", f"s{i}", f"z{i}"], [f"f{i}"]))
    nodes.append(helper.make_node(op, [f"f{i}" for i in range(len(xs))], ["f"], **attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["f", "ys", "yz"], ["y"]))
    arrays = {k: np.array(v) for k, v in constants.items()}
    return session(nodes, {f"x{i}": x for i, (x, _, _) in enumerate(xs)}, arrays)


def close(got: Array, expected: Array) -> None:
    """At most 1 apart, and no more than 1 % of the elements."""
    apart = np.abs(got.astype(int) - expected.astype(int))
    assert got.shape == expected.shape
    assert apart.max() <= 1, f"{apart.max()} apart at {np.argmax(apart)}"
    assert (apart > 0).mean() < 0.01, f"{(apart > 0).mean():.2%} differ"
    assert len(np.unique(expected)) > 3, "the case says something"


def nchw(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def window(
    kernel: tuple[int, int], stride: tuple[int, int], pads: tuple[int, ...], dilation: tuple[int, int]
) -> dict[str, int]:
    pairs = (("kernel", kernel), ("stride", stride), ("dilation", dilation))
    out = {f"{n}_{a}": v for n, pair in pairs for a, v in zip("hw", pair, strict=True)}
    return out | {"pad_top": pads[0], "pad_left": pads[1]}


@pytest.mark.parametrize(
    ("h", "w", "cin", "cout", "kernel", "stride", "pads", "dilation", "groups"),
    [
        (16, 16, 8, 16, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        (15, 17, 3, 8, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 1),
        (49, 10, 1, 64, (10, 4), (2, 2), (4, 1, 5, 1), (1, 1), 1),
        (9, 9, 64, 32, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        (12, 11, 6, 9, (3, 2), (1, 2), (2, 1, 0, 3), (2, 1), 3),
        (20, 20, 16, 16, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 16),
        (20, 20, 8, 16, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 8),
        (14, 14, 4, 4, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 4),
    ],
)
def test_conv(
    h: int, w: int, cin: int, cout: int, kernel: Any, stride: Any, pads: Any, dilation: Any, groups: int
) -> None:
    rng = np.random.default_rng(h * w * cout)
    x = rng.integers(-128, 128, (1, h, w, cin), dtype=np.int8)
    weights = rng.integers(-127, 128, (cout, *kernel, cin // groups), dtype=np.int8)
    sx, zx, sw = np.float32(0.03), -11, rng.uniform(0.001, 0.01, cout).astype(np.float32)
    bias = rng.integers(-2000, 2000, cout).astype(np.int32)
    sy, zy = float(sx * sw.mean() * 74 * 74 * math.sqrt(weights[0].size) / 50), 7

    constants = {
        "sx": np.array(sx), "zx": np.array(zx, np.int8), "sw": sw, "zw": np.zeros(cout, np.int8),
        "w": nchw(weights), "b": bias.astype(np.float32) * sx * sw,
        "sy": np.array(sy, np.float32), "zy": np.array(zy, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], axis=0),
        helper.make_node(
            "Conv",
            ["xf", "wf", "b"],
            ["f"],
            strides=stride,
            pads=pads,
            dilations=dilation,
            group=groups,
            kernel_shape=kernel,
        ),
        helper.make_node("QuantizeLinear", ["f", "sy", "zy"], ["y"]),
    ]
    expected = nhwc(session(nodes, {"x": nchw(x)}, constants))

    folded = (bias - zx * weights.reshape(cout, -1).astype(np.int64).sum(axis=1)).astype(np.int32)
    p = window(kernel, stride, pads, dilation)
    real = np.float64(sx) * sw.astype(np.float64) / np.float32(sy)
    q = Output(expected.shape, zx, zy)
    blobs = {"weights": weights, "bias": folded, **multipliers(real)}
    close(conv.conv2d_s8.oracle([x], blobs, p | {"groups": groups}, q), expected)
    if groups == cin:
        close(conv.depthwise_conv2d_s8.oracle([x], blobs | {"weights": weights[..., 0]}, p, q), expected)


def test_fully_connected() -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(-128, 128, (40, 300), dtype=np.int8)
    weights = rng.integers(-127, 128, (50, 300), dtype=np.int8)
    sx, zx, sw, sy, zy = np.float32(0.02), 5, np.float32(0.004), 4.0, -3
    bias = rng.integers(-5000, 5000, 50).astype(np.int32)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"]),
        helper.make_node("Gemm", ["xf", "wf", "b"], ["f"], transB=1),
        helper.make_node("QuantizeLinear", ["f", "sy", "zy"], ["y"]),
    ]
    constants = {
        "sx": np.array(sx), "zx": np.array(zx, np.int8), "sw": np.array(sw), "zw": np.array(0, np.int8), "w": weights,
        "b": bias.astype(np.float32) * sx * sw, "sy": np.array(sy, np.float32), "zy": np.array(zy, np.int8),
    }  # fmt: skip
    expected = session(nodes, {"x": x}, constants)
    folded = (bias - zx * weights.astype(np.int64).sum(axis=1)).astype(np.int32)
    real = np.full(50, np.float64(sx) * np.float64(sw) / sy)
    close(
        dense.fully_connected_s8.oracle(
            [x], {"weights": weights, "bias": folded, **multipliers(real)}, {}, Output((40, 50), zx, zy)
        ),
        expected,
    )


POOLS = [
    ((2, 2), (2, 2), (0, 0, 0, 0), 0),
    ((3, 3), (2, 2), (1, 1, 1, 1), 0),
    ((3, 2), (1, 1), (0, 1, 2, 0), 0),
    ((3, 3), (2, 2), (1, 0, 1, 0), 1),
    ((15, 14), (1, 1), (0, 0, 0, 0), 0),
]


@pytest.mark.parametrize(("kernel", "stride", "pads", "ceil"), POOLS)
def test_max_pool(kernel: Any, stride: Any, pads: Any, ceil: int) -> None:
    x = np.random.default_rng(1).integers(-128, 128, (1, 15, 14, 5), dtype=np.int8)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=kernel, strides=stride, pads=pads, ceil_mode=ceil)
    expected = nhwc(session([node], {"x": nchw(x)}, {}))
    got = pool.max_pool2d_s8.oracle([x], {}, window(kernel, stride, pads, (1, 1)), Output(expected.shape))
    np.testing.assert_array_equal(got, expected)


def test_dilated_max_pool() -> None:
    x = np.random.default_rng(2).integers(-128, 128, (1, 9, 9, 3), dtype=np.int8)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=(3, 3), dilations=(2, 2), pads=(2, 2, 2, 2))
    expected = nhwc(session([node], {"x": nchw(x)}, {}))
    got = pool.max_pool2d_s8.oracle([x], {}, window((3, 3), (1, 1), (2, 2), (2, 2)), Output(expected.shape))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(("kernel", "stride", "pads", "ceil"), POOLS)
def test_average_pool(kernel: Any, stride: Any, pads: Any, ceil: int, include: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (1, 15, 14, 40), dtype=np.int8)
    sx, zx, sy, zy = 0.05071, -20, 0.03113, 9
    attributes = {
        "kernel_shape": kernel,
        "strides": stride,
        "pads": pads,
        "ceil_mode": ceil,
        "count_include_pad": include,
    }
    expected = nhwc(qdq("AveragePool", [(nchw(x), sx, zx)], (sy, zy), **attributes))
    real = np.float64(np.float32(sx)) / np.float32(sy) / (np.arange(kernel[0] * kernel[1]) + 1)
    p = window(kernel, stride, pads, (1, 1)) | {
        "pad_bottom": pads[2],
        "pad_right": pads[3],
        "count_include_pad": include,
    }
    close(pool.average_pool2d_s8.oracle([x], multipliers(real), p, Output(expected.shape, zx, zy)), expected)


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize(("a", "b"), [((30, 40), (30, 40)), ((1, 8, 9, 10), (10,)), ((20, 1, 5), (1, 30, 1))])
def test_add(op: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    xs = [rng.integers(-128, 128, shape, dtype=np.int8) for shape in (a, b)]
    (sa, za), (sb, zb), (sy, zy) = (0.05171, 3), (0.02133, -100), (0.06377, 20)
    expected = qdq(op, [(xs[0], sa, za), (xs[1], sb, zb)], (sy, zy))
    # The factors with 20 bits behind the point: the error of a sum is below 255 * 2**-21, far from 1.
    shift, sign = 20, -1 if op == "Sub" else 1
    mult_a, mult_b = round(sa / sy * 2**shift), sign * round(sb / sy * 2**shift)
    offset = (1 << (shift - 1)) - za * mult_a - zb * mult_b
    p = {"mult_a": mult_a, "mult_b": mult_b, "offset": offset, "shift": shift}
    close(elementwise.add_s8.oracle(xs, {}, p, Output(expected.shape, 0, zy)), expected)


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.5])
def test_softmax(scale: float) -> None:
    x = np.random.default_rng(5).integers(-128, 128, (200, 12), dtype=np.int8)
    expected = qdq("Softmax", [(x, scale, 4)], (1 / 256, -128), axis=-1)
    table = np.round(2.0**23 * np.exp(-np.float64(np.float32(scale)) * np.arange(256))).astype(np.uint32)
    close(softmax.softmax_s8.oracle([x], {"table": table}, {}, Output((200, 12), 4, -128)), expected)


@pytest.mark.parametrize(("op", "scale", "zero"), [("Sigmoid", 1 / 256, -128), ("Tanh", 1 / 128, 0)])
def test_lut(op: str, scale: float, zero: int) -> None:
    x = np.arange(-128, 128, dtype=np.int8)
    expected = qdq(op, [(x, 0.05, 10)], (scale, zero))
    real = np.float64(np.float32(0.05)) * (np.arange(-128, 128) - 10)
    value = 1 / (1 + np.exp(-real)) if op == "Sigmoid" else np.tanh(real)
    table = np.clip(np.floor(value / scale + 0.5) + zero, -128, 127).astype(np.int8)
    close(elementwise.lut_s8.oracle([x], {"table": table}, {}, Output((256,))), expected)


@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2)])
def test_transpose(perm: tuple[int, ...]) -> None:
    x = np.random.default_rng(6).integers(-128, 128, (2, 3, 4, 5), dtype=np.int8)
    # Transpose of ONNX Runtime takes int8 as it is.
    expected = session([helper.make_node("Transpose", ["x"], ["y"], perm=perm)], {"x": x}, {})
    p = {f"perm_{i}": v for i, v in enumerate(perm)}
    np.testing.assert_array_equal(movement.transpose_s8.oracle([x], {}, p, Output(expected.shape)), expected)
