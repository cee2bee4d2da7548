"""Channels that are always the same or unread: gone where nobody can tell, and the numbers stay ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import MODELS, Net, assert_same, core

from mica.importer import import_onnx
from mica.ir import knobs
from mica.ir.graph import Graph
from mica.passes import dead_channels, pipeline
from mica.quantise.tune import macs


def weights(net: Net, cout: int, cin: int, k: int = 3, dead: tuple[int, ...] = (), unread: tuple[int, ...] = ()) -> str:
    """[cout, cin, k, k], with rows (outputs) and columns (inputs) of zeros."""
    w = (net.rng.standard_normal((cout, cin, k, k)) * 0.5).astype(np.float32)
    w[list(dead)] = 1e-30
    w[:, list(unread)] = 0
    return net.const(w)


def bias(net: Net, *values: float) -> str:
    return net.const(np.array(values, np.float32))


def channels(g: Graph, *ops: str) -> list[int]:
    """Of the outputs of the operators, in order."""
    return [g.value(n.outputs[0]).shape[-1] for n in g.nodes if n.op in ops]


def pair(pads: list[int], constant: float, activation: str = "Relu") -> Net:
    """Two convolutions; channel 1 between them is always `constant` before the activation."""
    net = Net()
    h = net.add("Conv", net.input([1, 2, 6, 6]), weights(net, 3, 2, dead=(1,)), bias(net, 0.5, constant, -0.25))
    h = net.add(activation, h)
    net.output(net.add("Conv", h, weights(net, 4, 3), bias(net, 1, 2, 3, 4), pads=pads))
    return net


@pytest.mark.parametrize(
    ("pads", "constant", "left"),
    [
        ([0, 0, 0, 0], 0.75, 2),  # into the bias
        ([0, 0, 0, 0], -0.75, 2),
        ([1, 1, 1, 1], -0.75, 2),  # the Relu makes it zero, which padding is too
        ([1, 1, 1, 1], 0.75, 3),  # a border of zeros round it differs from it
        ([0, 1, 0, 0], 0.75, 3),
    ],
)
def test_a_constant_channel(tmp_path: Path, pads: list[int], constant: float, left: int) -> None:
    net = pair(pads, constant)
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [left, 4]
    assert_same(net, g, 1e-5)


def test_a_function_of_a_constant(tmp_path: Path) -> None:
    net = pair([0, 0, 0, 0], 0.75, "Sigmoid")
    g = core(net, tmp_path)
    assert channels(g, "Conv2d", "Unary") == [2, 2, 4]
    assert_same(net, g, 1e-5)


def test_an_unread_channel(tmp_path: Path) -> None:
    net = Net()
    h = net.add("Relu", net.add("Conv", net.input([1, 2, 6, 6]), weights(net, 5, 2)))
    net.output(net.add("Conv", h, weights(net, 4, 5, unread=(0, 3)), pads=[1, 1, 1, 1]))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [3, 4]
    assert_same(net, g, 1e-5)


def test_one_reader_needs_it(tmp_path: Path) -> None:
    net = Net()
    h = net.add("Relu", net.add("Conv", net.input([1, 2, 6, 6]), weights(net, 5, 2)))
    a = net.add("Conv", h, weights(net, 4, 5, unread=(0, 3)))
    net.output(net.add("Add", a, net.add("Conv", h, weights(net, 4, 5, unread=(3, 4)))))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [4, 4, 4]
    assert_same(net, g, 1e-5)


def test_behind_a_sum_both_must_be_constant(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 2, 6, 6])
    a = net.add("Conv", x, weights(net, 4, 2, dead=(0, 2)), bias(net, 0.5, 1, -1, 0))
    b = net.add("Conv", x, weights(net, 4, 2, dead=(1, 2)), bias(net, 0.5, 1, 0.25, 0))
    net.output(net.add("Conv", net.add("Relu", net.add("Add", a, b)), weights(net, 3, 4)))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [3, 3, 3]
    assert_same(net, g, 1e-5)


def test_through_a_depthwise_convolution_and_pools(tmp_path: Path) -> None:
    """A channel that one layer leaves out makes channels of the next layer constant, here down to a dense layer."""
    net = Net()
    h = net.add("Conv", net.input([1, 2, 12, 12]), weights(net, 4, 2, dead=(3,)), bias(net, 0.5, 1, 1, -2))
    h = net.add("Relu", h)
    h = net.add("Conv", h, weights(net, 4, 1, dead=(0,)), bias(net, 0.5, 1, 0, 1), group=4, pads=[1, 1, 1, 1])
    h = net.add("Relu", h)
    h = net.add("AveragePool", net.add("MaxPool", h, kernel_shape=[2, 2]), kernel_shape=[2, 2])
    h = net.add("Conv", h, weights(net, 6, 4, 1, dead=(5,)))
    h = net.add("Flatten", net.add("GlobalAveragePool", net.add("Relu", h)))
    net.output(net.add("Gemm", h, net.random(3, 6), net.random(3), transB=1))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d", "DepthwiseConv2d", "FullyConnected") == [2, 2, 5, 3]
    assert_same(net, g, 1e-5)


def test_nothing_is_left_but_one_channel(tmp_path: Path) -> None:
    net = Net()
    h = net.add("Conv", net.input([1, 2, 6, 6]), weights(net, 3, 2, dead=(0, 1, 2)), bias(net, 1, 2, 3))
    net.output(net.add("Conv", net.add("Relu", h), weights(net, 2, 3)))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [1, 2]
    assert_same(net, g, 1e-5)


def test_outputs_keep_their_channels(tmp_path: Path) -> None:
    net = Net()
    h = net.add("Relu", net.add("Conv", net.input([1, 2, 6, 6]), weights(net, 3, 2, dead=(1,)), bias(net, 1, 2, 3)))
    net.output(h)
    net.output(net.add("Conv", h, weights(net, 2, 3)))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [3, 2]
    assert_same(net, g, 1e-5)


def test_operators_that_mix_channels_end_it(tmp_path: Path) -> None:
    net = Net()
    h = net.add("Conv", net.input([1, 2, 6, 6]), weights(net, 4, 2, dead=(1,)), bias(net, 1, 2, 3, 4))
    net.output(net.add("Conv", net.add("Softmax", h, axis=1), weights(net, 2, 4)))
    g = core(net, tmp_path)
    assert channels(g, "Conv2d") == [4, 2]
    assert_same(net, g, 1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_random_networks(tmp_path: Path, seed: int) -> None:
    """Chains with a side branch, a third of all channels dead or unread: the numbers stay, channels go."""
    net = Net(seed=seed)
    r = net.rng
    c, h = 3, net.input([1, 3, 9, 9])
    for _ in range(4):
        n = int(r.integers(2, 7))
        dead, unread = (tuple(np.flatnonzero(r.random(k) < 0.33)) for k in (n, c))
        pad = int(r.integers(2))
        h = net.add("Conv", h, weights(net, n, c, dead=dead, unread=unread), net.random(n), pads=[pad] * 4)
        c = n
        kind = r.integers(4)
        if kind == 1:
            h = net.add(str(r.choice(["Relu", "HardSwish", "Tanh"])), h)
        elif kind == 2:
            w = weights(net, c, 1, dead=tuple(np.flatnonzero(r.random(c) < 0.33)))
            h = net.add("Conv", h, w, net.random(c), group=c, pads=[1, 1, 1, 1])
        elif kind == 3:
            h = net.add("Add", h, net.add("Conv", h, weights(net, c, c, 1, unread=(0,)), net.random(c)))
    net.output(net.add("Gemm", net.add("Flatten", net.add("GlobalMaxPool", h)), net.random(4, c), transB=1))
    g = core(net, tmp_path)
    assert_same(net, g, 1e-4)


def test_the_reference_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The person detector has 971 channels that are always the same, of 2,736: half of its work is for nothing."""
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    path = MODELS / "vww" / "model.onnx"
    g = pipeline.run(import_onnx(path))
    monkeypatch.setattr(knobs, "KEEP_DEAD_CHANNELS", True)
    whole = pipeline.run(import_onnx(path))
    assert macs(whole) == 7_489_664
    assert macs(g) <= 3_890_000
    linear = ("Conv2d", "DepthwiseConv2d", "FullyConnected")
    assert sum(channels(whole, *linear)) - sum(channels(g, *linear)) >= 971


def test_a_quantised_model_keeps_its_channels() -> None:
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    g = pipeline.run(import_onnx(MODELS / "vww" / "model_qdq.onnx"))
    assert macs(g) == 7_489_664
    assert macs(dead_channels.run(g)) == 7_489_664
