"""A wake word that `mica train --say` made, over hours of other speech and 200 utterances in quiet and at 10 dB, beside
a published one.

MICA_HOURS=10: that many hours (by default one; an hour takes some 50 s, the words two minutes). MICA_MS=200:
milliseconds that its network may take (80).
MICA_WAKE=words.mica: judge this file, which `mica train` made, and train none.
Nothing here is learnt from, and no threshold is chosen by it: variants of espeak-ng that `--say` never takes and voices
of flite speak documentation of Python, which no part of mica's training reads. Do not tune on it.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import pydoc_data.topics
import re
import shutil
import subprocess
import sys
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

HOURS = float(os.environ.get("MICA_HOURS", "1"))
MS, MADE = os.environ.get("MICA_MS", "80"), os.environ.get("MICA_WAKE")
UTTERANCES = 200
BEFORE = 3000  # ms of each: events in it are no hits
FLITE = ("slt", "awb", "rms")
UNHEARD = (
    "Alicia Andy Diogo Gene Gene2 Marco Storm Tweaky adam anika antonio boris caleb ed edward2 gustave iven iven2 "
    "iven3 iven4 kaukovalta klatt klatt2 klatt3 klatt4 michel miguel norbert pedro rob sandro shelby steph2 steph3 "
    "victor zac"
)
LEVELS = (0.0, 0.7, 0.8, 0.9, 0.95, 0.99)  # thresholds beside the file's own, which is 0 here
# One a line: nothing that people say often, and all that is hard.
NEAR = (
    "a board", "the board", "they bought", "hey Bob", "hey bird", "hey boy", "hey Gordon", "pay for it", "hay barn",
    "the day before", "okay board", "keyboard", "may bore", "say more", "hey Siri", "they poured", "hey Ford", "hey",
    "hey baby", "play chord",
)  # fmt: skip


def by_flite(text: str, rng: np.random.Generator, folder: Path) -> np.ndarray:
    """Return int16 [n] at 16 kHz, by one of the voices, faster or slower."""
    path = folder / "said.wav"
    words = ["-voice", FLITE[rng.integers(len(FLITE))], "--setf", f"duration_stretch={rng.uniform(0.85, 1.2):.2f}"]
    subprocess.run(["flite", *words, "-t", text, "-o", str(path)], check=True)
    return say.trimmed(sounds.read(path, say.RATE))


def by_espeak(text: str, rng: np.random.Generator) -> np.ndarray:
    """Return int16 [n] at 16 kHz, by a voice that `--say` never takes."""
    accents = sorted({voice.partition("+")[0] for voice in say._voices("en")})
    voice = f"{accents[rng.integers(len(accents))]}+{rng.choice(UNHEARD.split())}"
    return say.spoken(text, voice, int(rng.integers(130, 190)), int(rng.integers(35, 65)))


def texts() -> list[str]:
    """Return paragraphs of Python's own documentation, some 200,000 words, in an order by chance."""
    found = list(pydoc_data.topics.topics.values())
    for name in sorted(sys.stdlib_module_names - {"antigravity", "this"}):
        spec = None if name.startswith("_") else importlib.util.find_spec(name)
        if spec and spec.origin and spec.origin.endswith(".py"):
            for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    found.append(ast.get_docstring(node) or "")
    parts = [re.sub(r"[^A-Za-z,.' ]+", " ", part.replace("\n", " ")) for text in found for part in text.split("\n\n")]
    parts = sorted({" ".join(part.split())[:800] for part in parts})
    parts = [part for part in parts if len(part) > 80]
    return [parts[k] for k in np.random.default_rng(7).permutation(len(parts))]


def others(folder: Path, hours: float) -> Iterator[np.ndarray]:
    """Speak paragraphs until there are so many hours; two of three by espeak-ng."""
    rng, left = np.random.default_rng(8), hours * 3600.0
    for k, text in enumerate(itertools.cycle(texts())):
        x = by_espeak(text, rng) if k % 3 else by_flite(text, rng, folder)
        yield x
        left -= len(x) / say.RATE
        if left <= 0:
            return


