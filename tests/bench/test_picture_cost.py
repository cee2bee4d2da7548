"""A frame becomes a picture of 96 x 96 in a part of a network's time: cycles of the Cortex-M0+,
code read without a wait; and what its loops in assembly leave to C, or begin in the middle,
gives the oracle's bytes as well."""

from __future__ import annotations

import bare_metal
import pytest
from bare_metal import CORES
from picture_cost import frames, measure

from mica.file.pictures import Frame
from mica.format.schema import PICTURE_FLAGS, PICTURE_FORMATS

# Cycles of an output pixel, or where each is the mean of many, of a pixel of the frame.
MOST = {
    "160 x 120 grey to grey, bilinear": 60,
    "160 x 120 rgb565le to grey, bilinear": 130,
    "160 x 120 rgb565be to grey, bilinear": 130,
    "320 x 240 grey to grey, area": 15,
    "320 x 240 rgb565le to grey, area": 15,
    "320 x 240 rgb565be to grey, area": 15,
    "320 x 240 yuyv to grey, area": 15,
    "320 x 240 uyvy to grey, area": 15,
    "320 x 240 rgb565le to rgb, area": 15,
    "320 x 240 rgb565be to rgb, area": 15,
    "320 x 240 rgb888 to grey, area": 15,
    "320 x 240 rgb888 to rgb, area": 15,
    "320 x 240 yuyv to rgb, area": 15,
    "320 x 240 uyvy to rgb, area": 15,
    "192 x 192 rgb565le to grey, area": 15,
    "192 x 192 rgb565be to grey, area": 15,
    # Not asked for, and not to be lost.
    "160 x 120 rgb565be to rgb, bilinear": 150,
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


# Frame, what is looked at of it, picture: boxes from less than one column to more than a loop has, and rows likewise;
# from odd columns on; rows that are no whole words.
SHAPES = (
    ((40, 30), (0, 0, 40, 30), (12, 12)),
    ((40, 30), (1, 3, 37, 23), (11, 5)),
    ((40, 30), (3, 0, 8, 30), (8, 30)),
    ((38, 12), (1, 1, 30, 9), (7, 3)),
    ((24, 10), (2, 1, 9, 6), (20, 11)),
    ((64, 24), (0, 0, 64, 24), (8, 3)),
    ((64, 24), (5, 0, 59, 24), (9, 2)),
    ((64, 40), (1, 0, 62, 40), (4, 5)),
    ((136, 8), (3, 0, 133, 7), (4, 7)),
    ((260, 4), (1, 0, 258, 3), (129, 2)),
    ((200, 3), (0, 0, 200, 3), (3, 3)),
    # What goes pixel after pixel: boxes of 2 to 4 columns, from even columns on and from odd ones, of 1 to 4 rows.
    ((44, 16), (1, 1, 40, 15), (15, 5)),
    ((44, 17), (3, 0, 39, 17), (11, 4)),
    ((44, 13), (2, 1, 41, 12), (12, 3)),
    ((32, 9), (1, 0, 28, 9), (14, 9)),
    ((32, 9), (2, 2, 28, 7), (7, 3)),
    ((32, 8), (2, 0, 28, 8), (14, 4)),
    ((32, 8), (3, 1, 27, 7), (9, 4)),
)


def test_shapes() -> None:
    """measure() compares each with the oracle."""
    core = CORES["m0plus"]
    flags = {
        name: sum(PICTURE_FLAGS[word] for word in name.split())
        for name in ("AREA", "AREA COLOUR", "AREA COLOUR BGR", "AREA COLOUR BGR PLANES")
    }
    named = [
        (f"{size} {part} {out} {format_} {name}", Frame(*size, *part, *out, k, value))
        for size, part, out in SHAPES
        for k, format_ in enumerate(PICTURE_FORMATS)
        for name, value in flags.items()
        if format_ != "grey" or "COLOUR" not in name
    ]
    assert len(measure(core, named)) == len(named)
