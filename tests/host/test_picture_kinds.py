"""Pictures and arrays as people have them: other kinds of files, turned, transparent or huge ones,
channels at the other end, any key."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import bright
import numpy as np
import pytest

from mica import notes
from mica.cli.main import main
from mica.data import pictures
from mica.data.calibration import load_calibration, read_arrays
from mica.errors import MicaError
from mica.run import evaluation

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed; scripts/setup installs it")
PIXELS = np.random.default_rng(3).integers(0, 256, (12, 16, 3), dtype=np.uint8)


@pytest.fixture
def told() -> object:
    lines: list[str] = []
    with notes.Printer(lines.append):
        yield lines


def rgb(path: Path) -> np.ndarray:
    return pictures.resized(path, "rgb", 12, 16)


@pytest.mark.parametrize("ending", (".png", ".bmp", ".tif", ".tiff", ".webp", ".GIF"))
def test_kinds_of_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    picture = Image.fromarray(PIXELS)
    if ending == ".GIF":
        picture = picture.quantize(256)
    picture.save(path, **({"lossless": True} if ending == ".webp" else {}))
    assert pictures.is_picture(path) and pictures.files(tmp_path) == [path]
    np.testing.assert_array_equal(rgb(path), np.asarray(picture.convert("RGB")))


def test_the_first_of_several(tmp_path: Path, told: list[str]) -> None:
    frames = [Image.fromarray(np.full((12, 16), v, np.uint8)) for v in (10, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (rgb(tmp_path / "a.gif") == 10).all() and told == [f"{tmp_path / 'a.gif'}: the first of its 2 pictures"]


@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_turns(turn: int, tmp_path: Path, told: list[str]) -> None:
    """Pictures turn as by Pillow's exif_transpose, which sets this rule."""
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / "a.png"
    Image.fromarray(PIXELS[:, :9]).save(path, exif=exif)
    with Image.open(path) as picture:
        upright = np.asarray(ImageOps.exif_transpose(picture))
    np.testing.assert_array_equal(pictures.resized(path, "rgb", *upright.shape[:2]), upright)
    assert [line.endswith("turned upright, as its EXIF says") for line in told] == [True] * (turn > 1)


@pytest.mark.parametrize("colours", ("grey", "rgb", "bgr", "rgba"))
def test_hidden_colours_do_not_count(colours: str, tmp_path: Path, told: list[str]) -> None:
    """Two files that look the same, one with colours where nothing is seen."""
    alpha = np.zeros((12, 16, 1), np.uint8)
    alpha[3:9, 4:12] = 255
    alpha[5, 5:9] = 128
    for name, seen in (("clean", np.where(alpha > 0, PIXELS, 0)), ("hidden", PIXELS)):
        Image.fromarray(np.concatenate([seen, alpha], axis=2).astype(np.uint8)).save(tmp_path / f"{name}.png")
    made = [pictures.resized(tmp_path / f"{name}.png", colours, 12, 16) for name in ("clean", "hidden")]
    np.testing.assert_array_equal(*made)
    if colours == "rgb":
        assert (made[0][:3] == 255).all() and (made[0][3:5, 4:12] == PIXELS[3:5, 4:12]).all()
        np.testing.assert_array_equal(made[0][5, 5], np.rint((PIXELS[5, 5] * 128.0 + 255 * 127) / 255))
        assert "transparent pixels become white" in told[0] and len(told) == 1


def huge(path: Path, side: int) -> Path:
    """A grey PNG file that claims to be large, and holds almost no data: a decoder would fail."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")
    )
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pictures for each of two labels, and between them one that is huge and one that is none."""
    for k, label in enumerate(("dark", "bright")):
        inside = tmp_path / "photos" / label
        inside.mkdir(parents=True)
        for name in ("a", "c"):
            Image.fromarray((PIXELS // 4 + 180 * k).astype(np.uint8)).save(inside / f"{name}.png")
    huge(tmp_path / "photos" / "dark" / "b.png", 9000)
    (tmp_path / "photos" / "bright" / "b.png").write_text("none")
    return tmp_path / "photos"


@pytest.mark.parametrize(
    ("side", "said"), [(9000, "has 9000 x 9000 pixels"), (4000, "too many for 16 x 12"), (20000, "has too many pixels")]
)
def test_a_huge_picture_is_not_decoded(side: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "decoded", lambda path: pytest.fail("it was decoded"))
    with pytest.raises(MicaError, match=said):
        rgb(huge(tmp_path / "a.png", side))


def test_a_folder_goes_on_without_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, packed = bright.save_net(folder.parent / "net.onnx", 3), str(folder.parent / "net.mica")
    (folder.parent / "labels.txt").write_text("dark\nbright\n")
    words = ["--labels", str(folder.parent / "labels.txt"), "--plain", "-o", packed]
    assert main(["pack", str(net), "--calib", str(folder), *words]) == 0
    err = capsys.readouterr().err
    assert "b.png: has 9000 x 9000 pixels, 81,000,000" in err and "b.png: cannot be read as a picture" in err
    assert main(["eval", packed, str(folder), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["samples"] == 4 and result["value"] == 1
    assert main(["run", packed, str(folder / "dark")]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()] == [["a.png:", "dark"], ["c.png:", "dark"]]
    assert "left out:" in err and "9000 x 9000" in err
    assert main(["run", packed, str(folder / "dark" / "b.png")]) == 1
    (folder / "bright" / "a.png").unlink()
    (folder / "bright" / "c.png").unlink()
    assert main(["run", packed, str(folder / "bright")]) == 1  # there is no other


def test_channels_at_the_other_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pack, run and eval of a model whose channels are first, with pictures whose channels are last,
    and the other way round."""
    x = np.random.default_rng(0).random((8, 12, 16, 3)).astype(np.float32)
    for planes in (True, False):
        net, packed = bright.save_net(tmp_path / "net.onnx", 3, planes), str(tmp_path / "net.mica")
        answers = []
        for last in (True, False):
            data = str(tmp_path / "x.npz")
            np.savez(data, x=x if last else x.transpose(0, 3, 1, 2), y=np.zeros(8, int))
            assert main(["pack", str(net), "--calib", data, "--plain", "-o", packed]) == 0
            capsys.readouterr()
            assert main(["run", packed, data, "--sample", "3", "--json"]) == 0
            one = capsys.readouterr()
            assert main(["eval", packed, data, "--json"]) == 0
            answers.append((json.loads(one.out), json.loads(capsys.readouterr().out), Path(packed).read_bytes()))
            assert ("channels at the other end" in one.err) == (last == planes)
        assert answers[0] == answers[1]
    single = tmp_path / "one.npy"
    np.save(single, x[3])
    assert main(["run", packed, str(single), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answers[0][0]


def test_one_array_under_any_key(tmp_path: Path) -> None:
    x, path = np.arange(12, dtype=np.uint8).reshape(4, 3), tmp_path / "a.npz"
    np.savez(path, x)  # arr_0
    np.testing.assert_array_equal(load_calibration(path, ["input"])["input"], x)
    np.savez(path, images=x, y=np.arange(4), scale=np.float32(0.5))
    np.testing.assert_array_equal(evaluation.load(path).x, x * np.float32(0.5))
    np.savez(path, a=x, b=x)
    with pytest.raises(MicaError, match=r"has no array 'x' \(it holds: a, b\)"):
        load_calibration(path, ["input"])
    assert list(read_arrays(path)) == ["a", "b"]
