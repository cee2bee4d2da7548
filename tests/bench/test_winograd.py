"""Convolutions by Winograd's transform, with products that two outputs share, and with little scratch: what a network takes, and that no scratch makes a layer slower."""

from __future__ import annotations

import bare_metal
import layers
import pytest
from bare_metal import CORES, Core, Job

PLAIN = ("-DMICA_WITHOUT_WINOGRAD", "-DMICA_WITHOUT_TWINS")
# Side, channels in, channels out: even and odd planes, few tiles and many, channels that are no multiple of four or sixteen.
SHAPES = ((8, 16, 16), (7, 20, 10), (5, 32, 8), (3, 64, 12), (2, 16, 4), (12, 24, 18), (9, 1, 5), (16, 3, 8))
SCRATCH = (1 << 10, 2 << 10, 3 << 10, 4 << 10, 5 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10)


def _counts(core: Core, jobs: list[Job], more: tuple[str, ...] = ()) -> list[float]:
    results = bare_metal.run(core, bare_metal.build(core, more=more), jobs)
    assert not [r.refused for r in results if r.refused]
    return [sum(r.counts) for r in results]


@pytest.mark.parametrize("name", ["m0plus", "m33", "rv32"])
def test_no_scratch_makes_it_slower(name: str) -> None:
    """The estimate by which a layer's way is chosen is right, or so close that it does not matter."""
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    jobs = []
    for side, cin, cout in SHAPES:
        layer = layers.Layer(f"{side}x{side} {cin}-{cout}", "conv", (side, side, cin), cout, {}, (3, 3))
        for scratch in SCRATCH:
            job = layers.job(layer, scratch=scratch)
            job.name += f" scratch {scratch}"
            jobs.append(job)
    rows = list(zip(jobs, _counts(core, jobs, PLAIN), _counts(core, jobs), strict=True))
    slower = [
        f"{job.name}: {plain:,.0f} to {chosen:,.0f}" for job, plain, chosen in rows if chosen > 1.01 * plain + 400
    ]
    assert not slower
    gains = [plain / chosen for job, plain, chosen in rows if job.scratch == 32 << 10]
    assert max(gains) > 1.3, "it is not chosen where it pays"


# M instructions or cycles of all layers of ResNet-8, as in its ONNX file.
@pytest.mark.parametrize(
    ("name", "scratch", "most"),
    [
        ("m33", 32 << 10, 8.6),
        ("m33", 4 << 10, 14.0),
        ("m33", 2 << 10, 20.0),
        ("rv32", 32 << 10, 24.0),
        ("m0plus", 16 << 10, 34.5),
        ("m0plus", 4 << 10, 46.0),
    ],
)
def test_resnet8(name: str, scratch: int, most: float, capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    chosen = [x for x in layers.LAYERS if "res" in x.times]
    jobs = [layers.job(x, scratch=scratch) for x in chosen]
    total = sum(n * x.times["res"] for n, x in zip(_counts(core, jobs), chosen, strict=True)) / 1e6
    with capsys.disabled():
        print(f"\n{name}: ResNet-8 at {scratch:,} bytes of scratch: {total:.2f} M {core.unit}")
    assert total <= most
