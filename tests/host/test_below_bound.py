"""Strips keep twelve networks, as placed and without scratch, far below the layer-wise bound. No kernel runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from below_bound import NETS, planned
from targets import ALL, sampled

from mica.cost.table import Table
from mica.format.schema import SCRATCH_LEAST
from mica.plan.budget import within_budget

# Bytes layer by layer; the limits for tensors and the least scratch with which they are planned,
# and then with a fed input.
LIMITS = {
    "DS-CNN": (16_000, 11_400, 11_400),
    "ResNet-8": (49_152, 18_500, 19_000),
    "MobileNetV1 0.25 at 96": (55_296, 33_500, 17_300),
    "MobileNetV2 0.35 at 96": (138_240, 34_700, 20_200),
    "MobileNetV2 0.35 at 144": (311_040, 71_000, 33_500),
    "MobileNetV2 0.35 at 160": (384_000, 86_500, 39_000),
    "MobileNetV2 0.35 at 224": (752_640, 164_500, 63_600),
    "MobileNetV2 1.0 at 224": (1_505_280, 214_000, 141_000),
    "MCUNet-320K-like at 176": (247_808, 126_000, 83_000),
    "MCUNet-VWW-like at 80": (51_200, 29_000, 22_600),
    "YOLO-like at 96": (184_320, 45_400, 32_500),
    "YOLO-like at 160": (512_000, 98_400, 53_900),
}
MOST = {  # bytes of tensors that are promised, in strips and fed
    "MobileNetV2 0.35 at 144": (76_000, 43_000),
    "MobileNetV2 1.0 at 224": (210_000, 135_000),
}


def test_twelve_networks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    price = Table.read().price("m0plus")
    less = []
    for name, (bound, *limits) in list(LIMITS.items())[sampled(0, 1) :: sampled(1, 3)]:
        g, plan = planned(NETS[name](), tmp_path)
        assert plan.lower_bound == plan.arena_bytes == bound
        arenas = []
        for feed, limit in enumerate(limits):
            found = within_budget(g, plan, limit, SCRATCH_LEAST, price, bool(feed), say_least=False)[1]
            assert found.strips and found.arena_bytes + SCRATCH_LEAST <= limit
            arenas.append(found.arena_bytes)
        less.append([bound / n for n in arenas])
        assert all(n <= most for n, most in zip(arenas, MOST.get(name, arenas), strict=True)), (name, arenas)
        with capsys.disabled():
            print(f"\n{name}: {bound:,} layer by layer, {arenas[0]:,} in strips, {arenas[1]:,} fed", end="")
    mean = np.exp(np.log(less).mean(axis=0))
    with capsys.disabled():
        print(f"\ngeometric mean: {mean[0]:.2f}, fed {mean[1]:.2f} times less")
    assert list(LIMITS) == list(NETS)
    assert not ALL or (mean[0] >= 3.4 and mean[1] >= 6)
