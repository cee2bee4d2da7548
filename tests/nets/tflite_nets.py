"""Small .tflite networks that together use most of the reader, for tests that damage or compare them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tflite_files import Table, Tflite
from tflite_lstm import Layer
from tflite_speech import speech

from mica.importer.tflite import schema

CONV = {"padding": 0, "stride_w": 1, "stride_h": 1, "activation": 1, "dilation_w": 1, "dilation_h": 1}
LSTM = {"activation": 4, "cell_clip": 10.0, "time_major": False}


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-127, 128, shape).astype(np.int8)


def _bias(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(-500, 500, n).astype(np.int32)


def classifier(seed: int = 0) -> bytes:
    """int8: PAD, CONV_2D per channel, DEPTHWISE_CONV_2D, ADD, AVERAGE_POOL_2D, RESHAPE, FULLY_CONNECTED, SOFTMAX."""
    rng, net = np.random.default_rng(seed), Tflite()
    x = net.tensor([1, 6, 6, 2], scale=0.02, zero=3, name="serving_default_input:0")
    pads = net.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    padded = net.tensor([1, 8, 8, 2], scale=0.02, zero=3)
    net.operator("PAD", [x, pads], [padded])
    steps = 0.01 * rng.uniform(0.5, 1, 4)
    w = net.constant(_weights(rng, 4, 3, 3, 2), steps, 0, 0)
    a = net.tensor([1, 6, 6, 4], scale=0.05, zero=-128, name="model/relu/Relu;model/conv/Conv2D")
    b = net.constant(_bias(rng, 4), 0.02 * steps, 0, 0)
    net.operator("CONV_2D", [padded, w, b], [a], "Conv2DOptions", {**CONV, "padding": 1})
    w = net.constant(_weights(rng, 1, 3, 3, 4), steps, 0, 3)
    d = net.tensor([1, 6, 6, 4], scale=0.04, zero=-10)
    options = {**CONV, "activation": 0, "depth_multiplier": 1}
    net.operator(
        "DEPTHWISE_CONV_2D", [a, w, net.constant(_bias(rng, 4), 0.05 * steps)], [d], "DepthwiseConv2DOptions", options
    )
    s = net.tensor([1, 6, 6, 4], scale=0.07, zero=-20)
    net.operator("ADD", [a, d], [s], "AddOptions", {"activation": 0})
    p = net.tensor([1, 2, 2, 4], scale=0.07, zero=-20)
    pool = {"padding": 1, "stride_w": 3, "stride_h": 3, "filter_width": 3, "filter_height": 3, "activation": 0}
    net.operator("AVERAGE_POOL_2D", [s], [p], "Pool2DOptions", pool)
    flat = net.tensor([1, 16], scale=0.07, zero=-20)
    net.operator("RESHAPE", [p, net.constant(np.array([1, 16], np.int32))], [flat])
    y = net.tensor([1, 3], scale=0.2, zero=4)
    w = net.constant(_weights(rng, 3, 16), 0.01)
    net.operator(
        "FULLY_CONNECTED",
        [flat, w, net.constant(_bias(rng, 3), 0.0007)],
        [y],
        "FullyConnectedOptions",
        {"activation": 0},
    )
    z = net.tensor([1, 3], scale=1 / 256, zero=-128, name="Identity")
    net.operator("SOFTMAX", [y], [z], "SoftmaxOptions", {"beta": 1.0})
    return net.bytes([x], [z])


def moves(seed: int = 0) -> bytes:
    """int8: STRIDED_SLICE, TRANSPOSE, CONCATENATION, SPLIT, MUL, MEAN, RESIZE_BILINEAR, TRANSPOSE_CONV."""
    rng, net = np.random.default_rng(seed), Tflite()
    q = {"scale": 0.05, "zero": 2}
    x = net.tensor([1, 4, 4, 4], **q)
    cut = net.tensor([1, 2, 4, 4], **q)
    ends = [net.constant(np.array(v, np.int32)) for v in ([0, 1, 0, 0], [0, 3, 0, 0], [1, 1, 1, 1])]
    net.operator("STRIDED_SLICE", [x, *ends], [cut], "StridedSliceOptions", {"begin_mask": 13, "end_mask": 13})
    swapped = net.tensor([1, 4, 2, 4], **q)
    net.operator("TRANSPOSE", [cut, net.constant(np.array([0, 2, 1, 3], np.int32))], [swapped])
    joined = net.tensor([1, 4, 4, 4], **q)
    net.operator("CONCATENATION", [swapped, swapped], [joined], "ConcatenationOptions", {"axis": 2, "activation": 0})
    left, right = (net.tensor([1, 4, 4, 2], **q) for _ in range(2))
    net.operator(
        "SPLIT", [net.constant(np.array(3, np.int32)), joined], [left, right], "SplitOptions", {"num_splits": 2}
    )
    product = net.tensor([1, 4, 4, 2], scale=0.1, zero=0)
    net.operator("MUL", [left, right], [product], "MulOptions", {"activation": 0})
    larger = net.tensor([1, 8, 8, 2], scale=0.1, zero=0)
    size = net.constant(np.array([8, 8], np.int32))
    net.operator("RESIZE_BILINEAR", [product, size], [larger], "ResizeBilinearOptions", {"half_pixel_centers": True})
    w = net.constant(_weights(rng, 3, 2, 2, 2), 0.01)
    shape = net.constant(np.array([1, 16, 16, 3], np.int32))
    up = net.tensor([1, 16, 16, 3], scale=0.1, zero=1)
    options = {"padding": 0, "stride_w": 2, "stride_h": 2, "activation": 0}
    net.operator("TRANSPOSE_CONV", [shape, w, larger], [up], "TransposeConvOptions", options)
    mean = net.tensor([1, 3], scale=0.05, zero=0)
    net.operator("MEAN", [up, net.constant(np.array([1, 2], np.int32))], [mean], "ReducerOptions", {"keep_dims": False})
    return net.bytes([x], [mean])


def svdf(seed: int = 0, rank: int = 1, memory: int = 5, wide: bool = False) -> bytes:
    """int8 with a state, as tflite-micro's keyword model; wide: state and time weights of int16,
    as LiteRT's kernel takes them."""
    rng, net = np.random.default_rng(seed), Tflite()
    filters = 4 * rank
    x = net.tensor([1, 8], scale=0.05, zero=-3)
    features, times, scale = net.constant(_weights(rng, filters, 8), 0.01), _weights(rng, filters, memory), 0.01
    if wide:
        times, scale = rng.integers(-6000, 6001, times.shape).astype(np.int16), 0.01 / 64
    weights = net.constant(times, scale)
    kind, step, zero = ("int16", 0.0005, 0) if wide else ("int8", 0.06, 5)
    state = net.tensor([1, filters * memory], kind, scale=step, zero=zero, variable=True)
    y = net.tensor([1, 4], scale=0.1, zero=-128)
    bias = net.constant(_bias(rng, 4), step * scale)
    net.operator("SVDF", [x, features, weights, bias, state], [y], "SVDFOptions", {"rank": rank, "activation": 1})
    return net.bytes([x], [y])


