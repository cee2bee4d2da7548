"""Loop and Scan are unrolled where the number of their runs is known: the same numbers as ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from nets import FLOAT, Net, float_outputs, imported, ops, truth
from onnx import TensorProto, helper, numpy_helper

from mica.errors import Unsupported
from mica.importer import loops
from mica.passes import pipeline

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def value(name: str, kind: int = FLOAT, shape: object = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def accumulate(ends: str = "given", op: str = "Tanh") -> onnx.GraphProto:
    """h = op(h @ w + x[counter]), h as a row; `ends`: what becomes of the condition."""
    nodes = [
        helper.make_node("Gather", ["x", "k"], ["row"], "pick", axis=1),
        helper.make_node("MatMul", ["h", "w"], ["wh"], "product"),
        helper.make_node("Add", ["wh", "row"], ["sum"], "sum"),
        helper.make_node(op, ["sum"], ["h_next"], "state"),
        helper.make_node("Identity", ["h_next"], ["y"], "row"),
        helper.make_node("Add", ["k", "one"], ["next"], "count"),
    ]
    if ends == "given":
        nodes.append(helper.make_node("Identity", ["going"], ["go"], "end"))
    elif ends == "counted":
        nodes.append(helper.make_node("Less", ["next", "last"], ["go"], "end"))
    else:
        nodes += [helper.make_node("ReduceMax", ["h"], ["most"], "most", keepdims=0)]
        nodes += [helper.make_node("Less", ["most", "bound"], ["go"], "end")]
    constants = [
        numpy_helper.from_array(np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32) / 4, "w"),
        numpy_helper.from_array(np.array(1), "one"),
        numpy_helper.from_array(np.array(3), "last"),
        numpy_helper.from_array(np.float32(100), "bound"),
    ]
    return helper.make_graph(
        nodes,
        "body",
        [value("k", INT64, []), value("going", BOOL, []), value("h", FLOAT, [1, 4])],
        [value("go", BOOL, []), value("h_next", FLOAT, [1, 4]), value("y", FLOAT, [1, 4])],
        constants,
    )


def loop(trips: object = 5, ends: str = "given", op: str = "Tanh", rows: bool = True) -> Net:
    net = Net()
    net.input([1, 8, 4])
    n = "" if trips is None else trips if isinstance(trips, str) else net.const(np.array(trips))
    start = net.const(np.zeros((1, 4), np.float32))
    net.add(
        "Loop", n, net.const(np.array(True)), start, outputs=["h_end", "ys"], name="loop", body=accumulate(ends, op)
    )
    net.output("h_end", [1, 4])
    if rows:
        net.output(net.add("Relu", "ys"), [None, 1, 4])
    return net


def same(net: Net, folder: Path) -> list[str]:
    """As ONNX Runtime; the core operators."""
    g = pipeline.run(imported(net, folder))
    for feeds in net.samples(2):
        expected, found = truth(net, feeds), float_outputs(g, feeds)
        for name, w in expected.items():
            np.testing.assert_allclose(found[name], w, rtol=0, atol=1e-5)
    return ops(g)


@pytest.mark.parametrize(
    ("trips", "ends", "runs"), [(5, "given", 5), (None, "counted", 3), (2, "counted", 2), (8, "counted", 3)]
)
def test_loop(tmp_path: Path, trips: int | None, ends: str, runs: int) -> None:
    found = same(loop(trips, ends), tmp_path)
    assert found.count("FullyConnected") == runs - 1  # that of the first run is of zeros


def test_a_branch_in_a_loop(tmp_path: Path) -> None:
    """The branch that an If of a known condition takes gets names of its own in each run."""
    net = loop(3)
    branch = [
        helper.make_graph([helper.make_node(op, ["wh"], [out], op)], out, [], [value(out, FLOAT, [1, 4])])
        for op, out in (("Relu", "kept"), ("Neg", "turned"))
    ]
    of = next(a.g for a in net.nodes[0].attribute if a.name == "body")
    choose = [
        helper.make_node("Less", ["k", "one"], ["first"], "first"),
        helper.make_node("If", ["first"], ["chosen"], "choose", then_branch=branch[0], else_branch=branch[1]),
    ]
    for node in reversed(choose):
        of.node.insert(2, node)
    of.node[4].input[0] = "chosen"
    same(net, tmp_path)


@pytest.mark.parametrize("backwards", (0, 1))
def test_scan(tmp_path: Path, backwards: int) -> None:
    """One sequence forwards, one as `backwards` says; rows along the last dimension, in either order."""
    nodes = [
        helper.make_node("Add", ["h", "a"], ["sum"], "sum"),
        helper.make_node("Mul", ["sum", "b"], ["h_next"], "state"),
        helper.make_node("Sigmoid", ["h_next"], ["y"], "row"),
    ]
    of = helper.make_graph(
        nodes,
        "body",
        [value(n, FLOAT, [3]) for n in ("h", "a", "b")],
        [value(n, FLOAT, [3]) for n in ("h_next", "y")],
    )
    net = Net()
    a, b = net.input([4, 3], "a"), net.input([3, 4], "b")
    start = net.const(np.ones(3, np.float32))
    directions = {"scan_input_directions": [0, backwards], "scan_output_directions": [backwards]}
    axes = {"scan_input_axes": [0, -1], "scan_output_axes": [-1]}
    net.add("Scan", start, a, b, outputs=["last", "ys"], name="scan", body=of, num_scan_inputs=2, **directions, **axes)
    net.output("last", [3])
    net.output("ys", [3, 4])
    assert same(net, tmp_path).count("Mul") == 4


def refusal(net: Net, folder: Path) -> str:
    with pytest.raises(Unsupported) as e:
        imported(net, folder)
    return str(e.value).split("cannot be packed: ")[-1]


def test_too_many_runs(tmp_path: Path) -> None:
    most = loops.MOST_RUNS
    assert "\n" not in refusal(loop(10**9), tmp_path)
    assert f"node 'loop' (Loop): a loop of 1,000,000,000 runs of 7 nodes; at most {most:,} are" in refusal(
        loop(10**9), tmp_path
    )


def test_runs_that_data_decides(tmp_path: Path) -> None:
    assert refusal(loop(ends="data"), tmp_path).startswith(
        "node 'loop' (Loop): control flow: its condition is computed from data"
    )
    net = loop("n")
    net.input([], "n", INT64)
    assert refusal(net, tmp_path).startswith("node 'loop' (Loop): control flow: its number of runs is computed")


def test_a_problem_in_a_body_is_said_once(tmp_path: Path) -> None:
    assert refusal(loop(op="Hardmax"), tmp_path).startswith("node 'state.0' (Hardmax): operator not supported")
    assert "\n" not in refusal(loop(op="Hardmax"), tmp_path)


def test_no_runs(tmp_path: Path) -> None:
    assert "a loop of no runs" in refusal(loop(0), tmp_path)
