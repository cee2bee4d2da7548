"""Mistakes of beginners: each is one line with a remedy, an error where nothing can be learnt, else a note."""

from __future__ import annotations

import resource
import shutil
import signal
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import recorded

from mica import whole
from mica.errors import MicaError
from mica.listen import recorder
from mica.training.examples import read
from mica.training.split import split

RNG = np.random.default_rng(7)


def sounds(folder: Path) -> Path:
    return recorded.words(folder)


def empty(folder: Path) -> Path:
    return folder


def one_label(folder: Path) -> Path:
    return recorded.words(folder, ("up",))


def one_recording(folder: Path) -> Path:
    recorder.save(sounds(folder) / "stop", 1, recorded.whistle("up", RNG), 16000)
    return folder


def clips_without_folders(folder: Path) -> Path:
    shutil.copytree(sounds(folder / "x") / "up", folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "x")
    return folder


def another_file(folder: Path) -> Path:
    (sounds(folder) / "up" / "notes.txt").write_text("recorded on Monday\n")
    return folder


def eight_kilohertz(folder: Path) -> Path:
    for k in range(3):
        recorder.save(sounds(folder) / "up", 50 + k, recorded.whistle("up", RNG, 8000), 8000)
    return folder


def silence(folder: Path) -> Path:
    for k in range(2):
        recorder.save(sounds(folder) / "up", 50 + k, RNG.integers(-9, 9, 16000).astype(np.int16), 16000)
    return folder


def nothing_but_silence(folder: Path) -> Path:
    for label in ("up", "down"):
        for k in range(3):
            recorder.save(folder / label, k, RNG.integers(-9, 9, 16000).astype(np.int16), 16000)
    return folder


def clipped(folder: Path) -> Path:
    loud = np.clip(6.0 * recorded.whistle("up", RNG), -32768, 32767).astype(np.int16)
    recorder.save(sounds(folder) / "up", 50, loud, 16000)
    return folder


def copies(folder: Path) -> Path:
    for k in range(3):
        shutil.copy(sounds(folder) / "up" / f"{k + 1:04d}.wav", folder / "up" / f"copy{k}.wav")
    return folder


def one_clip_under_two_labels(folder: Path) -> Path:
    shutil.copy(sounds(folder) / "up" / "0001.wav", folder / "down" / "0099.wav")
    return folder


def four_clips(folder: Path) -> Path:
    recorded.words(sounds(folder), ("stop",), 4)
    return folder


def unequal(folder: Path) -> Path:
    recorded.words(sounds(folder), ("other",), 60)
    return folder


def unreadable(folder: Path) -> Path:
    (sounds(folder) / "up" / "0001.wav").write_bytes(b"RIFF\0\0\0\0WAVE no sound")
    return folder


def empty_file(folder: Path) -> Path:
    (sounds(folder) / "up" / "0001.wav").write_bytes(b"")
    return folder


def an_empty_label(folder: Path) -> Path:
    (sounds(folder) / "stop").mkdir()
    return folder


