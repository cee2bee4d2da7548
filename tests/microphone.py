"""firmware/examples/wake_word.py on a virtual Pico, with a recording at its microphone; each sample must arrive."""

from __future__ import annotations

import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from targets import PICO
from tones import write_wav

from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import detection, sensor_files
from mica.run.host import HostRunner

EXAMPLE = Path(__file__).resolve().parents[1] / "firmware" / "examples" / "wake_word.py"
BLOCK = 256  # samples that mica.audio takes at once
I2S = "machine.I2S"
DMA = "mica.pio_i2s"
WATCHED = """
from binascii import crc32
from mica.audio import Ring
class Came:
    "A checksum of all samples that the model has seen, and how many they were."
    crc = n = 0
def still(ring, end, n, still=Ring.still):
    while Came.n < end:
        at = Came.n % ring.size
        some = ring._data[at : at + min(end - Came.n, ring.size - at)]
        Came.crc = crc32(some, Came.crc)
        Came.n += len(some)
    return still(ring, end, n)
Ring.still = still
"""
TELL = "\nprint('end', words.used, Came.crc, Came.n)\nif hasattr(microphone, 'deinit'): microphone.deinit()\n"


@dataclass
class Heard:
    """events: (label, ms); problems: other messages; used: share of the time; samples: those that the model took."""

    events: list[tuple[str, int]]
    problems: list[str]
    used: float
    samples: int


def example(model: str, label: str, threshold: float, mean: int, ms: int, source: str, slice_ms: int) -> str:
    """The example with another model, and with one of the two ways to read a microphone."""
    text = EXAMPLE.read_text()
    words = f"labels=['{label}'], threshold={threshold}, mean={mean}, ms={ms}, slice_us={1000 * slice_ms}"
    for old, new in {
        "tones_rows.mica": model,
        'labels=["high"], threshold=0.8, mean=4, dead_ms=500, ms=1900': words,
        "async def main():\n": "async def main():\n    global words\n",
        'sys.platform == "rp2"': str(source == DMA),
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text


def hear(
    packed: Path,
    sound: np.ndarray,
    label: str,
    threshold: float,
    mean: int,
    seconds: float,
    source: str = DMA,
    slice_ms: int = 10,
    target: str = PICO,
) -> Heard:
    """Run so many seconds of the board's time. Raises AssertionError if a sample does not arrive unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        wav = write_wav(Path(folder) / "sound.wav", sound)
        wired = Sensors({"i2s": sensor_files.i2s(str(wav))})
    with open_board(target, rom_files={packed.name: packed.read_bytes()}, sensors=wired) as board:
        program = example(packed.name, label, threshold, mean, round(1000 * seconds), source, slice_ms)
        *lines, end = board.exec(WATCHED + program + TELL, timeout=60 + 30 * seconds).decode().splitlines()
    _, used, crc, n = end.split()
    # A frame goes by before the microphone is asked for its first sample.
    came = np.zeros(int(n), "<i2")
    came[1 : 1 + len(sound)] = sound[: len(came) - 1]
    words = [line.split() for line in lines if " at " in line]
    problems = [line for line in lines if " at " not in line]
    assert zlib.crc32(came.tobytes()) == int(crc), f"samples were lost or changed: {problems}"
    return Heard([(w[0], int(w[2])) for w in words], problems, float(used), len(came))


def by_host(packed: Path, sound: np.ndarray, label: str, threshold: float, mean: int) -> list[tuple[str, int]]:
    """Events that this computer finds in the sound that the board's microphone gives."""
    late = np.r_[np.zeros(1, np.int16), sound]
    with HostRunner(packed.read_bytes()) as runner:
        settings = detection.Settings(threshold, mean, labels=[label])
        return [(e.label, e.ms) for e in detection.detect(runner, late, settings)]
