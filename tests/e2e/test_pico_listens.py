"""The virtual Pico's microphone and mica.audio, with a small model: what is said is heard in time, and a microphone that is not there is told."""

from __future__ import annotations

from pathlib import Path

from microphone import BLOCK, hear

from mica import sounds
from mica.link.targets import open_board


def test_hears(tones_rows: Path) -> None:
    """A frame every 10 ms; half a second of a low tone is not what it waits for."""
    sound = sounds.read(tones_rows.parent / "tones.wav", 16000)[8000:]  # low, silence, high
    heard = hear(tones_rows, sound, "high", 0.8, 4, 1.3)
    print(f"{heard.used:.1%} of the time")
    ((label, ms),) = heard.events
    assert label == "high" and 1000 < ms < 1300 and heard.problems == []
    assert 1.3 * 16000 <= heard.samples < 1.3 * 16000 + 8 * BLOCK and 0 < heard.used < 1


def test_unplugged(tones_rows: Path) -> None:
    """Nothing is at the pins: a second of zeros, then one line."""
    code = """
import mica
from machine import I2S, Pin
from mica.audio import listen
m = mica.Model("tones_rows.mica")
i = I2S(0, sck=Pin(16), ws=Pin(17), sd=Pin(18), mode=I2S.RX, bits=16, format=I2S.MONO, rate=16000, ibuf=8000)
with listen(m, i, labels=["high"], ms=1150, step=1600) as words:
    for e in words:
        print(e.label, e.ms, e.problem)
i.deinit()
"""
    with open_board("RPI_PICO@emu", rom_files={"tones_rows.mica": tones_rows.read_bytes()}) as board:
        (line,) = board.exec(code, timeout=60).decode().splitlines()
    label, ms, said = line.split(" ", 2)
    assert (label, said) == ("None", "all samples are the same: is the microphone connected, on these pins?")
    assert 900 <= int(ms) <= 1150  # by tenths, of which the first begins before a sample came
