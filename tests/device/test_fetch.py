"""Weights that DMA brings from flash while the virtual Pico computes: right bytes whatever comes between, and no stream where it may not be.

Each cut ends a run, or comes into it: Ctrl-C, a soft reset, an exception in a hook, a file that a hook writes to flash, a run in
slices that is given up. `scripts/test --all` makes 2,000 of them.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets import ALL, PICO

sys.path.append(str(Path(__file__).parents[1] / "usermod"))

from usermod_models import build, deep

from mica.link.board import BoardError, Link
from mica.link.targets import open_board

CUTS = 1400 if ALL else 40  # on the board, in one program for each 20
STOPS = 600 if ALL else 6  # by this computer: Ctrl-C, and a soft reset after each third
STREAM_ADDR = 0x14000014
LOAD = """
import gc, machine, mica, os, random, rp2
from binascii import crc32
mem = machine.mem32
m = mica.Model("/rom/deep.mica")
x = mica.Quantised(bytes([(5 * i) & 255 for i in range(128)]))

def streamed():
    return mem[STREAM] & 0xffffff

def run():
    m.predict([x], raw=True)
    return crc32(m.output())
""".replace("STREAM", hex(STREAM_ADDR))
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

    from mica.format.codec import encode
    from mica.reference.executor import ReferenceModel

    oracle = ReferenceModel(encode(deep()))
    oracle.set_input(0, np.array([(5 * i) & 255 for i in range(128)], np.uint8).view(np.int8).reshape(1, 128))
    oracle.run()
    return zlib.crc32(oracle.output(0).tobytes())


@pytest.fixture(scope="module")
def pico() -> Iterator[Link]:
    with open_board(PICO, rom_files={"deep.mica": build()["deep"]}) as board:
        yield board


def test_they_are_streamed(pico: Link, good: int) -> None:
    """The last row ends where the stream has come to; with no DMA channel left, or in a thread of core 1, weights are read in place."""
    pico.soft_reset()
    pico.exec(LOAD)
    end = "at = uctypes.addressof(m._m.step_constant(2, 0, 'b')) + 128 * 128"
    assert pico.exec(f"import uctypes\n{end}\nprint(run() == {good}, streamed() == at & 0xffffff)") == b"True True\n"
    taken = "was = streamed()\nmem[0x14000014] = 0x10000000\nd = [rp2.DMA() for _ in range(12 - used)]"
    pico.exec(
        "d = []\ntry:\n while True: d.append(rp2.DMA())\nexcept OSError: pass\nused = 12 - len(d)\n[c.close() for c in d]"
    )
    said = pico.exec(
        f"{taken}\nprint(run() == {good}, streamed())\n[c.close() for c in d]\nprint(run() == {good}, streamed() == was)"
    )
    assert said.split() == [b"True", b"0", b"True", b"True"]
    thread = "import _thread, time\ndone = []\nmem[0x14000014] = 0x10000000\n_thread.start_new_thread(lambda: done.append(run()), ())"
    said = pico.exec(f"{thread}\nwhile not done: time.sleep_ms(1)\nprint(done[0] == {good}, streamed())")
    assert said == b"True 0\n"
    assert (
        pico.exec(
            f"h = mica.Model('/rom/deep.mica', weights=100000)\nm, was = h, streamed()\nmem[0x14000014] = 0x10000000\nprint(run() == {good}, streamed())"
        )
        == b"True 0\n"
    )


def test_cuts_on_the_board(pico: Link, good: int) -> None:
    pico.soft_reset()
    pico.exec(LOAD)
    for seed in range(CUTS // 20):
        assert pico.exec(CUT.replace("SEED", str(seed)).replace("GOOD", str(good))) == b"0\n", seed


def test_stops(pico: Link, good: int) -> None:
    """Ctrl-C at any time, and then a soft reset at times."""
    rng = random.Random(5)
    pico.soft_reset()
    pico.exec(LOAD)
    for i in range(STOPS):
        with pytest.raises(BoardError):
            pico.exec("while True:\n run()", timeout=rng.uniform(0.05, 0.3))
        if i % 3 == 2:
            pico.soft_reset()
            pico.exec(LOAD)
        assert pico.exec(f"print(run() == {good})") == b"True\n", i
