"""A wake word that `mica train --say` made, over hours of other speech and 100 utterances, beside a published one.

MICA_HOURS=10: that many hours (by default a tenth of one). Two synthesisers speak the pages of this project, each
paragraph by another voice; nothing of it is kept.
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

import mica
from mica.compile import compile_file
from mica.data import sounds
from mica.listen import detection
from mica.run.host import HostRunner
from mica.training import say

DOCS = Path(__file__).resolve().parents[2] / "host_tools" / "docs"
HOURS = float(os.environ.get("MICA_HOURS", "0.1"))
UTTERANCES = 100
FLITE = ("slt", "rms", "awb", "kal16")
TAUGHT = ("m1", "f1", "m2", "f2", "m3", "f3", "m4", "f4", "m5", "f5")  # variants of espeak-ng; the others judge
LEVELS = (0.0, 0.95, 0.99)  # thresholds beside the file's own, which is 0 here


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
    """Say the phrase, half by espeak-ng's other voices and half by flite's; a second of faint noise at both sides."""
    rng, voices = np.random.default_rng(1), judges()
    for k in range(UTTERANCES):
        if k % 2:
            x = say.spoken(phrase, voices[rng.integers(len(voices))], int(rng.integers(130, 190)), 50)
        else:
            x = by_flite(phrase + ("", ",", ".", "!")[k // 8 % 4], FLITE[k // 2 % 4], folder)
        yield np.rint(np.pad(x, say.RATE) + rng.normal(0, 20, len(x) + 2 * say.RATE)).astype(np.int16)


@nightly
@pytest.mark.skipif(not all(map(shutil.which, (say.PROGRAM, "flite"))), reason="espeak-ng and flite speak here")
def test_a_wake_word_over_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as m:
        m.setattr(say, "_VARIANTS", " ".join(TAUGHT))
        say.make(["hey board"], tmp_path / "words", 40)
    made = mica.train(tmp_path / "words", other=True, ms=80, minutes=60)
    print(
        f"hey board: {made.cost.name}, {made.cost.ms:.1f} ms, {made.accuracy:.1%} of held clips in {made.seconds:.0f} s"
    )
    files = {"hey board": made.packed, "okay nabu": compile_file(wake_word("okay_nabu"), front_end=WAKE_WORD).data}
    alarms: dict[tuple[str, float], int] = dict.fromkeys(itertools.product(files, LEVELS), 0)
    hits = dict(alarms)
    seconds = 0.0
    runners = {name: HostRunner(data) for name, data in files.items()}

    def count(name: str, x: np.ndarray, into: dict[tuple[str, float], int], most: int = 10**6) -> None:
        model = runners[name].model
        usual = detection.settings_of(model)
        answers = list(detection.outputs(runners[name], x, usual))
        for level in LEVELS:
            settings = detection.Settings(level, usual.mean) if level else usual
            into[name, level] += min(most, len(list(detection.events(model, answers, settings))))

    for x in others(tmp_path, HOURS):
        seconds += len(x) / say.RATE
        for name in files:
            count(name, x, alarms)
    for name in files:
        for x in utterances(name, tmp_path):
            count(name, x, hits, 1)
    for name, level in alarms:
        heard, wrong = hits[name, level], alarms[name, level]
        print(
            f"{name}, threshold {level or 'of the file'}: {heard} of {UTTERANCES} said, {wrong} false alarms in "
            f"{seconds / 3600:.2f} h of other speech, {wrong * 3600 / seconds:.2f} an hour"
        )
    for runner in runners.values():
        runner.close()
    assert seconds >= 3600 * HOURS and hits["okay nabu", 0.0] > UTTERANCES // 2 and hits["hey board", 0.0]
