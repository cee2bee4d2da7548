"""What a layer costs in MicroPython: instructions per step of a model of many tiny layers, on an emulated Cortex-M3.

With `-icount shift=0` the emulator's clock counts instructions: one tick of the 25 MHz counter is 40 of them.
"""

from __future__ import annotations

import numpy as np
import pytest

from mica.device.transport import open_board
from mica.format.codec import ModelFile, StepRecord, TensorRecord, encode

STEPS = 256
INSTRUCTIONS_PER_TICK = 40
LIMIT = 3000  # instructions per layer

# Few against many steps: what a run costs once (begin, end, the call itself) cancels out.
SCRIPT = """
import time, mica
def ticks(model):
    best = 1 << 29
    for _ in range(8):  # the smallest: an interrupt or a collection in between only adds
        t = time.ticks_cpu()
        model.run()
        best = min(best, time.ticks_diff(time.ticks_cpu(), t))
    return best
print(ticks(mica.Model(few)), ticks(mica.Model(many)))
"""


def tiny_model(steps: int) -> bytes:
    """`steps` lookup tables over one element, each in place: as little work in C as a layer can have."""
    table = np.arange(-128, 128, dtype=np.int8)
    tensors = [TensorRecord(f"t{i}", "int8", (1, 1), 1.0, 0, "arena", 0) for i in range(steps + 1)]
    records = [StepRecord(f"s{i}", "lut_s8", (i,), (i + 1,), {}, {"table": table}) for i in range(steps)]
    return encode(ModelFile(tensors, records, [0], [steps], {}))


@pytest.mark.parametrize("target", ["MPS2_AN385"])
def test_instructions_per_layer(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_board(target, icount=True) as board:
        board.put(tiny_model(1), "few")
        board.put(tiny_model(STEPS), "many")
        few, many = (int(word) for word in board.exec(SCRIPT).split())
        again_few, again_many = (int(word) for word in board.exec(SCRIPT).split())
    per_step = (many - few) * INSTRUCTIONS_PER_TICK / (STEPS - 1)
    with capsys.disabled():
        print(
            f"\n{target}: {per_step:.0f} instructions per layer in run(), of which the kernel is a lookup of one byte"
        )
    again = (again_many - again_few) * INSTRUCTIONS_PER_TICK / (STEPS - 1)
    assert again == pytest.approx(per_step, rel=0.02), "the count is not repeatable"
    assert 0 < per_step < LIMIT
