"""The passes: for each rewrite the operators before and after, and the same numbers as ONNX Runtime on the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, assert_same, core, float_outputs, imported, ops, single
from onnx import helper

from mica.errors import Unsupported
from mica.ir import check
from mica.ir.graph import Graph, Node
from mica.passes import (
    affine,
    common_subexpressions,
    dead_code,
    dense,
    drop_identity,
    fold_affine,
    fold_pad,
    fuse_clip,
    transposes,
)


def becomes(net: Net, folder: Path, expected: list[str], tolerance: float = 1e-5) -> Graph:
    """The whole pipeline: core operators `expected` (without Reshape), and the numbers of ONNX Runtime."""
    g = core(net, folder)
    assert ops(g) == expected, f"\n{g}"
    assert_same(net, g, tolerance)
    return g


def after(net: Net, folder: Path, *passes: Any) -> Graph:
    """The ONNX graph after single passes."""
    g = imported(net, folder)
    for p in passes:
        g = p.run(g)
        check.structure(g, p.__name__)
    return g


def counts(g: Graph) -> dict[str, int]:
    return {op: ops(g).count(op) for op in sorted(set(ops(g)))}


def bn(net: Net, x: str, c: int) -> str:
    """A BatchNormalization with statistics that matter."""
    r = net.rng
    parts = (r.uniform(0.5, 2, c), r.standard_normal(c), r.standard_normal(c), r.uniform(0.1, 3, c))
    return net.add("BatchNormalization", x, *(net.const(p.astype(np.float32)) for p in parts), epsilon=1e-3)


# drop_identity


def test_drop_identity(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4])
    y = net.add("Relu", net.add("Dropout", net.add("Identity", x)))
    net.output(net.add("Cast", net.add("Cast", y, to=10), to=1))
    g = after(net, tmp_path, drop_identity)
    assert ops(g) == ["Relu"]
    assert g.outputs == ["v4"]
    assert g.nodes[0].inputs == ["x"]
    becomes(net, tmp_path, ["Unary"], 1e-3)  # ONNX Runtime really goes through float16


def test_drop_identity_keeps_the_names_of_outputs(tmp_path: Path) -> None:
    """One value, three names, and the input itself: all four are outputs."""
    net = Net()
    x = net.input([1, 4])
    y = net.output(net.add("Relu", x))
    net.output(net.add("Identity", y, outputs=["same"]))
    net.output(net.add("Identity", y, outputs=["again"]))
    net.output(net.add("Dropout", x, outputs=["input too"]))
    net.output(x, [1, 4])
    assert becomes(net, tmp_path, ["Unary"]).outputs == [y, "same", "again", "input too", x]


def test_drop_identity_before_the_output(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Relu", net.input([1, 4]))
    net.add("Tanh", y, outputs=["other"])
    net.output("other")
    net.output(net.add("Identity", y, outputs=["last"]))
    g = becomes(net, tmp_path, ["Unary", "Unary"])
    assert [n.op for n in g.nodes] == ["Unary", "Unary"]  # no Reshape needed


# dense


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, -2.0)])
@pytest.mark.parametrize("c", [None, (), (1,), (3,), (1, 1), (1, 3)])
def test_gemm(tmp_path: Path, trans_b: int, alpha: float, beta: float, c: tuple[int, ...] | None) -> None:
    net = Net()
    b = net.random(*((3, 5) if trans_b else (5, 3)))
    extra = [] if c is None else [net.random(*c)]
    net.output(net.add("Gemm", net.input([2, 5]), b, *extra, transB=trans_b, alpha=alpha, beta=beta))
    assert ops(after(net, tmp_path, dense)) == ["FullyConnected"]
    becomes(net, tmp_path, ["FullyConnected"])


@pytest.mark.parametrize("shape", [(1, 5), (1, 4, 5), (2, 3, 4, 5)])
def test_matmul_and_add(tmp_path: Path, shape: tuple[int, ...]) -> None:
    net = Net()
    y = net.add("MatMul", net.input(shape), net.random(5, 3))
    net.output(net.add("Add", net.random(3), y))
    assert counts(after(net, tmp_path, dense, affine)) == {"Affine": 1, "FullyConnected": 1}
    becomes(net, tmp_path, ["FullyConnected"])


def test_weights_shared_by_two_products(tmp_path: Path) -> None:
    """Folding a scale into one of them must not touch the other."""
    net = Net()
    x, w = net.input([1, 4]), net.random(4, 4)
    y = net.add("Mul", net.add("MatMul", x, w), net.const(3.0))
    net.output(net.add("MatMul", y, w))
    becomes(net, tmp_path, ["FullyConnected", "FullyConnected"])


# affine, fold_affine


def test_batch_norm_folds_into_the_convolution(tmp_path: Path) -> None:
    for bias in (True, False):
        net = Net()
        net.output(bn(net, net.conv(net.input([1, 3, 6, 6]), 3, 4, bias=bias), 4))
        assert counts(after(net, tmp_path, affine)) == {"Affine": 1, "Conv": 1}
        assert ops(after(net, tmp_path, affine, fold_affine)) == ["Conv"]
        becomes(net, tmp_path, ["Conv2d", "Transpose"] if bias is None else ["Transpose", "Conv2d", "Transpose"])


def test_batch_norm_folds_into_depthwise_and_dense(tmp_path: Path) -> None:
    net = Net()
    x = net.conv(net.input([1, 4, 1, 1]), 4, 8, k=1, group=4)
    y = net.add("Flatten", bn(net, x, 8))
    net.output(bn(net, net.add("Gemm", y, net.random(8, 6), net.random(6)), 6))
    becomes(net, tmp_path, ["DepthwiseConv2d", "FullyConnected"])


def test_batch_norm_alone(tmp_path: Path) -> None:
    """In front of a padded convolution it cannot be folded: a 1x1 depthwise convolution, no transpose more."""
    net = Net()
    y = bn(net, net.input([1, 3, 5, 6]), 3)
    net.output(net.conv(y, 3, 4, pads=[1, 1, 1, 1]))
    becomes(net, tmp_path, ["Transpose", "DepthwiseConv2d", "Conv2d", "Transpose"])


def test_batch_norm_after_a_sum(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 3, 5, 5])
    y = net.add("Add", net.conv(x, 3, 4, k=1), net.conv(x, 3, 4, k=1))
    net.output(net.add("Relu", bn(net, y, 4)))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Conv2d", "Add", "DepthwiseConv2d", "Transpose"])


@pytest.mark.parametrize("shape", [(6,), (1, 6), (1, 6, 3), (1, 6, 2, 2), (1, 6, 2, 1, 2), (2, 6, 2, 2)])
def test_batch_norm_of_every_rank(tmp_path: Path, shape: tuple[int, ...]) -> None:
    net = Net(opset=15)
    net.output(bn(net, net.input(shape), 6 if len(shape) > 1 else 1))
    g = core(net, tmp_path)
    assert_same(net, g)


def test_batch_norm_of_a_large_image(tmp_path: Path) -> None:
    """Rows and columns stay apart: their product may be more than a dimension can be."""
    net = Net()
    net.output(bn(net, net.input([1, 2, 300, 300]), 2))
    assert max(d for v in core(net, tmp_path).values.values() for d in v.shape) == 300


def test_batch_norm_of_another_use_is_refused(tmp_path: Path) -> None:
    net = Net(opset=15)
    y = bn(net, net.input([1, 2, 3, 3]), 2)
    net.nodes[-1].attribute.append(helper.make_attribute("training_mode", 1))
    net.nodes[-1].output.extend(["mean", "var"])
    net.output(y, [1, 2, 3, 3])
    net.output("mean", [2])
    with pytest.raises(Unsupported, match=r"model\.eval"):
        core(net, tmp_path)


def test_chain_of_constants_is_one(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 3, 4, 4])
    c = net.random(1, 3, 1, 1)
    y = net.add("Mul", net.add("Add", x, net.const(0.5)), c)
    y = net.add("Sub", net.random(3, 1, 1), net.add("Div", y, net.const(4.0)))
    net.output(net.add("Neg", net.add("Sub", y, net.const(1.0))))
    g = after(net, tmp_path, affine, dead_code)
    assert counts(g) == {"Affine": 1}
    becomes(net, tmp_path, ["Transpose", "DepthwiseConv2d", "Transpose"])


def test_scalar_constants_are_a_table(tmp_path: Path) -> None:
    """Constants of several dimensions, each 1, also become a table."""
    net = Net()
    y = net.add("Mul", net.add("Sub", net.const([2.0]), net.input([1, 3, 4])), net.const([[[-3.0]]]))
    net.output(y)
    becomes(net, tmp_path, ["Unary"])


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_constants_along_every_axis(tmp_path: Path, axis: int) -> None:
    net = Net()
    shape = [2, 3, 4, 5]
    c = net.random(*[d if k == axis else 1 for k, d in enumerate(shape)])
    net.output(net.add("Mul", net.input(shape), c))
    assert "DepthwiseConv2d" in ops(core(net, tmp_path))
    assert_same(net, core(net, tmp_path))


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_scales_behind_a_convolution(tmp_path: Path, channels: int, axis: int) -> None:
    """Only a scale along the channels folds; one channel is no exception."""
    net = Net()
    y = net.conv(net.input([1, 2, 6, 5]), 2, channels, k=1)
    shape = [1, channels, 6, 5]
    net.output(net.add("Mul", y, net.random(*[d if k == axis else 1 for k, d in enumerate(shape)])))
    g = core(net, tmp_path)
    assert ("DepthwiseConv2d" in ops(g)) == (axis != 1)
    assert_same(net, g)


def test_affine_with_two_readers_does_not_fold(tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.input([1, 2, 4, 4]), 2, 3)
    net.output(net.add("Relu", y))
    net.output(net.add("Mul", y, net.const(2.0)))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Unary", "Transpose", "Unary", "Transpose"])


def test_product_of_a_constant_that_is_also_an_output(tmp_path: Path) -> None:
    """Merged chains keep values that others still read."""
    net = Net()
    a = net.output(net.add("Mul", net.input([1, 3]), net.const([1.0, 2.0, 3.0])))
    net.output(net.add("Add", a, net.const([4.0, 5.0, 6.0])))
    becomes(net, tmp_path, ["Features", "DepthwiseConv2d"])


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    ("x", "c"),
    [
        ((1, 3, 4, 4), (1, 3, 4, 4)),
        ((1, 3, 4, 4), (4, 4)),
        ((1, 3, 1, 1), (1, 3, 4, 5)),
        ((3,), (2, 3)),
        ((1, 3), (1, 3)),
    ],
)
def test_sums_with_constants(tmp_path: Path, op: str, swap: bool, x: tuple[int, ...], c: tuple[int, ...]) -> None:
    net = Net()
    operands = [net.input(x), net.random(*c)]
    net.output(net.add(op, *(operands[::-1] if swap else operands)))
    assert_same(net, core(net, tmp_path))


def test_constant_image_behind_a_convolution(tmp_path: Path) -> None:
    """The constant is transposed, not the activation; one that widens its operand is left where it is."""
    net = Net()
    y = net.add("Add", net.conv(net.input([1, 2, 4, 4]), 2, 3, k=1), net.random(1, 3, 4, 4))
    net.output(net.conv(y, 3, 2, k=1))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Add", "Conv2d", "Transpose"])
    net = Net()
    y = net.add("Add", net.conv(net.input([1, 2, 1, 2]), 2, 3, k=1), net.random(1, 3, 4, 2))
    net.output(net.conv(y, 3, 2, k=1))
    assert_same(net, core(net, tmp_path))


# fold_pad


@pytest.mark.parametrize("opset", [10, 11, 18])
def test_pad_folds_into_the_convolution(tmp_path: Path, opset: int) -> None:
    amounts = [0, 0, 1, 2, 0, 0, 3, 0]
    net = Net(opset)
    x = net.input([1, 2, 5, 5])
    if opset < 11:
        y = net.add("Pad", x, pads=amounts)
    elif opset < 18:
        y = net.add("Pad", x, net.const(amounts), net.const(np.float32(0)), mode="constant")
    else:
        y = net.add("Pad", x, net.const([1, 2, 3, 0]), "", net.const([2, -1]))
    net.output(net.conv(y, 2, 3, pads=[1, 0, 0, 1]))
    g = after(net, tmp_path, fold_pad)
    assert ops(g) == ["Conv"]
    assert g.nodes[0].attrs["pads"] == [2, 2, 3, 1]
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Transpose"])


def test_pad_in_front_of_two_convolutions(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Pad", net.input([1, 2, 5, 5]), net.const([0, 0, 1, 1, 0, 0, 1, 1]))
    net.output(net.add("Add", net.conv(y, 2, 3), net.conv(y, 2, 3, auto_pad="VALID")))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Conv2d", "Add", "Transpose"])


@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_pad_folds_into_the_average_pool(tmp_path: Path, ceil_mode: int) -> None:
    """PyTorch exports count_include_pad with such a Pad."""
    net = Net()
    y = net.add("Pad", net.input([1, 2, 6, 6]), net.const([0, 0, 1, 1, 0, 0, 1, 1]))
    net.output(net.add("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=ceil_mode))
    assert ops(after(net, tmp_path, fold_pad)) == ["AveragePool"]
    becomes(net, tmp_path, ["Transpose", "AveragePool2d", "Transpose"])


def test_pad_of_nothing_goes(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Pad", net.input([1, 4]), net.const([0, 0, 0, 0]), mode="reflect")
    net.output(net.add("Relu", y))
    becomes(net, tmp_path, ["Unary"])


@pytest.mark.parametrize(
    ("amounts", "value", "mode", "auto_pad"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], 1.0, "constant", "NOTSET"),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, "reflect", "NOTSET"),
        ([0, 1, 0, 0, 0, 0, 0, 0], 0.0, "constant", "NOTSET"),
        ([0, 0, -1, 1, 0, 0, 1, 1], 0.0, "constant", "NOTSET"),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, "constant", "SAME_UPPER"),
    ],
)
def test_pad_that_no_convolution_takes_over(
    tmp_path: Path, amounts: list[int], value: float, mode: str, auto_pad: str
) -> None:
    net = Net()
    y = net.add("Pad", net.input([1, 2, 5, 5]), net.const(amounts), net.const(value), mode=mode, name="edge")
    net.output(net.conv(y, 2 + amounts[1], 3, auto_pad=auto_pad))
    g = core(net, tmp_path)
    assert "Pad" in ops(g)
    assert_same(net, g)


def test_pad_that_somebody_else_reads(tmp_path: Path) -> None:
    net = Net()
    y = net.output(net.add("Pad", net.input([1, 2, 5, 5]), net.const([0, 0, 1, 1, 0, 0, 1, 1]), name="edge"))
    net.output(net.conv(y, 2, 3))
    g = core(net, tmp_path)
    assert sorted(ops(g)) == ["Conv2d", "Pad", "Transpose", "Transpose"]
    assert_same(net, g)


# fuse_clip


def clip_of(g: Graph, op: str) -> tuple[float | None, float | None]:
    (node,) = [n for n in g.nodes if n.op == op]
    return node.attrs["clip"]


@pytest.mark.parametrize(
    ("opset", "op", "bounds", "expected"),
    [
        (17, "Relu", [], (0.0, None)),
        (17, "Clip", [0.0, 6.0], (0.0, 6.0)),
        (17, "Clip", [None, 1.0], (None, 1.0)),
        (17, "Clip", [-1.0], (-1.0, None)),
        (17, "Clip", [], (None, None)),
        (17, "Clip", [3.0, -1.0], (-1.0, -1.0)),
        (9, "Clip", {"min": 0.0, "max": 6.0}, (0.0, 6.0)),
        (9, "Clip", {"max": 6.0}, (None, 6.0)),
    ],
)
def test_clips_fuse(tmp_path: Path, opset: int, op: str, bounds: Any, expected: tuple) -> None:
    net = Net(opset)
    y = net.conv(net.input([1, 2, 4, 4]), 2, 3)
    if isinstance(bounds, dict):
        net.output(net.add(op, y, **bounds))
    else:
        net.output(net.add(op, y, *("" if b is None else net.const(b) for b in bounds)))
    g = becomes(net, tmp_path, ["Transpose", "Conv2d", "Transpose"])
    assert clip_of(g, "Conv2d") == expected


@pytest.mark.parametrize("source", ["Conv2d", "DepthwiseConv2d", "FullyConnected", "AveragePool2d", "MaxPool2d", "Add"])
def test_every_operator_that_clips(tmp_path: Path, source: str) -> None:
    net = Net()
    x = net.input([1, 4, 4, 4] if source != "FullyConnected" else [1, 4])
    y = {
        "Conv2d": lambda: net.conv(x, 4, 4),
        "DepthwiseConv2d": lambda: net.conv(x, 4, 4, group=4),
        "FullyConnected": lambda: net.add("MatMul", x, net.random(4, 4)),
        "AveragePool2d": lambda: net.add("AveragePool", x, kernel_shape=[2, 2]),
        "MaxPool2d": lambda: net.add("MaxPool", x, kernel_shape=[2, 2]),
        "Add": lambda: net.add("Add", x, x),
    }[source]()
    net.output(net.add("Relu", y))
    g = core(net, tmp_path)
    assert "Unary" not in ops(g)
    assert clip_of(g, source) == (0.0, None)
    assert_same(net, g)


def test_clip_passes_max_pools(tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.input([1, 2, 9, 9]), 2, 3)
    for _ in range(2):
        y = net.add("MaxPool", y, kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    net.output(net.add("Clip", y, net.const(0.0), net.const(1.0)))
    g = becomes(net, tmp_path, ["Transpose", "Conv2d", "MaxPool2d", "MaxPool2d", "Transpose"])
    assert clip_of(g, "Conv2d") == (0.0, 1.0)
    assert all(n.attrs["clip"] == (None, None) for n in g.nodes if n.op == "MaxPool2d")


def test_clip_after_a_max_pool_whose_input_is_shared(tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.input([1, 2, 9, 9]), 2, 3)
    net.output(net.add("Relu", net.add("MaxPool", y, kernel_shape=[2, 2])))
    net.output(net.add("AveragePool", y, kernel_shape=[2, 2]))
    g = core(net, tmp_path)
    assert clip_of(g, "Conv2d") == (None, None)
    assert clip_of(g, "MaxPool2d") == (0.0, None)
    assert "Unary" not in ops(g)
    assert_same(net, g)


def test_clip_with_another_reader_stays(tmp_path: Path) -> None:
    net = Net()
    y = net.add("MatMul", net.input([1, 4]), net.random(4, 4))
    net.output(net.add("Relu", y))
    net.output(net.add("Softmax", y))
    g = core(net, tmp_path)
    assert ops(g) == ["FullyConnected", "Unary", "Softmax"]
    assert clip_of(g, "FullyConnected") == (None, None)
    assert_same(net, g)


def test_clip_of_an_output_stays(tmp_path: Path) -> None:
    net = Net()
    y = net.output(net.add("MatMul", net.input([1, 4]), net.random(4, 4)))
    net.output(net.add("Relu", y))
    becomes(net, tmp_path, ["FullyConnected", "Unary"])


@pytest.mark.parametrize("first", [(None, 0.5), (-0.2, None), (0.3, 0.6), (None, -1.0)])
@pytest.mark.parametrize("second", [(0.0, None), (None, 0.4), (0.7, 0.9), (-0.3, 0.1)])
def test_double_clip(tmp_path: Path, first: tuple, second: tuple) -> None:
    net = Net()
    y = net.add("MatMul", net.input([1, 16]), net.random(16, 64))
    for bounds in (first, second):
        y = net.add("Clip", y, *("" if b is None else net.const(b) for b in bounds))
    net.output(y)
    becomes(net, tmp_path, ["FullyConnected"])


def test_clip_alone(tmp_path: Path) -> None:
    becomes(single("Clip", 1, 9, inputs=[np.float32(-0.5), np.float32(0.5)]), tmp_path, ["Unary"])


def test_clip_through_a_transpose(tmp_path: Path) -> None:
    """tf2onnx puts the transpose between convolution and Relu."""
    net = Net()
    y = net.add("Transpose", net.conv(net.input([1, 2, 4, 4]), 2, 3), perm=[0, 2, 3, 1])
    net.output(net.add("Relu", y))
    becomes(net, tmp_path, ["Transpose", "Conv2d"])


# transposes


def test_network_in_nchw_keeps_one_transpose_at_each_end(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 3, 12, 12])
    y = net.add("Relu", bn(net, net.conv(x, 3, 4, strides=[2, 2], pads=[1, 1, 1, 1]), 4))
    z = net.add("Add", y, net.add("HardSwish", net.conv(y, 4, 4, pads=[1, 1, 1, 1])))
    z = net.add("MaxPool", net.add("LeakyRelu", z), kernel_shape=[2, 2], strides=[2, 2])
    z = net.add("AveragePool", net.add("Sigmoid", z), kernel_shape=[2, 2])
    net.output(net.conv(net.add("Tanh", z), 4, 5, k=1))
    expected = ["Conv2d", "Conv2d", "Unary", "Add", "Unary", "MaxPool2d", "Unary", "AveragePool2d", "Unary", "Conv2d"]
    becomes(net, tmp_path, ["Transpose", *expected, "Transpose"])


def test_network_in_nhwc_keeps_none(tmp_path: Path) -> None:
    """The network is in NHWC, as tf2onnx writes a Keras model: transposes around every layer."""
    net = Net()
    x = net.add("Transpose", net.input([1, 8, 8, 3]), perm=[0, 3, 1, 2])
    y = net.add("Relu", net.conv(x, 3, 4, auto_pad="SAME_UPPER"))
    z = net.add("Transpose", net.conv(y, 4, 4, auto_pad="SAME_LOWER"), perm=[0, 2, 3, 1])
    z = net.add("Add", z, net.add("Transpose", y, perm=[0, 2, 3, 1]))
    net.output(net.add("Softmax", z))
    becomes(net, tmp_path, ["Conv2d", "Conv2d", "Add", "Softmax"])


def test_classifier_in_nchw_keeps_the_first(tmp_path: Path) -> None:
    """Flatten after NCHW: the dense layer's columns are permuted instead."""
    net = Net()
    y = net.add("Relu", net.conv(net.input([1, 3, 6, 6]), 3, 5))
    y = net.add("Flatten", net.add("Dropout", y))
    net.output(net.add("Softmax", net.add("Gemm", net.add("Relu", y), net.random(80, 7), net.random(7))))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "FullyConnected", "Softmax"])


