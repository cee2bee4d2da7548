"""A published wake word on the virtual Pico: I2S by PIO and DMA, and the hits that this computer has from the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import speech
from speech import WAKE_WORD, wake_word
from tones import write_wav

from mica.compile import compile_file
from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import detection, sensor_files
from mica.run.host import HostRunner

LISTEN = """
import mica
from mica.audio import listen
from mica.pio_i2s import Microphone
with listen(mica.Model("/rom/word.mica"), Microphone(sck=16, ws=17, sd=18), ms={ms}) as words:
    for e in words:
        print(e.problem or e.label, e.ms)
    print(words.threshold, words.mean, words.used)
"""


def test_hits_of_the_virtual_pico(tmp_path: Path) -> None:
    """Threshold, mean and label are those of the file."""
    packed = compile_file(wake_word("alexa"), front_end=WAKE_WORD)
    x, _ = speech.talk(["alexa", "okay nabu"], speech.VOICES[:2])
    late = np.r_[np.zeros(1, np.int16), x]  # the frame in which the microphone's clock begins is empty
    with HostRunner(packed.data) as runner:
        expected = [f"{e.label} {e.ms}" for e in detection.detect(runner, late, detection.settings_of(packed.model))]
    wav = write_wav(tmp_path / "talk.wav", x)
    wired = Sensors({"i2s": sensor_files.i2s(str(wav))})
    with open_board("RPI_PICO@emu", rom_files={"word.mica": packed.data}, sensors=wired) as board:
        *found, end = board.exec(LISTEN.format(ms=len(x) // 16), timeout=300).decode().splitlines()
    threshold, mean, used = end.split()
    print(f"{float(used):.1%} of the time")
    assert found == expected and found and (float(threshold), int(mean)) == (0.900001, 5)
    assert float(used) < 0.35  # of which flash a quarter
