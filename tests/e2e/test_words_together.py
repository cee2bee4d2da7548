"""Several networks behind one front end, in one file: each answers, and gives events, as in a file of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import text_nets
from helpers import pack
from tflite_nets import NEW, WIDTH, stream
from tones import write_wav

from mica.cli.main import main
from mica.file.codec import decode
from mica.link.board import Link
from mica.listen import detection
from mica.run.host import HostRunner

FRAME, HOP = 480, 160
SMALL = f"pcan:micro-speech,hop={HOP},mels={WIDTH}"
NAMES = ("left", "right")
SAID = {"left": (0.4, 2), "right": (0.3, 5)}  # threshold, mean
LISTEN = """
import mica
from mica.audio import listen
from mica.wav import Wav
words = listen(mica.Model("both.mica"), Wav("said.wav"), dead_ms=200)
for event in words:
    if event.label:
        print(event.label, event.ms)
print(words.threshold, words.mean)
"""


def sound(seconds: int) -> np.ndarray:
    """int16, tones that come and go in noise."""
    rng, t = np.random.default_rng(0), np.arange(seconds * 16000) / 16000
    loud = np.exp(6 * np.sin(1.7 * t) + 2 * np.sin(7 * t))
    tones = 10 * np.sin(2 * np.pi * t * (300 + 200 * np.sin(t)))
    return np.clip(rng.normal(size=len(t)) * 40 + loud * tones, -32768, 32767).astype(np.int16)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """left.mica, right.mica, and both.mica with both, of WIDTH answers each; said.wav."""
    folder = tmp_path_factory.mktemp("together")
    for k, name in enumerate(NAMES):
        (folder / f"{name}.tflite").write_bytes(stream(seed=k))
        threshold, mean = SAID[name]
        micro = {"probability_cutoff": threshold, "sliding_window_size": mean}
        (folder / f"{name}.json").write_text(json.dumps({"wake_word": name, "micro": micro}))
        pack(folder / f"{name}.tflite", folder / f"{name}.mica", "--frontend", SMALL)
    first, second = (folder / f"{name}.tflite" for name in NAMES)
    out = ["-o", str(folder / "both.mica")]
    assert main(["pack", str(first), str(second), "--together", "--frontend", SMALL, *out]) == 0
    write_wav(folder / "said.wav", sound(6))
    return folder


def heard(path: Path, x: np.ndarray) -> tuple[np.ndarray, list[detection.Event]]:
    """Answers [runs, labels] and events, on this computer."""
    with HostRunner(path.read_bytes()) as runner:
        settings = replace(detection.settings_of(runner.model), dead_ms=200)
        answers = list(detection.outputs(runner, x, settings))
        events = list(detection.events(runner.model, answers, settings))
    return np.array([a.reshape(-1) for a, _ in answers]), events


def test_as_alone(files: Path) -> None:
    """Every byte of the answers; the file has a label, a threshold and a mean for each of them."""
    x = sound(6)
    alone = [heard(files / f"{name}.mica", x)[0] for name in NAMES]
    together, _ = heard(files / "both.mica", x)
    n = len(together)  # the longer mean takes more silence behind the sound
    assert np.array_equal(together, np.concatenate([a[:n] for a in alone], axis=1)) and np.ptp(together) > 0.5
    said = decode((files / "both.mica").read_bytes()).metadata
    assert said["labels"].split("\n") == [f"{name} {k}" for name in NAMES for k in range(WIDTH)]
    assert said["listen_threshold"] == " ".join([f"{t + 1e-6:.7g}" for t, _ in SAID.values() for _ in range(WIDTH)])
    assert said["listen_mean"] == " ".join([str(m) for _, m in SAID.values() for _ in range(WIDTH)])


def test_each_by_itself(files: Path, unix_board: Link) -> None:
    """Events of a label are those of its answers alone, though others come at the same time; board as host."""
    x = sound(6)
    answers, events = heard(files / "both.mica", x)
    labels = [f"{name} {k}" for name in NAMES for k in range(WIDTH)]
    expected = []
    for k, label in enumerate(labels):
        threshold, mean = SAID[label.split()[0]]
        before, last = False, -200.0
        for run in range(mean - 1, len(answers)):
            above = answers[run - mean + 1 : run + 1, k].mean() >= threshold + 1e-6
            ms = (FRAME + (NEW - 1) * HOP + run * NEW * HOP) * 1000 // 16000
            if above and not before and ms - last >= 200:
                expected.append((ms, label))
                before, last = True, ms
            before = before and above
    assert sorted((e.ms, e.label) for e in events) == sorted(expected)
    assert len({e.label for e in events}) > 2 and len({e.ms for e in events}) < len(events)
    for name in ("both.mica", "said.wav"):
        unix_board.put((files / name).read_bytes(), "_data")
        unix_board.exec(f"with open('{name}', 'wb') as _f: _f.write(_data)\ndel _f, _data")
    *found, numbers = unix_board.exec(LISTEN, timeout=60).decode().splitlines()
    assert found == [f"{e.label} {e.ms}" for e in events if e.ms <= 6000]
    assert "'right 0': 0.3" in numbers and numbers.endswith(str([m for _, m in SAID.values() for _ in range(WIDTH)]))


def test_refused(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (str(files / f"{name}.tflite") for name in NAMES)
    out = ["-o", str(tmp_path / "x.mica")]
    assert main(["pack", first, "--together", "--frontend", SMALL, *out]) == 1
    assert "--together: there is one model" in capsys.readouterr().err
    other = text_nets.save(
        tmp_path / "other.onnx", f"(float[1,4,{WIDTH}] x) => (float[1,4,{WIDTH}] y) {{ y = Relu(x) }}"
    )
    assert main(["pack", first, second, str(other), "--together", "--frontend", SMALL, *out]) == 1
    assert f"other.onnx takes float32 [1, 4, {WIDTH}], and left.tflite float32 [1, {NEW}, " in capsys.readouterr().err
