"""`mica fit` within 10 % of a count where it once was not: layers that the table's sweeps had few of, and forests."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import bare_metal
import cycle_tables
import layers
import numpy as np
import pytest
from bare_metal import CORES, Job
from layers import Layer
from targets import costs_within

from mica.boards import load_board
from mica.compile import compile_file
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.file import codec

FOREST = Path(__file__).resolve().parent.parent / "models" / "classic"
TIMES = 8  # that a layer runs: a counter of instructions ticks once in 40

# By kind; none is in the sweeps that the table is fitted to.
KINDS = {
    "pointwise on few pixels": [
        Layer(f"1x1 {c}-{n} on {h}x{w}", "conv", (h, w, c), n, {})
        for c, n, h, w in ((8, 12, 2, 2), (12, 20, 2, 2), (16, 16, 1, 4), (24, 8, 4, 1), (32, 64, 1, 1), (8, 8, 1, 3))
    ],
    "windows on small maps": [
        Layer(f"3x3 {c}-{n} on {h}x{w}", "conv", (h, w, c), n, {}, (3, 3))
        for c, n, h, w in ((1, 4, 8, 8), (4, 12, 4, 4), (12, 8, 3, 3), (8, 16, 5, 3), (4, 8, 2, 6))
    ],
    "windows in parts": [
        Layer(f"3x3 {c}-24 on {s}x{s}", "conv", (s, s, c), 24, {}, (3, 3)) for c, s in ((96, 4), (144, 3))
    ],
    "depthwise maps": [
        Layer(f"dw {h}x{w}x{c} {s}", "dw", (h, w, c), c, {}, (3, 3), s)
        for h, w, c, s in ((2, 2, 40, 1), (2, 6, 16, 1), (3, 3, 96, 1), (4, 4, 32, 2), (2, 8, 12, 1))
    ],
    "depthwise by fours": [
        Layer(f"dw {h}x{w}x{c} by {kh}x{kw}", "dw", (h, w, c), c, {}, (kh, kw))
        for h, w, c, kh, kw in (
            (20, 1, 32, 5, 1),
            (11, 1, 40, 9, 1),
            (6, 7, 16, 5, 5),
            (4, 9, 10, 3, 5),
            (30, 1, 12, 21, 1),
        )
    ],
    "softmax": [Layer(f"softmax of {n}", "softmax", (n,), n, {}) for n in (3, 4, 7, 12)],
}


@pytest.mark.parametrize("name", ["m0plus", "m33"])
def test_layers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    core, table = CORES[name], Table.read()
    assert not bare_metal.available(core), bare_metal.available(core)
    jobs = [layers.job(layer, "", core.board) for kind in KINDS.values() for layer in kind]
    rows = layers.job(Layer("fc 9216-6", "fc", (9216,), 6, {}), "", core.board, 16384)  # less than a row takes
    jobs = [dataclasses.replace(job, times=TIMES) for job in jobs] + [rows]
    apart, wrong = costs_within(core.tools[0], table.content["cores"][name]["compiler"]), []
    for job, result in zip(jobs, bare_metal.run(core, bare_metal.build(core), jobs), strict=True):
        model = codec.decode(job.data)
        told = table.step(name, model, model.steps[0], result.scratch_bytes)
        assert told is not None, job.name
        counted, ratio = result.counts[0], told.cost / result.counts[0]
        line = f"{name}: {job.name}: {told.cost:,.0f} foretold, {counted:,.0f} counted: {ratio:.3f} ({told.kind})"
        if abs(ratio - 1) > apart:
            wrong.append(line)
        with capsys.disabled():
            print("\n" + line, end="")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["forest", "forest_regressor", "boosting", "xgboost_regressor"])
def test_forests_in_cycles(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An instruction of a forest takes fewer cycles than one of a network."""
    core, board = CORES["m33"], load_board("RPI_PICO2")
    assert not bare_metal.available(core), bare_metal.available(core)
    with np.load(FOREST / f"{name}.npz") as data:
        packed = compile_file(FOREST / f"{name}.onnx", {"x": data["x"]}, scratch_limit=board.scratch)
        jobs = [Job(f"{name} {i}", packed.data, [x[None]], times=8) for i, x in enumerate(data["test/x"][:8])]
    program = bare_metal.build(core)
    results = bare_metal.run(core, program, jobs, cycles=cycle_tables.TABLES[core.name])
    counted = np.mean([sum(result.cycles) for result in results])
    layers_told = predict(packed.model, packed.data, board, Table.read()).layers
    facts = Table.read().board(board)
    told = sum(x["cost"] - x["flash"] - facts["call"] * facts["cycles"] for x in layers_told)
    with capsys.disabled():
        print(f"\n{name}: {told:,.0f} cycles foretold, {counted:,.0f} counted: {told / counted:.3f}", end="")
    assert abs(told / counted - 1) <= costs_within(core.tools[0], Table.read().content["cores"]["m33"]["compiler"])