def lstm(seed: int = 0, time: int = 6, units: int = 4, coupled: bool = False) -> bytes:
    """float: UNIDIRECTIONAL_SEQUENCE_LSTM with its two states, and the last time step."""
    rng, net = np.random.default_rng(seed), Tflite()
    x = net.tensor([1, time, 3], "float32")

    def constant(*shape: int) -> int:
        return net.constant((rng.standard_normal(shape) * 0.6).astype(np.float32))

    weights = [constant(units, 3) for _ in range(4)]
    recurrent = [constant(units, units) for _ in range(4)]
    biases = [constant(units) for _ in range(4)]
    if coupled:
        weights[0] = recurrent[0] = biases[0] = -1
    states = [net.tensor([1, units], "float32", variable=True) for _ in range(2)]
    y = net.tensor([1, time, units], "float32")
    inputs = [x, *weights, *recurrent, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    net.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], "UnidirectionalSequenceLSTMOptions", LSTM)
    return net.bytes([x], [y])


def lstm8(seed: int = 0, time: int = 6, units: int = 4) -> bytes:
    """int8, as converters write it: int16 cell state on a power of two, int32 biases."""
    rng, net = np.random.default_rng(seed), Tflite()
    x = net.tensor([1, time, 3], scale=0.02, zero=-5)
    weights = [net.constant(_weights(rng, units, 3), 0.01) for _ in range(4)]
    recurrent = [net.constant(_weights(rng, units, units), 0.008) for _ in range(4)]
    biases = [net.constant(_bias(rng, units), 0.02 * 0.01) for _ in range(4)]
    hidden = net.tensor([1, units], scale=1 / 128, zero=0, variable=True)
    cell = net.tensor([1, units], "int16", 2.0**-12, 0, variable=True)
    y = net.tensor([1, time, units], scale=1 / 128, zero=0)
    between = [net.tensor([], "int16", 2.0**-12) for _ in range(4)] + [net.tensor([], "int8", 1 / 128)]
    inputs = [x, *weights, *recurrent, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    net.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], "UnidirectionalSequenceLSTMOptions", LSTM, between)
    return net.bytes([x], [y])


