"""Folders, archives and tables as examples; groups that stay on one side; changed examples; features of many at
once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import recorded

import mica
from mica.errors import MicaError
from mica.file.codec import decode
from mica.reference import axes
from mica.run import sound
from mica.sound import front_ends
from mica.training import families, onnx_file, run, spectra
from mica.training.augment import Recipe, recipe_of
from mica.training.examples import Examples, read
from mica.training.split import split


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("data")
    return {
        "sound": recorded.words(top / "words"),
        "motion": recorded.gestures(top / "gestures"),
        "picture": recorded.pictures(top / "photos"),
        "table": recorded.table(top / "weather.csv"),
    }


SHAPES = {"sound": (36, 15840), "motion": (108, 100, 6), "picture": (24, 24, 24, 1), "table": (60, 3)}


@pytest.mark.parametrize("kind", SHAPES)
def test_each_kind_is_told_by_its_files(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    found = read(folders[kind])
    assert (found.kind, found.inputs.shape, found.inputs.dtype) == (kind, SHAPES[kind], np.float32)
    assert found.notes == () and list(found.names) == sorted(found.names)
    assert len(found.paths) == len(found.labels) == len(found.groups) == len(found)
    if kind != "table":
        again = read(shutil.make_archive(str(tmp_path / "made"), "zip", folders[kind]))
        assert again.paths == found.paths and np.array_equal(again.inputs, found.inputs)


def test_a_folder_in_an_archive(folders: dict[str, Path], tmp_path: Path) -> None:
    """Files of a .zip may lie in one folder more, as file managers make it."""
    whole = folders["sound"]
    name = shutil.make_archive(str(tmp_path / "w"), "zip", whole.parent, whole.name)
    assert read(name).paths == read(whole).paths


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_a_split_keeps_groups_whole(kind: str, seed: int, folders: dict[str, Path]) -> None:
    found = read(folders[kind])
    learnt, held = split(found, seed)
    assert not set(learnt.groups) & set(held.groups) and len(learnt) + len(held) == len(found)
    for k in range(len(found.names)):
        share = (held.labels == k).sum() / (found.labels == k).sum()
        assert 0.15 <= share <= 0.35, share
    again = split(found, seed)[1]
    assert again.paths == held.paths


def of_groups(groups: np.ndarray, labels: np.ndarray) -> Examples:
    n = len(labels)
    names = tuple(f"label{k}" for k in range(labels.max() + 1))
    return Examples("table", np.zeros((n, 1), np.float32), labels, names, groups, ("",) * n, 0.0, ())


def test_random_groups(seeds: int = 60) -> None:
    """Groups of any size, over several labels: they stay whole, or one line says which label stands in the way."""
    refused = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        groups = rng.integers(0, rng.integers(3, 30), 80)
        labels = rng.integers(0, 3, 80) if seed % 2 else groups % 3
        try:
            learnt, held = split(of_groups(groups, labels), seed)
        except MicaError as e:
            assert "speaker, day or file" in str(e)
            refused += 1
            continue
        assert not set(learnt.groups) & set(held.groups)
        assert set(learnt.labels) == set(held.labels) == set(labels)
    assert refused < seeds / 3


def test_speakers_by_folder_and_by_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for label in ("up", "down"):
        for who in ("anna", "ben", "cleo", "dan"):
            for k in range(3):
                recorded.recorder.save(tmp_path / "a" / label / who, k, recorded.whistle(label, rng), 16000)
    for path in (tmp_path / "a").rglob("*.wav"):
        to = tmp_path / "b" / path.parts[-3] / f"{path.parts[-2]}_{path.name}"
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    for folder in ("a", "b"):
        found = read(tmp_path / folder)
        assert len(set(found.groups)) == 4 and "4 speakers" in found.notes[0]
        assert {sum(found.groups == g) for g in set(found.groups)} == {6}


@pytest.mark.parametrize(
    "text",
    [
        "logmel:rate=16000,frame=480,hop=320,mels=20,floor=1e-6,times=0.34,plus=1.27",
        "mfcc:mlperf-kws",
        "logmel:openwakeword,samples=16000",
        "logmel:mlperf-wakeword,samples=16000",
        "logmel:samples=16000,frame=400,hop=160,preemphasis=0.97,before=yes,floor=1e-6",
        "pcan:micro-speech,samples=16000",
        "pcen:samples=16000,frame=480,hop=320,mels=20",
    ],
)
def test_spectra_equal_the_front_end(text: str) -> None:
    shape = (1, 49, 20) if "samples" not in text and "kws" not in text else front_ends.shape_alone(text)
    front, _ = front_ends.find_front(text, shape, "x")
    rng = np.random.default_rng(2)
    x = np.stack([recorded.whistle(kind, rng)[: front.samples] for kind in ("up", "down", "other")])
    x[2] //= 50
    expected = np.stack([axes.compute(front, row) for row in x])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(spectra.compute(front, x.astype(np.float32)), expected, atol=2e-4 * scale)


@pytest.mark.parametrize("energy", ["rms", "power", "ln", "db"])
@pytest.mark.parametrize("order", ["axis", "feature"])
def test_features_of_motion_equal_the_front_end(energy: str, order: str) -> None:
    stats = "mean+std+rms+min+max+ptp+cross+zeros"
    text = f"features:rows=100,axes=6,rate=100,unit=1/16384,bands=4,stats={stats},energy={energy},order={order}"
    front, _ = front_ends.find_front(text, front_ends.shape_alone(text), "x")
    rng = np.random.default_rng(3)
    x = np.stack([recorded.gesture(kind, rng)[:100] for kind in ("rest", "shake", "turn")])
    expected = np.stack([axes.compute(front, row).reshape(-1) for row in x])
    np.testing.assert_allclose(spectra.compute(front, x.astype(np.float32)), expected, rtol=1e-4, atol=1e-4)


def recipe(kind: str, folders: dict[str, Path]) -> Recipe:
    return recipe_of(read(folders[kind]), front_end="features" if kind == "features" else None)


@pytest.mark.parametrize("kind", [*SHAPES, "features"])
def test_a_batch(kind: str, folders: dict[str, Path]) -> None:
    """Each batch has the shape of what is plain, other values, as many of each label, and follows from its seed."""
    found = read(folders["motion" if kind == "features" else kind])
    made = recipe_of(found, front_end="features" if kind == "features" else None)
    plain = made.plain(found.inputs)
    assert plain.shape[1:] == made.shape and plain.dtype == np.float32
    x, y = made.batch(np.random.default_rng(5), 300)
    again, _ = made.batch(np.random.default_rng(5), 300)
    np.testing.assert_array_equal(x, again)
    assert x.shape == (300, *made.shape) and x.dtype == np.float32 and y.dtype == np.int64 and np.isfinite(x).all()
    shares = np.bincount(y, minlength=len(found.names)) / 300
    np.testing.assert_allclose(shares, 1 / len(found.names), atol=0.09)
    same = [any(np.array_equal(one, p) for p in plain) for one in x[:20]]
    assert all(same) if kind == "table" else not any(same)
    normal = (x - made.mean) / made.spread
    assert abs(normal.mean()) < 0.25 and 0.5 < normal.std() < 2


def test_features_are_those_of_the_packed_front_end(folders: dict[str, Path]) -> None:
    for kind in ("sound", "motion"):
        found = read(folders[kind])
        made = recipe_of(found, front_end="features" if kind == "motion" else None)
        front, _ = front_ends.find_front(str(made.front_end), (1, *made.shape), "x")
        raw = made.raw(found.inputs[:4])
        assert raw.dtype == np.int16
        expected = np.stack([axes.compute(front, row).reshape(made.shape) for row in raw])
        np.testing.assert_allclose(made.plain(found.inputs[:4]), expected, rtol=1e-4, atol=1e-3)


def test_what_is_taken_for_the_word_is_drawn_more_often(folders: dict[str, Path], tmp_path: Path) -> None:
    """Half of all else is what a network took for it; the word is drawn as before, and nothing changes where there are
    several."""
    made = recipe_of(read(recorded.words(tmp_path, ("up", "other"))))
    labels, other = made.examples.labels, list(made.examples.names).index("other")
    fooled = np.flatnonzero(labels == other)[3]

    class Network:
        def probabilities(self, x: np.ndarray) -> np.ndarray:
            p = np.eye(2, dtype=np.float32)[np.full(len(x), other)]
            p[fooled] = p[0, ::-1]
            return p

    rows = made.harder(Network())._drawn(np.random.default_rng(1), 3000)
    assert 0.45 < np.mean(rows[labels[rows] == other] == fooled) < 0.65
    np.testing.assert_allclose(np.bincount(labels[rows]) / 3000, 0.5, atol=0.04)
    for kind in ("sound", "picture"):
        several = recipe_of(read(folders[kind]))
        assert several.harder(Network()) is several


def test_evaluation_hears_a_file_as_training_did(tmp_path: Path) -> None:
    """Clips that are shorter than what a model takes, as long, a little longer and much longer, at two rates."""
    rng = np.random.default_rng(5)
    for rate in (16000, 8000):
        for label in ("up", "other"):
            for k, seconds in enumerate((0.41, 0.7, 0.99, 1.0, 1.2, 1.4, 1.6, 3.5)):
                x = recorded.whistle(label, rng, rate, seconds)
                recorded.recorder.save(tmp_path / f"{rate}" / label, k, x, rate)
        found = read(tmp_path / f"{rate}")
        made = recipe_of(found)
        network = families.plans("sound", ())[-1].build(rng, made.shape, 2, made.mean, made.spread)
        (tmp_path / "net.onnx").write_bytes(onnx_file.model(network, made.shape, found.names))
        given = run.given(made, found.inputs)
        options = {"frontend": str(made.front_end), "labels": found.names, "plain": True}
        packed = mica.pack(tmp_path / "net.onnx", given, **options)
        said: list[str] = []
        heard = sound.read_folder(tmp_path / f"{rate}", decode(packed.data), said.append)
        order = sorted(range(len(found)), key=lambda k: found.names[found.labels[k]])
        np.testing.assert_array_equal(heard.x.reshape(given.shape), given[order])
        np.testing.assert_array_equal([found.names[k] for k in found.labels[order]], [found.names[k] for k in heard.y])


def test_pictures_whose_sides_matter_are_not_mirrored(tmp_path: Path) -> None:
    from PIL import Image

    assert recipe_of(read(recorded.pictures(tmp_path / "mirrors", ("left", "top"))))._mirrors is False
    rng = np.random.default_rng(0)
    for label in ("top", "bottom"):
        (tmp_path / "sides" / label).mkdir(parents=True)
        for k in range(12):
            x = recorded.picture("top", rng)[..., 0]
            Image.fromarray(x if label == "top" else x[::-1]).save(tmp_path / "sides" / label / f"{k}.png")
    assert recipe_of(read(tmp_path / "sides"))._mirrors is True


def test_long_recordings_are_cut(tmp_path: Path) -> None:
    """A long recording of noise becomes pieces of one group; a word with much around it keeps its loudest second."""
    rng = np.random.default_rng(4)
    recorded.words(tmp_path, ("up",))
    recorded.recorder.save(tmp_path / "up", 90, recorded.whistle("up", rng, seconds=1.3), 16000)
    for k in range(2):
        recorded.recorder.save(tmp_path / "other", k, rng.normal(0, 500, 16000 * 5).astype(np.int16), 16000)
    found = read(tmp_path)
    assert len(found) == 13 + 10 and len(set(found.groups[found.labels == 0])) == 2
    assert "other/0001.wav at 4.0 s" in found.paths
    assert np.abs(found.inputs[found.paths.index("up/0090.wav")]).max() > 0.2


def test_motion_in_csv(tmp_path: Path) -> None:
    """A column of time says the rate, and is no axis."""
    rng = np.random.default_rng(6)
    for label in ("rest", "shake"):
        (tmp_path / label).mkdir()
        for k in range(3):
            rows = [f"{20 * i},{a},{b},{c}" for i, (a, b, c) in enumerate(recorded.gesture(label, rng)[:, :3].tolist())]
            (tmp_path / label / f"{k}.csv").write_text("ms,x,y,z\n" + "\n".join(rows) + "\n")
    found = read(tmp_path)
    assert (found.kind, found.rate, found.inputs.shape[1:]) == ("motion", 50.0, (50, 3))
