"""Operators that move elements: each ONNX form against ONNX Runtime, whole networks, shared scales."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, assert_same, core, float_outputs, ops, session, single
from onnx import TensorProto

from mica.compile import compile_file
from mica.errors import Unsupported
from mica.format.values import dequantise_output
from mica.ir.graph import Quant
from mica.ir.strided_copy import StridedCopy, as_axis_map, axis_indices, compose, simplify
from mica.quantise.calibrate import Range
from mica.quantise.params import choose_quants, from_range
from mica.run.host import HostRunner

I64 = np.int64
MIN = np.iinfo(I64).min


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


def becomes(net: Net, folder: Path, expected: list[str]) -> None:
    """The graph has the expected steps, in any order, and the network still does the same."""
    g = core(net, folder)
    assert sorted(ops(g)) == sorted(expected)
    assert_same(net, g)


SLICES = {
    "opset 9": single("Slice", 3, 4, 5, opset=9, starts=[1, -3], ends=[3, 100], axes=[0, 2]),
    "opset 9 all axes": single("Slice", 3, 4, opset=9, starts=[1, 0], ends=[2, -1]),
    "steps": single("Slice", 7, 9, inputs=[ints(1, 8), ints(6, 0), ints(0, 1), ints(2, -3)]),
    "to the first, backwards": single("Slice", 5, inputs=[ints(-1), ints(MIN), ints(0), ints(-1)]),
    "out of range": single("Slice", 5, 4, inputs=[ints(-99, 99), ints(99, -99), ints(0, 1), ints(1, -1)]),
    "negative axes": single("Slice", 1, 5, 4, inputs=[ints(1), ints(3), ints(-2)]),
    "every dimension of six": single(
        "Slice", 2, 3, 2, 3, 2, 3, inputs=[ints(*[0] * 6), ints(*[-1] * 6), ints(*range(6))]
    ),
    "all of it": single("Slice", 5, 4, inputs=[ints(0), ints(5)]),
}


@pytest.mark.parametrize("net", SLICES.values(), ids=SLICES)
def test_slice(tmp_path: Path, net: Net) -> None:
    g = core(net, tmp_path)
    assert set(ops(g)) <= {"Remap"} and len(ops(g)) <= 1
    assert_same(net, g)


@pytest.mark.parametrize(
    ("opset", "attrs", "split", "n"),
    [
        (11, {"axis": 1, "split": [2, 1, 3]}, None, 3),
        (11, {"axis": -1}, None, 2),
        (13, {"axis": 1}, [4, 2], 2),
        (13, {}, None, 4),
        (18, {"axis": 1, "num_outputs": 4}, None, 4),  # 7 elements: 2, 2, 2, 1
        (18, {"axis": 0, "num_outputs": 3}, None, 3),
    ],
)
def test_split(tmp_path: Path, opset: int, attrs: dict[str, Any], split: list[int] | None, n: int) -> None:
    net = Net(opset)
    more = [net.const(ints(*split))] if split else []
    outputs = [f"y{k}" for k in range(n)]
    shape = [5 if attrs.get("num_outputs") == 3 else 4, 7 if attrs.get("num_outputs") == 4 else 6, 2]
    net.add("Split", net.input(shape), *more, outputs=outputs, **attrs)
    for y in outputs:
        net.output(y)
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize(
    ("shape", "target"), [((3, 1), (3, 4)), ((3, 1), (2, 1, 6)), ((), (2, 3)), ((2, 3), (1, 1)), ((1, 4, 1), (3, 1, 5))]
)
def test_expand(tmp_path: Path, shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    net = single("Expand", *shape, inputs=[ints(*target)])
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize("repeats", [(1, 1, 1), (2, 1, 3), (3, 2, 2)])
def test_tile(tmp_path: Path, repeats: tuple[int, ...]) -> None:
    net = single("Tile", 2, 3, 4, inputs=[ints(*repeats)])
    assert_same(net, core(net, tmp_path))


def test_tile_of_six_dimensions_takes_two_steps(tmp_path: Path) -> None:
    """Twelve digits: more than one step can count, so the quantiser makes several."""
    net = single("Tile", 2, 2, 2, 2, 2, 2, inputs=[ints(2, 2, 2, 2, 2, 2)])
    assert_same(net, core(net, tmp_path))
    compiled = compile_file(net.save(tmp_path))
    assert {s.kernel for s in compiled.model.steps} == {"move_s8"} and len(compiled.model.steps) > 1


PADS: list[tuple[str, list[int], list[int], dict[str, Any]]] = [
    ("constant", [3, 4], [1, 0, 2, 3], {}),
    ("constant", [1, 2, 4, 5], [0, 1, 2, 3, 0, 0, 1, 0], {}),
    ("constant", [5, 4], [-1, 2, 1, -2], {}),
    ("constant", [5], [-2, -1], {}),
    ("edge", [3, 4], [1, 2, 5, 6], {}),
    ("edge", [1, 4, 5, 2], [0, 1, 2, 0, 0, 3, 1, 0], {}),
    ("reflect", [3, 4], [2, 3, 1, 0], {}),
    ("reflect", [3], [2, 2], {}),
    ("reflect", [4, 5], [-1, 1, 2, 1], {}),
]


@pytest.mark.parametrize(("mode", "shape", "pads", "more"), PADS)
@pytest.mark.parametrize("opset", [10, 13, 18])
def test_pad(tmp_path: Path, opset: int, mode: str, shape: list[int], pads: list[int], more: dict[str, Any]) -> None:
    net = Net(opset)
    x = net.input(shape)
    if opset == 10:
        net.output(net.add("Pad", x, pads=pads, mode=mode, value=0.5, **more))
    else:
        net.output(net.add("Pad", x, net.const(ints(*pads)), net.const(0.5), mode=mode, **more))
    assert_same(net, core(net, tmp_path))


def test_pad_reflects_back_and_forth(tmp_path: Path) -> None:
    """ONNX Runtime refuses such a padding; ONNX's own evaluator, which uses numpy, accepts it."""
    net = single("Pad", 3, inputs=[ints(7, 8)], mode="reflect")
    g = core(net, tmp_path)
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(float_outputs(g, {"x": x})[g.outputs[0]], np.pad(x, (7, 8), "reflect"))