def dynamic(seed: int = 0) -> bytes:
    """float activations, int8 weights: dynamic-range quantisation; and weights of float16 behind a DEQUANTIZE."""
    rng, net = np.random.default_rng(seed), Tflite()
    x = net.tensor([1, 8], "float32")
    h, y = net.tensor([1, 6], "float32"), net.tensor([1, 4], "float32")
    bias = net.constant(rng.standard_normal(6).astype(np.float32))
    net.operator(
        "FULLY_CONNECTED",
        [x, net.constant(_weights(rng, 6, 8), 0.01), bias],
        [h],
        "FullyConnectedOptions",
        {"activation": 1},
    )
    half = net.constant(rng.standard_normal((4, 6)).astype(np.float16))
    w = net.tensor([4, 6], "float32")
    net.operator("DEQUANTIZE", [half], [w])
    net.operator("FULLY_CONNECTED", [h, w, -1], [y], "FullyConnectedOptions", {"activation": 0})
    return net.bytes([x], [y])


ROWS, NEW, WIDTH = 5, 2, 8
STREAM = {"scale": 0.05, "zero": -128}
CALL_ONCE, VAR_HANDLE = 103, 111  # in the union of options


def handle(net: Tflite, name: str) -> int:
    h = net.tensor([], "resource")
    net.operator("VAR_HANDLE", [], [h], table=(VAR_HANDLE, Table({schema.VAR_HANDLE["shared_name"]: name})))
    return h


def call_once(net: Tflite, graph: int = 1) -> None:
    slot = schema.CALL_ONCE["init_subgraph_index"]
    net.operator("CALL_ONCE", [], [], table=(CALL_ONCE, Table({slot: ("i", graph)})))


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def rows(net: Tflite, x: int, first: int, n: int, of: dict[str, float]) -> int:
    """Rows first to first + n of x."""
    y = net.tensor([1, n, 1, WIDTH], **of)
    ends = [numbers(0, first, 0, 0), numbers(0, first + n, 0, 0), numbers(1, 1, 1, 1)]
    masks = {"begin_mask": 0b1101, "end_mask": 0b1101}
    net.operator("STRIDED_SLICE", [x, *map(net.constant, ends)], [y], "StridedSliceOptions", masks)
    return y


def stream(
    begin: np.ndarray | None = None,
    kept: dict[str, float] | None = None,
    again: bool = False,
    graph: int = 1,
    seed: int = 0,
) -> bytes:
    """Rows of earlier inputs, the new ones behind them, a depthwise convolution over all.

    begin: the first rows; kept: their scale; again: the variable is read once more, behind the assignment.
    """
    rng, net = np.random.default_rng(seed), Tflite()
    kept = STREAM if kept is None else kept
    call_once(net, graph)
    h = handle(net, "rows")
    x, before = net.tensor([1, NEW, 1, WIDTH], **STREAM), net.tensor([1, ROWS, 1, WIDTH], **STREAM)
    net.operator("READ_VARIABLE", [h], [before])
    both = net.tensor([1, ROWS + NEW, 1, WIDTH], **STREAM)
    net.operator("CONCATENATION", [before, x], [both], "ConcatenationOptions", {"axis": 1, "activation": 0})
    net.operator("ASSIGN_VARIABLE", [h, rows(net, both, NEW, ROWS, kept)], [])
    if again:
        net.operator("READ_VARIABLE", [h], [both := net.tensor([1, ROWS, 1, WIDTH], **STREAM)])
    height = ROWS if again else ROWS + NEW
    w = net.constant(rng.integers(-127, 128, (1, height, 1, WIDTH)).astype(np.int8), 0.01)
    b = net.constant(rng.integers(-500, 500, WIDTH).astype(np.int32), 0.0005)
    y = net.tensor([1, 1, 1, WIDTH], scale=0.05, zero=3)
    options = {"padding": schema.VALID, "stride_w": 1, "stride_h": 1, "depth_multiplier": 1, "activation": 0}
    net.operator("DEPTHWISE_CONV_2D", [both, w, b], [y], "DepthwiseConv2DOptions", options)
    first = net.graph()
    data = np.full((1, ROWS, 1, WIDTH), -128, np.int8) if begin is None else begin
    net_handle = handle(first, "rows")
    first.operator("ASSIGN_VARIABLE", [net_handle, first.constant(data, STREAM["scale"], STREAM["zero"])], [])
    return net.bytes([x], [y], first)