def test_classifier_of_one_channel_keeps_none(tmp_path: Path) -> None:
    """A transpose that only moves ones is a reshape."""
    net = Net()
    y = net.add("GlobalAveragePool", net.conv(net.input([1, 1, 6, 6]), 1, 5))
    net.output(net.add("Gemm", net.add("Flatten", y), net.random(5, 2)))
    becomes(net, tmp_path, ["Conv2d", "AveragePool2d", "FullyConnected"])


def test_flatten_that_others_read_too(tmp_path: Path) -> None:
    net = Net()
    y = net.output(net.add("Flatten", net.conv(net.input([1, 1, 4, 4]), 1, 3)))
    net.output(net.add("MatMul", y, net.random(12, 2)))
    becomes(net, tmp_path, ["Conv2d", "Transpose", "FullyConnected"])


def test_rows_behind_a_transpose_are_not_permuted(tmp_path: Path) -> None:
    """Several rows: the order within one is not all there is to a transpose."""
    net = Net()
    y = net.conv(net.input([1, 2, 4, 4]), 2, 3)
    y = net.add("Reshape", y, net.const([3, 4]))
    net.output(net.add("MatMul", y, net.random(4, 5)))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Transpose", "FullyConnected"])


def test_transposes_compose(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        net = Net()
        y = net.input([2, 3, 4, 5])
        for _ in range(3):
            y = net.add("Transpose", net.add("Neg", y), perm=rng.permutation(4).tolist())
        net.output(y)
        g = core(net, tmp_path)
        assert ops(g).count("Transpose") <= 1
        assert ops(g).count("Unary") <= 3
        assert_same(net, g)


def test_transpose_without_perm_reverses(tmp_path: Path) -> None:
    becomes(single("Transpose", 2, 3, 4), tmp_path, ["Transpose"])


@pytest.mark.parametrize("op", ["Transpose", "Reshape"])
def test_movers_from_input_to_output(tmp_path: Path, op: str) -> None:
    """Nothing to do, and still two names."""
    net = Net()
    x = net.input([1, 3, 4])
    y = net.add(op, x, perm=[0, 1, 2]) if op == "Transpose" else net.add(op, x, net.const([1, 3, 4]))
    net.output(y)
    g = becomes(net, tmp_path, [])
    assert g.inputs == ["x"]
    assert g.outputs == [y]


def test_reshapes_collapse(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Unsqueeze", net.add("Reshape", net.input([1, 3, 4]), net.const([12])), net.const([0, 2]))
    y = net.add("Flatten", net.add("Relu", net.add("Squeeze", y, net.const([0]))), axis=0)
    net.output(y)
    g = becomes(net, tmp_path, ["Unary"])
    assert [n.op for n in g.nodes] == ["Unary", "Reshape"]


def test_reshape_at_the_output_keeps_the_name(tmp_path: Path) -> None:
    net = Net()
    net.add("MatMul", net.input([1, 4]), net.random(4, 6))
    y = net.add("Reshape", "v0", net.const([1, 6]), outputs=["answer"])
    net.output(y)
    g = becomes(net, tmp_path, ["FullyConnected"])
    assert g.outputs == ["answer"]
    assert len(g.nodes) == 1


# lower


@pytest.mark.parametrize("opset", [9, 12, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2])
def test_softmax_on_every_axis(tmp_path: Path, opset: int, axis: int | None) -> None:
    """Before opset 13 all axes from the given one on are one row, and the default axis is 1."""
    net = Net(opset)
    attrs: dict[str, Any] = {} if axis is None else {"axis": axis}
    if opset < 11 and axis is not None:
        attrs = {"axis": axis % 3}
    net.output(net.add("Softmax", net.input([2, 3, 4]), **attrs))
    g = core(net, tmp_path)
    assert "Softmax" in ops(g)
    assert_same(net, g)


def test_softmax_over_the_channels_of_an_image(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Softmax", net.conv(net.input([1, 2, 4, 4]), 2, 3), axis=1))
    becomes(net, tmp_path, ["Transpose", "Conv2d", "Softmax", "Transpose"])


@pytest.mark.parametrize("pads", [[0, 0], [2, 1]])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_one_dimensional_convolution(tmp_path: Path, pads: list[int], group: int) -> None:
    net = Net()
    y = net.conv(net.input([1, 4, 20]), 4, 8, k=[3], group=group, pads=pads, strides=[2], dilations=[2])
    net.output(y)
    becomes(net, tmp_path, ["Transpose", "DepthwiseConv2d" if group == 4 else "Conv2d", "Transpose"])


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_one_dimensional_pools(tmp_path: Path, auto_pad: str) -> None:
    net = Net()
    y = net.conv(net.input([1, 1, 21]), 1, 3, k=[4], auto_pad=auto_pad)
    y = net.add("MaxPool", net.add("Relu", y), kernel_shape=[2], strides=[2])
    y = net.add("AveragePool", y, kernel_shape=[3], pads=[1, 1], count_include_pad=1)
    net.output(net.add("Flatten", net.add("GlobalMaxPool", y)))
    becomes(net, tmp_path, ["Conv2d", "MaxPool2d", "AveragePool2d", "MaxPool2d"])


@pytest.mark.parametrize(
    ("opset", "shape", "axes", "keepdims"),
    [
        (13, (1, 3, 4, 5), [2, 3], 1),
        (13, (1, 3, 4, 5), [-1, -2], 0),
        (13, (1, 4, 5, 3), [1, 2], 0),
        (18, (1, 3, 4, 5), [2, 3], 0),
        (18, (1, 4, 5, 3), [2, 1], 1),
    ],
)
def test_means(tmp_path: Path, opset: int, shape: tuple[int, ...], axes: list[int], keepdims: int) -> None:
    inputs, attrs = ([np.array(axes)], {}) if opset >= 18 else ([], {"axes": axes})
    net = single("ReduceMean", *shape, opset=opset, inputs=inputs, keepdims=keepdims, **attrs)
    g = core(net, tmp_path)
    assert "AveragePool2d" in ops(g)
    assert_same(net, g)


def test_global_pools(tmp_path: Path) -> None:
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        becomes(single(op, 1, 3, 4, 7), tmp_path, ["Transpose", op.removeprefix("Global") + "2d"])


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("LeakyRelu", {}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("HardSigmoid", {}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.6}),
        ("HardSwish", {}),
        ("Neg", {}),
    ],
)
def test_unary(tmp_path: Path, op: str, attrs: dict[str, Any]) -> None:
    becomes(single(op, 3, 40, **attrs), tmp_path, ["Unary"])


def test_difference_of_two(tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Sub", net.input([1, 3], "a"), net.input([2, 1], "b")))
    becomes(net, tmp_path, ["Add"])


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [0, 0, 2, 0]}),
        ("MaxPool", {"kernel_shape": [2, 1], "dilations": [5, 1], "pads": [4, 0, 4, 0]}),
        ("AveragePool", {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0], "count_include_pad": 1}),
    ],
)
def test_windows_in_the_padding_are_refused(tmp_path: Path, op: str, attrs: dict[str, Any]) -> None:
    """ONNX Runtime refuses the first and the last, and answers the second with -inf."""
    with pytest.raises(Unsupported, match="a window that lies wholly in the padding"):
        core(single(op, 1, 1, 4, 4, **attrs), tmp_path)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID"])
