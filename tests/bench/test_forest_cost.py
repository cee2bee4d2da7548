"""Forests on the Cortex-M0+: the oracle's bytes, and the cost of an answer of 100 trees of depth 8 on the digits.

The committed forest has 8 trees; here they are walked through again and again, up to 100.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import bare_metal
import numpy as np
import pytest
from bare_metal import CORES, USERMOD, Job
from one_step import model_of
from tabular_cases import tabular_cases

from mica.compile import compile_file
from mica.file.codec import encode
from mica.toolchain import tree_code

FOLDER = Path(__file__).resolve().parent.parent / "models" / "classic"
MOST = 24_000  # cycles
TREES = 100
SAMPLES = 12


def test_a_hundred_trees(capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES["m0plus"]
    assert not bare_metal.available(core), bare_metal.available(core)
    with np.load(FOLDER / "forest.npz") as data:
        model = compile_file(FOLDER / "forest.onnx", {"x": data["x"]}).model
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


def test_trees_as_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The code that `mica natmod --for` compiles gives the oracle's bytes, also of NaN, in given cycles."""
    core, usermod = CORES["m0plus"], tmp_path / "usermod_c"
    with np.load(FOLDER / "forest.npz") as data:
        model = compile_file(FOLDER / "forest.onnx", {"x": data["x"]}).model
        inputs = data["test/x"][:SAMPLES, None].copy()
    inputs[0, :, ::3], inputs[1, :, ::2], inputs[2] = np.nan, -inputs[1, :, ::2], -np.nan
    jobs = [Job(f"code {i}", encode(model), [x]) for i, x in enumerate(inputs)]
    shutil.copytree(USERMOD, usermod)
    (usermod / "runtime" / "tree_code.c").write_text('#pragma GCC optimize("Os")\n' + tree_code.source([model]))
    with (usermod / "sources.txt").open("a") as sources:
        sources.write("runtime/tree_code.c\n")
    file = usermod / "runtime" / "op_tabular.c"
    file.write_text("#define MICA_TREE_CODE\n" + file.read_text())
    results = bare_metal.run(core, bare_metal.build(core, usermod=usermod), jobs)
    wrong = bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    assert not wrong, "\n".join(wrong)
    counts = dict(zip([s.kernel for s in model.steps], np.mean([r.counts for r in results], axis=0), strict=True))
    with capsys.disabled():
        print(f"\ntrees as code: {', '.join(f'{k} {c:,.0f}' for k, c in counts.items())} cycles")
    assert counts["ranks_s8"] <= 1_800 and counts["forest_s8"] <= 1_400


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    cases = (c for c in tabular_cases() if c.kernel in ("ranks_s8", "forest_s8"))
    return [Job(c.name, encode(model_of(c)), c.xs) for c in cases]


@pytest.fixture(scope="module")
def expected(jobs: list[Job]) -> dict[str, list[int]]:
    return {job.name: bare_metal.expected(job) for job in jobs}


def test_equals_the_oracle(jobs: list[Job], expected: dict[str, list[int]]) -> None:
    core = CORES["m0plus-qemu"]
    assert not bare_metal.available(core), bare_metal.available(core)
    assert not bare_metal.differences(jobs, bare_metal.run(core, bare_metal.build(core), jobs), expected)


# File, what stands there, a slip in its place.
SLIPS = [
    ("rank_search.S", "    BY 32, 16\n", "by_32:\n"),
    ("rank_search.S", "subs r4, #\\n - 1", "subs r4, #\\n"),
    ("rank_search.S", "bhs from_8", "bhs from_4"),
    ("forest_walk.S", "    add r0, r8\n    FOUR\n", "    add r0, r8\n    adds r0, #4\n    FOUR\n"),
]


@pytest.mark.parametrize(("file", "before", "after"), SLIPS, ids=lambda v: str(v).strip().replace("\n", ";")[:30])
def test_a_slip_is_caught(
    file: str, before: str, after: str, jobs: list[Job], expected: dict[str, list[int]], tmp_path: Path
) -> None:
    core, usermod = CORES["m0plus-qemu"], tmp_path / "usermod_c"
    shutil.copytree(USERMOD, usermod)
    source = bare_metal.isa_folder(core.isa, usermod) / file
    text = source.read_text()
    assert before in text, "the kernel has changed: choose another slip"
    source.write_text(text.replace(before, after, 1))
    results = bare_metal.run(core, bare_metal.build(core, usermod=usermod), jobs)
    assert bare_metal.differences(jobs, results, expected)
