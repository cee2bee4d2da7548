"""mica.boxes on boards, whose floats may have 32 bits: the host's boxes."""

from __future__ import annotations

import numpy as np
import pytest

from mica.file.codec import ModelFile, TensorRecord
from mica.link.board import Link
from mica.run import boxes

STAND_IN = """
from mica import boxes

class Info:
    name, dtype, scale, zero_point = "y", "b", 0.374, -125

class Stand:
    "A model that has run."
    _m, _groups, labels, outputs = None, None, [], (0,)
    def tensor(self, i):
        return Info
    def output(self, i):
        return memoryview(self.data)

m = Stand()
m._m = m
def tell(found):
    for b in found:
        print(b.label, [int(v * 65536) for v in b[1:]])
"""


@pytest.mark.parametrize("kind", ["yolo8", "yolo5", "fomo"])
def test_same_boxes(board: Link, kind: str) -> None:
    """Integers of every size, in one array of one scale."""
    limit = 0.8 if kind == "fomo" else 0.7
    y = np.random.default_rng(3).integers(-128, 128, {"fomo": (1, 12, 12, 3)}.get(kind, (1, 7, 70))).astype(np.int8)
    y = np.moveaxis(y, 1, 2).copy() if kind == "yolo5" else y
    scale = float(np.float32(1 / 250))
    model = ModelFile([TensorRecord("y", "int8", y.shape, scale=scale, zero_point=-125)], [], [], [0], {})
    found = getattr(boxes, kind)(model, [y], threshold=limit)
    assert len(found) > 3
    expected = [f"{b.label} {[int(v * 65536) for v in (b.score, b.x, b.y, b.width, b.height)]}" for b in found]
    board.exec(STAND_IN)
    board.put(y.tobytes(), "raw")
    code = f"""
from array import array
Info.shape, Info.scale, m.data = {y.shape}, {scale!r}, array("b", raw)
tell(boxes.{kind}(m, threshold={limit}))
"""
    assert board.exec(code, timeout=60).decode().splitlines() == expected
