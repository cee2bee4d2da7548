"""A frame becomes a picture of 96 x 96 in a part of a network's time: cycles of the Cortex-M0+, code read without a wait."""

from __future__ import annotations

import bare_metal
import pytest
from bare_metal import CORES
from picture_cost import frames, measure

# Cycles of an output pixel, or where each is the mean of many, of a pixel of the frame.
MOST = {
    "160 x 120 grey to grey, bilinear": 60,
    "160 x 120 rgb565le to grey, bilinear": 130,
    "160 x 120 rgb565be to grey, bilinear": 130,
    "320 x 240 grey to grey, area": 15,
    # Not asked for, and not to be lost.
    "160 x 120 rgb565be to rgb, bilinear": 150,
    "320 x 240 rgb565be to grey, area": 28,
    "320 x 240 rgb888 to rgb, area": 40,
    "320 x 240 yuyv to rgb, area": 44,
}


def test_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    core = CORES["m0plus"]
    assert not bare_metal.available(core), bare_metal.available(core)
    costs = measure(core, [(name, frame) for name, frame in frames() if name in MOST])
    with capsys.disabled():
        for cost in costs:
            print(f"\nm0plus: {cost.name}: {cost.each:.1f}", end="")
        print()
    assert {cost.name for cost in costs} == set(MOST)
    assert not [cost for cost in costs if cost.each > MOST[cost.name]]
