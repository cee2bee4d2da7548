"""Published wake words on the virtual Pico: I2S by PIO and DMA, and this computer's hits from the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import speech
from speech import WAKE_WORD, wake_word
from targets import ALL
from tones import write_wav

from mica.compile import Compiled, compile_file
from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import detection, sensor_files
from mica.run.host import HostRunner

WORDS = ["alexa", "okay_nabu", "hey_jarvis", "hey_mycroft"]
LISTEN = """
import mica
from mica.audio import listen
from mica.pio_i2s import Microphone
with listen(mica.Model("/rom/word.mica", weights="auto"), Microphone(sck=16, ws=17, sd=18), ms={ms}) as words:
    for e in words:
        print(e.problem or e.label, e.ms)
    print(words.used)
"""


@pytest.mark.parametrize(
    ("names", "memory", "most"),
    [(WORDS[:2], "waits", 0.4)] + [(WORDS, "waits", 0.7), (WORDS[:1], "waits", 0.35), (WORDS, "ideal", 0.46)] * ALL,
)
def test_hits_of_the_virtual_pico(
    names: list[str], memory: str, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thresholds, means and labels are those of each network's file; together they detect what each detects alone."""
    monkeypatch.setenv("MICA_MEMORY", memory)
    first, *others = map(wake_word, names)
    packed = compile_file(first, front_end=WAKE_WORD, joined=tuple(others), together=bool(others))
    x, _ = speech.talk([name.replace("_", " ") for name in names], speech.VOICES[:2])
    late = np.r_[np.zeros(1, np.int16), x]  # the frame in which the microphone's clock begins is empty
    expected = heard(packed, late)
    assert expected == sorted(
        event for name in names for event in heard(compile_file(wake_word(name), front_end=WAKE_WORD), late)
    )
    wav = write_wav(tmp_path / "talk.wav", x)
    wired = Sensors({"i2s": sensor_files.i2s(str(wav))})
    with open_board("RPI_PICO@emu", rom_files={"word.mica": packed.data}, sensors=wired) as board:
        *found, end = board.exec(LISTEN.format(ms=len(x) // 16), timeout=300).decode().splitlines()
    print(f"{' '.join(names)}, {memory}: {float(end):.1%} of the time")
    assert found == [f"{label} {ms}" for ms, label in expected]
    assert len(found) >= (1 + len(names)) // 2
    assert float(end) < most


def heard(packed: Compiled, x: np.ndarray) -> list[tuple[int, str]]:
    """Time and label of each event, on this computer."""
    with HostRunner(packed.data) as runner:
        return [(e.ms, e.label) for e in detection.detect(runner, x, detection.settings_of(packed.model))]
