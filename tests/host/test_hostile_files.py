"""No file of up to 1 MB takes more than 300 MB or 10 s of CPU in a command, ends it with exit 70,
or leaves a traceback."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_files import DEMO, KINDS, OTHERS, archive, cases, header, models, npz, prepared, tried, wave, zeros
from targets import ALL, sampled

from mica import engine
from mica.format.records import with_crc

TRIALS = Path(__file__).resolve().parents[3] / "shared" / "trials" / "hostile"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_files_of_up_to_1_mb(kind: str, there: Path) -> None:
    """All of two seeds with scripts/test --all, else a part of one."""
    wrong = []
    for seed in range(sampled(2, 1)):
        for n, (name, words) in enumerate(cases(kind, random.Random(seed), there)):
            if not ALL and n % 19 != 2:
                continue
            found = tried(*words)
            if found.faults:
                wrong.append(f"seed {seed}: mica {words[0]} {name}: {', '.join(found.faults)}: {found.err[-300:]}")
    assert not wrong, "\n".join(wrong)


DAMAGED = {"damaged.onnx", "dims.onnx", "external.onnx", "long-operator.onnx", "self.onnx"}


def test_graphs_are_valid() -> None:
    """ONNX's own checker takes all graphs that are not damaged on purpose: else mica refuses them at the door."""
    sound = {name: data for name, data in models(random.Random(0)) if name not in DAMAGED}
    assert len(sound) > 10
    for data in sound.values():
        onnx.checker.check_model(onnx.load_from_string(data))


def test_5000_identities(tmp_path: Path) -> None:
    """A pass that looked at every node for each node took over 20 s."""
    (tmp_path / "identities.onnx").write_bytes(dict(models(random.Random(0)))["identities.onnx"])
    found = tried("pack", tmp_path / "identities.onnx", "-o", tmp_path / "out")
    assert found.code == 0 and not found.faults, found