def test_pad_axes_and_wrap(tmp_path: Path) -> None:
    net = Net(19)
    y = net.add("Pad", net.input([2, 4, 5]), net.const(ints(1, 2, 3, 1)), "", net.const(ints(-1, 1)), mode="wrap")
    net.output(net.add("Pad", y, net.const(ints(0, 7, 9, 0, 8, 9)), mode="wrap"))
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize("n", [1, 2, 4, 5, 11])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(tmp_path: Path, n: int, axis: int) -> None:
    net = Net()
    shapes = [[2, 3, 4] for _ in range(n)]
    for k, shape in enumerate(shapes):
        shape[axis] = 1 + k % 3
    net.output(net.add("Concat", *(net.input(s, f"x{k}") for k, s in enumerate(shapes)), axis=axis))
    assert_same(net, core(net, tmp_path))


def test_concat_with_constants(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 3])
    net.output(net.add("Concat", net.random(1, 2), x, net.const(np.full((1, 1), 0.25, np.float32)), axis=1))
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize(
    ("shape", "axis", "indices", "expected"),
    [
        ((5, 4), 0, 2, "Remap"),
        ((5, 4), 1, -1, "Remap"),
        ((5, 4), 0, [1, 2, 3], "Remap"),
        ((5, 4), 1, [3, 1], "Remap"),
        ((2, 6, 3), 1, [0, 3, 1, 4, 2, 5], "Remap"),  # a channel shuffle
        ((2, 6, 3), 1, [5, 0, 0, 2], "Gather"),
        ((2, 6, 3), -2, [[5, 0], [-6, 2]], "Gather"),
        ((4,), 0, [[[3, 0]], [[1, 1]]], "Gather"),
    ],
)
def test_gather(tmp_path: Path, shape: tuple[int, ...], axis: int, indices: Any, expected: str) -> None:
    net = single("Gather", *shape, inputs=[np.array(indices, I64)], axis=axis)
    becomes(net, tmp_path, [expected])


