"""MLPerf Tiny's wake word on boards: one event for the word, none for music; the virtual Pico keeps up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import pack, reference_model
from microphone import by_host, hear
from targets import ALL
from tones import marvin, write_wav

from mica.cli.main import main
from mica.link.board import Link
from mica.run.host import HostRunner

FRONT_END = "logmel:mlperf-wakeword"
HOP = 512
LISTEN = """
import mica
from mica.audio import listen
from mica.wav import Wav
words = listen(mica.Model({model!r}), Wav({wav!r}), threshold=0.95, step=512)
for event in words:
    if event.label:  # the recording has more than a second of nothing, which is told, too
        print(event.label, event.ms)
print("end")
print(words.used)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """wake.mica takes a second, row.mica and step.mica a frame every 32 ms, step.mica for new rows only;
    ten seconds of sound."""
    folder, models = tmp_path_factory.mktemp("wake"), reference_model("tflite")
    (folder / "labels.txt").write_text("marvin\nsilence\nother\n")
    network, labels = models / "sww_int8.tflite", ("--labels", folder / "labels.txt")
    pack(network, folder / "wake.mica", "--frontend", FRONT_END, *labels)
    pack(network, folder / "row.mica", "--frontend", f"{FRONT_END},before=yes", "--window", "input_1:1=1", *labels)
    pack(network, folder / "step.mica", "--frontend", FRONT_END, "--stream", "input_1:1=1", *labels)
    sound = marvin(models / "sww_easy10s.wav")
    write_wav(folder / "ten.wav", sound)
    return folder


def expected(packed: Path, sound: np.ndarray, n: int) -> list[int]:
    """Times in ms at which the mean of three answers rises to 0.95 or more, computed on this computer."""
    with HostRunner(packed.read_bytes()) as runner:
        ends = range(n, len(sound) + 1, HOP)
        p = [float(runner.predict(sound[None, None, e - n : e].astype(np.float32))[0].reshape(-1)[0]) for e in ends]
    above = [False, False, *(sum(p[k : k + 3]) / 3 >= 0.95 for k in range(len(p) - 2))]
    return [e * 1000 // 16000 for k, e in enumerate(ends) if above[k] and not above[k - 1]]


def said(board: Link, folder: Path, model: str, wav: str, timeout: float) -> list[str]:
    for name in (model, wav):
        board.put((folder / name).read_bytes(), "_data")
        board.exec(f"with open('{name}', 'wb') as _f: _f.write(_data)\ndel _f, _data")
    return board.exec(LISTEN.format(model=model, wav=wav), timeout=timeout).decode().splitlines()


@pytest.mark.parametrize(("model", "n"), [("wake.mica", 1024 + 29 * HOP), ("row.mica", 1025), ("step.mica", 1025)])
def test_one_word(unix_board: Link, files: Path, model: str, n: int) -> None:
    """In ten seconds of music with three words, of which the network knows the first for longer than a moment."""
    (ms,) = expected(files / model, marvin(reference_model("tflite") / "sww_easy10s.wav"), n)
    assert 1400 <= ms <= 2200
    event, end, used = said(unix_board, files, model, "ten.wav", 120)
    assert (event, end) == (f"marvin {ms}", "end") and float(used) < 1


@pytest.mark.parametrize(("model", "most"), [("step.mica", 0.4)] + [("row.mica", 1.1)] * ALL)
def test_microphone_of_the_virtual_pico(files: Path, model: str, most: float) -> None:
    """In time for ten seconds: a frame of 64 ms every 32 ms, each layer its new row, or all rows of all layers,
    with no sample lost."""
    sound = marvin(reference_model("tflite") / "sww_easy10s.wav")
    said = by_host(files / model, sound, "marvin", 0.95, 3)
    found = hear(files / model, sound, "marvin", 0.95, 3, 10.0, slice_ms=30)
    print(f"{found.used:.1%} of the time")
    assert found.events == said and len(said) == 1
    # The recording has more than a second of nothing, which is told.
    assert [p for p in found.problems if not p.startswith("all samples are the same")] == []
    assert found.samples >= 9.9 * 16000
    assert found.used < most


def test_whole_windows_leave_time_on_a_pico(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A frame of 64 ms and all rows of all layers every 32 ms at 125 MHz, but for flash: with it they take 101 %."""
    words = ["bench", str(files / "row.mica"), "--on", "RPI_PICO@emu", "--memory", "ideal", "--runs", "1", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    print(f"{found['total'] / 4e6:.1%} of the time")
    assert found["unit"] == "cycles" and found["total"] < 0.85 * 0.032 * 125e6
