"""Cost of normalising a row of 64 with a mean, on emulated cores."""

from __future__ import annotations

from pathlib import Path

import bare_metal
import numpy as np
import pytest
from bare_metal import CORES, Job
from nets import Net

from mica.compile import compile_file

WIDTH = 64
# With a beta, and without. GCC 14 writes 196 cycles more for the M0+ than GCC 12.
BOUNDS = {"m0plus": (3_640, 3_320), "m33": (1_900, 1_800), "rv32": (2_150, 2_020)}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_row(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bytes of the reference, and no more than the bound."""
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    jobs = []
    for beta in (True, False):
        rng, net = np.random.default_rng(3), Net(23, seed=WIDTH)
        constants = [rng.uniform(0.5, 1.5, WIDTH), *([rng.normal(0, 0.5, WIDTH)] if beta else [])]
        x = net.input((1, WIDTH))
        net.output(net.add("LayerNormalization", x, *(net.const(c.astype(np.float32)) for c in constants), axis=-1))
        samples = rng.normal(0, 1, (200, WIDTH)).astype(np.float32)
        model = compile_file(net.save(tmp_path), {"x": samples}, plain=True).model
        assert [s.kernel for s in model.steps] == ["norm_s8"]
        q = model.tensors[model.inputs[0]]
        ints = np.clip(np.rint(rng.normal(0, 1, (1, WIDTH)) / q.scale + q.zero_point), -128, 127).astype(np.int8)
        jobs.append(Job(f"beta {beta}", bare_metal.for_board(model, core.board), [ints]))
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    assert not bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    counts = [r.counts[0] for r in results]
    with capsys.disabled():
        print(
            f"\n{core.name}: LayerNormalization of {WIDTH}: {counts[0]:,.0f} {core.unit}, {counts[1]:,.0f} without beta"
        )
    assert all(count <= bound for count, bound in zip(counts, BOUNDS[name], strict=True))