def wide(seed: int = 0) -> bytes:
    """int16 activations, int64 biases: CONV_2D, DEPTHWISE_CONV_2D, ADD, MAX_POOL_2D, TANH, MUL, AVERAGE_POOL_2D,
    FULLY_CONNECTED, SOFTMAX, QUANTIZE."""
    rng, net = np.random.default_rng(seed), Tflite()

    def tensor(shape: list[int], scale: float) -> int:
        return net.tensor(shape, "int16", scale)

    def bias(n: int, scale: np.ndarray | float) -> int:
        return net.constant(rng.integers(-(2**22), 2**22, n).astype(np.int64), scale)

    x, image = tensor([1, 6, 6, 2], 1e-4), [1, 6, 6, 4]
    steps = 0.01 * rng.uniform(0.5, 1, 4)
    a, d, s = tensor(image, 3e-4), tensor(image, 4e-4), tensor(image, 5e-4)
    w = net.constant(_weights(rng, 4, 3, 3, 2), steps, 0, 0)
    net.operator("CONV_2D", [x, w, bias(4, 1e-4 * steps)], [a], "Conv2DOptions", CONV)
    w = net.constant(_weights(rng, 1, 3, 3, 4), steps, 0, 3)
    options = {**CONV, "activation": 0, "depth_multiplier": 1}
    net.operator("DEPTHWISE_CONV_2D", [a, w, bias(4, 3e-4 * steps)], [d], "DepthwiseConv2DOptions", options)
    net.operator("ADD", [a, d], [s], "AddOptions", {"activation": 0})
    pool = {"padding": 0, "stride_w": 1, "stride_h": 1, "filter_width": 3, "filter_height": 3, "activation": 0}
    most = tensor(image, 5e-4)
    net.operator("MAX_POOL_2D", [s], [most], "Pool2DOptions", pool)
    bent, product, mean = tensor(image, 2.0**-15), tensor(image, 3e-4), tensor([1, 3, 3, 4], 3e-4)
    net.operator("TANH", [most], [bent])
    net.operator("MUL", [bent, d], [product], "MulOptions", {"activation": 0})
    net.operator("AVERAGE_POOL_2D", [product], [mean], "Pool2DOptions", {**pool, "stride_w": 2, "stride_h": 2})
    y, z, q = tensor([1, 5], 2.0**-12), tensor([1, 5], 2.0**-15), net.tensor([1, 5], scale=1 / 256, zero=-128)
    w = net.constant(_weights(rng, 5, 36), 0.02)
    net.operator("FULLY_CONNECTED", [mean, w, bias(5, 6e-6)], [y], "FullyConnectedOptions", {"activation": 0})
    net.operator("SOFTMAX", [y], [z], "SoftmaxOptions", {"beta": 1.0})
    net.operator("QUANTIZE", [z], [q])
    return net.bytes([x], [z, q])


