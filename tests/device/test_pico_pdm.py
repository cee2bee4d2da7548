"""The virtual Picos' PDM microphone and mica.pdm: each sample is the oracle's, and a lost one is told."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pdm_streams import Filter, sent
from targets import PICO, PICO2, VIRTUAL
from tones import write_wav

from mica.errors import MicaError
from mica.link.board import Link
from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import recorder, sensor_files
from mica.listen.microphone import PdmMicrophone

BEGIN = """
from array import array
from time import sleep_ms
from machine import Pin, disable_irq, enable_irq, mem32
from mica.pdm import Microphone
import _mica
def channels():
    "How many channels of DMA are at work."
    return sum([mem32[0x50000010 + 64 * k] >> BUSY & 1 for k in range(12)])
"""
BUSY = {PICO: 24, PICO2: 26}  # bit of a channel's register


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    """int16 [1600], a tenth of a second, at a third of the range."""
    return (np.random.default_rng(3).normal(0, 3000, 1600)).clip(-12000, 12000).astype(np.int16)


@pytest.fixture(scope="module", params=VIRTUAL)
def board(
    request: pytest.FixtureRequest, sound: np.ndarray, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Link]:
    wav = write_wav(tmp_path_factory.mktemp("pdm") / "noise.wav", sound)
    wired = Sensors({"pdm": sensor_files.pdm(str(wav))})
    with open_board(request.param, rom_files={"there.txt": b"is"}, sensors=wired) as board:
        board.exec(f"BUSY = {BUSY[request.param]}" + BEGIN)
        yield board


def expected(sound: np.ndarray, ratio: int, n: int, gain: int = 1) -> list[np.ndarray]:
    """n samples of the board at 1.024 MHz, which takes a bit before the first one, 0 or 1."""
    padded = np.pad(sound, (0, n * ratio // 64))
    return [Filter(ratio, gain).samples(sent(padded, first=bit))[:n] for bit in (0, 1)]


def is_one_of(found: np.ndarray, possible: list[np.ndarray]) -> None:
    assert any((found == x).all() for x in possible), np.flatnonzero(found != possible[0])[:9]


def test_every_sample(board: Link, sound: np.ndarray) -> None:
    """More than once round both rings, and again with names of pins, another rate, gain and machine;
    at the end nothing is at work."""
    for words, ratio, gain in (("3, 2", 64, 1), ("Pin(3), 'GPIO2', 8000, 2, ratio=128, gain=3", 128, 3)):
        code = f"""
x = memoryview(array("h", bytes(2 * 1800)))
ring = Microphone({words}).ring(700, 100)
for end in range(100, 1801, 100):
    while ring.count < end: pass
    ring.copy(end, x[end - 100 : end])
print(ring.size, channels())
ring.close()
ring.close()
n = ring.count
sleep_ms(20)
print(channels(), ring.count == n, mem32[0x50200000] & 15, mem32[0x50300000] & 15)
"""
        assert board.exec(code) == b"1024 1\n0 True 0 0\n"
        is_one_of(np.frombuffer(board.get("x"), "<i2"), expected(sound, ratio, 1800, gain))


def test_cycles(board: Link) -> None:
    """The emulator counts; the call from MicroPython is in it."""
    code = """
from uctypes import addressof
f, bits, x = _mica.pdm(64, 1), bytearray(2048), array("h", bytes(512))
def took(n):
    begun = mem32[0x4ff00004]
    _mica.pdm(f, bits, x, addressof(bits) + n)
    return mem32[0x4ff00004] - begun
took(256)
print((took(2048 - 256) - took(2048 - 256)) / 192)
"""
    cycles = float(board.exec(code))
    print(f"{cycles:.0f} cycles a sample")
    assert cycles <= 400


def test_lost_samples(board: Link) -> None:
    """While interrupts are off for longer than the ring of bits, count goes on by a ring, which listen()
    tells as an overrun."""
    code = """
from time import ticks_us, ticks_diff
def off(ms):
    begun, n = ticks_us(), ring.count
    state = disable_irq()
    while ticks_diff(ticks_us(), begun) < 1000 * ms: pass
    enable_irq(state)
    sleep_ms(2)
    return ring.count - n
ring = Microphone(3, 2).ring(5000, 256)
sleep_ms(10)
print(256 <= off(20) <= 512, off(100) >= ring.size)
ring.close()
"""
    assert board.exec(code) == b"True True\n"


def test_two_of_one_machine(board: Link) -> None:
    """The first one ends, be it of I2S; a mistake gives one line."""
    code = """
from mica import pio_i2s
a = pio_i2s.Microphone(16, 17, 18).ring(256, 256)
b = Microphone(3, 2).ring(256, 256)
sleep_ms(20)
print(a._machine, b.count, channels())
a = pio_i2s.Microphone(16, 17, 18).ring(256, 256)
print(b._machine, channels())
a.close()
filter, bits, x = _mica.pdm(64, 1), bytearray(512), array("h", bytes(128))
for call in (
    lambda: Microphone(3, 2, sm=8),
    lambda: Microphone(3, 2, ratio=63),
    lambda: Microphone(3, 2, gain=65),
    lambda: _mica.pdm(filter, bits[1:], x, 0),
    lambda: _mica.pdm(filter, bits, x[1:], 0),
    lambda: _mica.pdm(filter, b"", x, 0),
    lambda: _mica.pdm(filter[4:], bits, x, 0),
    lambda: _mica.pdm(bytearray(len(filter)), bits, x, 0),
    lambda: _mica.pdm(filter, bits, memoryview(bytearray(5))[1:], 0),
):
    try:
        print(call())
    except ValueError as e:
        print(e)
from uctypes import addressof
print(*[_mica.pdm(filter, bits, x, addressof(bits) + at) for at in (0, 255, 256, 511, 10, -10)])
"""
    assert board.exec(code).decode().splitlines() == [
        "None 256 1",
        "None 1",
        "sm is 8; 0 to 7 is expected",
        *["pdm: ratio is 64, 128 or 256, and gain 1 to 64"] * 2,
        *["pdm: rings that are no whole chunks"] * 3,
        *["pdm: no filter"] * 2,
        "pdm: a buffer that is not aligned",
        "0 0 32 32 64 96",
    ]


def test_record(board: Link, sound: np.ndarray) -> None:
    """The first tenth of a second is not recorded; so is its end here."""
    longer = recorder.pdm("clk=3,data=2")
    with pytest.raises(MicaError, match="has no"):
        recorder.clip(board, longer, 400_000, 16000)
    board.exec("sleep_ms(20)")
    x = recorder.clip(board, longer, 400, 16000)
    is_one_of(x, [y[1600:2000] for y in expected(sound, 64, 2000)])


@pytest.mark.parametrize("words", ["clk=3", "clk=3,data=2,data=2", "clk=3,data=x y", "clk=3,data=2,ratio=63", "gain=1"])
def test_refused(words: str) -> None:
    with pytest.raises(MicaError, match="--pdm") as e:
        PdmMicrophone.read(words)
    assert "expected clk=N,data=N" in str(e.value)
