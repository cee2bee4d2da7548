"""Words by a program's voices, a label for all other sound, thresholds by false alarms, a trained model's page."""

from __future__ import annotations

import json
import re
import shutil
import stat
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import recorded

import mica
from mica import demo
from mica.cli.main import main
from mica.errors import MicaError
from mica.listen import detection, recorder
from mica.run.host import HostRunner
from mica.training import families, onnx_file, page, run, say, search, wake
from mica.training.examples import Examples, read
from mica.training.split import split

COMMAND = Path(str(demo.__file__)).parent / "command.mica"
SPEAKER = """#!/usr/bin/env python3
import math, struct, sys, wave
words = sys.argv[1:]
if words[0] == "--voices=xx":
    print("Pty Language")
elif words[0].startswith("--voices"):
    print("Pty Language Age/Gender VoiceName File Other")
    print(" 2  en-gb  --/M  English  gmw/en  (en 2)")
    print(" 3  en-gb  --/M  mbrola  mb/mb-en1  (en 2)")
else:
    path, text = words[words.index("-w") + 1], words[-1]
    size = 0 if text == "..." else 9000
    tone = 200 + sum(map(ord, text + words[1])) % 2000
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(b"".join(struct.pack("<h", int(size * math.sin(k * tone / 2546))) for k in range(6000)))
"""


@pytest.fixture
def speaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of espeak-ng."""
    program = tmp_path / "bin" / say.PROGRAM
    program.parent.mkdir()
    program.write_text(SPEAKER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(say, "_OTHERS", "river hey|you board")
    monkeypatch.setattr(say, "MINUTES", 4 * say._SECONDS / 60)


def test_words_are_said(speaker: None, tmp_path: Path) -> None:
    """A clip of each voice, other words by the same voices, nothing twice; all of one voice stays on one side."""
    folder = tmp_path / "words"
    made = say.make(["Hey, board"], folder, count=4)
    labels = sorted(p.name for p in folder.iterdir())
    assert labels == ["hey_board", "other"] and len(list((folder / "hey_board").rglob("*.wav"))) == 4
    assert len(made) == 4 + 3 * say.OTHER_VOICES + 4 and say.make(["Hey, board"], folder, count=4) == []
    found = read(folder)
    voices = {path.split("/")[1] for path in found.paths}
    assert len(voices) == len(set(found.groups)) == 4 and all(v.startswith("say-en+") for v in voices)
    assert "clips are a program's voices" in found.notes[0]
    learnt, held = split(found, 0)
    assert len(set(held.groups)) == 1 and not set(held.groups) & set(learnt.groups)
    # One's own recordings judge alone.
    rng = np.random.default_rng(0)
    for label in labels:
        for k in range(8):
            recorder.save(folder / label, k, recorded.whistle("up", rng), 16000)
    learnt, held = split(read(folder), 0)
    assert len(held) == 4 and not any("say-" in path for path in held.paths)
    assert len(learnt) + len(held) == len(read(folder))


@pytest.mark.parametrize("words", [["hey board"], ["yes", "no"], ["Hey, board", "a"]])
def test_running_speech_says_none_of_the_words(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor across a full stop; parts of them are there, and the texts that judge are others."""
    monkeypatch.setattr(say, "JUDGED", say.MINUTES)
    texts = [say._talk(words, judging) for judging in (False, True)]
    assert len(texts[0]) == len(texts[1]) == 100 and texts[0] != texts[1]
    assert say._talk(words, False) == texts[0] and not set(texts[0]) & set(texts[1])
    for text in texts[0] + texts[1]:
        spoken = f" {text.replace('.', '')} "
        assert len(spoken.split()) == say._TEXT
        assert not [word for word in words if f" {' '.join(re.findall('[a-z]+', word.lower()))} " in spoken]
    begun = {word[:2] for text in texts[0] for word in text.split()}
    assert {word.lower()[:2] for word in words if len(word) > 2} <= begun


