"""Recordings with time stamps: words recognised, words missed and false alarms; and `mica listen` of a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tones import FRONT_END, LABELS, save_net, tone, write_wav

from mica.cli.main import main
from mica.data import sounds
from mica.errors import MicaError
from mica.listen import detection, suggest
from mica.listen.detection import Counts, Event, Said, read_stamps
from mica.run.host import HostRunner


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of tones; a.wav with two of them, b.wav with noise alone, each with its time stamps."""
    folder = tmp_path_factory.mktemp("recordings")
    rng = np.random.default_rng(1)
    for k in range(6):
        for label in LABELS:
            write_wav(folder / "data" / label / f"{k}.wav", tone(rng, label))
    save_net(folder / "net.onnx")
    (folder / "labels.txt").write_text("\n".join(LABELS))
    words = ["--frontend", FRONT_END, "--calib", folder / "data", "--labels", folder / "labels.txt"]
    assert main(["pack", str(folder / "net.onnx"), "-o", str(folder / "net.mica"), *map(str, words)]) == 0
    parts = [tone(rng, label, 8000) for label in ("silence", "low", "silence", "high", "silence")]
    write_wav(folder / "long" / "a.wav", np.concatenate(parts))
    write_wav(folder / "long" / "b.wav", tone(rng, "silence", 16000))
    (folder / "long" / "a.txt").write_text("# two tones\n0.5\t1.0\tlow\n\\\t100\t200\n1,5 2,0 high\n")
    (folder / "long" / "b.txt").write_text("")
    return folder


