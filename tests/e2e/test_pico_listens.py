"""The virtual Picos' microphone and mica.audio, with a small model: events in time, and a line about a missing one."""

from __future__ import annotations

from pathlib import Path

import pytest
from microphone import BLOCK, DMA, I2S, hear
from targets import PICO, PICO2, VIRTUAL
from tones import write_wav

from mica.data import sounds
from mica.link.board import BoardError
from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import detection, sensor_files
from mica.listen.microphone import Microphone, PdmMicrophone, listen_at
from mica.run.host import HostRunner


@pytest.mark.parametrize("target", VIRTUAL)
@pytest.mark.parametrize("source", [I2S, DMA])
def test_hears(source: str, target: str, tones_rows: Path) -> None:
    """A frame comes every 10 ms; half a second of a low tone gives no event."""
    sound = sounds.read(tones_rows.parent / "tones.wav", 16000)[8000:]  # low, silence, high
    found = hear(tones_rows, sound, "high", 0.8, 4, 1.3, source, target=target)
    print(f"{found.used:.1%} of the time")
    ((label, ms),) = found.events
    assert label == "high" and 1000 < ms < 1300 and found.problems == []
    assert 1.3 * 16000 - BLOCK < found.samples <= 1.3 * 16000 and 0 < found.used < 1


@pytest.mark.parametrize(("target", "busy", "channels"), [(PICO, 24, 12), (PICO2, 26, 16)])
def test_nothing_at_the_pins(target: str, busy: int, channels: int, tones_rows: Path) -> None:
    """A second of zeros gives one line, also from `mica listen`, which takes PIO and DMA. Samples lost while the
    program was busy are reported; Ctrl-C ends DMA, and so PIO."""
    code = """
import mica
from machine import I2S, Pin, mem32
from mica.audio import listen
from mica.pio_i2s import Microphone
from time import sleep_ms
m = mica.Model("tones_rows.mica")
i = I2S(0, sck=Pin(16), ws=Pin(17), sd=Pin(18), mode=I2S.RX, bits=16, format=I2S.MONO, rate=16000, ibuf=8000)
for source in (i, Microphone(16, 17, 18)):
    with listen(m, source, labels=["high"], ms=1150, step=1600) as words:
        for e in words:
            print(e.label, e.ms, e.problem)
i.deinit()
words = listen(m, source, labels=["high"], step=1600)
n = words._end
sleep_ms(500)
print(next(words).problem, n)
"""
    with open_board(target, rom_files={"tones_rows.mica": tones_rows.read_bytes()}) as board:
        problems: list[str] = []
        settings, pins = detection.Settings(0.8, 4), Microphone.read("sck=16,ws=17,sd=18")
        used = listen_at(board, tones_rows.read_bytes(), pins, settings, 1.15, lambda _: None, problems.append)
        by_dma = board.exec("print('mica.pio_i2s' in sys.modules)")
        *lines, overrun = board.exec(code, timeout=60).decode().splitlines()
        with pytest.raises(BoardError, match="interrupted"):
            board.exec("with words:\n    for e in words: pass", timeout=0.5)
        dma = f"*[mem32[0x50000010 + 64 * k] >> {busy} & 1 for k in range({channels})]"
        assert set(board.exec(f"print({dma}, mem32[0x50200000], mem32[0x50300000])").split()) == {b"0"}
    assert by_dma == b"True\n" and used is not None and 0 < used < 1
    (problem,) = problems
    assert problem.endswith("all samples are the same: is the microphone connected, on these pins?")
    assert len(lines) == 2
    for line in lines:
        label, ms, said = line.split(" ", 2)
        assert (label, said) == ("None", "all samples are the same: is the microphone connected, on these pins?")
        assert 900 <= int(ms) <= 1150  # by tenths, of which the first begins before a sample came
    said, n = overrun.rsplit(" ", 1)
    # sleep_ms(500) waits for 500 ticks, of which the first may end at once: 499.2 ms were seen.
    assert said.startswith("overrun: ") and 16 * 499 <= int(said.split()[1]) + int(n) < 8400


def test_pdm(tones_rows: Path, tmp_path: Path) -> None:
    """`mica listen --pdm` recognises through the filter what it recognises in the recording."""
    wav = write_wav(tmp_path / "tones.wav", sounds.read(tones_rows.parent / "tones.wav", 16000)[12000:] // 2)
    with HostRunner(tones_rows.read_bytes()) as runner:
        expected = list(detection.detect(runner, sounds.read(wav, 16000), detection.Settings(0.8, 4, labels=["high"])))
    found: list[detection.Event] = []
    wired = Sensors({"pdm": sensor_files.pdm(str(wav))})
    with open_board("RPI_PICO@emu", rom_files={"tones_rows.mica": tones_rows.read_bytes()}, sensors=wired) as board:
        settings = detection.Settings(0.8, 4, labels=["high"])
        pins = PdmMicrophone.read("clk=3,data=2")
        used = listen_at(board, tones_rows.read_bytes(), pins, settings, 1.1, found.append, print)
    assert used is not None and 0 < used < 1
    assert [(e.label, abs(e.ms - f.ms) <= 20) for e, f in zip(expected, found, strict=True)] == [("high", True)]