def no_samples(folder: Path) -> Path:
    with wave.open(str(sounds(folder) / "up" / "0001.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
    return folder


def two_sizes(folder: Path) -> Path:
    return recorded.pictures(recorded.pictures(folder), ("right",), 5, side=30)


def a_broken_picture(folder: Path) -> Path:
    (recorded.pictures(folder) / "top" / "0001.png").write_bytes(b"\x89PNG\r\n\x1a\n...")
    return folder


def another_sensor(folder: Path) -> Path:
    recorder.save(recorded.gestures(folder) / "shake", 50, recorded.gesture("shake", RNG)[:, :3], 100)
    return folder


def another_rate(folder: Path) -> Path:
    recorder.save(recorded.gestures(folder) / "shake", 50, recorded.gesture("shake", RNG), 50)
    return folder


def a_sensor_that_is_not_there(folder: Path) -> Path:
    recorder.save(recorded.gestures(folder) / "shake", 50, np.full((200, 6), -1, np.int16), 100)
    return folder


def not_a_number(folder: Path) -> Path:
    x = recorded.gesture("shake", RNG).astype(np.float32)
    x[5, 1] = np.nan
    np.savez(recorded.gestures(folder) / "shake" / "bad.npz", x=x[None], rate=100)
    return folder


def table(text: str) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        (folder / "t.csv").write_text(text)
        return folder / "t.csv"

    return made


def not_an_archive(folder: Path) -> Path:
    (folder / "words.zip").write_bytes(b"PK\x03\x04 half of a file")
    return folder / "words.zip"


ROWS = "".join(f"{k},{k * k % 7},{'ab'[k % 2]}\n" for k in range(30))
ERRORS: dict[Callable[[Path], Path], str] = {
    empty: "holds no folders; expected a folder with a folder for each label",
    clips_without_folders: "holds no folders; expected a folder with a folder for each label",
    lambda folder: folder / "nowhere": "no such folder; expected a folder",
    one_label: "has the one label 'up'; expected two or more; a word alone needs a label 'other'",
    one_recording: "label 'stop' has a single recording; expected 20 or more",
    nothing_but_silence: "silent recordings: 3 of down, 3 of up; is the microphone connected?",
    table("a,b\n" + "".join(f"{k},{k}\n" for k in range(9))): (
        "has no column of labels; name the column with the labels: label"
    ),
    table("a,label\n1,0.5\n2,0.25\n"): "its labels are numbers to predict; expected names or numbers of classes",
    table("a,label\n,x\n,y\n"): "each of its 2 rows misses a value; fill them in",
    not_an_archive: "cannot be unpacked: ",
}  # fmt: skip
NOTES: dict[Callable[[Path], Path], str] = {
    another_file: "left out: notes.txt, no sound of a label; move other files elsewhere",
    eight_kilohertz: "3 of 39 clips have fewer than 16,000 samples a second: resampled, "
    "but they hold no high tones; record all at one rate",
    silence: "silent recordings: 2 of up: left out; is the microphone connected?",
    clipped: "1 of 37 clips are clipped; record with less gain",
    copies: "3 of 39 examples are copies of others: left out; delete them",
    one_clip_under_two_labels: "up/0001.wav is down/0099.wav, too: left out; delete one of them",
    four_clips: "label 'stop' has 4 examples: too few to be sure of anything; record 20 or more",
    unequal: "60 of 'other' and 12 of 'down': training balances them; record more of 'down'",
    unreadable: "up/0001.wav: cannot be read as a sound file",
    empty_file: "up/0001.wav: cannot be read as a sound file",
    no_samples: "up/0001.wav: holds no samples; record it again",
    an_empty_label: "stop: holds no sound: left out; record some, or delete the folder",
    two_sizes: "5 of 29 pictures are not 24 x 24: resized; take all with one camera",
    a_broken_picture: "top/0001.png: cannot be read as a picture",
    another_sensor: "left out: shake/0050.npz with other axes than 6; record all with one sensor",
    another_rate: "1 of 37 recordings have another rate than 100 Hz: resampled; record at one rate",
    a_sensor_that_is_not_there: "left out: 3 windows whose rows are all the same; is the sensor connected?",
    not_a_number: "shake/bad.npz: holds NaN or infinity; record it again",
    table("a,b,label\n" + ROWS + ",3,a\n"): "1 of 31 rows miss a value: left out; fill them in",
}  # fmt: skip


@pytest.mark.parametrize("made", ERRORS, ids=lambda f: f.__name__)
def test_nothing_to_learn_from(made: Callable[[Path], Path], tmp_path: Path) -> None:
    path = made(tmp_path)
    with pytest.raises(MicaError) as error:
        read(path)
    assert ERRORS[made] in str(error.value) and str(error.value).count("\n") == 0


@pytest.mark.parametrize("made", NOTES, ids=lambda f: f.__name__)
def test_one_line_and_on(made: Callable[[Path], Path], tmp_path: Path) -> None:
    """The rest is learnt from: the line is a note, and each label is on both sides of the split."""
    found = read(made(tmp_path))
    assert [line for line in found.notes if NOTES[made] in line], found.notes
    assert not any("\n" in line for line in found.notes)
    learnt, held = split(found, 0)
    assert set(learnt.labels) == set(held.labels) == set(range(len(found.names)))
    assert np.isfinite(found.inputs).all()


def test_a_full_disk(tmp_path: Path) -> None:
    """A full disk leaves nothing half-written, and the old file stays. A limit of a file's size stands for the disk."""
    old = tmp_path / "model.mica"
    old.write_bytes(b"old")
    clip = recorded.whistle("up", RNG)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, usual[1]))
    try:
        with pytest.raises(MicaError, match="cannot be written: File too large"):
            whole.write(old, bytes(5000))
        with pytest.raises(MicaError, match="cannot be written: File too large"):
            recorder.save(tmp_path / "up", 1, clip, 16000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, before)
    assert old.read_bytes() == b"old" and [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["model.mica"]


@pytest.mark.parametrize("place", ["fdopen", "chmod", "replace"])
def test_ctrl_c_while_a_file_is_written(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clip's first half stayed behind as 0001.wav.part, and a packed model's as model.mica and random letters."""
    old = tmp_path / "0001.mica"
    old.write_bytes(b"old")

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(whole.os, place, pressed)
    for x in (recorded.whistle("up", RNG), recorded.gesture("rest", RNG), recorded.picture("top", RNG)):
        with pytest.raises(KeyboardInterrupt):
            recorder.save(tmp_path, 1, x, 100)
    with pytest.raises(KeyboardInterrupt):
        whole.write(old, b"new")
    assert old.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["0001.mica"]
