"""Packed models that several end-to-end tests use, packed once for all processes of a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import waves
from bright import save_net as save_bright
from bright import save_samples
from helpers import DEMO, mica, pack
from tones import FRONT_END, LABELS, save_net, tone, write_wav

from mica.data.sounds import read
from mica.toolchain.cache import locked

Once = Callable[[str, Callable[[Path], Path]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """once(name, make) returns the path from make(folder). The process that needs it first calls make."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def find(name: str, make: Callable[[Path], Path]) -> Path:
        folder, made = run / f"shared_{name}", run / f"shared_{name}.path"
        with locked(f"tests/packed-{name}"):
            if not made.exists():
                folder.mkdir(exist_ok=True)
                made.write_text(str(make(folder)))
        return Path(made.read_text())

    return find


@pytest.fixture(scope="session")
def digits_rows(once: Once) -> Path:
    """The same as a streaming model: it is given a picture row by row."""
    return once("rows", _digits_rows)


def _digits_rows(folder: Path) -> Path:
    arrays = dict(np.load(DEMO / "digits_calib.npz"))
    arrays["x"] = arrays["x"][:64].reshape(-1, 1, 1, 8)  # consecutive runs
    np.savez(folder / "rows.npz", **arrays)
    window = "--window", f"{onnx.load(DEMO / 'digits.onnx').graph.input[0].name}:2=1"
    return pack(DEMO / "digits.onnx", folder / "rows.mica", "--calib", folder / "rows.npz", *window, "--golden", "9")


@pytest.fixture(scope="session")
def digits_fed(once: Once) -> Path:
    """The same with the picture fed, in little memory."""
    return once("fed", _digits_fed)


def _digits_fed(folder: Path) -> Path:
    to = folder / "digits.mica"
    small = "--feed", "--ram", "4300"
    return pack(DEMO / "digits.onnx", to, "--calib", DEMO / "digits_calib.npz", "--plain", "--golden", "2", *small)


@pytest.fixture(scope="session")
def digits(once: Once) -> Path:
    """The demo's model, packed."""
    return once("digits", _digits)


def _digits(folder: Path) -> Path:
    to = folder / "digits.mica"
    return pack(
        DEMO / "digits.onnx", to, "--calib", DEMO / "digits_calib.npz", "--labels", DEMO / "labels.txt", "--golden", "2"
    )


@pytest.fixture(scope="session")
def tones(once: Once) -> Path:
    """A model that tells tones apart by their sound, and beside it tones.wav: silence, low, silence, high,
    of half a second each."""
    return once("tones", _tones)


