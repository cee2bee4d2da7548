"""Sound files of every usual kind: the same samples from each, with soundfile and soxr;
plain .wav files without them."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mica import notes
from mica.cli.main import main
from mica.data import sounds
from mica.data.calibration import load_calibration
from mica.errors import MicaError

RATE = 16000
X = np.rint(9000 * np.sin(np.arange(4000) / 9) + 500 * np.sin(np.arange(4000) / 2)).astype(np.int16)

EXACT = [
    ("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("WAVEX", "PCM_16"),
    ("WAVEX", "PCM_24"),
    ("WAVEX", "FLOAT"), ("RF64", "PCM_16"), ("RF64", "FLOAT"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"),
]  # fmt: skip
NEARLY = [("WAV", "PCM_U8", 256), ("WAV", "ULAW", 300), ("WAV", "ALAW", 300), ("OGG", "VORBIS", 600)]
TRIAL = Path(__file__).resolve().parents[2].parent / "shared" / "trials" / "wav-kinds"


def saved(folder: Path, x: np.ndarray, kind: str = "WAV", subtype: str = "PCM_16", rate: int = RATE) -> Path:
    path = folder / f"{kind}-{subtype}.{kind.lower() if kind in ('FLAC', 'OGG') else 'wav'}"
    soundfile.write(path, x / 32768, rate, format=kind, subtype=subtype)
    return path


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def _telling(told: list[str]) -> object:
    with notes.Printer(told.append):
        yield


@pytest.mark.parametrize(("kind", "subtype"), EXACT)
def test_kinds_that_keep_16_bits(kind: str, subtype: str, tmp_path: Path, told: list[str]) -> None:
    np.testing.assert_array_equal(sounds.read(saved(tmp_path, X, kind, subtype), RATE), X)
    assert not told


@pytest.mark.parametrize(("kind", "subtype", "most"), NEARLY)
def test_kinds_that_lose_some(kind: str, subtype: str, most: int, tmp_path: Path) -> None:
    y = sounds.read(saved(tmp_path, X, kind, subtype), RATE)
    assert len(y) == len(X) and np.abs(y.astype(int) - X).max() <= most


def headed(path: Path, riff: int, data: int) -> Path:
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data")
    struct.pack_into("<I", raw, 4, riff)
    struct.pack_into("<I", raw, at + 4, data)
    path.write_bytes(raw)
    return path


PIPES = [(2**32 - 1, 2**32 - 1), (0, 0), (36, 0), (2**31 - 1, 2**31 - 37), (0, 2**32 - 1), (2**31 + 36, 2**31)]


@pytest.mark.parametrize(("riff", "data"), PIPES)
@pytest.mark.parametrize("library", (True, False))
def test_the_length_that_a_pipe_leaves(
    riff: int, data: int, library: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not library:
        monkeypatch.setitem(sys.modules, "soundfile", None)
    path = headed(saved(tmp_path, X), riff, data)
    np.testing.assert_array_equal(sounds.read(path, RATE), X)
    assert np.array_equal(sounds.read_any(path)[0], X)


def test_stereo(tmp_path: Path, told: list[str]) -> None:
    y = sounds.read(saved(tmp_path, np.stack([X, -X // 2], axis=1)), RATE)
    np.testing.assert_allclose(y, (X + (-X // 2)) / 2, atol=0.51)
    assert len(told) == 1 and "the mean of its 2 channels" in told[0]


@pytest.mark.parametrize("rate", (8000, 22050, 44100, 48000))
def test_other_rates(rate: int, tmp_path: Path, told: list[str]) -> None:
    """A tone stays that tone; `read_any`, of a virtual microphone with a rate of its own, leaves it alone."""
    tone = 9000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    path = saved(tmp_path, tone, rate=rate)
    y = sounds.read(path, RATE)
    assert len(y) == RATE
    middle = slice(500, -500)
    np.testing.assert_allclose(y[middle], 9000 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)[middle], atol=12)
    assert told == [f"{path}: resampled from {rate:,} to 16,000 Hz"]
    assert sounds.read_any(path)[1] == rate and len(told) == 1


def test_a_folder_says_it_once(tmp_path: Path, told: list[str]) -> None:
    for k in range(3):
        saved(tmp_path, np.stack([X, X], axis=1)).rename(tmp_path / f"{k}.wav")
    saved(tmp_path, X, "FLAC")
    found = load_calibration(tmp_path, ["x"], {"x": (1, 2000)}, rate=RATE)
    assert found["x"].shape == (8, 1, 2000) and len(told) == 1


def test_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "scaled.wav", X.astype(np.float32), RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "empty.wav", X[:0], RATE)
    (tmp_path / "text.flac").write_text("no sound")
    (tmp_path / "cut.wav").write_bytes(saved(tmp_path, X).read_bytes()[:20])
    for name, said in (
        ("scaled.wav", "holds numbers of up to 9"), ("nan.wav", "up to nan"), ("empty.wav", "holds no samples"),
        ("text.flac", "cannot be read as a sound file"), ("cut.wav", "cannot be read as a sound file"),
        ("none.ogg", "no such file"),
    ):  # fmt: skip
        with pytest.raises(MicaError, match=said):
            sounds.read(tmp_path / name, RATE)


def test_without_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, plain = saved(tmp_path, X, "RF64", rate=8000), saved(tmp_path, X)
    others = [saved(tmp_path, X, *kind) for kind in (("WAV", "FLOAT"), ("WAV", "PCM_24"), ("FLAC", "PCM_16"))]
    monkeypatch.setitem(sys.modules, "soxr", None)
    with pytest.raises(
        MicaError, match=r"has 8000 samples a second; the model takes 16000; pip install 'mica-mcu\[sound\]'"
    ):
        sounds.read(slow, RATE)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    np.testing.assert_array_equal(sounds.read(plain, RATE), X)
    for path in (*others, slow):
        with pytest.raises(MicaError, match=r"pip install 'mica-mcu\[sound\]' reads it"):
            sounds.read(path, RATE)


@pytest.mark.skipif(not TRIAL.is_dir(), reason="the folder ../shared/trials is missing")
def test_the_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three equal answers. The float file was not rounded: its samples are up to 2 beside those of int16."""
    words = "logmel:rate=16000,frame=480,hop=320,fft=512,mels=40,fmin=20,fmax=4000"
    packed = str(tmp_path / "m.mica")
    assert main(["pack", str(TRIAL / "model.onnx"), "--frontend", words, "--plain", "-o", packed]) == 0
    capsys.readouterr()
    answers = []
    for name in ("int16", "float32", "streamed-by-ffmpeg"):
        assert main(["run", packed, str(TRIAL / f"{name}.wav"), "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] == answers[2]
