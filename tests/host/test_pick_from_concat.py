"""A Slice or Gather that only looks at one part of a Concat."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from nets import Net, assert_same, core, ops


def joined(opset: int = 17) -> tuple[Net, str, list[str]]:
    """Three functions of x [4,3,2] behind one another along axis 1."""
    net = Net(opset)
    x = net.input([4, 3, 2])
    parts = [net.add(op, x) for op in ("Sigmoid", "Tanh", "Abs")]
    return net, net.add("Concat", *parts, axis=1), parts


def test_a_whole_part(tmp_path: Path) -> None:
    net, y, _ = joined()
    net.output(net.add("Slice", y, net.const([3]), net.const([6]), net.const([1])))
    g = core(net, tmp_path)
    assert ops(g) == ["Unary"]
    assert_same(net, g)


def test_some_of_a_part(tmp_path: Path) -> None:
    net, y, _ = joined()
    net.output(net.add("Slice", y, net.const([8]), net.const([5]), net.const([1]), net.const([-2])))
    net.output(net.add("Gather", y, net.const(np.array(0)), axis=1))
    g = core(net, tmp_path)
    assert sorted(set(ops(g))) == ["StridedCopy", "Unary"] or sorted(set(ops(g))) == ["Remap", "Unary"], ops(g)
    assert_same(net, g)


def test_across_parts(tmp_path: Path) -> None:
    """It needs the whole; as does an output of the model."""
    net, y, _ = joined()
    net.output(net.add("Slice", y, net.const([2]), net.const([4]), net.const([1])))
    g = core(net, tmp_path)
    assert ops(g).count("Concat") == 1
    assert_same(net, g)
    net, y, _ = joined()
    net.output(y)
    net.output(net.add("Slice", y, net.const([0]), net.const([3]), net.const([1])))
    g = core(net, tmp_path)
    assert ops(g).count("Concat") == 1
    assert_same(net, g)


def test_constant_part(tmp_path: Path) -> None:
    net = Net()
    y = net.add("Concat", net.input([2, 3]), net.random(2, 2), axis=1)
    net.output(net.add("Slice", y, net.const([3]), net.const([5]), net.const([1])))
    assert_same(net, core(net, tmp_path))


def test_concats_of_concats(tmp_path: Path) -> None:
    net, y, _ = joined()
    y = net.add("Concat", y, y, axis=1)
    net.output(net.add("Slice", y, net.const([12]), net.const([15]), net.const([1])))
    g = core(net, tmp_path)
    assert ops(g) == ["Unary"]
    assert_same(net, g)
