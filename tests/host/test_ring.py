"""A decoder whose cache has gone round many times, and runs of it that are cut at every layer.
`command` of ../shared/models/lm."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from mica.compile import compile_file
from mica.file import tokens
from mica.file.tokens import Tokens
from mica.format.values import dequantise_output
from mica.importer import import_model, vocabulary
from mica.packing import state
from mica.reference import functions
from mica.run.host import HostRunner
from mica.run.text import run_inputs, tokens_of

COMMAND = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "lm" / "command"
WINDOW = 64
BEYOND = 1000  # tokens past the end of the cache
WIDE = 192  # tokens that are compared: as far as three layers see, and more

pytestmark = pytest.mark.skipif(not COMMAND.is_dir(), reason="the folder ../shared/models/lm is missing")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """With a table of angles that is long enough; its ranges from 110 tokens of the calibration data."""
    proto = onnx.load(COMMAND / "step_opset24.onnx")
    tables = {i.name: i for i in proto.graph.initializer if i.name in ("cos", "sin")}
    cosines, sines = (numpy_helper.to_array(tables[n]) for n in ("cos", "sin"))
    angles = np.arange(WINDOW + BEYOND + WIDE)[:, None] * np.arctan2(sines[1], cosines[1])
    for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
        tables[name].CopyFrom(numpy_helper.from_array(table.astype(np.float32), name))
    path = tmp_path_factory.mktemp("ring") / "long.onnx"
    onnx.save(proto, path)
    data = {n: a[:110].astype(np.float32) for n, a in np.load(COMMAND / "calib.npz").items()}
    data["length"] = np.minimum(data["position"] + 1, WINDOW)
    return compile_file(path, data, plain=True, states=state.find(import_model(path)), tokens=pieces()).data


def pieces() -> Tokens:
    return vocabulary.read(f"{COMMAND / 'vocab.json'},begin=0,end=0")


def text() -> list[int]:
    """Sentences and their calls, one behind the other."""
    lines = (COMMAND / "held.tsv").read_text().splitlines()[:80]
    return [i for line in lines for i in [0, *tokens.encode(pieces(), line.replace("\t", "\n"))]]


def nats(data: bytes, given: list[int]) -> np.ndarray:
    """Nats of each token after the first."""
    runner = HostRunner(data)
    runner.reset()
    t = tokens_of(runner.model)
    y = runner.model.tensors[runner.model.outputs[t.output]]
    found = []
    for at, (token, following) in enumerate(pairwise(given)):
        for k, x in enumerate(run_inputs(t, token, at)):
            runner.loaded.set_input(k, x)
        runner.loaded.run()
        z = dequantise_output(runner.loaded.output(t.output), y).reshape(-1).astype(np.float64)
        found.append(np.log(functions.exp(z - z.max()).sum()) + z.max() - z[following])
    return np.array(found)


def test_no_jump(model: bytes) -> None:
    """Text after a thousand tokens costs as many nats as the same text at the beginning, the cache full both times."""
    given = text()
    assert len(given) > WINDOW + BEYOND + WIDE
    last = given[WINDOW + BEYOND : WINDOW + BEYOND + WIDE]
    late, early = nats(model, [*given[: WINDOW + BEYOND], *last]), nats(model, last)
    late, early = late[-(WIDE - 2 * WINDOW) :], early[-(WIDE - 2 * WINDOW) :]
    assert abs(late.mean() - early.mean()) < 0.05
    assert np.abs(late - early).max() < 1.0


def test_the_table_of_angles_ends(model: bytes) -> None:
    """Its rows are the positions that a text can have, although RotaryEmbedding reshapes the position before it looks
    it up."""
    assert tokens_of(HostRunner(model).model).positions == WINDOW + BEYOND + WIDE


def test_every_cut_repeats_the_text(model: bytes) -> None:
    """At each layer in turn, at each token in turn: run again with the same token,
    the numbers are those of a run in one."""
    given = text()[: 2 * WINDOW + 20]
    whole, cut = HostRunner(model), HostRunner(model)
    t = tokens_of(whole.model)
    layers = len(whole.model.steps)
    for at, token in enumerate(given):
        for runner, last in ((cut, at * 7 % layers), (cut, layers), (whole, layers)):
            for k, x in enumerate(run_inputs(t, token, at)):
                runner.loaded.set_input(k, x)
            for k in range(last):
                runner.loaded.run_step(k)
        assert np.array_equal(whole.loaded.output(t.output), cut.loaded.output(t.output)), at
    assert {at * 7 % layers for at in range(len(given))} == set(range(layers))
