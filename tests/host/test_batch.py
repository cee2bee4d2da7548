"""Several samples in one go each give the same bits as alone; a kept result equals a new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net, core

from mica.errors import MicaError
from mica.ir.graph import Graph, Quant
from mica.quantise import methods, moments
from mica.quantise.calibrate import Runs, observe
from mica.quantise.histogram import Histogram
from mica.quantise.tune import ROUNDED, tune
from mica.reference import batch, float_ops

SAMPLES = 7


def _layers(net: Net) -> None:
    """Every operator that goes in batches, and two that go one by one."""
    x = net.input([1, 3, 9, 7])
    y = net.add("Relu", net.conv(x, 3, 8, pads=[1, 1, 1, 1], strides=[2, 1]))
    y = net.add("Clip", net.conv(y, 8, 8, group=8, pads=[1, 0, 1, 2]), net.const(0.0), net.const(1.0))
    z = net.conv(net.add("Tanh", net.conv(y, 8, 12, k=1)), 12, 6, group=3, dilations=[2, 1], pads=[2, 1, 2, 1])
    z = net.add("Add", z, net.conv(y, 8, 6, k=1))
    z = net.add("Concat", net.add("Log", z), z, axis=1)  # NaN and infinity become something else in each sample
    z = net.conv(z, 12, 12, group=12, k=1)
    net.output(net.add("Softmax", net.add("Flatten", net.add("GlobalAveragePool", z)), axis=-1))


def _pictures(net: Net) -> None:
    x = net.input([1, 2, 8, 8])
    y = net.add("LeakyRelu", net.conv(x, 2, 6, pads=[0, 0, 1, 1], strides=[2, 2]), alpha=0.1)
    y = net.add("MaxPool", net.conv(y, 6, 6, group=6, pads=[1, 1, 1, 1]), kernel_shape=[2, 2], strides=[2, 2])
    y = net.add("Exp", net.add("Mul", y, net.conv(y, 6, 6, k=1)))
    y = net.add("Flatten", net.add("GlobalAveragePool", y))
    y = net.add("Gemm", y, net.random(6, 5), net.random(5))
    net.output(net.add("Softmax", y, axis=-1))


def _graph(build: Callable[[Net], None], folder: Path) -> tuple[Graph, list[dict[str, np.ndarray]]]:
    net = Net()
    build(net)
    samples = net.samples(SAMPLES)
    for k, sample in enumerate(samples):
        for x in sample.values():
            x *= np.float32(1.5**k / 4)  # of another size each
    return core(net, folder), samples


@pytest.mark.parametrize("build", [_layers, _pictures])
def test_batches_give_the_bits_of_single_samples(build: Callable[[Net], None], tmp_path: Path) -> None:
    g, samples = _graph(build, tmp_path)
    together = dict(batch.stream(g, batch.inputs(samples)))
    for k, sample in enumerate(samples):
        for name, expected in float_ops.run(g, sample).items():
            found = together[name][k]
            assert found.dtype == expected.dtype and found.shape == expected.shape
            assert found.tobytes() == expected.tobytes(), (name, k)


def test_which_graphs_go_in_batches(tmp_path: Path) -> None:
    g, _ = _graph(_pictures, tmp_path)
    assert {n.op for n in g.nodes} <= batch.TOGETHER
    sizes = [int(np.prod(g.value(n).shape)) for n in [*g.inputs, *(o for node in g.nodes for o in node.outputs)]]
    assert batch.size(g) == int(batch.ELEMENTS / np.mean(sizes)) > 1
    g, _ = _graph(_layers, tmp_path)
    assert any(n.op == "Concat" for n in g.nodes)
    assert batch.size(g) == 1


@pytest.mark.parametrize("n", [1, 7, 8, 9, 128, 129, 1000, 40_000])
def test_squares_are_added_in_the_order_of_one_sample(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(4, n)) * 1e3
    assert batch.squares(x).tolist() == [np.sum(one**2) for one in x]
    wide = np.repeat(x, 3, axis=1).reshape(4, n, 3).transpose(0, 2, 1)
    assert batch.squares(wide).tolist() == [np.sum(one**2) for one in wide]


@pytest.mark.parametrize("build", [_layers, _pictures])
def test_runs_that_are_kept(build: Callable[[Net], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g, samples = _graph(build, tmp_path)
    made = []
    of_batch = batch.stream
    monkeypatch.setattr(batch, "stream", lambda g, x: made.append(len(next(iter(x.values())))) or of_batch(g, x))
    kept, again = Runs(g, room=1 << 27), Runs(g, room=0)
    for runs in (kept, again):
        first = observe(g, samples, kept=runs)
        second = observe(g, samples[::2], kept=runs)
        for _, values in runs(samples[1::2], g.outputs):
            assert set(values) == set(g.outputs)
        assert first.keys() == second.keys() == {*g.inputs, *(o for node in g.nodes for o in node.outputs)}
    assert sum(made) == SAMPLES + 2 * SAMPLES  # once; and once, then the halves again
    for name, h in observe(g, samples, kept=kept).items():
        assert h.bins.tolist() == first[name].bins.tolist() and (h.low, h.high) == (first[name].low, first[name].high)
    small = Runs(g, room=1000)
    assert all(
        np.array_equal(a[o], b[o]) for (_, a), (_, b) in zip(small(samples), kept(samples), strict=True) for o in a
    )
    assert small.room == 1000  # which is too little for anything but the outputs
    ran = len(made)
    assert all(set(values) == set(g.outputs) for _, values in small(samples, g.outputs)) and len(made) == ran


def test_the_first_sample_that_is_not_finite_is_told(tmp_path: Path) -> None:
    g, samples = _graph(_pictures, tmp_path)
    for k in (2, 5):
        samples[k]["x"][0, 0, 0, 0] = np.inf
    with pytest.raises(MicaError, match=r"calibration sample 12: input 'x' holds NaN or infinity"):
        observe(g, samples, numbers=range(10, 10 + SAMPLES))


def _naive_patches(g: Graph, k: int, x: np.ndarray) -> np.ndarray:
    """[groups, n, K] of a linear node, one number at a time."""
    node = g.nodes[k]
    w = g.value(node.inputs[1]).shape
    if node.op == "FullyConnected":
        return x.reshape(1, -1, w[1])
    channels = x.shape[3]
    groups = channels if node.op == "DepthwiseConv2d" else node.attrs["groups"]
    _, oh, ow, _ = g.value(node.outputs[0]).shape
    per = channels // groups
    found = np.zeros((groups, oh * ow, w[1] * w[2] * per), np.float32)
    for group, at, ky, kx in np.ndindex(groups, oh * ow, w[1], w[2]):
        y = at // ow * node.attrs["strides"][0] + ky * node.attrs["dilations"][0] - node.attrs["pads"][0]
        z = at % ow * node.attrs["strides"][1] + kx * node.attrs["dilations"][1] - node.attrs["pads"][1]
        if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
            start = (ky * w[2] + kx) * per
            found[group, at, start : start + per] = x[0, y, z, group * per : (group + 1) * per]
    return found


@pytest.mark.parametrize("build", [_layers, _pictures])
def test_moments_are_those_of_patches(build: Callable[[Net], None], tmp_path: Path) -> None:
    g, samples = _graph(build, tmp_path)
    samples = samples[:3]
    values = [float_ops.run(g, s) for s in samples]
    scale = {n: Quant(max(float(np.abs(v[n]).max()) for v in values) / 100 + 1e-9, -11) for n in values[0]}
    found = moments.measure(g, samples, scale)
    seen = set()
    for k, node in enumerate(g.nodes):
        if node.outputs[0] not in found:
            continue
        m, q = found[node.outputs[0]], scale[node.inputs[0]]
        seen.add(node.op)
        patches = np.concatenate([_naive_patches(g, k, v[node.inputs[0]]) for v in values], axis=1)
        steps = patches / np.float32(q.scale)
        integers = np.clip(np.rint(steps) + q.zero_point, -128, 127).astype(np.float64)
        assert m.count == patches.shape[1]
        assert np.array_equal(m.exact, np.rint(steps * moments.FINE).sum(axis=1, dtype=np.float64))
        assert np.array_equal(m.integers, integers.sum(axis=1))
        assert np.array_equal(m.products, integers.transpose(0, 2, 1) @ integers)
    assert {"Conv2d", "DepthwiseConv2d"} <= seen


def test_moments_that_are_known_are_not_made_again(tmp_path: Path) -> None:
    g, samples = _graph(_pictures, tmp_path)
    scales = {n: Quant(0.1, 0) for n in [*g.inputs, *(o for node in g.nodes for o in node.outputs)]}
    known: dict[tuple[str, Quant], moments.Moments] = {}
    first = moments.measure(g, samples, scales, known=known)
    conv = next(n for n in g.nodes if n.op == "Conv2d")
    second = moments.measure(g, samples, scales | {conv.inputs[0]: Quant(0.2, 0)}, known=known)
    assert [name for name in first if first[name] is not second[name]] == conv.outputs
    assert second[conv.outputs[0]].quant == Quant(0.2, 0)


def test_entropy_by_its_definition() -> None:
    """The range found has the least divergence of all that were asked, computed here bin by bin."""
    h = Histogram()
    rng = np.random.default_rng(3)
    h.add(np.concatenate([rng.normal(size=3000), rng.normal(size=40) * 9]).astype(np.float32))
    found = methods.entropy(h)
    x, n = h.points()

    def divergence(low: float, high: float) -> float:
        scale = (high - low) / 255
        zero = round(-low / scale)
        p: dict[int, float] = {}
        levels: dict[int, list[int]] = {}
        inside = [k for k in range(len(x)) if x[k] != 0 and low <= x[k] <= high]
        for k in range(len(x)):
            if x[k] != 0:
                end = min(max(k, inside[0]), inside[-1])
                p[end] = p.get(end, 0.0) + n[k]
        for k in inside:
            levels.setdefault(int(np.clip(np.rint(x[k] / scale) + zero, 0, 255)), []).append(k)
        q = {k: sum(n[i] for i in ks) / len(ks) for ks in levels.values() for k in ks}
        whole, mass = sum(p.values()), sum(q.values())
        return float(sum(v / whole * np.log(v / whole / (q[k] / mass)) for k, v in p.items() if v))

    best = divergence(found.low, found.high)
    assert best < divergence(h.low, h.high)
    for f in methods.FRACTIONS[::5]:
        assert best <= divergence(found.low, h.high * f) + 1e-9


def test_the_same_choice_whether_runs_are_kept_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g, _ = _graph(_pictures, tmp_path)
    rng = np.random.default_rng(1)
    samples = [{"x": rng.normal(size=(1, 2, 8, 8)).astype(np.float32)} for _ in range(20)]
    one = tune(g, samples)
    monkeypatch.setattr(batch, "ELEMENTS", 1)
    monkeypatch.setattr(Runs.__init__, "__defaults__", (0, None))
    other = tune(g, samples)
    assert one.recipe == other.recipe and one.ranges == other.ranges
    assert one.recipe.round or one.recipe != ROUNDED
    for a, b in zip(one.graph.nodes, other.graph.nodes, strict=True):
        for i, j in zip(a.inputs, b.inputs, strict=True):
            if one.graph.is_const(i):
                assert np.array_equal(one.graph.data(i), other.graph.data(j))
