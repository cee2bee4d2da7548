"""Runs that a language model makes of its own words: whose tokens they are, and where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net

import mica.demo
from mica.data.calibration import load_calibration, samples_for
from mica.importer import import_model, import_onnx
from mica.ir.graph import Graph, StatePair
from mica.packing.state import find
from mica.passes import pipeline, streaming
from mica.quantise import own_text
from mica.quantise.calibrate import Samples
from mica.quantise.chains import Chain
from mica.reference import batch
from mica.reference.float_ops import softmax

DEMO = Path(mica.demo.__file__).parent
N = 20


@pytest.fixture(scope="module")
def command() -> tuple[Graph, Samples, list[StatePair]]:
    """The network that turns sentences into calls, and its first consecutive runs."""
    imported = import_model(DEMO / "command.onnx")
    pairs = find(imported)
    g = pipeline.run(imported)
    inputs = [i for i in g.inputs if i not in {s for s, _ in pairs}]
    given = {name: a[:N] for name, a in load_calibration(DEMO / "command_calib.npz", inputs).items()}
    zeros = {s: np.zeros((N, *g.value(s).shape), np.float32) for s, _ in pairs}
    samples = samples_for(g, {**given, **zeros})
    streaming.play(g, samples, pairs)
    return g, samples, pairs


def test_texts(command: tuple[Graph, Samples, list[StatePair]]) -> None:
    """Each token is one that the scores of the runs before it make likely; all else is as the samples have it."""
    g, samples, pairs = command
    texts = own_text.texts(g, samples, pairs, 4 * N)
    assert [len(text) for text in texts] == [N, N, N]
    assert {str(text) for text in texts} == {str(text) for text in own_text.texts(g, samples, pairs, 4 * N)}
    states = {s for s, _ in pairs}
    drawn = []
    for text in texts:
        played = [dict(run) for run in text]
        streaming.play(g, played, pairs)  # from states of 0 on
        assert int(text[0]["token"].item()) == int(samples[0]["token"].item())
        assert states <= set(text[0]) and not any(np.any(text[0][s]) for s in states)
        for t, (run, after) in enumerate(zip(played, text[1:], strict=False)):
            assert states.isdisjoint(after) and after["position"].item() == samples[t + 1]["position"].item()
            (scores,) = (y for name, y in batch.stream(g, batch.inputs([run])) if name == "logits")
            drawn.append(float(softmax(scores.reshape(-1))[int(after["token"].item())]))
    assert min(drawn) > 1e-6 and np.exp(np.mean(np.log(drawn))) > 0.02  # one of 256 by chance: 0.004
    assert len({tuple(int(run["token"].item()) for run in text) for text in texts}) == 3


def test_a_text_begins_anew(command: tuple[Graph, Samples, list[StatePair]]) -> None:
    g, samples, pairs = command
    first, second = own_text.texts(g, samples, pairs, 3 * N)
    chain = Chain(pairs, samples, [first, second])
    assert chain.follows(samples[0], samples[1]) and chain.follows(first[0], first[1])
    assert not chain.follows(samples[-1], first[0]) and not chain.follows(first[-1], second[0])


def test_no_texts(command: tuple[Graph, Samples, list[StatePair]], tmp_path: Path) -> None:
    """No text is made with enough samples or hardly any, without states, or without a token among the inputs."""
    g, samples, pairs = command
    assert own_text.texts(g, samples, pairs, N) == own_text.texts(g, samples[:4], pairs) == []
    assert own_text.texts(g, samples, []) == []
    net = Net(seed=6)
    x, s = net.input([1, 8], "x"), net.input([1, 8], "s")
    net.output(net.add("MatMul", net.add("Add", s, x, outputs=["s_after"]), net.random(8, 8), outputs=["y"]))
    net.output("s_after")
    sums = pipeline.run(import_onnx(net.save(tmp_path)))
    runs: Samples = [{"x": np.ones((1, 8), np.float32)} for _ in range(N)]
    streaming.play(sums, runs, [("s", "s_after")])
    assert own_text.texts(sums, runs, [("s", "s_after")]) == []
