"""Weights that DMA brings from flash while a virtual Pico computes: right bytes whatever comes between,
and no stream where it may not be.

Each cut ends a run, or comes into it: Ctrl-C, a soft reset, an exception in a hook, a file that a hook writes to flash,
a run in slices that is given up. `scripts/test --all` makes 2,000 of them.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets import ALL, PICO, PICO2, VIRTUAL

sys.path.append(str(Path(__file__).parents[1] / "usermod"))

from usermod_models import build, deep

from mica.link.board import BoardError, Link
from mica.link.targets import open_board

CUTS = 1400 if ALL else 40  # on the board, in one program for each 20
STOPS = 600 if ALL else 6  # by this computer: Ctrl-C, and a soft reset after each third
STREAM_ADDR = {PICO: 0x14000014, PICO2: 0x400C8014}
LOAD = """
import gc, machine, mica, os, random, rp2
from binascii import crc32
mem = machine.mem32
STREAM = ADDRESS
m = mica.Model("/rom/deep.mica")
x = mica.Quantised(bytes([(5 * i) & 255 for i in range(128)]))

def streamed():
    return mem[STREAM] & 0xffffff

def run():
    m.predict([x], raw=True)
    return crc32(m.output())
"""
CUT = """
def in_hook(what, layer):
    def before(l):
        if l.index == layer:
            what()
    hook = m.hook(before=before)
    try:
        run()
    except OSError:
        pass
    hook.remove()

def fail():
    raise OSError(5)

def push():
    with open("/pushed", "wb") as f:
        f.write(os.urandom(900))

def slices():
    m.start([x])
    for _ in range(random.randrange(6)):
        if not m.resume(1):
            break
    m.stop()

def cut():
    kind = random.randrange(3)
    if kind == 2:
        slices()
    else:
        in_hook((fail, push)[kind], random.randrange(3))

random.seed(SEED)
bad = 0
for _ in range(20):
    cut()
    bad += run() != GOOD
print(bad)
"""


@pytest.fixture(scope="module")
def good() -> int:
    """The checksum of the right answer, from the reference."""
    import numpy as np

    from mica.file.codec import encode
    from mica.reference.executor import ReferenceModel

    oracle = ReferenceModel(encode(deep()))
    oracle.set_input(0, np.array([(5 * i) & 255 for i in range(128)], np.uint8).view(np.int8).reshape(1, 128))
    oracle.run()
    return zlib.crc32(oracle.output(0).tobytes())


@pytest.fixture(scope="module", params=VIRTUAL)
def pico(request: pytest.FixtureRequest) -> Iterator[Link]:
    with open_board(request.param, rom_files={"deep.mica": build()["deep"]}) as board:
        yield board


def load(board: Link) -> None:
    board.soft_reset()
    board.exec(LOAD.replace("ADDRESS", hex(STREAM_ADDR[board.name])))


ALL_CHANNELS = """
d = []
try:
    while True:
        d.append(rp2.DMA())
except OSError:
    pass
"""
THREAD = """
import _thread, time
done = []
_thread.start_new_thread(lambda: done.append(run()), ())
while not done:
    time.sleep_ms(1)
"""


def test_they_are_streamed(pico: Link, good: int) -> None:
    """The stream ends at the last row; with no DMA channel left, in a thread of core 1, or from RAM there is none."""
    load(pico)

    def streams(run: str = f"run() == {good}") -> str:
        return pico.exec(f"mem[STREAM] = 0x10000000\nprint({run}, streamed() != 0)").decode().strip()

    end = "uctypes.addressof(m._m.step_constant(2, 0, 'b')) + 128 * 128"
    assert pico.exec(f"import uctypes\nprint(run() == {good}, streamed() == {end} & 0xffffff)") == b"True True\n"
    pico.exec(ALL_CHANNELS)
    assert streams() == "True False"
    pico.exec("for c in d:\n c.close()")
    assert streams() == "True True"
    pico.exec("mem[STREAM] = 0x10000000")
    pico.exec(THREAD)
    assert pico.exec(f"print(done[0] == {good}, streamed())") == b"True 0\n"
    pico.exec("m.deinit()\nm = mica.Model('/rom/deep.mica', weights=100000)")
    assert streams() == "True False"


def test_cuts_on_the_board(pico: Link, good: int) -> None:
    load(pico)
    for seed in range(CUTS // 20):
        assert pico.exec(CUT.replace("SEED", str(seed)).replace("GOOD", str(good))) == b"0\n", seed


def test_stops(pico: Link, good: int) -> None:
    """Ctrl-C at any time, and then a soft reset at times."""
    rng = random.Random(5)
    load(pico)
    for i in range(STOPS):
        with pytest.raises(BoardError):
            pico.exec("while True:\n run()", timeout=rng.uniform(0.05, 0.3))
        if i % 3 == 2:
            load(pico)
        assert pico.exec(f"print(run() == {good})") == b"True\n", i
