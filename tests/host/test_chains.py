"""Samples of models with states: the errors that a quantised run writes into a state reach the next runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net

from mica.importer import import_onnx
from mica.ir.graph import Graph, Node
from mica.passes import pipeline, streaming
from mica.quantise import chains, lowbits, simulate
from mica.quantise.calibrate import calibrate
from mica.quantise.chains import ALONE, Chain
from mica.quantise.params import choose_quants
from mica.quantise.tune import PLAIN, Tuned, copy

N = 32
PAIRS = [("s", "s_after")]
Samples = list[dict[str, np.ndarray]]


def _sums(folder: Path, forgets: bool) -> tuple[Graph, Samples]:
    """s_after = s + x @ W, or 0.9 * s + x @ W; y = s_after @ V."""
    net = Net(seed=6)
    x, s = net.input([1, N], "x"), net.input([1, N], "s")
    s = net.add("Mul", s, net.const(0.9)) if forgets else s
    s = net.add("Add", s, net.add("MatMul", x, net.random(N, N, scale=0.1)), outputs=["s_after"])
    net.output(net.add("MatMul", s, net.random(N, N, scale=0.1), outputs=["y"]))
    net.output("s_after")
    g = pipeline.run(import_onnx(net.save(folder)))
    rng = np.random.default_rng(7)
    samples: Samples = [{"x": rng.standard_normal((1, N)).astype(np.float32)} for _ in range(24)]
    streaming.play(g, samples, PAIRS)
    return g, samples


@pytest.mark.parametrize("forgets", [False, True])
def test_noise_gathers(tmp_path: Path, forgets: bool) -> None:
    """Without state pairs the noise is that of each sample alone; with them it is that of consecutive runs."""
    g, samples = _sums(tmp_path, forgets)
    quants = choose_quants(g, calibrate(g, samples))
    coarse = copy(g)
    for node in coarse.nodes:
        if node.op == "FullyConnected":
            w = np.asarray(g.data(node.inputs[1]))
            node.inputs[1] = coarse.new_const("coarse", np.float32(0.1) * np.rint(w / np.float32(0.1)))
    tried = [(g, quants), (coarse, quants)]
    alone = simulate.noise(g, tried, samples)
    np.testing.assert_allclose(chains.noise(g, tried, samples, []), alone, atol=1e-6)
    together = chains.noise(g, tried, samples, PAIRS)
    assert together[1] > alone[1] + 3
    assert together[0] < together[1] - 3
    apart, handed_on = (chains.added(g, [g, coarse], samples, pairs) for pairs in ([], PAIRS))
    assert apart[0] == handed_on[0] == 0.0  # the same weights
    assert 0 < 2 * apart[1] < handed_on[1]


def test_states_are_handed_on(tmp_path: Path) -> None:
    """Layer after layer, where nothing reads a state before it is written, and from a sample to the one behind it."""
    g, samples = _sums(tmp_path, True)
    assert Chain(PAIRS, samples).written_first(g) == {}
    g, samples = _sums(tmp_path, False)
    chain = Chain(PAIRS, samples)
    assert chain.written_first(g) == {"s_after": "s"} and ALONE.written_first(g) == {}
    assert chain.follows(samples[3], samples[4])
    assert not chain.follows(samples[3], samples[5]) and not chain.follows(samples[4], samples[3])
    tuned = Tuned(g, g, calibrate(g, samples), {}, PLAIN)
    names = lowbits.candidates(g)
    assert len(names) == 2

    def weights(part: Samples, by: Chain) -> list[np.ndarray]:
        made = lowbits.run(tuned, part, names, chain=by).graph
        return [np.asarray(made.data(n.inputs[1])) for n in made.nodes if n.op == "FullyConnected"]

    apart, together = weights(samples, ALONE), weights(samples, chain)
    np.testing.assert_array_equal(apart[0], together[0])
    assert np.any(apart[1] != together[1])
    broken = samples[0::2]
    for a, b in zip(weights(broken, ALONE), weights(broken, chain), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("rounded", [False, True])
def test_several_samples_together(tmp_path: Path, rounded: bool) -> None:
    """Step by step over all samples at once, every value has the bits that it has alone."""
    net = Net(seed=8)
    y = net.add("Relu", net.conv(net.input([1, 3, 6, 6]), 3, 8, pads=[1, 1, 1, 1]))
    y = net.add("Transpose", net.add("Add", y, net.conv(y, 8, 8, 1)), perm=[0, 2, 3, 1])
    net.output(net.add("Softmax", net.add("MatMul", net.add("Flatten", y), net.random(288, 5))))
    g = pipeline.run(import_onnx(net.save(tmp_path)))
    rng = np.random.default_rng(9)
    samples: Samples = [
        {g.inputs[0]: rng.standard_normal(g.value(g.inputs[0]).shape).astype(np.float32)} for _ in "abc"
    ]
    quants = choose_quants(g, calibrate(g, samples)) if rounded else None
    alone, together = ([dict(s) for s in samples] for _ in range(2))
    for node in g.nodes:
        for values in alone:
            simulate.step(g, node, values, quants)
        simulate.steps(g, node, together, quants)
    for a, b in zip(alone, together, strict=True):
        assert a.keys() == b.keys()
        for name, x in a.items():
            np.testing.assert_array_equal(x, b[name])


def test_only_what_changed_is_computed_again(tmp_path: Path) -> None:
    """A layer behind the state leaves the first one and the state as they are; one before it changes all."""
    g, _ = _sums(tmp_path, False)
    first, last = (n for n in g.nodes if n.op == "FullyConnected")

    def changed(node: Node) -> set[str]:
        other = copy(g)
        of_other = other.producers()[node.outputs[0]]
        of_other.inputs[1] = other.new_const("coarse", np.asarray(g.data(node.inputs[1])) * np.float32(0.5))
        return {o for n in chains._changed(g, other, PAIRS) for o in n.outputs}

    assert changed(last) == {"y"}
    assert {*last.outputs, *first.outputs, "s_after"} <= changed(first)


def test_texts_join_the_fit(tmp_path: Path) -> None:
    """Their runs get the states that the float runs before them leave, as the samples have them;
    and they change weights."""
    g, samples = _sums(tmp_path, False)
    tuned = Tuned(g, g, calibrate(g, samples), {}, PLAIN)
    rng = np.random.default_rng(10)
    text: Samples = [{"x": rng.standard_normal((1, N)).astype(np.float32)} for _ in range(12)]
    short = [dict(run) for run in text]
    short[0]["s"] = np.zeros((1, N), np.float32)
    streaming.play(g, text, PAIRS)

    def weights(*texts: Samples) -> np.ndarray:
        made = lowbits.run(tuned, samples, lowbits.candidates(g), chain=Chain(PAIRS, samples, texts)).graph
        return np.concatenate([np.asarray(made.data(n.inputs[1])) for n in made.nodes if n.op == "FullyConnected"])

    np.testing.assert_array_equal(weights(short), weights(text))
    assert np.any(weights() != weights(text))
