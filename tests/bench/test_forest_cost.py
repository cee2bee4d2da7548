"""A forest of 100 trees of depth 8 on the digits: cycles of an answer on the Cortex-M0+, from float32 features to the class.

The committed forest has 8 trees; here they are walked through again and again, up to 100.
"""

from __future__ import annotations

from pathlib import Path

import bare_metal
import numpy as np
import pytest
from bare_metal import CORES, Job

from mica.compiler import compile_model
from mica.format.codec import encode

FOLDER = Path(__file__).resolve().parent.parent / "models" / "classic"
MOST = 25_000  # cycles
TREES = 100
SAMPLES = 12


def test_a_hundred_trees(capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES["m0plus"]
    assert not bare_metal.available(core), bare_metal.available(core)
    with np.load(FOLDER / "forest.npz") as data:
        model = compile_model(FOLDER / "forest.onnx", {"x": data["x"]}).model
        inputs = data["test/x"][:SAMPLES, None]
    step = next(s for s in model.steps if s.kernel == "forest_s8")
    step.blobs["roots"] = np.resize(step.blobs["roots"], TREES)
    step.params["trees"] = TREES
    jobs = [Job(f"forest {i}", encode(model), [x]) for i, x in enumerate(inputs)]
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    wrong = bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    assert not wrong, "\n".join(wrong)
    counts = np.array([r.counts for r in results])
    with capsys.disabled():
        each = ", ".join(f"{s.kernel} {c:,.0f}" for s, c in zip(model.steps, counts.mean(axis=0), strict=True))
        print(
            f"\n{TREES} trees: {counts.sum(axis=1).mean():,.0f} cycles, {counts.sum(axis=1).max():,.0f} at most; {each}"
        )
    assert counts.sum(axis=1).max() <= MOST