def utterances(phrases: list[str], folder: Path) -> Iterator[np.ndarray]:
    """Say phrases, half by espeak-ng and half by flite; faint noise at both sides."""
    rng = np.random.default_rng(9)
    for k in range(UTTERANCES):
        text = phrases[k // 2 % len(phrases)] + ("", ",", ".", "!")[k // 2 % 4]
        x = by_espeak(text, rng) if k % 2 else by_flite(text, rng, folder)
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


class Judged:
    """A model, and its events at each threshold. alarms: in other speech; said: of each kind of utterance, by espeak-ng
    and by flite."""

    def __init__(self, data: bytes) -> None:
        self.runner = HostRunner(data)
        self.alarms = np.zeros(len(LEVELS), int)
        self.said = {kind: np.zeros((len(LEVELS), 2), int) for kind in ("in quiet", "at 10 dB", "near phrases")}

    def events(self, x: np.ndarray, after: int = -1) -> np.ndarray:
        """Return the number of events at each threshold, int [levels]."""
        model = self.runner.model
        usual = detection.settings_of(model)
        answers = list(detection.outputs(self.runner, x, usual))
        every = [detection.Settings(level, usual.mean, means=usual.means) if level else usual for level in LEVELS]
        return np.array([sum(e.ms > after for e in detection.events(model, answers, s)) for s in every])

    def hear(self, phrase: str, folder: Path) -> None:
        """Count the utterances that wake it."""
        for kind, phrases in (("in quiet", [phrase]), ("at 10 dB", [phrase]), ("near phrases", list(NEAR))):
            for k, x in enumerate(utterances(phrases, folder)):
                x = noisy(x, k) if kind == "at 10 dB" else x
                self.said[kind][:, int(k % 2 == 0)] += np.minimum(1, self.events(x, BEFORE))


@nightly
@pytest.mark.skipif(not all(map(shutil.which, (say.PROGRAM, "flite"))), reason="espeak-ng and flite speak here")
def test_a_wake_word_over_hours(tmp_path: Path) -> None:
    path = Path(MADE or tmp_path / "words.mica")
    words = ["--say", "hey board", "--ms", MS, "--minutes", "60", "-o", str(path)]
    assert MADE or main(["train", str(tmp_path / "words"), *words]) == 0
    own = Judged(path.read_bytes())
    published = Judged(compile_file(wake_word("okay_nabu"), front_end=WAKE_WORD).data)
    seconds = 0.0
    for x in others(tmp_path, HOURS):
        seconds += len(x) / say.RATE
        for judged in (own, published):
            judged.alarms += judged.events(x)
    for name, judged in (("hey board", own), ("okay nabu", published)):
        judged.hear(name, tmp_path)
        print(f"\n{name}: of {UTTERANCES} each (espeak-ng + flite), {seconds / 3600:.2f} h of other speech")
        for k, level in enumerate(LEVELS):
            hits = ", ".join(f"{kind} {n[k].sum()} ({n[k, 0]} + {n[k, 1]})" for kind, n in judged.said.items())
            an_hour = judged.alarms[k] * 3600 / seconds
            print(f"threshold {level or 'of the file'}: {hits}; {judged.alarms[k]} alarms, {an_hour:.2f} an hour")
        judged.runner.close()
    # Asked are 90 of 100 at one false alarm an hour; two deviations of such a count are allowed on top. 185 and 111 of
    # 200 were measured for both: of the words amid noise, for which nothing was asked, two deviations less are enough.
    for judged, least in ((own, 180), (published, 171)):
        assert judged.said["in quiet"][0].sum() >= least and judged.said["at 10 dB"][0].sum() >= 97
        assert judged.alarms[0] <= HOURS + 2 * HOURS**0.5
    assert seconds >= 3600 * HOURS
