"""Cost of a token of the decoders in ../shared/models/lm on emulated cores, layer after layer; `mica fit` predicts it.

On the virtual Pico each layer of a token takes another 500 cycles (`mica bench`): the bounds leave room for them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import bare_metal
import numpy as np
import pytest
from bare_metal import CORES, Job

from mica.compile import compile_file
from mica.cost.table import Table
from mica.file import codec
from mica.file.codec import DTYPE_NUMPY, ModelFile
from mica.importer import import_model
from mica.packing import state

LM = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "lm"
STEP = 500  # cycles beside each layer
SAMPLES = 40  # of calibration: ranges change no count
APART = 0.05  # what was foretold from what was counted

pytestmark = pytest.mark.skipif(not LM.is_dir(), reason="the folder ../shared/models/lm is missing")


ROWS = {"story": 128, "command": 64}
BOUNDS = {("m0plus", "story"): (2_600_000, 1_700_000), ("m0plus", "command"): (900_000, 900_000)}
AT = 9  # the tenth token


@cache
def packed(name: str) -> ModelFile:
    """With ranges of a few samples."""
    path = LM / name / "step_opset24.onnx"
    data = {n: a[:SAMPLES].astype(np.float32) for n, a in np.load(LM / name / "calib.npz").items()}
    data["length"] = np.minimum(data["position"] + 1, ROWS[name])
    return compile_file(path, data, plain=True, states=state.find(import_model(path))).model


@pytest.mark.parametrize("name", list(ROWS))
@pytest.mark.parametrize("core_name", ["m0plus", "m33", "rv32"])
def test_a_token(core_name: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one of a full cache, and the tenth."""
    core = CORES[core_name]
    assert not bare_metal.available(core), bare_metal.available(core)
    model = packed(name)
    jobs = []
    for position in (ROWS[name] - 1, AT):
        given = {"token": 7, "position": position, "length": position + 1}
        inputs = [model.tensors[i] for i in model.inputs]
        xs = [np.full(t.dims, given[t.name], DTYPE_NUMPY[t.dtype]) for t in inputs]
        jobs.append(Job(f"{name} at {position}", bare_metal.for_board(model, core.board), xs))
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    table, given_scratch = Table.read(), results[0].scratch_bytes
    file = codec.decode(jobs[0].data)
    steps = [table.step(core.name, file, s, given_scratch) for s in file.steps]
    assert all(steps), "a kind of step was never measured: scripts/costs --only decoder"
    foretold, counts = sum(s.cost for s in steps if s), [sum(r.counts) for r in results]
    with capsys.disabled():
        print(
            f"\n{core.name}, {name}: {len(file.steps)} layers, {counts[0]:,.0f} {core.unit} with a full cache,", end=" "
        )
        print(f"{counts[1]:,.0f} for the tenth token; foretold {foretold:,.0f}")
    for count, bound in zip(counts, BOUNDS.get((core.name, name), ()), strict=False):
        assert count + STEP * len(file.steps) <= bound
    assert abs(foretold / counts[0] - 1) <= APART
