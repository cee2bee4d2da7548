"""Cost of whole models on a Cortex-M55, and of the kinds of layers that use vectors there."""

import bare_metal
import layers
import pytest
from bare_metal import CORES

CORE = CORES["m55"]


# M instructions of all layers of a model, as in its ONNX file, at 32 kB of scratch.
@pytest.mark.parametrize(("model", "most"), [("kws", 0.8), ("res", 2.5)])
def test_whole_models(model: str, most: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert not bare_metal.available(CORE), bare_metal.available(CORE)
    chosen = [x for x in layers.LAYERS if model in x.times]
    jobs = [layers.job(x, scratch=32 << 10) for x in chosen]
    results = bare_metal.run(CORE, bare_metal.build(CORE), jobs)
    assert not any(r.refused for r in results)
    total = sum(r.counts[0] * x.times[model] for r, x in zip(results, chosen, strict=True)) / 1e6
    with capsys.disabled():
        print(f"\nm55: {model}: {total:.2f} M {CORE.unit}")
    assert total <= most


def test_every_kind_of_layer() -> None:
    """Vectors make each kind of layer that has them much cheaper than the reference."""
    names = (
        "kws.dw3x3 25x5x64",
        "kws.pw 64-64 25x5",
        "kws.avg 25x5x64",
        "ad.fc 128-128",
        "res.add 8x8x64",
    )
    chosen = [x for x in layers.LAYERS if x.name in names]
    assert len(chosen) == len(names)
    jobs = [layers.job(x, scratch=32 << 10) for x in chosen]
    mve, ref = (bare_metal.run(CORE, bare_metal.build(CORE, isa), jobs) for isa in (None, "ref"))
    for job, a, b in zip(jobs, mve, ref, strict=True):
        assert a.hashes == b.hashes, job.name
        assert a.counts[0] < 0.4 * b.counts[0], job.name