def wide_moves(seed: int = 2) -> bytes:
    """int16 that moves between layers: CONV_2D, TRANSPOSE, CONV_2D, CONCATENATION, SPLIT, ADD, RESIZE_NEAREST_NEIGHBOR,
    TRANSPOSE_CONV."""
    rng, net = np.random.default_rng(seed), Tflite()

    def tensor(*shape: int, scale: float = 2e-4) -> int:
        return net.tensor(list(shape), "int16", scale)

    def weights(cout: int, cin: int, scale: float) -> tuple[int, int]:
        w = net.constant(rng.integers(-127, 128, (cout, 3, 3, cin)).astype(np.int8), 0.01)
        return w, net.constant(rng.integers(-1000, 1000, cout).astype(np.int64), scale * 0.01)

    x, a, b, c = tensor(1, 4, 6, 2, scale=1e-4), tensor(1, 4, 6, 3), tensor(1, 6, 4, 3), tensor(1, 6, 4, 3)
    net.operator("CONV_2D", [x, *weights(3, 2, 1e-4)], [a], "Conv2DOptions", {**CONV, "activation": 0})
    net.operator("TRANSPOSE", [a, net.constant(numbers(0, 2, 1, 3))], [b])
    net.operator("CONV_2D", [b, *weights(3, 3, 2e-4)], [c], "Conv2DOptions", {**CONV, "activation": 0})
    both, e, f = tensor(1, 6, 4, 6), tensor(1, 6, 4, 3), tensor(1, 6, 4, 3)
    net.operator("CONCATENATION", [b, c], [both], "ConcatenationOptions", {"axis": -1, "activation": 0})
    net.operator("SPLIT", [net.constant(numbers(3)[0]), both], [e, f], "SplitOptions", {"num_splits": 2})
    s, large, y = tensor(1, 6, 4, 3, scale=3e-4), tensor(1, 12, 8, 3, scale=3e-4), tensor(1, 24, 16, 2, scale=6e-4)
    net.operator("ADD", [e, f], [s], "AddOptions", {"activation": 0})
    net.operator(
        "RESIZE_NEAREST_NEIGHBOR", [s, net.constant(numbers(12, 8))], [large], "ResizeNearestNeighborOptions", {}
    )
    w, bias = weights(2, 3, 3e-4)
    strides = {"padding": 0, "stride_w": 2, "stride_h": 2, "activation": 0}
    net.operator(
        "TRANSPOSE_CONV", [net.constant(numbers(1, 24, 16, 2)), w, large, bias], [y], "TransposeConvOptions", strides
    )
    return net.bytes([x], [y])


def sums(dtype: str, grid: dict[str, float], owner: Tflite, seed: int) -> Tflite:
    """A graph: (a, b) -> (relu(a + b + c), a), c a constant of its own."""
    net, c = owner.graph(), np.random.default_rng(seed).integers(-20, 20, (1, 6))
    a, b, s, t, y = (net.tensor([1, 6], dtype, **grid) for _ in range(5))
    net.operator("ADD", [a, b], [s], "AddOptions", {"activation": 0})
    net.operator("ADD", [s, net.constant(c.astype(dtype), *grid.values())], [t], "AddOptions", {"activation": 0})
    net.operator("RELU", [t], [y])
    net.ends = ((a, b), (y, a))
    return net


def composites(dtype: str = "int8") -> bytes:
    """x, x -> outer; outer computes (a, b) by the sums twice."""
    net, grid = Tflite(), {"scale": 0.05, "zero": 3} if dtype == "int8" else {}
    x, y, z = (net.tensor([1, 6], dtype, **grid) for _ in range(3))
    inner, outer = sums(dtype, grid, net, 1), net.graph()
    a, b, s, t, u, v = (outer.tensor([1, 6], dtype, **grid) for _ in range(6))
    outer.operator("STABLEHLO_COMPOSITE", [a, b], [s, t], graph=1)
    outer.operator("STABLEHLO_COMPOSITE", [s, t], [u, v], graph=1)
    outer.ends = ((a, b), (u, v))
    net.operator("STABLEHLO_COMPOSITE", [x, x], [y, z], graph=2)
    return net.bytes([x], [y, z], inner, outer)


NETS: dict[str, Callable[[], bytes]] = {
    "composites": composites,
    "classifier": classifier,
    "moves": moves,
    "svdf": svdf,
    "svdf of rank 2": lambda: svdf(rank=2),
    "lstm": lstm,
    "coupled lstm": lambda: lstm(coupled=True),
    "int8 lstm": lstm8,
    "dynamic": dynamic,
    "variables": stream,
    "speech": speech,
    "int16": wide,
    "int16 moves": wide_moves,
    "int16 lstm": Layer(time=2, units=4, inputs=3, last=True).content,
}
