"""`mica fit` predicts the cost of TopK and of elements at computed places, for shapes that its table has not seen."""

from __future__ import annotations

import bare_metal
import numpy as np
import pytest
from bare_metal import CORES, Job
from case import Case
from one_step import model_of
from targets import costs_within

from mica.cost.table import Table
from mica.file import codec
from mica.kernels.integers import Output

APART = 0.05
INPUTS = 12  # whose mean is foretold: what one costs depends on the order of its elements

# Kernel, [outer, n, inner], places along the axis.
SHAPES = (
    ("top_k_s8", (1, 90, 1), 5),
    ("top_k_s8", (1, 12, 1), 1),
    ("top_k_s8", (30, 20, 1), 3),
    ("top_k_s8", (3, 48, 6), 12),
    ("pick_s8", (1, 90, 1), 5),
    ("pick_s8", (4, 24, 7), 9),
    ("pick_s8", (20, 12, 1), 4),
)


@pytest.mark.parametrize("name", ["m0plus", "m33", "rv32"])
def test_foretold(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    core, table, rng = CORES[name], Table.read(), np.random.default_rng(17)
    apart = costs_within(core.tools[0], table.content["cores"][name]["compiler"], APART)
    assert not bare_metal.available(core), bare_metal.available(core)
    jobs = []
    for kernel, dims, k in SHAPES:
        out = (dims[0], k, dims[2])
        for i in range(INPUTS):
            xs = [rng.integers(-128, 128, dims, dtype=np.int8)]
            if kernel == "pick_s8":
                case = Case(
                    kernel, kernel, [*xs, rng.integers(0, dims[1], out, dtype=np.int32)], {"axis": 1}, Output(out)
                )
            else:
                case = Case(kernel, kernel, xs, {"axis": 1, "smallest": i % 2}, Output(out))
            model = bare_metal.for_board(model_of(case), core.board)
            jobs.append(Job(f"{kernel} {dims} {k} {i}", model, list(case.xs), times=4))
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    for at, (kernel, dims, k) in enumerate(SHAPES):
        counted = np.mean([r.counts[0] for r in results[at * INPUTS : (at + 1) * INPUTS]])
        model = codec.decode(jobs[at * INPUTS].data)
        told = table.step(name, model, model.steps[0], results[0].scratch_bytes)
        assert told is not None, f"{kernel} was never measured: scripts/costs --only places"
        with capsys.disabled():
            print(f"\n{name}: {kernel} {dims} {k}: {counted:,.0f} {core.unit}, foretold {told.cost:,.0f}", end="")
        assert abs(told.cost / counted - 1) <= apart
