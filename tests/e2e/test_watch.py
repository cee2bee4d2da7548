"""mica.motion on MicroPython on this computer: rows in bursts, lost rows, wrong settings; a board runs the examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mica.link.board import BoardError, Link
from mica.listen.detection import Detector, Settings
from mica.run.host import HostRunner

SOURCE = """
import asyncio
from array import array
import mica
from mica import motion

class Bursts:
    "Gives so many rows at each look; -1 stands for lost ones."
    axes, rate = 6, 1000
    def __init__(self, x, bursts):
        self.x, self.at, self.bursts = x, 0, iter(bursts)
    def read(self, buffer, at, most):
        n = next(self.bursts)
        if n < 0:
            return n
        n = min(n, most)
        buffer[6 * at : 6 * (at + n)] = self.x[6 * self.at : 6 * (self.at + n)]
        self.at += n
        return n

def tell(events):
    try:
        for e in events:
            print(e.label, e.ms, e.problem)
    except StopIteration:
        print("no more")

async def tell_later(events):
    async for e in events:
        print(e.label, e.ms, e.problem)

m = mica.Model("gestures.mica")
x = array("h", x)
"""


@pytest.fixture
def board(unix_board: Link, gestures: Path) -> Link:
    with np.load(gestures.with_suffix(".npz")) as data:
        unix_board.put(data["x"].tobytes(), "x")
    unix_board.put(gestures.read_bytes(), "_data")
    unix_board.exec("with open('gestures.mica', 'wb') as _f: _f.write(_data)")
    unix_board.exec(SOURCE)
    return unix_board


def said(gestures: Path, step: int) -> list[str]:
    """Return the lines that the host prints for the same rows, a thousand a second."""
    with np.load(gestures.with_suffix(".npz")) as data:
        x = data["x"][0].astype(np.float32)
    with HostRunner(gestures.read_bytes()) as runner:
        detector = Detector(runner.model, Settings(0.7, 2, 0))
        answers = [detector.take(runner.predict(x[e - 50 : e][None])[0], e) for e in range(50, len(x) + 1, step)]
    return [f"{e.label} {e.ms} None" for events in answers for e in events]


@pytest.mark.parametrize(("bursts", "step"), [([7] * 100, 10), ([1, 0, 20, 3] * 60, 10), ([20] * 20, 5)])
def test_every_row(board: Link, gestures: Path, bursts: list[int], step: int) -> None:
    expected = said(gestures, step)
    assert [line.split()[0] for line in expected] == ["shake", "turn"]
    words = f"mean=2, dead_ms=0, step={step}, ms=240"
    assert board.exec(f"tell(motion.watch(m, Bursts(x, {bursts}), {words}))").decode().splitlines() == expected
    code = f"asyncio.run(tell_later(motion.watch(m, Bursts(x, {bursts}), {words})))"
    assert board.exec(code).decode().splitlines() == expected


def test_lost_and_still(board: Link) -> None:
    """After lost rows the model waits for a whole window; a second of equal rows is reported once."""
    code = "tell(motion.watch(m, Bursts(x, [20] * 3 + [-1] + [20] * 5), mean=1, threshold=1, step=10, ms=160))"
    assert board.exec(code).decode().splitlines()[0] == (
        "None 70 overrun: the sensor's FIFO was full; take a lower rate, or a smaller model"
    )
    code = "tell(motion.watch(m, Bursts(array('h', bytes(12 * 2000)), [20] * 100), step=50, ms=1500))"
    assert board.exec(code).decode().splitlines() == [
        "None 1000 all rows are the same: is the sensor awake, and connected?"
    ]


def test_refused(board: Link) -> None:
    for code, message in (
        ("s = Bursts(x, ()); s.axes = 3; motion.watch(m, s)", "the sensor gives rows of 3"),
        ("motion.watch(m, Bursts(x, ()), labels=['wave'])", "no label 'wave', only shake, turn, unknown"),
        ("motion.watch(m, Bursts(x, ()), bits=16)", "no setting 'bits', only labels, threshold, mean"),
        ("motion.watch(m, Bursts(x, ()), mean=0)", "mean and step are 1 or more"),
        ("motion.MPU6050(None, rate=300)", "rate is 300; a divisor of 1000"),
        ("motion.MPU6050(None, rate=2)", "rate is 2"),
    ):
        with pytest.raises(BoardError, match=message):
            board.exec(code)