@pytest.mark.parametrize(
    "net",
    [
        single("GatherElements", 3, 4, inputs=[np.array([[1, 2, 0], [-1, 0, 0]])], axis=1),
        single("GatherND", 2, 3, 4, inputs=[np.array([[[0, 1]], [[1, -1]]])]),
        single("GatherND", 2, 3, 4, inputs=[np.array([[1], [0]])], batch_dims=1),
        single("ReverseSequence", 4, 3, 2, inputs=[ints(2, 4, 1)], batch_axis=1, time_axis=0),
        single("Trilu", 2, 4, 5, inputs=[np.array(1)]),
        single("Trilu", 4, 3, upper=0),
        single("ScatterND", 4, 3, inputs=[np.array([[1], [3]]), np.ones((2, 3), np.float32)]),
        single("ScatterElements", 3, 3, inputs=[np.array([[1, 0, 2]]), np.ones((1, 3), np.float32)], axis=0),
        single("DepthToSpace", 1, 12, 3, 2, blocksize=2),
        single("DepthToSpace", 2, 18, 2, 3, blocksize=3, mode="CRD"),
        single("SpaceToDepth", 1, 3, 4, 6, blocksize=2),
        single("SpaceToDepth", 2, 1, 6, 3, blocksize=3),
    ],
    ids=lambda net: net.nodes[-1].op_type,
)
def test_picks(tmp_path: Path, net: Net) -> None:
    assert_same(net, core(net, tmp_path))


def test_where_with_a_constant_condition(tmp_path: Path) -> None:
    """A causal mask: masked scores are far below all others, and do not widen the scale."""
    net = Net()
    x = net.input([1, 1, 5, 5])
    masked = net.add("Where", net.const(np.tril(np.ones((5, 5), bool))), x, net.const(-1e9))
    net.output(net.add("Softmax", masked, axis=-1))
    g = core(net, tmp_path)
    compiled = compile_file(net.save(tmp_path))
    runner = HostRunner(compiled.data)
    s = session(net.model())
    for feeds in net.samples(4):
        expected = s.run(None, feeds)[0]
        assert np.abs(runner.predict(feeds["x"][None])[0] - expected).max() < 0.08
    assert_same(net, g, 5e-4)  # what a mask leaves out is e**-8 of a row in float (passes/masks.py), and 0 in int8


def test_scatter_where_both_are_computed(tmp_path: Path) -> None:
    net = Net()
    x, u = net.input([1, 6]), net.input([1, 2], "u")
    net.output(net.add("ScatterElements", x, net.const(np.array([[4, 0]])), u, axis=1))
    assert_same(net, core(net, tmp_path))


