"""The rewrites that take already quantised models: for each the graph before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, imported
from onnx import TensorProto, helper

from mica.errors import Unsupported
from mica.importer.expand.operators import spell
from mica.importer.integers import dequantised
from mica.importer.state import ImportState
from mica.ir import check
from mica.ir.graph import Graph, Node, Quant, Value
from mica.passes import (
    affine,
    common_subexpressions,
    dense,
    fold_affine,
    fuse_clip,
    prequantised_activations,
    prequantised_weights,
    quantise_above_pad,
    quantised_values,
)
from mica.passes.quantised_values import quantise
from mica.reference import unary

A, B = Quant(0.5, 3), Quant(0.25, -7)


def graph(*nodes: Node, shape: tuple[int, ...] = (1, 2, 4, 4), outputs: tuple[str, ...] = ("y",)) -> Graph:
    """Nodes over values of one shape; "x" is the input."""
    g = Graph("test", ["x"], outputs)
    g.nodes = list(nodes)
    for name in ["x", *(v for n in nodes for v in (*n.inputs, *n.outputs))]:
        g.values.setdefault(name, Value(name, shape))
    return g


def clip(x: str, y: str) -> Node:
    return Node("Unary", "clip", [x], [y], {"function": "clip", "arguments": (0.0, None)})


def add(x: str, y: str) -> Node:
    return Node("Add", "add", [x, x], [y], {"signs": (1, 1), "clip": (None, None)})


def functions(g: Graph) -> list[str]:
    """Operators in order, Unary by its function."""
    return [n.attrs["function"] if n.op == "Unary" else n.op for n in g.nodes]


# importer/expand/operators.py


class State(ImportState):
    """Without numbers behind names."""

    def fresh(self, base: str) -> str:
        return base


def spelled(op: str, *inputs: str, constants: dict[str, np.ndarray], **attrs: object) -> list[str]:
    """Nodes as text: output = op(inputs)."""
    state = State("test", 17, 10, (), 0)
    for name, array in constants.items():
        state.add_exact(name, np.asarray(array))
    nodes = spell(state, helper.make_node(op, list(inputs), ["y"], "n", "com.microsoft", **attrs))
    return [f"{n.output[0]} = {n.op_type}({', '.join(n.input)})" for n in nodes]


def test_expand_operator_is_spelled_out() -> None:
    scales = {"sx": np.float32(0.5), "sw": np.float32([0.25, 0.125])}
    assert spelled("QLinearConv", "x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b", constants=scales) == [
        "n.dequantizelinear = DequantizeLinear(x, sx, zx)",
        "n.dequantizelinear = DequantizeLinear(w, sw, zw)",
        "n.dequantizelinear = DequantizeLinear(b, b.scale)",
        "n.conv = Conv(n.dequantizelinear, n.dequantizelinear, n.dequantizelinear)",
        "y = QuantizeLinear(n.conv, sy, zy)",
    ]
    assert spelled("QLinearConcat", "sy", "zy", "a", "sa", "za", "b", "sb", "zb", constants={}, axis=1) == [
        "n.dequantizelinear = DequantizeLinear(a, sa, za)",
        "n.dequantizelinear = DequantizeLinear(b, sb, zb)",
        "n.concat = Concat(n.dequantizelinear, n.dequantizelinear)",
        "y = QuantizeLinear(n.concat, sy, zy)",
    ]
    assert spelled("QGemm", "a", "sx", "", "w", "sx", "", "", constants=scales)[-1].startswith("y = Gemm(")
    assert spelled("Relu", "x", constants={}) == ["y = Relu(x)"]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "reason"),
    [
        ("QLinearConv", ("x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"), {}, "a scale that is not constant"),
        ("QLinearAveragePool", ("x", "sx", "zx", "sy", "zy"), {"channels_last": 1}, "channels_last"),
        ("QLinearSoftmax", ("x", "sx", "zx", "sy", "zy"), {"opset": 12}, "a softmax of opset 12"),
    ],
)
def test_expand_operator_says_what_it_cannot_take(op: str, inputs: tuple[str, ...], attrs: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        spelled(op, *inputs, constants={}, **attrs)


# importer/integers.py


def test_constants_remember_their_steps() -> None:
    q = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    value = dequantised("w", q, np.float32([0.5, 2.0]), np.array([1, 0], np.int8), {"axis": 0})
    assert value.data is not None
    assert value.weight_scale is not None
    np.testing.assert_array_equal(value.data, [[-2, -1.5, -1], [0, 2, 4]])
    np.testing.assert_array_equal(value.weight_scale, [[0.5], [2.0]])
    assert value.quant is None
    assert dequantised("w", q, np.float32(0.5), None, {}).quant == Quant(0.5, 0)
    assert dequantised("w", q.astype(np.uint8), np.float32(0.5), np.array(130, np.uint8), {}).quant == Quant(0.5, 2)
    bias = dequantised("b", np.array([2**24 + 1], np.int32), np.float32(0.1), None, {}).data
    assert bias is not None
    assert bias.dtype == np.float64
    blocks = dequantised("w", np.ones((4, 1), np.int8), np.float32([[1.0], [2.0]]), None, {"axis": 0, "block_size": 2})
    np.testing.assert_array_equal(np.asarray(blocks.data)[:, 0], [1, 1, 2, 2])
    for scale, attrs, reason in (
        ([1.0, 2.0], {"axis": 1}, "2 entries"),
        (0.0, {}, "positive"),
        ([1, 2], {"axis": 5}, "axis 5"),
    ):
        with pytest.raises(ValueError, match=reason):
            dequantised("w", q, np.float32(scale), None, attrs)


# quantised_values


def test_pairs_become_roundings(tmp_path: Path) -> None:
    net = Net()
    scale, zero = net.const(np.float32(0.5)), net.const(np.uint8(131))
    q = net.add("QuantizeLinear", net.input([1, 2, 4, 4]), scale, zero)
    q = net.add("MaxPool", q, kernel_shape=[2, 2])
    net.output(net.add("DequantizeLinear", q, scale, zero))
    g = quantised_values.run(imported(net, tmp_path))
    check.structure(g)
    assert functions(g) == ["quantise", "MaxPool", "Reshape"]  # the last gives the output its name
    assert g.nodes[0].attrs["arguments"] == (0.5, 3)
    assert all(v.dtype == "float32" for v in g.values.values() if v.data is None)


def test_other_parameters_read_the_integers_anew(tmp_path: Path) -> None:
    net = Net()
    q = net.add("QuantizeLinear", net.input([1, 256]), net.const(np.float32(0.5)), net.const(np.int8(3)))
    net.output(net.add("DequantizeLinear", q, net.const(np.float32(0.25)), net.const(np.int8(-7))))
    g = quantised_values.run(imported(net, tmp_path))
    assert functions(g) == ["quantise", "affine", "quantise", "Reshape"]
    x = A.dequantise(np.arange(-128, 128))
    for node in g.nodes[1:3]:
        x = unary.apply(node.attrs["function"], x, node.attrs["arguments"])
    np.testing.assert_array_equal(x, B.dequantise(np.arange(-128, 128)))


def test_integer_products_become_real_ones(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4], dtype=TensorProto.UINT8)
    w = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    sums = net.add("MatMulInteger", x, net.const(w), net.const(np.uint8(9)), net.const(np.array([0, 1, 2], np.int8)))
    net.output(net.add("Cast", sums, to=TensorProto.FLOAT))
    g = quantised_values.run(imported(net, tmp_path))
    assert functions(g) == ["quantise", "MatMul", "Reshape"]
    assert g.nodes[0].attrs["arguments"] == (1.0, 9 - 128)
    weights = g.value(g.nodes[1].inputs[1])
    np.testing.assert_array_equal(weights.data, w - [0, 1, 2])
    np.testing.assert_array_equal(weights.weight_scale, [[1.0]])


def test_sums_with_a_scale_are_scaled(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4], dtype=TensorProto.INT8)
    sums = net.add("MatMulInteger", x, net.const(np.ones((4, 3), np.int8)))
    net.output(net.add("DequantizeLinear", sums, net.const(np.float32(0.125))))
    g = quantised_values.run(imported(net, tmp_path))
    assert functions(g) == ["quantise", "MatMul", "Affine"]
    assert float(g.nodes[2].attrs["scale"]) == 0.125


def test_dynamic_quantisation_is_none(tmp_path: Path) -> None:
    net = Net()
    outputs = ["q", "s", "z"]
    net.add("DynamicQuantizeLinear", net.input([1, 4]), outputs=outputs)
    net.output(net.add("Cast", net.add("MatMulInteger", "q", net.const(np.ones((4, 3), np.int8)), "z"), to=1))
    g = quantised_values.run(imported(net, tmp_path))
    assert functions(g) == ["Identity", "MatMul", "Reshape"]


def test_refuses_what_is_no_move_of_integers(tmp_path: Path) -> None:
    net = Net()
    q = net.add("QuantizeLinear", net.input([1, 4]), net.const(np.float32(0.5)), net.const(np.int8(0)))
    p = net.add("QuantizeLinear", "x", net.const(np.float32(0.25)), net.const(np.int8(0)))
    net.output(net.add("DequantizeLinear", net.add("Max", q, p), net.const(np.float32(0.5))))
    with pytest.raises(Unsupported, match=r"n2_Max.*different scales"):
        quantised_values.run(imported(net, tmp_path))


# prequantised_weights


def conv_graph(steps: np.ndarray, integers: np.ndarray, bias_steps: np.ndarray | None = None) -> Graph:
    g = graph(quantise("x", "r", "q", Quant(float(np.float32(0.3)), 0)), Node("Conv", "conv", ["r", "w", "b"], ["y"]))
    data = integers * steps
    g.values["w"] = Value("w", data.shape, "float32", data.astype(np.float32), weight_scale=steps)
    b = np.array([2**25 + 1, -5])
    own = np.ones(2) if bias_steps is None else bias_steps
    g.values["b"] = Value("b", (2,), "float32", b * own, weight_scale=own)
    return prequantised_weights.run(g)


def test_products_remember_the_steps_of_their_weights() -> None:
    integers = np.arange(-128, -128 + 36).reshape(2, 2, 3, 3)
    steps = np.float32([0.1, 0.7]).astype(np.float64)
    bias_steps = (np.float32(0.3) * np.float32([0.1, 0.7])).astype(np.float64)
    g = conv_graph(steps.reshape(2, 1, 1, 1), integers, bias_steps)
    conv = g.nodes[-1]
    np.testing.assert_array_equal(conv.attrs["weight_steps"], steps)
    np.testing.assert_array_equal(g.data(conv.inputs[2]), [2**25 + 1, -5] * (float(np.float32(0.3)) * steps))


def test_a_bias_on_a_scale_of_its_own_stays() -> None:
    g = conv_graph(np.full((1, 1, 1, 1), 0.1), np.ones((2, 2, 3, 3)), np.array([0.01, 0.02]))
    np.testing.assert_array_equal(g.data(g.nodes[-1].inputs[2]), [2**25 * 0.01 + 0.01, -0.1])


def test_a_channel_out_of_range_has_larger_steps() -> None:
    g = conv_graph(np.full((1, 1, 1, 1), 0.1), np.where(np.arange(36) == 7, 254, 4).reshape(2, 2, 3, 3))
    conv = g.nodes[-1]
    np.testing.assert_allclose(conv.attrs["weight_steps"], [0.2, 0.1], rtol=1e-15)
    weights = g.data(conv.inputs[1])
    assert weights is not None
    np.testing.assert_allclose(weights[0].reshape(-1)[5:9] / 0.2, [2, 2, 127, 2], rtol=1e-6)
    np.testing.assert_allclose(weights[1] / 0.1, np.full((2, 3, 3), 4), rtol=1e-6)


def test_steps_of_a_transposed_convolution_in_groups() -> None:
    """Output channel 2 of four, the first of the second group, reaches too far."""
    integers = np.ones((4, 2, 1, 1))
    integers[3, 0] = 200
    conv = Node("ConvTranspose", "conv", ["x", "w"], ["y"], {"group": 2})
    g = graph(conv)
    g.values["w"] = Value(
        "w", integers.shape, "float32", integers.astype(np.float32), weight_scale=np.ones((1, 1, 1, 1))
    )
    (conv,) = prequantised_weights.run(g).nodes
    np.testing.assert_array_equal(conv.attrs["weight_steps"], [1, 1, 200 / 127, 1])
    weights = g.data(conv.inputs[1])
    assert weights is not None
    np.testing.assert_allclose(weights[:, :, 0, 0], [[1, 1], [1, 1], [200 / 127, 1], [200, 1]], rtol=1e-6)


def test_layouts_and_scales_keep_the_steps() -> None:
    """The pass dense multiplies the steps by alpha, fold_affine by the scale, of any sign; a zero keeps the step."""
    w = np.float32([[1, 2, 3], [4, 5, 6]])
    gemm = Node("Gemm", "n", ["x", "w"], ["h"], {"alpha": -2.0, "weight_steps": np.array([0.5, 0.25, 0.125])})
    scale = np.array([3.0, 0.0, -1.0])
    g = graph(gemm, Node("Affine", "a", ["h"], ["y"], {"axis": 1, "scale": scale, "shift": scale}), shape=(1, 3))
    g.values["x"], g.values["w"] = Value("x", (1, 2)), Value("w", (2, 3), "float32", w)
    g = fold_affine.run(dense.run(g))
    (node,) = g.nodes
    np.testing.assert_array_equal(node.attrs["weight_steps"], [3.0, 0.5, 0.25])
    np.testing.assert_array_equal(g.data(node.inputs[1]), (-2 * w * scale).T)


# quantise_above_pad


def test_rounding_moves_above_padding() -> None:
    pad = Node("Pad", "pad", ["a", "amounts", "v"], ["b"])
    g = graph(quantise("x", "a", "q", A), pad, quantise("b", "y", "q", A))
    g.values["amounts"] = Value("amounts", (8,), "int64", np.zeros(8, np.int64))
    g.values["v"] = Value("v", (), "float32", np.array(0.7, np.float32))
    g = quantise_above_pad.run(g)
    check.structure(g)
    assert functions(g) == ["quantise", "quantise", "Pad"]
    assert g.nodes[1].inputs == ["x"]  # so the first is dead
    assert g.data(g.nodes[2].inputs[2]) == np.float32(0.5)


def test_rounding_stays_below_padding_that_others_read() -> None:
    g = graph(Node("Pad", "pad", ["x"], ["a"]), quantise("a", "b", "q", A), Node("Add", "add", ["a", "b"], ["y"]))
    assert functions(quantise_above_pad.run(g)) == ["Pad", "quantise", "Add"]


# prequantised_activations


def test_roundings_become_quants() -> None:
    g = prequantised_activations.run(graph(quantise("x", "a", "q", A), add("a", "b"), quantise("b", "y", "q", B)))
    assert functions(g) == ["Add"]
    assert g.value("x").quant == A
    assert g.value("y").quant == B  # the output keeps its name


def test_a_selection_is_rounded_above() -> None:
    reshape = Node("Reshape", "r", ["b"], ["c"])
    g = prequantised_activations.run(graph(add("x", "b"), reshape, quantise("c", "d", "q", B), add("d", "y")))
    assert functions(g) == ["Add", "Reshape", "Add"]
    assert (g.value("b").quant, g.value("c").quant) == (B, B)


def test_a_selection_of_rounded_values_is_rounded_anew_behind() -> None:
    reshape = Node("Reshape", "r", ["a"], ["b"])
    g = prequantised_activations.run(
        graph(quantise("x", "a", "q", A), reshape, quantise("b", "c", "q", B), add("c", "y"))
    )
    assert functions(g) == ["Reshape", "quantise", "Add"]
    assert (g.value("x").quant, g.value("b").quant, g.value("c").quant) == (A, A, B)


def test_the_finest_of_several_roundings_is_the_values_own() -> None:
    nodes = (add("x", "a"), quantise("a", "b", "q", A), quantise("a", "c", "q", B))
    g = prequantised_activations.run(graph(*nodes, Node("Add", "add", ["b", "c"], ["y"], {"signs": (1, 1)})))
    assert functions(g) == ["Add", "quantise", "Add"]
    assert (g.value("a").quant, g.value("b").quant) == (B, A)
    assert g.nodes[-1].inputs == ["b", "a"]


def test_a_rounding_between_input_and_output_stays() -> None:
    g = prequantised_activations.run(graph(quantise("x", "y", "q", A)))
    assert functions(g) == ["quantise"]
    assert (g.value("x").quant, g.value("y").quant) == (A, A)


def test_a_clamp_has_the_scale_of_what_it_clamps() -> None:
    g = prequantised_activations.run(graph(quantise("x", "a", "q", A), clip("a", "b"), add("b", "y")))
    assert g.value("b").quant == A


# Passes that must respect quants


@pytest.mark.parametrize(("x", "y", "fused"), [(None, A, True), (A, A, True), (A, B, False), (None, None, True)])
def test_a_clamp_is_fused_where_rounding_allows(x: Quant | None, y: Quant | None, fused: bool) -> None:
    g = graph(add("x", "a"), clip("a", "y"))
    g.value("a").quant, g.value("y").quant = x, y
    g = fuse_clip.run(g)
    assert functions(g) == (["Add"] if fused else ["Add", "clip"])
    assert g.value("y").quant == y


def test_equal_nodes_of_different_scales_stay_two() -> None:
    def build(second: Quant) -> Graph:
        g = graph(add("x", "a"), add("x", "b"), Node("Add", "sum", ["a", "b"], ["y"]))
        g.value("a").quant, g.value("b").quant = A, second
        return common_subexpressions.run(g)

    assert len(build(A).nodes) == 2
    assert len(build(B).nodes) == 3


@pytest.mark.parametrize(("rounded", "op"), [(True, "Add"), (False, "Affine")])
def test_sum_of_integers_stays_a_sum(rounded: bool, op: str) -> None:
    """As an Affine it would be a convolution, whose bias is rounded to its steps."""
    behind = quantise("b", "y", "q", B) if rounded else add("b", "y")
    g = graph(quantise("x", "a", "q", A), Node("Add", "n", ["a", "c"], ["b"]), behind)
    g.values["c"] = Value("c", (2, 1, 1), "float32", np.float32([1, 2]).reshape(2, 1, 1), A)
    assert affine.run(g).nodes[1].op == op