def test_windows_that_would_begin_in_the_padding(tmp_path: Path, op: str, auto_pad: str) -> None:
    """With ceil_mode those are none, though ONNX's own shape inference counts them."""
    pads: dict[str, Any] = {"pads": [0, 0, 1, 0]} if auto_pad == "NOTSET" else {}
    net = single(op, 1, 2, 5, 8, kernel_shape=[2, 1], strides=[3, 3], ceil_mode=1, auto_pad=auto_pad, **pads)
    g = core(net, tmp_path)
    assert g.value(g.outputs[0]).shape == (1, 2, 2, 3)
    assert_same(net, g)


def test_convolution_windows_in_the_padding(tmp_path: Path) -> None:
    """They give the bias; pads may be larger than the image."""
    net = Net()
    net.output(net.conv(net.input([1, 1, 2, 2]), 1, 1, pads=[9, 40, 7, 0]))
    assert_same(net, core(net, tmp_path))


# common_subexpressions, dead_code


def test_equal_nodes_become_one(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4])
    w = net.rng.standard_normal((4, 4)).astype(np.float32)
    a, b = (net.add("Relu", net.add("MatMul", x, net.const(w.copy()))) for _ in range(2))
    net.output(net.add("Add", a, b))
    g = becomes(net, tmp_path, ["FullyConnected", "Add"])
    assert g.nodes[-1].inputs[0] == g.nodes[-1].inputs[1]


