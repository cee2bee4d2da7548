"""firmware/examples/wake_word.py on the virtual Pico, with a microphone that hears a recording; and whether each sample came to it."""

from __future__ import annotations

import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tones import write_wav

from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.run import hearing, sensor_files
from mica.run.host import HostRunner

EXAMPLE = Path(__file__).resolve().parents[1] / "firmware" / "examples" / "wake_word.py"
BLOCK = 256  # samples that mica.audio takes at once
WATCHED = """
import sys
from binascii import crc32
import machine as _machine
class I2S:
    "The board's, with a checksum of all that it gives."
    RX, MONO = _machine.I2S.RX, _machine.I2S.MONO
    crc = blocks = 0
    def __init__(self, *args, **options):
        self.i2s = _machine.I2S(*args, **options)
        I2S.last = self
    def irq(self, handler):
        self.handler = handler
        self.i2s.irq(handler and self.filled)
    def readinto(self, buffer):
        self.buffer = buffer
        return self.i2s.readinto(buffer)
    def filled(self, _):
        self.crc = crc32(self.buffer, self.crc)
        self.blocks += 1
        self.handler(self)
class machine:
    Pin = _machine.Pin
machine.I2S = I2S
sys.modules["machine"] = machine
"""
TELL = "\nprint('end', words.used, I2S.last.crc, I2S.last.blocks)\nI2S.last.i2s.deinit()\n"


@dataclass
class Heard:
    """events: (label, ms); problems: what else was said; used: share of the time; samples: how many the board read, all of them right."""

    events: list[tuple[str, int]]
    problems: list[str]
    used: float
    samples: int


def example(model: str, label: str, threshold: float, mean: int, ms: int) -> str:
    """The example with another model."""
    text = EXAMPLE.read_text()
    for old, new in {
        "tones_rows.mica": model,
        'labels=["high"], threshold=0.8, mean=4, dead_ms=500, ms=1900': f"labels=['{label}'], threshold={threshold}, mean={mean}, ms={ms}",
        "async def main():\n": "async def main():\n    global words\n",
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text


def hear(packed: Path, sound: np.ndarray, label: str, threshold: float, mean: int, seconds: float) -> Heard:
    """So many seconds of the board's time. A sample that does not come as it was raises AssertionError."""
    with tempfile.TemporaryDirectory() as folder:
        wav = write_wav(Path(folder) / "sound.wav", sound)
        wired = Sensors({"i2s": sensor_files.i2s(str(wav))})
    with open_board("RPI_PICO@emu", rom_files={packed.name: packed.read_bytes()}, sensors=wired) as board:
        code = WATCHED + example(packed.name, label, threshold, mean, round(1000 * seconds)) + TELL
        *lines, end = board.exec(code, timeout=60 + 30 * seconds).decode().splitlines()
    _, used, crc, blocks = end.split()
    # A frame goes by before the microphone is asked for its first sample.
    came = np.zeros(BLOCK * int(blocks), "<i2")
    came[1 : 1 + len(sound)] = sound[: len(came) - 1]
    assert zlib.crc32(came.tobytes()) == int(crc), "samples were lost or changed"
    words = [line.split() for line in lines if " at " in line]
    return Heard(
        [(w[0], int(w[2])) for w in words], [s for s in lines if " at " not in s], float(used), BLOCK * int(blocks)
    )


def by_host(packed: Path, sound: np.ndarray, label: str, threshold: float, mean: int) -> list[tuple[str, int]]:
    """The events that this computer hears, in what the board's microphone gives."""
    late = np.r_[np.zeros(1, np.int16), sound]
    with HostRunner(packed.read_bytes()) as runner:
        settings = hearing.Settings(threshold, mean, labels=[label])
        return [(e.label, e.ms) for e in hearing.hear(runner, late, settings)]