PACK: list[object] = ["pack", DEMO / "digits.onnx", "--calib"]
FOUND: dict[str, tuple[Callable[[], bytes], str]] = {  # made when they are tried: the first two take a second
    "bomb-named-as-the-input.npz": (
        lambda: archive({"image.npy": zeros((250 << 14, 1, 8, 8), "|i1", 250)}),
        "holds numbers of 1,048,576,000 bytes; expected at most",
    ),
    "bomb-of-another-shape.npz": (
        lambda: archive({"x.npy": zeros((250 << 20,), "|i1", 250)}),
        "holds numbers of 1,048,576,000 bytes; expected at most",
    ),
    "no-zip.npz": (lambda: b"PK\x03\x04 and so on, but no archive", "not an .npz or .npy file: File is not a zip file"),
    "scale-is-text.npz": (lambda: npz(x=np.zeros((4, 1, 8, 8)), scale="abc"), "'scale' [] is not for 'x' [4, 1, 8, 8]"),
    "many-arrays.npz": (
        lambda: archive({f"{k}.npy": header((1,)) + bytes(4) for k in range(5000)}),
        "has no array 'x' (it holds: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 4,988 more)",
    ),
    "version-3.npy": (
        lambda: header((2**40, 2**40), "|b1", 3) + bytes(9),
        "not an .npz or .npy file: it holds no plain arrays of numbers",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_in_arrays(name: str, tmp_path: Path) -> None:
    make, said = FOUND[name]
    (tmp_path / name).write_bytes(make())
    found = tried(*PACK, tmp_path / name, "-o", tmp_path / "out")
    assert found.code == 1 and not found.faults and f"{name}: {said}" in found.err, found


def test_an_input_that_is_text(there: Path, tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_bytes(npz(image=["abc"] * 4))
    found = tried("run", there / "digits.mica", tmp_path / "text.npz")
    assert found.code == 1 and not found.faults and "'image' has type <U3; expected samples of numbers" in found.err, (
        found
    )


def test_a_recording_of_one_sample_a_second(there: Path, tmp_path: Path) -> None:
    for rate in (0, 1, 999):
        file = tmp_path / f"{rate}.wav"
        file.write_bytes(wave(rate, bytes(16000)))
        found = tried("run", there / "tones.mica", file)
        assert found.code == 1 and not found.faults, found
        assert rate == 0 or f"{rate}.wav: has {rate} samples a second; expected 1,000 or more" in found.err


def _folder(there: Path, name: str) -> Path:
    """Examples of two labels, and something odd beside them."""
    for label in ("one", "two"):
        (there / label).mkdir(parents=True)
        np.save(there / label / "a.npy", np.full((2, 1, 8, 8), 0.5, np.float32))
    x = np.zeros((2, 1, 8, 8), np.float32)
    if name == "no UTF-8":
        os.mkdir(os.fsencode(there) + b"/\xff")
        (there / "one" / "a.npy").rename(there / os.fsdecode(b"\xff") / "a.npy")
    elif name == "a control character":
        (there / "two").rename(there / "two\x1b[31m")
    elif name == "a long name":
        (there / "two").rename(there / ("n" * 250))
    elif name == "a pipe":
        os.mkfifo(there / "two" / "b.npy")
    elif name == "a folder":
        (there / "two" / "b.npz").mkdir()
    elif name == "a loop":
        (there / "two" / "b.npy").symlink_to("b.npy")
    elif name == "too many":
        for k in range(80):
            (there / f"l{k}").mkdir()
            np.save(there / f"l{k}" / "a.npy", x)
    else:
        np.save(there / "two" / "b.npy", x + float("inf" if name == "infinity" else "nan"))
    return there


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no UTF-8", "a folder named '\\udcff'"),
        ("a control character", "a folder named 'two\\x1b[31m'"),
        ("a long name", "a text of 1 to 63 bytes"),
        ("a pipe", "b.npy: is no file"),
        ("a folder", "b.npz: is no file"),
        ("a loop", "b.npy: no such file"),
        ("too many", "at most 64"),
        ("NaN", "b.npy: holds NaN or infinity"),
        ("infinity", "b.npy: holds NaN or infinity"),
    ],
)
def test_folders_of_examples(name: str, said: str, there: Path, tmp_path: Path) -> None:
    found = tried(
        "teach", there / "embedding.mica", _folder(tmp_path / "examples", name), "-o", tmp_path / "out.learnt"
    )
    assert found.code == 1 and not found.faults and said in found.err, found


def test_names_that_are_no_utf8(there: Path, tmp_path: Path) -> None:
    """The engine and the host's own reader show them alike, with a sign in the place of what is none."""
    data = bytearray((there / "digits.mica").read_bytes())
    at = data.index(b"image\0")
    data[at] = 0xFF
    file = tmp_path / "names.mica"
    file.write_bytes(with_crc(bytes(data)))
    for words in (
        ["run", file, DEMO / "digits_test.npz"],
        ["info", file],
        ["eval", file, "--data", DEMO / "digits_test.npz"],
    ):
        found = tried(*words)
        assert found.code in (0, 1) and not found.faults, found
    damaged = engine.load(file.read_bytes())
    assert isinstance(damaged.tensor(0), np.ndarray)


@pytest.mark.skipif(not TRIALS.is_dir(), reason="../shared/trials does not travel with the project")
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("dims-not-data.onnx", 1, "tensor 'w': its data is not what its type and its dimensions [1, 12] say"),
        ("pick-broken-graph.onnx", 2, "node 's2' (GatherElements): places of shape [1, 10, 2] in [1, 64, 5]"),
        ("pk-no-zip.npz", 1, "not an .npz or .npy file: File is not a zip file"),
        ("scale-is-text.npz", 1, "'scale' [] is not for 'x'"),
        ("one-hertz.wav", 1, "has 1 samples a second; expected 1,000 or more"),
        ("seek-traceback.wav", 1, ""),
    ],
)
def test_trials(name: str, code: int, said: str, there: Path) -> None:
    file = TRIALS / name
    words = {
        ".onnx": ["pack", file, "-o", there / "out"],
        ".npz": [*PACK, file, "-o", there / "out"],
        ".wav": ["run", there / "tones.mica", file],
    }[file.suffix]
    found = tried(*words)
    assert not found.faults and said in found.err and (found.code == code or not said), found
