"""A wake word that `mica train --say` made, over hours of other speech and 100 utterances in quiet and at 10 dB, beside
a published one.

MICA_HOURS=10: that many hours (by default a tenth of one). MICA_MS=200: milliseconds that its network may take (80).
Two synthesisers speak the pages of this project, each paragraph by another voice; nothing of it is kept.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from speech import WAKE_WORD, wake_word
from targets import nightly

from mica.cli.main import main
from mica.compile import compile_file
from mica.data import sounds
from mica.listen import detection
from mica.run.host import HostRunner
from mica.training import say

DOCS = Path(__file__).resolve().parents[2] / "host_tools" / "docs"
HOURS = float(os.environ.get("MICA_HOURS", "0.1"))
UTTERANCES = 100
BEFORE = 3000  # ms of each: events in it are no hits
FLITE = ("slt", "rms", "awb", "kal16")
TAUGHT = ("m1", "f1", "m2", "f2", "m3", "f3", "m4", "f4", "m5", "f5")  # variants of espeak-ng; the others judge
LEVELS = (0.0, 0.7, 0.8, 0.9, 0.95, 0.99)  # thresholds beside the file's own, which is 0 here
MS = os.environ.get("MICA_MS", "80")


def by_flite(text: str, voice: str, folder: Path) -> np.ndarray:
    """Return int16 [n] at 16 kHz."""
    path = folder / "said.wav"
    subprocess.run(["flite", "-voice", voice, "-t", text, "-o", str(path)], check=True)
    return sounds.read(path, say.RATE)


def judges() -> list[str]:
    """Return voices of espeak-ng that the word was not learnt from."""
    return [voice for voice in say._voices("en") if voice.rpartition("+")[2] not in TAUGHT]


def others(folder: Path, hours: float) -> Iterator[np.ndarray]:
    """Speak paragraphs of the pages until there are so many hours; two of three by espeak-ng."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md")))
    parts = [" ".join(re.findall(r"[A-Za-z,.']+", part)) for part in re.sub(r"(?s)```.*?```", "", text).split("\n\n")]
    parts = [part for part in parts if len(part) > 80]
    rng, voices, left = np.random.default_rng(0), judges(), hours * 3600.0
    for k in itertools.count():
        part = parts[k % len(parts)][:1500]
        if k % 3:
            x = say.spoken(part, voices[rng.integers(len(voices))], int(rng.integers(130, 190)), 50)
        else:
            x = by_flite(part, FLITE[k // 3 % len(FLITE)], folder)
        yield x
        left -= len(x) / say.RATE
        if left <= 0:
            return


def utterances(phrase: str, folder: Path) -> Iterator[np.ndarray]:
    """Say the phrase, half by espeak-ng's other voices and half by flite's; faint noise at both sides."""
    rng, voices = np.random.default_rng(1), judges()
    for k in range(UTTERANCES):
        if k % 2:
            x = say.spoken(phrase, voices[rng.integers(len(voices))], int(rng.integers(130, 190)), 50)
        else:
            x = by_flite(phrase + ("", ",", ".", "!")[k // 8 % 4], FLITE[k // 2 % 4], folder)
        x = np.pad(x, say.RATE * BEFORE // 1000)
        yield np.rint(x + rng.normal(0, 20, len(x))).astype(np.int16)


def noisy(x: np.ndarray, kind: int) -> np.ndarray:
    """Return an utterance amid white, pink or brown noise, 10 dB below its loud parts."""
    rng = np.random.default_rng(kind)
    wave = np.fft.rfft(rng.standard_normal(len(x)))
    noise = np.fft.irfft(wave / np.arange(1, len(wave) + 1) ** (0, 0.5, 1)[kind % 3], len(x))
    loud = x[np.abs(x) > 0.05 * np.abs(x).max()].astype(np.float64)
    noise *= np.sqrt(np.mean(loud**2)) / noise.std() / 10**0.5
    return np.clip(np.rint(x + noise), -(2**15), 2**15 - 1).astype(np.int16)


@nightly
@pytest.mark.skipif(not all(map(shutil.which, (say.PROGRAM, "flite"))), reason="espeak-ng and flite speak here")
def test_a_wake_word_over_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(say, "VARIANTS", " ".join(TAUGHT))
    path = tmp_path / "words.mica"
    words = ["--say", "hey board", "--ms", MS, "--minutes", "60", "-o", str(path)]
    assert main(["train", str(tmp_path / "words"), *words]) == 0
    monkeypatch.undo()
    files = {
        "hey board": path.read_bytes(),
        "okay nabu": compile_file(wake_word("okay_nabu"), front_end=WAKE_WORD).data,
    }
    alarms: dict[tuple[str, float], int] = dict.fromkeys(itertools.product(files, LEVELS), 0)
    hits, loud = dict(alarms), dict(alarms)
    seconds = 0.0
    runners = {name: HostRunner(data) for name, data in files.items()}

    def count(name: str, x: np.ndarray, into: dict[tuple[str, float], int], after: int = -1) -> None:
        model = runners[name].model
        usual = detection.settings_of(model)
        answers = list(detection.outputs(runners[name], x, usual))
        for level in LEVELS:
            settings = detection.Settings(level, usual.mean, means=usual.means) if level else usual
            n = sum(event.ms > after for event in detection.events(model, answers, settings))
            into[name, level] += n if after < 0 else min(1, n)

    for x in others(tmp_path, HOURS):
        seconds += len(x) / say.RATE
        for name in files:
            count(name, x, alarms)
    for name in files:
        for k, x in enumerate(utterances(name, tmp_path)):
            count(name, x, hits, BEFORE)
            count(name, noisy(x, k), loud, BEFORE)
    for name, level in alarms:
        at = name, level
        print(
            f"{name}, threshold {level or 'of the file'}: {hits[at]} of {UTTERANCES} said, {loud[at]} at 10 dB, "
            f"{alarms[at]} false alarms in {seconds / 3600:.2f} h of other speech, {alarms[at] * 3600 / seconds:.2f} "
            "an hour"
        )
    for runner in runners.values():
        runner.close()
    assert seconds >= 3600 * HOURS and min(hits[name, 0.0] for name in files) > UTTERANCES // 2
    assert alarms["hey board", 0.0] * 3600 <= 10 * seconds