def test_speech_that_judges_is_by_other_voices(speaker: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(say, "JUDGED", 4 * say._SECONDS / 60)
    say.make(["hey board"], tmp_path / "words", count=4)
    assert len(say.make(["hey board"], tmp_path / "judging", count=4, judging=True)) == 4
    voices = [{p.name for p in folder.glob("*/*")} for folder in (tmp_path / "words", tmp_path / "judging")]
    assert all(voices) and not voices[0] & voices[1]
    assert [p.name for p in (tmp_path / "judging").iterdir()] == ["other"]
    several = say.make(["hey board", "yes"], tmp_path / "several", count=4)
    assert len(several) == 2 * 4 + 3 * say.OTHER_VOICES  # lone words only


def test_words_that_cannot_be_said(speaker: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, language, said in (
        (["!?"], "en", "--say '!?'; expected words to say"),
        (["yes"], "xx", "has no voice for 'xx'; espeak-ng --voices lists them"),
    ):
        with pytest.raises(MicaError, match=re.escape(said)):
            say.make(words, tmp_path / "words", 2, language)
    with pytest.raises(MicaError, match=r"says nothing for '\.\.\.'; write it as it is spoken"):
        say.spoken("...", "gmw/en+f3", 150, 50)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MicaError, match="needs the program espeak-ng, which is not installed; install it"):
        say.make(["yes"], tmp_path / "words")
    assert not (tmp_path / "words").exists()


@pytest.mark.skipif(shutil.which(say.PROGRAM) is None, reason="espeak-ng is not installed")
def test_voices_differ() -> None:
    """By their names the British variants would all be one voice."""
    clips = [say.spoken("river", voice, 160, 50) for voice in ("gmw/en", "gmw/en+f3", "gmw/en-US+f3")]
    assert len({clip.tobytes() for clip in clips}) == 3


def test_a_label_for_all_other_sound(tmp_path: Path) -> None:
    found = read(recorded.words(tmp_path / "words", ("up", "down")))
    for k in range(3):
        recorder.save(tmp_path / "room", k, np.random.default_rng(k).normal(0, 900, 64000).astype(np.int16), 16000)
    more = wake.with_other(found, tmp_path / "room")
    assert more.names == ("down", "other", "up") and more.background.tolist() == [False, True, False]
    assert (more.labels == 1).sum() == 12 + 20 and more.notes[-1].startswith("32 examples of 'other' were made")
    assert [more.names[k] for k in more.labels[:24]] == [found.names[k] for k in found.labels]
    learnt, held = split(more, 0)
    assert set(learnt.labels) == set(held.labels) == {0, 1, 2}
    again = wake.with_other(more, tmp_path / "room")
    assert len(again) == len(more) + 12  # where the label is, only what was recorded is added
    assert wake.with_other(more) is more


@pytest.mark.parametrize(("events", "most"), [(0, 2.9957), (1, 4.7439), (5, 10.5130), (100, 118.079)])
def test_bound_of_a_count(events: int, most: float) -> None:
    """Half of the chi-square quantile of 2 (n + 1) degrees at 95 %."""
    assert wake.bound(events) == pytest.approx(most, rel=1e-4)


def scripted(monkeypatch: pytest.MonkeyPatch, peaks: dict[int, list[float]]) -> None:
    """Let recordings of so many samples get these answers of the first word, three times each, and zeros between."""

    def outputs(runner: Any, samples: np.ndarray, settings: Any) -> list[tuple[np.ndarray, int]]:
        width = len(detection.Detector(runner.model, settings).names)
        answers = []
        for k, peak in enumerate(peaks.get(len(samples), [0.95] * 3)):
            word = np.eye(width)[WORD] * peak
            answers += [(row, 3000 * k + 250 * j) for j, row in enumerate([word] * 3 + [np.zeros(width)] * 3)]
        return answers

    monkeypatch.setattr(detection, "outputs", outputs)


WORD = 2


def test_thresholds_are_counted_on_other_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice sees one half of the background, the count the other; the bound says what is not shown."""
    packed, n = COMMAND.read_bytes(), 16000
    for k in range(4):
        recorder.save(tmp_path, k, np.full(n * (60 + k), 5, np.int16), 16000)
    scripted(monkeypatch, {n * 60: [0.5, 0.62], n * 61: [0.9, 0.3], n * 62: [0.61], n * 63: [0.2]})
    with HostRunner(packed) as runner:
        words = detection.Detector(runner.model, detection.Settings()).names
    word = words[WORD]
    held = Examples(
        "sound",
        np.zeros((3, n), np.float32),
        np.array([0, 1, 0]),
        (word, "other"),
        np.arange(3),
        ("", "", ""),
        16000.0,
        (),
    )
    found = wake.choose(packed, held, tmp_path, per_hour=1)
    assert wake.choose(packed, held, tmp_path, per_hour=60).thresholds == {word: 0.55}  # which lets two pass
    assert found.thresholds[word] == 0.65 and found.text == f"{word}={found.thresholds[word]:g}"
    assert (found.false_alarms, found.words) == (1, 2)
    assert found.hours == pytest.approx((61 + 63) / 3600, rel=1e-3)
    assert found.most == pytest.approx(4.7439 / found.hours, rel=1e-3)
    assert found.lines()[-1].startswith("1 an hour is not shown: that takes 3.0 h")
    with pytest.raises(MicaError, match="expected false alarms an hour, more than 0"):
        wake.choose(packed, held, tmp_path, per_hour=0)


def test_a_file_names_its_thresholds(tmp_path: Path) -> None:
    """Host and board take them from it; labels that have none keep the usual one."""
    network = families.plans("sound", ())[-1].build(np.random.default_rng(0), (49, 20), 3, np.zeros(1), np.ones(1))
    (tmp_path / "net.onnx").write_bytes(onnx_file.model(network, (49, 20), ("down", "other", "up")))
    samples = np.random.default_rng(1).integers(-99, 99, (4, 15840)).astype(np.int16)
    front_end = f"logmel:rate=16000,frame=480,hop=320,mels=20,floor=1e-6,{families.SCALE}"
    packed = mica.pack(
        tmp_path / "net.onnx", samples, frontend=front_end, labels=("down", "other", "up"), plain=True
    ).data
    changed = detection.with_thresholds(packed, {"up": 0.93}, 2)
    with HostRunner(changed) as runner:
        usual = detection.settings_of(runner.model)
        found = detection.Detector(runner.model, usual)
    assert found.names == ["down", "other", "up"] and found.least.tolist() == [0.7, 0.7, 0.93]
    assert set(found.means) == {2} and detection.with_thresholds(changed, {"up": 0.93}, 2) == changed


def test_words_that_are_said_alone(
    speaker: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Speech that nobody learnt from chooses the threshold, the file names it, and its size counts that."""
    monkeypatch.setattr(say, "ALONE", 8)
    monkeypatch.setattr(say, "JUDGED", 6 * say._SECONDS / 60)
    some = [replace(p, steps=60) for p in families.plans("sound", ()) if p.family == "depthwise"][:8:7]
    monkeypatch.setattr(run, "plans", lambda kind, shape: some)
    monkeypatch.setattr(search, "RUNG", 30)
    output = tmp_path / "wake.mica"
    assert main(["train", str(tmp_path / "said"), "--say", "hey board", "-o", str(output), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["wake"]["asked"] == 1 and found["wake"]["chosen_on"] > 0 < found["wake"]["hours"]
    assert found["labels"] == ["hey_board", "other"] and found["flash"] == output.stat().st_size
    with HostRunner(output.read_bytes()) as runner:
        settings = detection.settings_of(runner.model)
    assert settings.thresholds == {**found["wake"]["thresholds"], "other": 0.7}
    assert set(settings.means) == {wake.MEAN}  # with which they were chosen
    assert sorted(p.name for p in (tmp_path / "said").iterdir()) == ["hey_board", "other"]


class Balanced(HTMLParser):
    """Each end belongs to the last beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link", "img", "path", "rect", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "rect", "circle"):
            assert self.open.pop() == tag


def result(held: Examples) -> SimpleNamespace:
    """Stand in for a trained model that answers the second label always."""
    answers = np.tile(np.eye(len(held.names))[1] * 0.8 + 0.05, (len(held), 1))
    counts = np.outer(np.bincount(held.labels, minlength=len(held.names)), np.eye(len(held.names), dtype=int)[1])
    chosen = SimpleNamespace(name="<cnn> 24", ms=20.5, ram=9000, flash=13000, fault="", accuracy=0.9, chosen=True)
    other = SimpleNamespace(name="large", ms=90.0, ram=9000, flash=13000, fault="90 ms", accuracy=None, chosen=False)
    small = SimpleNamespace(name="small", ms=5.0, ram=9000, flash=13000, fault="", accuracy=0.7, chosen=False)
    return SimpleNamespace(
        labels=held.names, held=held, train=held, answers=answers, confusion=counts,
        accuracy=0.5, float_accuracy=0.6, board="RPI_PICO", history=((0, 2.0), (10, 1.5), (20, 0.4)),
        tried=(chosen, other, small), cost=chosen, notes=("a <note>",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "shown"), [("sound", "<audio controls"), ("motion", "<svg width="), ("picture", "<img alt="),
                        ("table", ", ")]
)  # fmt: skip
def test_page(kind: str, shown: str, tmp_path: Path) -> None:
    """It holds each wrong example, draws what was tried, and is whole HTML without scripts."""
    makers = {"sound": recorded.words, "motion": recorded.gestures, "picture": recorded.pictures}
    held = read(makers[kind](tmp_path / "x", n=6) if kind in makers else recorded.table(tmp_path / "t.csv"))
    html = page.html(result(held))  # type: ignore[arg-type]
    parser = Balanced()
    parser.feed(html)
    assert not parser.open and "<script>" not in html and "a &lt;note&gt;" in html
    wrong = int((held.labels != 1).sum())
    part = html.split('id="mistakes"')[1].split("</section>")[0]
    assert part.count("<tr>") == 1 + min(wrong, page.MOST_WRONG) and part.count(shown) >= min(wrong, page.MOST_WRONG)
    facts = json.loads(re.findall(r'id="facts">(.*?)</script>', html)[0])
    assert [row[1] for row in facts["confusion"]] == np.bincount(held.labels).tolist()
    drawn = html.split("What was tried")[1].split("</svg>")[0]
    assert drawn.count("<circle") == 2 and drawn.count('r="7"') == 1 and "&lt;cnn&gt; 24" in drawn
    none = page.html(result(held.of(np.flatnonzero(held.labels == 1))))  # type: ignore[arg-type]
    assert "<p>None.</p>" in none
