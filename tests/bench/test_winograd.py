"""Convolutions by Winograd's transform, with products that two outputs share,
and with little scratch: what a network takes, and that no scratch makes a layer slower."""

from __future__ import annotations

import bare_metal
import layers
import numpy as np
import pytest
from bare_metal import CORES, Core, Job
from isa_cases import in_codes
from targets import ALL

from mica.file import codec

PLAIN = ("-DMICA_WITHOUT_WINOGRAD", "-DMICA_WITHOUT_PAIRED")
# Side, channels in, channels out: even and odd planes, few tiles and many,
# channels that are no multiple of four or sixteen.
SHAPES = ((8, 16, 16), (7, 20, 10), (5, 32, 8), (3, 64, 12), (2, 16, 4), (12, 24, 18), (9, 1, 5), (16, 3, 8))
FOUR_BITS = 2048  # weights from which `pack --weights 4` makes codes of a layer's
SCRATCH = (1 << 10, 2 << 10, 3 << 10, 4 << 10, 5 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10)


def _counts(core: Core, jobs: list[Job], more: tuple[str, ...] = ()) -> list[float]:
    results = bare_metal.run(core, bare_metal.build(core, more=more), jobs)
    assert not [r.refused for r in results if r.refused]
    return [sum(r.counts) for r in results]


CASES = [("m33", False)] + [("m0plus", False), ("m0plus", True), ("rv32", False)] * ALL


@pytest.mark.parametrize(("name", "codes"), CASES)
def test_no_scratch_makes_it_slower(name: str, codes: bool) -> None:
    """The estimate by which a layer's way is chosen is right, or so close that it does not matter."""
    core = CORES[name]
    assert not bare_metal.available(core), bare_metal.available(core)
    jobs = []
    for side, cin, cout in SHAPES:
        layer = layers.Layer(f"{side}x{side} {cin}-{cout}", "conv", (side, side, cin), cout, {}, (3, 3))
        for scratch in SCRATCH[:: 2 if codes else 1]:
            job = layers.job(layer, scratch=scratch)
            job.name += f" scratch {scratch}"
            jobs.append(job)
    if codes:
        jobs = list(in_codes(jobs))
    rows = list(zip(jobs, _counts(core, jobs, PLAIN), _counts(core, jobs), strict=True))
    slower = [
        f"{job.name}: {plain:,.0f} to {chosen:,.0f}" for job, plain, chosen in rows if chosen > 1.01 * plain + 400
    ]
    assert not slower
    gains = [plain / chosen for job, plain, chosen in rows if "scratch 32768" in job.name]
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


def test_four_bits_of_resnet8(capsys: pytest.CaptureFixture[str]) -> None:
    """All layers with weights as codes where `pack --weights 4` makes them so: 1.01 of int8's cycles were asked for."""
    core = CORES["m0plus"]
    assert not bare_metal.available(core), bare_metal.available(core)
    chosen = [x for x in layers.LAYERS if "res" in x.times]
    whole = [layers.job(x, scratch=16 << 10) for x in chosen]
    coded = [x.kind == "conv" and x.k * x.out >= FOUR_BITS for x in chosen]
    four = [next(in_codes([job])) if c else job for job, c in zip(whole, coded, strict=True)]
    counts = zip(chosen, _counts(core, whole), _counts(core, four), strict=True)
    eights, fours = np.array([(x.times["res"] * a, x.times["res"] * b) for x, a, b in counts]).T
    shared = [
        codec.decode(job.data).steps[0].params.get("stride_w") == 1 and c for job, c in zip(whole, coded, strict=True)
    ]
    ratio, most = fours.sum() / eights.sum(), max(fours[shared] / eights[shared])
    with capsys.disabled():
        print(
            f"\n{core.name}: ResNet-8 in four bits {fours.sum() / 1e6:.2f} M {core.unit}, {ratio:.4f} of int8's; a "
            f"layer up to {most:.4f}"
        )
    assert ratio <= 1.004
    assert 1 < most <= 1.012
