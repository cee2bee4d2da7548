"""A board that gives no scratch for speed: files still want 2 kB, and are fast with them."""

from __future__ import annotations

import bare_metal
import layers
import pytest
from bare_metal import CORES, Job
from targets import ALL

from mica.file import codec
from mica.format.schema import SCRATCH_LEAST
from mica.packing.model import set_scratch

NAMES = ("vww.pw 128-128 6x6", "res.conv 3x3 64-64 8x8", "vww.dws2 6x6x128", "ad.fc 128-128")


def _jobs(limit: int, scratch: int | None) -> list[Job]:
    jobs = []
    for layer in layers.LAYERS:
        if layer.name in NAMES:
            job = layers.job(layer)
            model = codec.decode(job.data)
            set_scratch(model, limit)
            jobs.append(Job(layer.name, codec.encode(model), job.inputs, scratch))
    return jobs


# By day on two cores: each needs a program of reference kernels that no other test does, 10 s of a core.
@pytest.mark.parametrize("name", ["m0plus-qemu", "m33", *["m3", "m55", "rv32"] * ALL])
def test_the_least_is_wanted_and_enough(name: str) -> None:
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    tiles = bare_metal.run(core, bare_metal.build(core), _jobs(0, None))
    plain = bare_metal.run(core, bare_metal.build(core, "ref"), _jobs(0, 0))
    assert [r.name for r in tiles] == [n for n in (x.name for x in layers.LAYERS) if n in NAMES]
    for tile, ref in zip(tiles, plain, strict=True):
        assert not tile.refused and not ref.refused
        assert 0 < tile.scratch_bytes <= SCRATCH_LEAST
        assert tile.hashes == ref.hashes
        assert tile.counts[0] < 0.6 * ref.counts[0], tile.name