RESIZES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "nearest x2": ((1, 2, 3, 4), {"scales": (1, 1, 2, 2)}),
    "nearest x3, asymmetric": (
        (1, 2, 3, 4),
        {"scales": (1, 1, 3, 2), "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "nearest to sizes": ((1, 2, 4, 5), {"sizes": (1, 2, 7, 3)}),
    "nearest down": ((1, 1, 8, 6), {"scales": (1, 1, 0.5, 0.5)}),
    "nearest of channels": ((1, 2, 3), {"scales": (1, 2.5, 1)}),
    "linear x2": ((1, 3, 4, 5), {"scales": (1, 1, 2, 2), "mode": "linear"}),
    "linear align_corners": (
        (1, 3, 4, 5),
        {"sizes": (1, 3, 7, 9), "mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "linear pytorch": (
        (1, 2, 5, 4),
        {"sizes": (1, 2, 1, 7), "mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    ),
    "linear down": ((1, 2, 8, 9), {"scales": (1, 1, 0.6, 0.4), "mode": "linear"}),
    "linear 1-D": ((1, 4, 6), {"scales": (1, 1, 1.5), "mode": "linear"}),
    "linear, last but channels": ((1, 4, 5, 3), {"scales": (1, 2, 2, 1), "mode": "linear"}),
    "linear of three axes": ((1, 1, 3, 4, 2), {"scales": (1, 1, 2, 2, 2), "mode": "linear"}),
    "cubic x2": ((1, 2, 4, 5), {"scales": (1, 1, 2, 2), "mode": "cubic"}),
    "cubic, other coefficient": ((1, 1, 6, 6), {"scales": (1, 1, 0.7, 1.3), "mode": "cubic", "cubic_coeff_a": -0.5}),
    "cubic, nothing from outside": ((1, 1, 5, 4), {"scales": (1, 1, 2, 2), "mode": "cubic", "exclude_outside": 1}),
}


@pytest.mark.parametrize("name", RESIZES)
def test_resize(tmp_path: Path, name: str) -> None:
    shape, attrs = RESIZES[name]
    attrs = dict(attrs)
    net = Net(19)
    scales, sizes = attrs.pop("scales", None), attrs.pop("sizes", None)
    given = ["", net.const(np.array(scales, np.float32))] if scales else ["", "", net.const(ints(*sizes))]
    net.output(net.add("Resize", net.input(shape), *given, **attrs))
    assert_same(net, core(net, tmp_path), tolerance=2e-5)


@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(tmp_path: Path, opset: int, mode: str) -> None:
    op = "Upsample" if opset == 9 else "Resize"
    net = single(op, 1, 2, 3, 4, opset=opset, inputs=[np.array([1, 1, 2, 3], np.float32)], mode=mode)
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            single(
                *("Resize", 1, 1, 4, 4),
                inputs=[np.array([0, 0, -1, 0, 1, 1, 2, 1], np.float32), np.float32([]), ints(1, 1, 3, 3)],
                coordinate_transformation_mode="tf_crop_and_resize",
            ),
            "reaches outside the input",
        ),
        (
            single(
                *("Resize", 1, 1, 4, 4),
                inputs=[np.float32([]), np.array([1, 1, 2, 2], np.float32)],
                mode="cubic",
                cubic_coeff_a=-3.0,
            ),
            "overshoot",
        ),
        (
            single("ScatterND", 4, inputs=[np.array([[1], [3]]), np.ones(2, np.float32)], opset=18, reduction="mul"),
            "reduction",
        ),
    ],
    ids=["roi", "cubic", "scatter"],
)
def test_refusals(tmp_path: Path, net: Net, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        compile_file(net.save(tmp_path))


# Networks: transposes cancel across operators that move elements


def unet() -> Net:
    net = Net(17)
    a = net.add("Relu", net.conv(net.input([1, 3, 16, 16]), 3, 8, pads=[1, 1, 1, 1]))
    b = net.add("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    b = net.add("Relu", net.conv(b, 8, 16, pads=[1, 1, 1, 1]))
    up = net.add("Resize", b, "", net.const(np.array([1, 1, 2, 2], np.float32)), mode="linear")
    y = net.add("Concat", a, up, axis=1)
    y = net.add("Relu", net.conv(y, 24, 8, pads=[1, 1, 1, 1]))
    net.output(net.add("Sigmoid", net.conv(y, 8, 1, 1)))
    return net


def yolo() -> Net:
    """Route and reorg, as in YOLOv2, then the head's split and sigmoid as in YOLOv3."""
    net = Net(17)
    a = net.add("LeakyRelu", net.conv(net.input([1, 3, 16, 16]), 3, 8, pads=[1, 1, 1, 1]), alpha=0.1)
    b = net.add("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    b = net.add("LeakyRelu", net.conv(b, 8, 8, pads=[1, 1, 1, 1]), alpha=0.1)
    reorg = net.add("Reshape", a, net.const(ints(1, 8, 8, 2, 8, 2)))
    reorg = net.add("Transpose", reorg, perm=[0, 3, 5, 1, 2, 4])
    reorg = net.add("Reshape", reorg, net.const(ints(1, 32, 8, 8)))
    y = net.conv(net.add("Concat", b, reorg, axis=1), 40, 8, 1)
    left, _ = net.add("Split", y, outputs=["left", "right"], axis=1), None
    net.output(net.add("Concat", net.add("Sigmoid", left), net.add("Neg", "right"), axis=1))
    return net


def focus() -> Net:
    """The first layer of YOLOv5, and its spatial pyramid."""
    net = Net(17)
    x = net.input([1, 3, 16, 16])

    def every_second(x: str, begin: int, axis: int) -> str:
        return net.add("Slice", x, *(net.const(ints(v)) for v in (begin, 99, axis, 2)))

    parts = [every_second(every_second(x, i, 2), j, 3) for j in (0, 1) for i in (0, 1)]
    a = net.add("Relu", net.conv(net.add("Concat", *parts, axis=1), 12, 8, pads=[1, 1, 1, 1]))
    pools = [net.add("MaxPool", a, kernel_shape=[k, k], pads=[k // 2] * 4) for k in (3, 5)]
    y = net.add("Relu", net.conv(net.add("Concat", a, *pools, axis=1), 24, 8, 1))
    padded = net.add("Pad", y, net.const(ints(0, 0, 1, 1, 0, 0, 1, 1)), mode="reflect")
    net.output(net.conv(padded, 8, 4))
    return net


def shuffle() -> Net:
    """A ShuffleNet block: channel split, branch, concat, channel shuffle by reshape and transpose."""
    net = Net(17)
    x = net.add("Relu", net.conv(net.input([1, 3, 8, 8]), 3, 8, pads=[1, 1, 1, 1]))
    net.add("Split", x, outputs=["p", "q"], axis=1)
    b = net.add("Relu", net.conv("q", 4, 4, pads=[1, 1, 1, 1]))
    y = net.add("Concat", "p", b, axis=1)
    y = net.add("Reshape", y, net.const(ints(1, 2, 4, 8, 8)))
    y = net.add("Transpose", y, perm=[0, 2, 1, 3, 4])
    y = net.add("Reshape", y, net.const(ints(1, 8, 8, 8)))
    net.output(net.conv(y, 8, 4, 1))
    return net


def audio() -> Net:
    """1-D: upsampling, concat along channels, a slice in time."""
    net = Net(17)
    a = net.add("Relu", net.conv(net.input([1, 2, 16]), 2, 4, [3], strides=[2], pads=[1, 1]))
    up = net.add("Resize", a, "", net.const(np.array([1, 1, 2], np.float32)), mode="nearest")
    b = net.add("Relu", net.conv("x", 2, 4, [3], pads=[1, 1]))
    y = net.add("Concat", up, b, axis=1)
    y = net.add("Slice", y, net.const(ints(2)), net.const(ints(-2)), net.const(ints(2)))
    net.output(net.conv(y, 8, 2, [3]))
    return net


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (unet, ["Conv2d"] * 4 + ["MaxPool2d", "ResizeLinear", "Concat", "Unary", "Transpose"]),
        (yolo, ["Conv2d"] * 3 + ["Unary"] * 4 + ["MaxPool2d", "StridedCopy"] + ["Concat", "Remap", "Transpose"] * 2),
        (
            focus,
            ["Conv2d"] * 3 + ["StridedCopy"] * 4 + ["Concat"] * 2 + ["MaxPool2d"] * 2 + ["Pad"] + ["Transpose"] * 2,
        ),
        (shuffle, ["Conv2d"] * 3 + ["Remap"] * 2 + ["Concat", "StridedCopy"] + ["Transpose"] * 2),
        (audio, ["Conv2d"] * 3 + ["Remap"] * 2 + ["Concat"] + ["Transpose"] * 2),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_transposes_cancel(tmp_path: Path, make: Any, expected: list[str]) -> None:
    """At most one at each end. (A transpose of one channel, as behind U-Net's last layer, is none.)"""
    net = make()
    g = core(net, tmp_path)
    found = ops(g)
    assert found.count("Transpose") <= 2
    assert_same(net, g)
    if found.count("Transpose") != expected.count("Transpose"):
        expected = [op for op in expected if op != "Transpose"] + ["Transpose"] * found.count("Transpose")
    assert sorted(found) == sorted(expected)


# Copies in a row


def random_move(rng: random.Random, shape: list[int]) -> tuple[StridedCopy, np.ndarray, list[int]]:
    """A move of an array of `shape`, its effect on the flat indices, and the shape of its result."""
    at = np.arange(math.prod(shape)).reshape(shape)
    kind = rng.choice(("transpose", "slice", "repeat", "reshape", "reverse"))
    if kind == "transpose":
        at = at.transpose(rng.sample(range(len(shape)), len(shape)))
    elif kind == "slice":
        axis = rng.randrange(len(shape))
        at = np.take(at, range(rng.randrange(shape[axis]), shape[axis], rng.randint(1, 2)), axis)
    elif kind == "repeat":
        axis = rng.randrange(len(shape))
        at = np.repeat(at, 2, axis) if rng.random() < 0.5 else np.concatenate([at, at], axis)
    elif kind == "reverse":
        at = np.flip(at, rng.randrange(len(shape)))
    elif at.size % 2 == 0:
        at = at.reshape(2, at.size // 2) if rng.random() < 0.5 else at.reshape(at.size // 2, 2)
    pattern = as_axis_map(at.reshape(-1))
    assert pattern is not None
    return simplify(StridedCopy(*pattern)), at, list(at.shape)


def test_composition_equals_one_behind_the_other() -> None:
    done = 0
    for seed in range(500):
        rng = random.Random(seed)
        shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
        try:
            first, at, shape2 = random_move(rng, shape)
            second, at2, _ = random_move(rng, shape2)
        except AssertionError:  # a repetition of a reversal may have no pattern
            continue
        both = compose(first, second)
        if both is not None:
            expected = at.reshape(-1)[at2.reshape(-1)]
            np.testing.assert_array_equal(axis_indices((both.begin, both.places or ((1, 0),))), expected, str(seed))
            done += 1
    assert done > 350


def test_patterns() -> None:
    for indices in ([4], [0, 0], [3, 1], [5, 4, 3], [0, 0, 1, 1, 2, 2], [0, 1, 0, 1], [0, 3, 1, 4, 2, 5], [7, 7, 5, 5]):
        pattern = as_axis_map(indices)
        assert pattern is not None, indices
        np.testing.assert_array_equal(axis_indices(pattern), indices)
    for indices in ([0, 1, 3], [0, 0, 1], [2, 0, 1, 0], [0, 1, 2, 0, 1]):
        assert as_axis_map(indices) is None, indices


# Scales


def quants(net: Net, folder: Path, ranges: dict[str, Range]) -> dict[str, Quant]:
    g = core(net, folder)
    names = [*g.inputs, *(o for n in g.nodes for o in n.outputs)]
    return choose_quants(g, {name: ranges.get(name, Range(-1.0, 1.0)) for name in names})


def two_inputs(*joined: str) -> Net:
    net = Net()
    net.input([1, 4], "a")
    net.input([1, 4], "b")
    net.output(net.add("Concat", *(joined or ("a", "b")), axis=1, outputs=["y"]))
    return net


def test_concat_gives_all_one_scale(tmp_path: Path) -> None:
    q = quants(two_inputs(), tmp_path, {"a": Range(-1, 3), "b": Range(0, 5)})
    assert q["a"] == q["b"] == q["y"] == from_range(Range(-1, 5))


def test_concat_alone_takes_any_range(tmp_path: Path) -> None:
    """Nobody else reads the small one, and in the output it has the large scale anyway."""
    q = quants(two_inputs(), tmp_path, {"a": Range(0, 0.01), "b": Range(0, 5)})
    assert q["a"] == q["b"] == q["y"]


def test_concat_leaves_a_small_range_that_others_read(tmp_path: Path) -> None:
    net = two_inputs()
    net.output(net.add("Neg", "a"))
    ranges = {"a": Range(0, 0.5), "b": Range(0, 5)}
    q = quants(net, tmp_path, ranges)
    assert q["a"] == from_range(ranges["a"]) and q["b"] == q["y"] == from_range(ranges["b"])
    kernels = [s.kernel for s in compile_file(net.save(tmp_path), small_and_large(net)).model.steps]
    assert kernels == ["lut_s8"]  # Neg; the parts of the output have a scale each
    q = quants(net, tmp_path, {"a": Range(0, 2), "b": Range(0, 5)})
    assert q["a"] == q["y"]  # within four times: not worth a step


def small_and_large(net: Net) -> dict[str, np.ndarray]:
    return {"a": np.full((2, 1, 4), 0.8, np.float32), "b": np.full((2, 1, 4), 5, np.float32)}


def test_concat_of_sigmoids_keeps_their_scale(tmp_path: Path) -> None:
    net = Net()
    a, b = net.input([1, 4], "a"), net.input([1, 4], "b")
    net.output(net.add("Concat", net.add("Sigmoid", a), net.add("Sigmoid", b), axis=1, outputs=["y"]))
    q = quants(net, tmp_path, {})
    assert q["y"] == Quant(1 / 256, -128)


def test_pad_makes_room_for_its_value(tmp_path: Path) -> None:
    net = single("Pad", 1, 4, inputs=[ints(0, 1, 0, 1), np.float32(2)])
    g = core(net, tmp_path)
    q = choose_quants(g, {"x": Range(-1, 1), g.outputs[0]: Range(-1, 2)})
    assert q["x"] == q[g.outputs[0]] == from_range(Range(-1, 2))
    far = single("Pad", 1, 4, inputs=[ints(0, 1, 0, 1), np.float32(-1e30)])
    g = core(far, tmp_path)
    q = choose_quants(g, {"x": Range(-1, 1), g.outputs[0]: Range(-1e30, 1)})
    assert q["x"].scale < 20 / 255


def test_views_through_a_concat_stay_exact(tmp_path: Path) -> None:
    """Movement only: every output is one of the input's integers."""
    net = Net()
    x = net.input([1, 4, 6, 3])
    backwards = net.add("Slice", x, *(net.const(ints(v)) for v in (5, MIN, 2, -1)))
    y = net.add("Concat", x, backwards, axis=2)
    y = net.add("Pad", y, net.const(ints(0, 0, 1, 0, 0, 1, 0, 0)), mode="edge")
    net.output(net.add("Tile", y, net.const(ints(1, 1, 1, 2))))
    compiled = compile_file(net.save(tmp_path))
    runner = HostRunner(compiled.data)
    s = session(net.model())
    t = compiled.model.tensors[compiled.model.inputs[0]]
    rng = np.random.default_rng(0)
    q = rng.integers(-128, 128, t.dims).astype(np.int8)
    (found,) = runner.run([[q]])[0]
    np.testing.assert_array_equal(found, s.run(None, {"x": q.astype(np.float32)})[0].astype(np.int8))


# Tables looked up by an input


@pytest.mark.parametrize("dtype", ["INT64", "INT32", "cast"])
@pytest.mark.parametrize("axis", [0, 1])
def test_embedding(tmp_path: Path, dtype: str, axis: int) -> None:
    net = Net()
    x = net.input([1, 7], dtype=TensorProto.FLOAT if dtype == "cast" else getattr(TensorProto, dtype))
    if dtype == "cast":
        x = net.add("Cast", x, to=TensorProto.INT64)
    x = net.add("Unsqueeze", x, net.const(ints(2)))
    table = net.rng.standard_normal((50, 6)).astype(np.float32)
    y = net.add("Gather", net.const(table if axis == 0 else np.ascontiguousarray(table.T)), x, axis=axis)
    net.output(net.add("Flatten", y))
    compiled = compile_file(net.save(tmp_path))
    model = compiled.model
    (i,) = [model.tensors[k] for k in model.inputs]
    assert (i.dtype, i.dims) == ("int32", (1, 7))
    assert model.steps[0].kernel == "embedding_s8"
    words = np.array([[0, 49, 7, 7, -1, 23, 1]])
    out = HostRunner(compiled.data).predict(words[None].astype(np.float32))[0]
    feed = words.astype(np.float32 if dtype == "cast" else getattr(np, dtype.lower()))
    expected = session(net.model()).run(None, {"x": feed})[0]
    half = model.tensors[model.outputs[0]].scale / 2
    np.testing.assert_allclose(out, expected, rtol=0, atol=half * 1.001)
    far = np.array([[10**6, -(10**6), 0, 0, 0, 0, 0]])  # the last and the first row
    assert np.isfinite(HostRunner(compiled.data).predict(far[None].astype(np.float32))).all()


def test_integer_input_that_is_a_number(tmp_path: Path) -> None:
    net = Net()
    x = net.add("Cast", net.input([1, 4], dtype=TensorProto.INT64), to=TensorProto.FLOAT)
    net.output(net.add("MatMul", x, net.random(4, 3)))
    compiled = compile_file(net.save(tmp_path), {"x": np.arange(8, dtype=np.float32).reshape(2, 1, 4)})
    assert [t.dtype for t in compiled.model.tensors] == ["int8", "int8"]


def test_input_that_is_both(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4], dtype=TensorProto.INT64)
    net.output(net.add("Gather", net.random(9, 3), x, name="words"))
    net.output(net.add("Cast", x, to=TensorProto.FLOAT))
    compiled = compile_file(net.save(tmp_path))  # the tokens themselves are a table's rows, too
    with HostRunner(compiled.data) as host:
        (y,) = host.run([[np.array([[0, 3, 8, 5]], np.int32)]])
        np.testing.assert_array_equal(
            dequantise_output(y[1], host.model.tensors[host.model.outputs[1]]), [[0, 3, 8, 5]]
        )


def test_computed_indices(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4], dtype=TensorProto.INT64)
    x = net.add("Slice", x, *(net.const(ints(v)) for v in (0, 2, 1)))
    net.output(net.add("Gather", net.random(9, 3), x))
    with pytest.raises(Unsupported, match="indices that are computed"):
        compile_file(net.save(tmp_path))
