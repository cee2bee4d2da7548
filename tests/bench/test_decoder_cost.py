"""What a token of the decoders in ../shared/models/lm costs on a Cortex-M0+, layer after layer, and that `mica fit` foretells it.

Beside its layers a token takes 330 cycles for each of them on a Pico (usermod_c/BENCH.md), which these bounds leave room for.
"""

from __future__ import annotations

from pathlib import Path

import bare_metal
import numpy as np
import pytest
from bare_metal import CORES, Job

from mica.compiler import compile_model
from mica.cost.table import Table
from mica.format import codec
from mica.format.codec import DTYPE_NUMPY
from mica.importer import import_model
from mica.pack import ties

LM = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "lm"
STEP = 330  # cycles of MicroPython for each layer
SAMPLES = 40  # of calibration: ranges change no count
APART = 0.05  # what was foretold from what was counted

pytestmark = pytest.mark.skipif(not LM.is_dir(), reason="the folder ../shared/models/lm is missing")


@pytest.mark.parametrize(
    ("name", "rows", "bounds"), [("story", 128, {127: 2_600_000, 9: 1_700_000}), ("command", 64, {63: 900_000})]
)
def test_a_token(name: str, rows: int, bounds: dict[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES["m0plus"]
    assert not bare_metal.available(core), bare_metal.available(core)
    path = LM / name / "step_opset24.onnx"
    data = {n: a[:SAMPLES].astype(np.float32) for n, a in np.load(LM / name / "calib.npz").items()}
    data["length"] = np.minimum(data["position"] + 1, rows)
    model = compile_model(path, data, plain=True, states=ties.find(import_model(path))).model
    jobs = []
    for position in bounds:
        given = {"token": 7, "position": position, "length": position + 1}
        inputs = [model.tensors[i] for i in model.inputs]
        xs = [np.full(t.dims, given[t.name], DTYPE_NUMPY[t.dtype]) for t in inputs]
        jobs.append(Job(f"{name} at {position}", bare_metal.for_board(model, "RPI_PICO"), xs))
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    table = Table.read()
    packed = codec.decode(jobs[0].data)
    foretold = [table.step(core.name, packed, s, results[0].scratch_bytes) for s in packed.steps]
    assert all(foretold), "a kind of step was never measured: scripts/costs --decoder"
    told, counted = sum(s.cost for s in foretold if s), sum(results[0].counts)
    with capsys.disabled():
        tokens = ", ".join(f"at {at} {sum(r.counts):,.0f}" for at, r in zip(bounds, results, strict=True))
        print(f"\n{name}: {len(packed.steps)} layers; {tokens} cycles; foretold with a full cache {told:,.0f}")
    for bound, result in zip(bounds.values(), results, strict=True):
        assert sum(result.counts) + STEP * len(packed.steps) <= bound
    assert abs(told / counted - 1) <= APART