def _tones(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    for k in range(8):
        for label in LABELS:
            write_wav(folder / "data" / label / f"{k}.wav", tone(rng, label))
    (folder / "labels.txt").write_text("\n".join(LABELS))
    save_net(folder / "tones.onnx")
    parts = [tone(rng, label, 8000) for label in ("silence", "low", "silence", "high")]
    write_wav(folder / "tones.wav", np.concatenate(parts))
    words = "--frontend", FRONT_END, "--calib", folder / "data", "--labels", folder / "labels.txt", "--golden", "2"
    return pack(folder / "tones.onnx", folder / "tones.mica", *words)


@pytest.fixture(scope="session")
def person(once: Once) -> Path:
    """A model whose pictures show a person where they are bright."""
    return once("person", _person)


def _person(folder: Path) -> Path:
    (folder / "labels.txt").write_text("non_person\nperson\n")
    net, x = save_bright(folder / "person.onnx", 3), save_samples(folder / "x.npz", 3)
    words = "--calib", x, "--picture", "rgb", "--labels", folder / "labels.txt", "--plain", "--golden", "1"
    return pack(net, folder / "person.mica", *words)


@pytest.fixture(scope="session")
def tones_rows(tones: Path, once: Once) -> Path:
    """The same as a streaming model: it is given a frame each 10 ms."""
    return once("tones_rows", lambda _: _tones_rows(tones.parent))


def _tones_rows(folder: Path) -> Path:
    words = "--frontend", FRONT_END, "--window", "x:3=1", "--labels", folder / "labels.txt"
    return pack(folder / "tones.onnx", folder / "tones_rows.mica", "--calib", folder / "data", *words)


@pytest.fixture(scope="session")
def fan(once: Once) -> Path:
    """A model that tells a machine's sounds at 8,000 samples a second, and fan.wav: it stands, runs smoothly, stands,
    rattles."""
    return once("fan", _fan)


def _fan(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    for k in range(8):
        for label in LABELS:
            write_wav(folder / "data" / label / f"{k}.wav", tone(rng, label), rate=8000)
    (folder / "labels.txt").write_text("smooth\nrattle\nsilence")
    # How loud it is below 1,000 Hz and above.
    waves.save_linear(folder / "fan.onnx", np.array([[[2, 0, 0], [0, 2, 0]]]), [-47, -48, 0])
    parts = [tone(rng, label, 2400) for label in ("silence", "low", "silence", "high")]
    write_wav(folder / "fan.wav", np.concatenate(parts), rate=8000)
    words = "--frontend", "features:rate=8000,rows=800,stats=none,edges=50+1000+4000,energy=ln"
    return pack(
        folder / "fan.onnx", folder / "fan.mica", *words, "--calib", folder / "data", "--labels", folder / "labels.txt"
    )


@pytest.fixture(scope="session")
def gestures(once: Once) -> Path:
    """A model that tells gestures, and gestures.npz as `mica record --imu` writes it: it lies there, is shaken,
    lies there, is turned."""
    return once("gestures", _gestures)


@pytest.fixture(scope="session")
def gesture_features(once: Once) -> Path:
    """The same by features of the rows, which are a front end in the file."""
    return once("gesture_features", _gesture_features)


def _gestures(folder: Path) -> Path:
    words = _movements(folder)
    waves.save_net(folder / "gestures.onnx")
    return pack(folder / "gestures.onnx", folder / "gestures.mica", *words)


def _gesture_features(folder: Path) -> Path:
    words = _movements(folder)
    waves.save_features_net(folder / "gestures.onnx")
    return pack(folder / "gestures.onnx", folder / "gestures.mica", "--frontend", waves.FRONT_END, *words)


def _movements(folder: Path) -> tuple[str | Path, ...]:
    """Words of pack, and gestures.npz."""
    rng = np.random.default_rng(3)
    x = np.stack([waves.movement(rng, label) for label in waves.LABELS for _ in range(10)])
    np.savez(folder / "x.npz", x=x)
    (folder / "labels.txt").write_text("\n".join(waves.LABELS))
    parts = [waves.movement(rng, label, 60) for label in ("unknown", "shake", "unknown", "turn")]
    np.savez(folder / "gestures.npz", x=np.concatenate(parts)[None], rate=waves.RATE)
    return "--calib", folder / "x.npz", "--labels", folder / "labels.txt"


@pytest.fixture(scope="session")
def learning(tones: Path, fan: Path, gesture_features: Path, once: Once) -> Path:
    """A folder of models without a network, for heads that learn, and recordings: those of the other models,
    and more behind them."""

    def make(folder: Path) -> Path:
        alone = {
            "motion": (waves.FRONT_END, gesture_features.parent / "x.npz"),
            "sounds": (FRONT_END + ",samples=1600", tones.parent / "data"),
            "odd": ("features:rate=8000,rows=800,stats=std+cross,edges=50+1000+4000,energy=ln", fan.parent / "data"),
        }
        for name, (front_end, calib) in alone.items():
            assert mica("pack", "--frontend", front_end, "--calib", calib, "-o", folder / f"{name}.mica").code == 0
        rng = np.random.default_rng(4)
        sounds = [read(tones.with_suffix(".wav"), 16000)]
        sounds += [tone(rng, label, 8000) for label in ("silence", "low", "silence", "high") * 2]
        write_wav(folder / "i2s.wav", np.concatenate(sounds))
        machine = [read(fan.with_suffix(".wav"), 8000), tone(rng, "low", 9600), tone(rng, "high", 6400)]
        write_wav(folder / "adc.wav", np.concatenate(machine), rate=8000)
        moves = [np.load(gesture_features.with_suffix(".npz"))["x"][0]]
        moves += [waves.movement(rng, label, 60) for label in ("unknown", "shake", "unknown", "turn") * 3]
        np.savez(folder / "imu.npz", x=np.concatenate(moves)[None], rate=waves.RATE)
        return folder

    return once("learning", make)
