"""Operators written as others: Einsum and CumSum by passes, functions of ONNX by their own definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from nets import Net, assert_same, core, float_outputs, ops, refusal_of, single
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mica.compile import compile_file
from mica.format.values import dequantise_output
from mica.passes.einsum import labels
from mica.run.host import HostRunner


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij->ji", [(3, 5)], ["Transpose"]),
        ("ijk->ik", [(3, 5, 4)], ["Reduce"]),
        ("bik,bkj->bij", [(2, 3, 4), (2, 4, 5)], ["MatMul"]),
        ("bhqd,bhkd->bhqk", [(1, 2, 5, 4), (1, 2, 3, 4)], ["Transpose", "MatMul"]),
        ("bhqk,bkhd->bqhd", [(1, 2, 5, 3), (1, 3, 2, 4)], ["Transpose", "MatMul", "Transpose"]),
        ("bi,bj->bij", [(2, 3), (2, 4)], ["MatMul"]),
        ("bi,bi->bi", [(2, 3), (2, 3)], ["Mul"]),
        ("bi,bi->b", [(2, 3), (2, 3)], ["MatMul"]),
        ("i,i", [(5,), (5,)], ["MatMul"]),
        ("...ij,...jk", [(2, 3, 4), (2, 4, 5)], ["MatMul"]),
        ("bij,bk->bk", [(2, 3, 4), (2, 5)], ["Reduce", "MatMul"]),
        ("bi,ij,bj->b", [(2, 3), (3, 4), (2, 4)], ["MatMul", "MatMul"]),
        ("bi,cj,bck->ikj", [(2, 3), (4, 5), (2, 4, 6)], ["MatMul", "MatMul"]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]], expected: list[str], tmp_path: Path) -> None:
    net = Net()
    net.output(net.add("Einsum", *(net.input(s, f"x{k}") for k, s in enumerate(shapes)), equation=equation))
    g = core(net, tmp_path)
    assert [op for op in ops(g) if op in expected] == expected
    assert "Einsum" not in ops(g)
    assert_same(net, g)


@pytest.mark.parametrize("first", [True, False])
def test_einsum_with_weights_is_dense(first: bool, tmp_path: Path) -> None:
    net = Net()
    x, w = net.input([2, 6, 8]), net.random(4, 8)
    net.output(net.add("Einsum", *((w, x) if first else (x, w)), equation="oc,btc->bto" if first else "btc,oc->bto"))
    g = core(net, tmp_path)
    assert ops(g) == ["FullyConnected"]
    assert_same(net, g)


def test_labels() -> None:
    assert labels("ij, jk", [2, 2]) == (["ij", "jk"], "ik")
    assert labels("ba", [2]) == (["ba"], "ab")
    assert labels("...a,a...->...", [3, 1]) == (["45a", "a"], "45")
    assert labels("...a,b", [1, 1])[1] == "ab"


@pytest.mark.parametrize(
    ("equation", "shapes", "why"),
    [("ii->i", [(3, 3)], "twice in one operand")],
)
def test_einsum_refused(equation: str, shapes: list[tuple[int, ...]], why: str) -> None:
    net = Net()
    net.output(net.add("Einsum", *(net.input(s, f"x{k}") for k, s in enumerate(shapes)), equation=equation))
    with pytest.raises(AssertionError, match=why):
        refusal_of(net)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("attrs", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_cumsum(axis: int, attrs: dict[str, int], tmp_path: Path) -> None:
    net = single("CumSum", 2, 5, 6, inputs=[np.array(axis, np.int64)], **attrs)
    g = core(net, tmp_path)
    assert "FullyConnected" in ops(g)
    assert_same(net, g)


def test_cumsum_of_a_vector(tmp_path: Path) -> None:
    net = single("CumSum", 7, inputs=[np.array(0, np.int64)])
    assert_same(net, core(net, tmp_path))


def test_cumsum_too_long() -> None:
    with pytest.raises(AssertionError, match="over 300 elements"):
        refusal_of(single("CumSum", 1, 300, inputs=[np.array(1, np.int64)]))


def by_definition(net: Net, folder: Path) -> None:
    g = core(net, folder)
    for feeds in net.samples(2):
        expected = ReferenceEvaluator(net.model()).run(None, feeds)
        for w, found in zip(expected, float_outputs(g, feeds).values(), strict=True):
            np.testing.assert_allclose(found, w, atol=1e-4 * max(1.0, float(np.abs(w).max())))


def test_attention_by_onnx_definition(tmp_path: Path) -> None:
    """Scaled dot product attention as PyTorch's newer exporter writes it."""
    net = Net(opset=23, ir=10)
    net.output(net.add("Attention", *(net.input([1, 2, 6, 8], name) for name in "qkv"), name="attention"))
    by_definition(net, tmp_path)
    assert {n.name for n in core(net, tmp_path).nodes} == {"attention"}


def test_center_crop_pad_by_onnx_definition(tmp_path: Path) -> None:
    net = Net(opset=18)
    net.output(net.add("CenterCropPad", net.input([1, 10, 7]), net.const([6, 9]), axes=[1, 2]))
    by_definition(net, tmp_path)


def test_definition_of_a_definition(tmp_path: Path) -> None:
    """A SoftmaxCrossEntropyLoss is LogSoftmax and NegativeLogLikelihoodLoss, and the latter is spelled out again."""
    net = Net(opset=13)
    labels_ = net.const(np.array([1, 0, 3], np.int64))
    net.output(net.add("SoftmaxCrossEntropyLoss", net.input([3, 5]), labels_))
    by_definition(net, tmp_path)


@pytest.mark.parametrize(("dim", "interleaved"), [(8, 0), (8, 1), (4, 0)])
def test_rotary_embedding_by_position(dim: int, interleaved: int, tmp_path: Path) -> None:
    """A rotary embedding of a whole head, whose rest is empty, and of a part equals ONNX Runtime."""
    angles = np.arange(50)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    tables = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    some = {"rotary_embedding_dim": dim} if dim < 8 else {}
    nodes = [
        helper.make_node("Reshape", ["p", "one"], ["ids"]),
        helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "ids"], ["y"], interleaved=interleaved, **some),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 1, 8]),
        helper.make_tensor_value_info("p", TensorProto.INT64, [1]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 1, 8])
    consts = [numpy_helper.from_array(v, k) for k, v in {**tables, "one": np.array([1, 1])}.items()]
    path = tmp_path / "rope.onnx"
    graph = helper.make_graph(nodes, "rope", inputs, [y], consts)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), path)
    r = np.random.default_rng(0)
    x = r.normal(size=(30, 4, 1, 8)).astype(np.float32)
    p = r.integers(0, 50, (30, 1))
    runner = HostRunner(compile_file(path, {"x": x, "p": p.astype(np.float32)}, plain=True).data)
    session = onnxruntime.InferenceSession(str(path))
    out = runner.model.tensors[runner.model.outputs[0]]
    for a, b in zip(x, p, strict=True):
        (expected,) = session.run(None, {"x": a[None], "p": b})
        found = dequantise_output(runner.run([runner.quantise([a[None], b.astype(np.float32)])])[0][0], out)
        # The tables, two products and a sum round.
        assert np.max(np.abs(found - expected)) < 2.5 * out.scale