def test_reshapes_to_different_shapes_are_not_equal(tmp_path: Path) -> None:
    net = Net()
    x = net.add("Relu", net.input([1, 12]))
    for shape in ([3, 4], [4, 3], [12]):
        net.output(net.add("Softmax", net.add("Reshape", x, net.const(shape))))
    becomes(net, tmp_path, ["Unary", "Softmax", "Softmax", "Softmax"])


def test_pools_that_round_apart_are_not_equal(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 1, 5, 5])
    for ceil_mode in (0, 1):
        y = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=ceil_mode)
        net.output(net.add("Tanh", y))
    assert_same(net, core(net, tmp_path))


def test_equal_outputs_keep_both_names(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4])
    net.output(net.add("Relu", x))
    net.output(net.add("Relu", x))
    net.output(net.add("Tanh", net.add("Relu", x)))
    assert_same(net, core(net, tmp_path))


def test_common_subexpressions_compares_everything() -> None:
    """One graph, four nodes: only the two that agree in operator, inputs, attributes and shape are merged."""
    g = Graph("g", ["x"], ["a", "d"])
    x = g.new_value("x", (1, 2))
    for name, alpha in (("a", 0.1), ("b", 0.2), ("c", 0.2)):
        g.nodes.append(Node("Unary", name, [x], [g.new_value(name, (1, 2))], {"arguments": (alpha,)}))
    g.nodes.append(Node("Add", "d", ["b", "c"], [g.new_value("d", (1, 2))]))
    g = common_subexpressions.run(g)
    assert [n.name for n in g.nodes] == ["a", "b", "d"]
    assert g.nodes[-1].inputs == ["b", "b"]


