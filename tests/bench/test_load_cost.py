"""Cost of checking and loading a file: the checksum reads every byte, and another check each word of weights."""

from __future__ import annotations

import bare_metal
import layers
import pytest
from bare_metal import CORES

# Files of one layer, 9 to 84 kB.
NAMES = ("ad.fc 640-128", "ad.fc 128-640", "res.conv 3x3 64-64 8x8", "vww.pw 128-128 6x6", "vww.dw 6x6x128")
# The most a byte may cost: cycles on the M0+, instructions elsewhere.
MOST = {"m0plus": 11.0, "m33": 8.0, "rv32": 10.0}


@pytest.mark.parametrize("name", MOST)
def test_check_and_load(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    jobs = [layers.job(layer) for layer in layers.LAYERS if layer.name in NAMES]
    assert len(jobs) == len(NAMES)
    results = bare_metal.run(core, bare_metal.build(core), jobs)
    wrong = bare_metal.differences(jobs, results, {job.name: bare_metal.expected(job) for job in jobs})
    assert not wrong, "\n".join(wrong)
    with capsys.disabled():
        for job, r in zip(jobs, results, strict=True):
            n = len(job.data)
            print(f"\n{name}: {job.name}, {n:,} bytes: check {r.check / n:.2f} + load {r.load / n:.2f} a byte", end="")
        print()
    for job, r in zip(jobs, results, strict=True):
        # The small file of the depthwise layer is mostly names and constants of channels.
        assert len(job.data) < 9000 or (r.check + r.load) / len(job.data) <= MOST[name], job.name
