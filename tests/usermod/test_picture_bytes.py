"""Many bytes for an input of one byte an element: a table is made first, which few bytes would not pay for."""

from __future__ import annotations

import numpy as np
import pytest

from mica.file.codec import ModelFile, StepRecord, TensorRecord, encode, step_flags
from mica.format.weights import OFFSET_ROWS
from mica.link.board import Link

SIZE = 4103  # not a multiple of 4

SCRIPT = f"""
SIZE = {SIZE}
import mica
from array import array
x = bytes(k * 7 & 255 for k in range(SIZE))
for given in (x, array("H", list(x))):
    m = mica.Model(data)  # it notes what is far once
    m.predict([given])
    print(hash(bytes(m.input())))
"""


def many(scale: float) -> bytes:
    """Return a model of one dense layer whose input has SIZE elements and the given scale."""
    tensors = [
        TensorRecord("x", "int8", (1, SIZE), scale, -128),
        TensorRecord("y", "int8", (1, 1), 1.0, 0, offset=-(-SIZE // 16) * 16),
    ]
    blobs = {
        "weights": np.zeros((1, SIZE), np.int8),
        "bias": np.zeros(1, np.int32),
        "mult": np.full(1, 2**30, np.int32),
        "shift": np.full(1, 9, np.int8),
    }
    act = {"act_min": -128, "act_max": 127}
    step = StepRecord("fc", "fully_connected_s8", (0,), (1,), act, blobs, OFFSET_ROWS.code, macs=SIZE)
    step.flags = step_flags(step)
    return encode(ModelFile(tensors, [step], [0], [1], {}))


@pytest.mark.parametrize(("scale", "far"), [(1.0, 0), (0.25, 1)])
def test_bytes_are_the_numbers(unix_board: Link, scale: float, far: int) -> None:
    """The same elements, and the same note on values that are far outside, as from an array of larger integers."""
    unix_board.put(many(scale), "data")
    lines = unix_board.exec(SCRIPT).decode().splitlines()
    notes, elements = [[line for line in lines if line.startswith("mica: ") == is_note] for is_note in (True, False)]
    assert len(elements) == 2 and len(set(elements)) == 1
    assert len(notes) == 2 * far and len(set(notes)) == far