def test_dead_code() -> None:
    g = Graph("g", ["x", "unused"], ["y"])
    for name in ("x", "unused", "y", "z", "w"):
        g.new_value(name, (1,))
    g.new_const("c", np.zeros(3))
    g.nodes = [Node("Relu", "r", ["x"], ["y"]), Node("Relu", "s", ["y"], ["z"]), Node("Relu", "t", ["z"], ["w"])]
    g = dead_code.run(g)
    assert [n.name for n in g.nodes] == ["r"]
    assert set(g.values) == {"x", "unused", "y"}


def test_fuse_clip_and_transposes_alone(tmp_path: Path) -> None:
    """Both are passes over core operators: they find nothing in a graph that went through them."""
    net = Net()
    net.output(net.add("Relu", net.conv(net.input([1, 2, 4, 4]), 2, 3)))
    g = core(net, tmp_path)
    before = str(g)
    assert str(fuse_clip.run(transposes.run(g))) == before


# Inputs and outputs


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    net = Net()
    a, b = net.input([1, 2, 4, 4], "a"), net.input([1, 2, 4, 4], "b")
    s = net.output(net.add("Add", net.conv(a, 2, 3), net.conv(b, 2, 3)))  # also read below
    net.output(net.add("Flatten", net.add("Relu", s)))
    net.output(net.add("GlobalAveragePool", s))
    net.input([1, 9], "nobody reads it")
    g = core(net, tmp_path)
    assert g.inputs == ["a", "b", "nobody reads it"]
    assert_same(net, g)


