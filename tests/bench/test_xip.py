"""The model of the RP2040's flash cache, where it can be worked out by hand."""

from __future__ import annotations

import bare_metal
import layers
import pytest
from bare_metal import CORES, HOT, Job

CORE = CORES["m0plus"]
LINE = 8


@pytest.fixture(scope="module")
def counts() -> dict[int | None, float]:
    """Cycles of a fully connected layer of 640 x 128 weights by what a miss costs; None: without the cache's model."""
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


def test_each_line_of_weights_is_missed_once(counts: dict[int | None, float]) -> None:
    """They are read in order, once, and are five times what the cache holds; biases, factors and code come on top."""
    lines = 640 * 128 / LINE
    missed = (counts[40] - counts[0]) / 40
    assert lines <= missed <= 1.1 * lines
    assert counts[80] - counts[40] == counts[40] - counts[0]
