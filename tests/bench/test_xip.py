"""The model of the RP2040's flash cache, where it can be worked out by hand;
and the anomaly detector in four bits behind it."""

from __future__ import annotations

from pathlib import Path

import bare_metal
import layers
import numpy as np
import pytest
from bare_metal import CORES, HOT, Job

from mica.compile import compile_file
from mica.data.calibration import load_calibration
from mica.importer import import_onnx
from mica.quantise.choose_bits import Bits

AD = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "ad"
MOST = {40: 2_900_000}  # cycles of the whole model, by those of a missing word
CORE = CORES["m0plus"]
WORD = 4


@pytest.fixture(scope="module")
def counts() -> dict[int | None, float]:
    """Cycles of a fully connected layer of 640 x 128 weights, by the cost of a miss; None: without the cache's
    model."""
    if why := bare_metal.available(CORE):
        pytest.skip(why)
    (layer,) = [x for x in layers.LAYERS if x.name == "ad.fc 640-128"]
    job: Job = layers.job(layer, "", CORE.board)
    program = bare_metal.build(CORE, more=HOT)
    found = {}
    for xip in (None, 0, 40, 80):
        results = bare_metal.run(CORE, program, [job], xip=xip)
        assert bare_metal.differences([job], results, {job.name: bare_metal.expected(job)}) == []
        found[xip] = sum(results[0].counts)
    return found


def test_a_miss_that_costs_nothing(counts: dict[int | None, float]) -> None:
    assert counts[0] == counts[None]


def test_each_word_of_weights_is_missed_once(counts: dict[int | None, float]) -> None:
    """The weights are read in order, once, and have five times the cache's size; biases, factors and code come on
    top."""
    words = 640 * 128 / WORD
    missed = (counts[40] - counts[0]) / 40
    assert words <= missed <= 1.1 * words
    assert counts[80] - counts[40] == counts[40] - counts[0]


@pytest.mark.skipif(not AD.is_dir(), reason="the folder ../shared/models/ad is missing")
def test_four_bits() -> None:
    """A dense model in four bits keeps its bounds. Calibration takes a few samples only, which changes no count."""
    if why := bare_metal.available(CORE):
        pytest.skip(why)
    graph = import_onnx(AD / "model.onnx", {"N": 1})
    samples = load_calibration(str(AD / "calib.npz"), graph.inputs, {i: graph.value(i).shape for i in graph.inputs})
    few = {name: x[:40] for name, x in samples.items()}
    model = compile_file(AD / "model.onnx", few, {"N": 1}, plain=True, bits=Bits()).model
    xs = [bare_metal.random_input(model.tensors[i], np.random.default_rng(1)) for i in model.inputs]
    job = Job("ad", bare_metal.for_board(model, CORE.board), xs)
    for miss, most in MOST.items():
        results = bare_metal.run(CORE, bare_metal.build(CORE, more=HOT), [job], xip=miss)
        assert bare_metal.differences([job], results, {job.name: bare_metal.expected(job)}) == []
        assert sum(results[0].counts) <= most