def test_eval(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--threshold", "0.8", "--mean", "2"]
    assert main(["eval", str(folder / "net.mica"), str(folder / "long"), *words, "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert (r["words"], r["hits"], r["false_alarms"], r["recordings"], r["seconds"]) == (2, 2, 0, 2, 3.5)
    assert -500 <= r["delay_ms"] <= 0
    # The model misses a word that is said, and finds one that nobody said.
    (folder / "wrong").mkdir()
    (folder / "wrong" / "a.wav").write_bytes((folder / "long" / "a.wav").read_bytes())
    (folder / "wrong" / "a.txt").write_text("0 0.3 high\n0.5 1 low\n")
    assert main(["eval", str(folder / "net.mica"), str(folder / "wrong" / "a.wav"), *words]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 words recognised, 50" in out and "1 false alarms in 2.5 s (1440.0 an hour)" in out
    assert re.search(r"events come \d+ ms before the end of a word", out)  # 0.1 s of a tone of 0.5 s are enough
    assert [line.split() for line in out.splitlines() if line.startswith(("low", "high"))] == [
        ["low", "0.8", "1", "1", "0", "0"],
        ["high", "0.8", "1", "0", "1", "1"],
    ]
    rows = out.split("threshold  hits  missed")[1].splitlines()[2:-1]
    assert [row.split()[0] for row in rows] == ["0.5", "0.6", "0.7", "0.8", "0.9", "0.95"]
    assert rows[3].split()[1:] == ["1", "1", "1", "1440.0", "1/1", "+0", "0/1", "+1"]


def test_background(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Recordings without any word need no .txt beside them; a folder of labels is no such folder."""
    for k in range(7):
        (tmp_path / f"{k}.wav").write_bytes((folder / "long" / "a.wav").read_bytes())
    words = [str(folder / "net.mica"), str(tmp_path), "--threshold", "0.8", "--mean", "2"]
    assert main(["eval", *words]) == 0
    out = capsys.readouterr().out
    assert "no words are said; 14 false alarms in 17.5 s (2880.0 an hour)" in out
    assert "7 of 7 recordings have no .txt beside them: they are background" in out
    assert main(["eval", *words, "--json", "--words", "high"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert (r["background"], r["words"], r["false_alarms"], r["value"], r["delay_ms"]) == (7, 0, 7, None, None)
    (tmp_path / "3.txt").write_text("0.5 1 low\n1.5 2 high\n")
    assert main(["eval", *words, "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert (r["background"], r["hits"], r["missed"], r["false_alarms"]) == (6, 2, 0, 12)
    assert main(["eval", str(folder / "net.mica"), str(folder / "data"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metric"] == "top1"


def test_curve(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hits, false alarms and delays over thresholds: in the terminal and as JSON; recordings in folders, too."""
    nested = tmp_path / "all" / "kitchen"
    nested.mkdir(parents=True)
    for file in (folder / "long").iterdir():
        (nested / file.name).write_bytes(file.read_bytes())
    model = str(folder / "net.mica")
    words = ["eval", model, str(tmp_path / "all"), "--events", "--mean", "2"]
    assert main([*words, "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    rows = r["thresholds"]
    assert (
        r["words"] == 2
        and len(rows) == 20
        and [row["threshold"] for row in rows] == sorted(row["threshold"] for row in rows)
    )
    delays = [row["delay_ms"] for row in rows if row["delay_ms"] is not None]
    assert delays == sorted(delays) and delays[0] < delays[-1]  # a mean comes later to a higher threshold
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "threshold  hits   " in out and len(re.findall(r"^ +0\.\d+  █", out, re.M)) >= 18


def test_proposal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Propose the middle of the thresholds without a false alarm; `listen --suggest` says what it gives."""
    rows = [
        {"threshold": x, "labels": [{"label": "a", "hits": int(x < 0.9), "false_alarms": int(x < 0.4)}]}
        for x in suggest.LEVELS
    ]
    assert suggest.thresholds(rows, ["a"], 0.1) == {"a": 0.65}
    assert suggest.thresholds(rows, ["a"], 1.0) == {"a": 0.5}  # one an hour is accepted
    words = ["listen", str(folder / "net.mica"), str(folder / "long"), "--mean", "2", "--suggest"]
    assert main([*words, "--json"]) == 0
    r = json.loads(capsys.readouterr().out)
    assert set(r["suggested"]) == {"low", "high"} and (r["hits"], r["false_alarms"]) == (2, 0)
    assert {row["label"]: row["threshold"] for row in r["labels"]} == r["suggested"]
    assert main(words) == 0
    first, second, third, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("--threshold high=0.") and second.startswith("2 of 2 words recognised")
    assert third == "no false alarm in 0.00 h still leaves up to 3085.7 an hour possible, at 95 %"
    for data, said in (("labels.txt", "holds no sound files"), ("long/b.wav", "no words are said")):
        assert main([*words[:2], str(folder / data), "--suggest"]) == 1
        assert said in capsys.readouterr().err


def test_thresholds_of_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A threshold out of reach silences its own word only; the table has one threshold for all words."""
    words = ["eval", str(folder / "net.mica"), str(folder / "long"), "--mean", "2"]
    for given, hits in (
        ("0.8", {"low", "high"}),
        ("0.8,low=1", {"high"}),
        ("high=1,low=0.8", {"low"}),
        ("low=0.8", {"low", "high"}),
    ):
        assert main([*words, "--threshold", given, "--json"]) == 0
        r = json.loads(capsys.readouterr().out)
        assert {row["label"] for row in r["labels"] if row["hits"]} == hits, given
        assert [row["hits"] for row in r["thresholds"] if row["threshold"] == 0.8 or row["threshold"] == 0.9] == [2] * 2
    own = {row["label"]: row["threshold"] for row in r["labels"]}
    assert own == {"low": 0.8, "high": 0.7}


def test_short_clips_are_padded(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With silence, by run, eval, pack and listen, and each says so."""
    model = str(folder / "net.mica")
    rng = np.random.default_rng(2)
    short = write_wav(tmp_path / "some" / "low" / "a.wav", tone(rng, "low", 1500))
    write_wav(tmp_path / "some" / "low" / "b.wav", tone(rng, "low", 1400))
    write_wav(tmp_path / "some" / "high" / "c.wav", tone(rng, "high"))
    padded = write_wav(tmp_path / "padded.wav", np.pad(sounds.read(short, 16000), 50))
    assert main(["run", model, str(short)]) == 0
    found = capsys.readouterr()
    assert f"{short} has 0.09 s; the model takes 0.10 s: silence was added" in found.err
    assert main(["run", model, str(padded)]) == 0
    assert capsys.readouterr() == (found.out, "")
    assert main(["eval", model, str(tmp_path / "some")]) == 0
    many = "2 of 3 recordings are shorter than the 0.10 s that the model takes (the shortest: 0.09 s)"
    assert many in capsys.readouterr().err
    words = ["--frontend", FRONT_END, "--calib", str(tmp_path / "some"), "-o", str(tmp_path / "net.mica")]
    assert main(["pack", str(folder / "net.onnx"), *words]) == 0
    assert many in capsys.readouterr().err
    # An event is the mean of three outputs: a clip of 0.1 s has one.
    assert main(["listen", model, str(padded), "--threshold", "0.4"]) == 0
    found = capsys.readouterr()
    assert found.out.split()[2] == "low" and "for an event it takes with --mean 3 0.15 s" in found.err
    assert main(["listen", model, str(short), "--threshold", "0.4", "--mean", "1"]) == 0
    found = capsys.readouterr()
    assert found.out.split()[2] == "low" and "the model takes 0.10 s: silence" in found.err


@pytest.mark.parametrize("mean", [1, 3])
def test_a_short_clip_is_heard_amid_silence(folder: Path, mean: int) -> None:
    """Listen to a file as a board does, before it and behind it; one output is what `mica eval` takes."""
    clip = tone(np.random.default_rng(3), "low", 900)
    with HostRunner((folder / "net.mica").read_bytes()) as runner:
        settings = detection.Settings(mean=mean)
        needed = detection.samples_needed(runner.model, settings)
        heard, amid = (
            list(detection.outputs(runner, x, settings)) for x in (clip, np.pad(clip, (needed - len(clip)) // 2))
        )
        alone, _ = next(detection.outputs(runner, sounds.cut(clip, 1600)[0], detection.Settings(mean=1)))
    assert len(heard) == len(amid) == mean
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(heard, amid, strict=True))
    assert np.array_equal(heard[mean // 2][0], alone)


def test_listen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["listen", str(folder / "net.mica"), str(folder / "long" / "a.wav"), "--threshold", "0.8", "--mean", "2"]
    assert main([*words, "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [e["label"] for e in events] == ["low", "high"] and 500 < events[0]["ms"] < 1000 < 1500 < events[1]["ms"]
    assert main([*words, "--words", "high"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split()[2] == "high"
    loud = np.tile(np.repeat(np.array([-32768, 32767]), 8), 600)
    write_wav(folder / "loud.wav", loud)
    assert main([*words[:2], str(folder / "loud.wav")]) == 0
    assert "100.00% of its samples are clipped" in capsys.readouterr().err


def test_counts() -> None:
    found = Counts()
    said = [Said(1000, 1500, "yes"), Said(3000, 3500, "yes"), Said(5000, 5500, "no")]
    events = [("yes", 400), ("yes", 1400), ("yes", 2000), ("yes", 4500), ("no", 6501), ("no", 4999)]
    found.add(said, [Event(label, 1.0, ms) for label, ms in events], 10_000)
    assert (found.words, found.hits) == ({"yes": 2, "no": 1}, {"yes": 2})
    assert found.false == {"yes": 2, "no": 2} and found.delays == [-100, 1000]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2", r"line 1: '1 2'; expected lines of BEGIN END LABEL"),
        ("\n0 x yes", "line 2"),
        ("2 1 yes", "from 2 to 1 s"),
        ("-1 1 yes", "from -1 to 1 s"),
        ("nan 1 yes", "from nan to 1 s"),
        ("0 1 maybe", "no label 'maybe'; its labels are yes, no"),
        ("\xff", "line 1"),
    ],
)
def test_bad_stamps(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    with pytest.raises(MicaError, match=said):
        read_stamps(tmp_path / "a.txt", ["yes", "no"])


def test_refusals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, wav = str(folder / "net.mica"), str(folder / "long" / "a.wav")
    for words, said in (
        (
            ["eval", model, wav, "--threshold", "low=x"],
            "--threshold low=x: 'low=x'; expected such as 0.7, or yes=0.8,no=0.6",
        ),
        (["eval", model, wav, "--threshold", "maybe=0.5"], "no label 'maybe'; its labels are low, high, silence"),
        (["eval", model, wav, "--float", str(folder / "net.onnx")], "--float compares answers"),
        (["listen", model], "or --i2s or --pdm with a board's microphone"),
        (["listen", model, wav, "--i2s", "sck=1,ws=2,sd=3"], "or --i2s"),
        (["listen", model, "--i2s", "sck=1,ws=2,sd=3"], "name a board with --on"),
        (["listen", model, "--pdm", "clk=1,data=2"], "name a board with --on"),
        (["listen", model, wav, "--words", "maybe"], "no label 'maybe'; its labels are low, high, silence"),
        (["listen", model, wav, "--threshold", "2"], "expected a threshold up to 1"),
    ):
        assert main(words) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error


def test_clipped() -> None:
    x = np.zeros(100, np.int16)
    assert not sounds.clipped(x) and not sounds.clipped(x[:1])
    x[10:12] = 32767  # once, as loud as can be
    assert not sounds.clipped(x)
    x[10:14] = -32768
    assert sounds.clipped(x) == "4.00% of its samples are clipped; record with less gain"