def test_scalars(tmp_path: Path) -> None:
    """Rank 0 in, rank 0 out."""
    net = Net()
    net.output(net.add("Tanh", net.add("Add", net.input([]), net.const(0.5))))
    assert_same(net, core(net, tmp_path))
    net = Net()
    y = net.add("GlobalAveragePool", net.conv(net.input([1, 1, 4, 4]), 1, 1))
    net.output(net.add("Squeeze", y))
    g = core(net, tmp_path)
    assert g.value(g.outputs[0]).shape == ()
    assert_same(net, g)


def test_passes_leave_the_numbers_alone_step_by_step(tmp_path: Path) -> None:
    """float_outputs of the final graph equal those of a graph built without fusing anything."""
    net = Net()
    y = net.add("Relu", bn(net, net.conv(net.input([1, 2, 5, 5]), 2, 3), 3))
    net.output(net.add("Flatten", y))
    g = core(net, tmp_path)
    feeds = net.samples()[0]
    once, again = float_outputs(g, feeds), float_outputs(g, feeds)
    assert all(np.array_equal(once[k], again[k]) for k in once)


# The checker


def test_checker_finds_what_passes_break() -> None:
    def graph() -> Graph:
        g = Graph("g", ["x"], ["y"])
        g.new_value("x", (1, 2))
        g.new_value("y", (1, 2))
        g.nodes = [Node("Unary", "u", ["x"], ["y"], {"function": "tanh", "arguments": ()})]
        return g

    check.structure(graph(), "nothing")
    check.core(graph())
    for damage, text in (
        (lambda g: g.nodes[0].inputs.__setitem__(0, "z"), "reads 'z' before it is made"),
        (lambda g: g.nodes.append(g.nodes[0]), "makes 'y' a second time"),
        (lambda g: g.nodes.clear(), "output 'y' is never made"),
    ):
        g = graph()
        damage(g)
        with pytest.raises(check.BrokenGraph, match=text):
            check.structure(g, "it")
    for damage, text in (
        (lambda g: setattr(g.nodes[0], "op", "Sin"), "not a core operator"),
        (lambda g: g.nodes[0].attrs.pop("function"), "are missing"),
        (lambda g: setattr(g.value("y"), "shape", (2, 1)), "its inputs give"),
    ):
        g = graph()
        damage(g)
        with pytest.raises(check.BrokenGraph, match=text):
            check.core(g)


# unused_taps


@pytest.mark.parametrize(("size", "stride", "kernel", "left"), [(1, 1, 3, 1), (2, 2, 3, 2), (2, 1, 5, 3), (3, 1, 3, 3)])
@pytest.mark.parametrize("group", (1, 4))
def test_taps_outside_the_image(tmp_path: Path, size: int, stride: int, kernel: int, left: int, group: int) -> None:
    net = Net()
    y = net.conv(net.input([1, 4, size, size]), 4, 4, kernel, group=group, strides=[stride] * 2, pads=[kernel // 2] * 4)
    net.output(net.add("GlobalAveragePool", net.add("Relu", y)))
    g = core(net, tmp_path)
    assert_same(net, g, 1e-5)
    conv = next(n for n in g.nodes if "Conv2d" in n.op)
    assert g.value(conv.inputs[1]).shape[1:3] == (left, left), g
    assert ("AveragePool2d" in ops(g)) == (size > stride), g
