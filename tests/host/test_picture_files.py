"""Picture files as calibration data, inputs and labelled data: the bytes are those that the board makes of a frame with
the same pixels."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import bright
import numpy as np
import pytest

from mica import engine
from mica.cli.main import main
from mica.data import pictures
from mica.data.calibration import Pixels, load_calibration
from mica.errors import MicaError
from mica.file import codec
from mica.file.pictures import read
from mica.kernels import PICTURE
from mica.run.host import HostRunner
from mica.run.pictures import input_of
from mica.toolchain.contents import chosen

LABELS = "dark\nbright\n"


def _pack(folder: Path, channels: int, planes: bool, *words: str) -> Path:
    net = bright.save_net(folder / "net.onnx", channels, planes)
    (folder / "labels.txt").write_text(LABELS)
    calib = [] if "--calib" in words else ["--calib", str(bright.save_samples(folder / "x.npz", channels, planes))]
    to = folder / "net.mica"
    assert (
        main(["pack", str(net), "-o", str(to), "--labels", str(folder / "labels.txt"), "--plain", *calib, *words]) == 0
    )
    return to


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Folders dark and bright with four pictures each, of several sizes and kinds."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed; scripts/setup installs it")
    rng = np.random.default_rng(2)
    for k, label in enumerate(LABELS.split()):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i, (size, mode) in enumerate((((16, 12), "RGB"), ((40, 30), "L"), ((100, 61), "RGBA"), ((9, 7), "RGB"))):
            x = rng.integers(0, 100, (size[1], size[0], 4), dtype=np.uint8) + 150 * k
            x[..., 3] = 255
            image.fromarray(np.asarray(x, np.uint8), "RGBA").convert(mode).save(
                tmp_path / "photos" / label / f"{i}.png"
            )
    return tmp_path / "photos"


@pytest.mark.parametrize(("colours", "channels", "planes"), [("grey", 1, False), ("rgb", 3, False), ("bgr", 3, True)])
def test_a_frame_and_the_file_of_its_pixels(
    colours: str, channels: int, planes: bool, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = codec.decode(_pack(photos.parent, channels, planes, "--picture", colours).read_bytes())
    desired = read(model)
    assert desired is not None and (desired.colours, desired.width, desired.height, desired.planes) == (
        colours,
        16,
        12,
        planes,
    )
    given = input_of(model, "x")
    for path in sorted(photos.glob("*/*")):
        pixels = pictures.decoded(path)[..., :3]
        seen = engine.see(desired.frame(pixels.shape[1], pixels.shape[0], "rgb888"), pixels.tobytes(), desired.table)
        with HostRunner((photos.parent / "net.mica").read_bytes()) as runner:
            (q,) = runner.quantise([given.quantised(given.load(path))])
        assert q.tobytes() == seen.tobytes(), path
        # Rounded as the host quantises real numbers, but for those right between two steps.
        (real,) = HostRunner((photos.parent / "net.mica").read_bytes()).quantise([given.real(given.load(path))])
        assert np.abs(real.astype(int) - q).max() <= 1


def test_calibration_run_and_eval(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = _pack(photos.parent, 3, True, "--calib", str(photos))
    text = codec.decode(packed.read_bytes()).metadata["picture"]
    assert text.startswith("rgb ") and len(text.split()) == 4
    capsys.readouterr()
    assert main(["eval", str(packed), str(photos), "--float", str(photos.parent / "net.onnx")]) == 0
    assert "top1 100.00 % on host (8 samples)" in (said := capsys.readouterr().out) and "100.00 % float" in said
    assert main(["run", str(packed), str(photos / "bright" / "1.png")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "bright"
    assert main(["run", str(packed), str(photos / "dark")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[f"{i}.png:", "dark"] for i in range(4)]


def test_calibration_is_scaled_pixels(photos: Path) -> None:
    given = Pixels((2 / 255,), (-1.0,))
    x = load_calibration(photos / "dark", ["x"], {"x": (1, 3, 12, 16)}, given)["x"]
    y = [pictures.resized(p, "rgb", 12, 16) for p in sorted((photos / "dark").iterdir())]
    assert np.allclose(x, np.stack(y).transpose(0, 3, 1, 2) * (2 / 255) - 1)
    rgba = load_calibration(photos / "dark", ["x"], {"x": (1, 12, 16, 4)})["x"]
    assert rgba.shape == (4, 12, 16, 4) and (rgba[..., 3] == 1).all()


def test_a_firmware_for_it_has_the_kernel(tmp_path: Path) -> None:
    with_it = chosen([str(_pack(tmp_path, 1, False, "--picture", "grey"))])
    without = chosen([str(_pack(tmp_path, 1, False))])
    assert with_it.kernels is not None and PICTURE in with_it.kernels and "pictures" not in with_it.modules
    assert without.kernels is not None and PICTURE not in without.kernels and "pictures" in without.modules


def _error(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(args) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_what_is_wrong_is_said(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = photos.parent
    packed = _pack(folder, 3, False, "--picture", "rgb")
    (folder / "no.png").write_text("not a picture")
    assert "cannot be read as a picture" in _error(["run", str(packed), str(folder / "no.png")], capsys)
    assert "no such file" in _error(["run", str(packed), str(folder / "none.png")], capsys)
    (folder / "empty").mkdir()
    assert "holds no pictures" in _error(["run", str(packed), str(folder / "empty")], capsys)
    assert "folders named dark, bright" in _error(["eval", str(packed), str(folder / "empty")], capsys)
    (photos / "dark").rename(photos / "cat")
    assert "'cat' is none of the model's labels" in _error(["eval", str(packed), str(photos)], capsys)
    plain = _pack(folder, 3, False)
    assert "--picture grey or rgb" in _error(["run", str(plain), str(photos / "bright" / "0.png")], capsys)


def test_what_no_pictures_fit_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, x = bright.save_net(tmp_path / "net.onnx", 3), bright.save_samples(tmp_path / "x.npz", 3)
    base = ["pack", str(net), "-o", str(tmp_path / "n.mica"), "--plain", "--calib", str(x)]
    assert "input 'x' is int8 [1, 12, 16, 3]" in _error([*base, "--picture", "grey"], capsys)
    bytes_ = bright.save_samples(tmp_path / "bytes.npz", 3, scale=255.0)
    base[-1] = str(bytes_)
    capsys.readouterr()
    assert main([*base, "--picture", "rgb"]) == 1
    assert "pixels become 0 to 1; input 'x' takes 0 to 255" in capsys.readouterr().err.splitlines()[-1]
    assert main([*base, "--picture", "rgb", "--pixel-scale", "1"]) == 0


def test_metadata_that_is_wrong_is_one_line(tmp_path: Path) -> None:
    packed = codec.decode(_pack(tmp_path, 3, False, "--picture", "rgb").read_bytes())
    good = packed.metadata["picture"]
    for text in (
        "",
        "rgb",
        "grey 1,2",
        "rgba 1,2 1,2 1,2 1,2",
        good + " 1,2",
        good.replace(",", " ", 1),
        "rgb 1,2 1,2 1,x",
        f"rgb {2**30},0 1,2 1,2",
    ):
        packed.metadata["picture"] = text
        with pytest.raises(MicaError, match="metadata 'picture' is wrong"):
            read(packed)


def test_without_pillow_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = _pack(tmp_path, 1, False, "--picture", "grey")
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    said = _error(["run", str(packed), str(tmp_path / "a.png")], capsys)
    assert "needs the Python package Pillow" in said and "mica-mcu[pictures]" in said


def _png(path: Path, x: np.ndarray, depth: int) -> Path:
    """A PNG of grey, grey and alpha, RGB or RGBA [height, width, channels], as a camera with so many bits writes it."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    bits = (x[..., None] >> np.arange(depth - 1, -1, -1)) & 1
    rows = np.packbits(bits.reshape(len(x), -1).astype(np.uint8), axis=1)
    head = struct.pack(">IIBBBBB", x.shape[1], len(x), depth, (0, 4, 2, 6)[x.shape[2] - 1], 0, 0, 0)
    packed = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))
    return path


@pytest.mark.parametrize(
    ("depth", "channels"), [(1, 1), (2, 1), (4, 1), *((d, c) for d in (8, 16) for c in (1, 2, 3, 4))]
)
def test_pictures_of_all_depths(depth: int, channels: int, tmp_path: Path) -> None:
    """Grey of 16 bits was cut off at 255: nearly all of it became white."""
    pytest.importorskip("PIL.Image", reason="Pillow is not installed; scripts/setup installs it")
    x = np.random.default_rng(depth).integers(0, 2**depth, (5, 9, channels))
    eight = x >> 8 if depth == 16 else x * 255 // (2**depth - 1)
    alpha = eight[..., -1:] if channels in (2, 4) else np.full((5, 9, 1), 255)
    colours = np.broadcast_to(eight[..., : 1 if channels < 3 else 3], (5, 9, 3))
    found = pictures.decoded(_png(tmp_path / "x.png", x, depth))
    assert found.dtype == np.uint8 and np.array_equal(found, np.concatenate([colours, alpha], axis=2))


def test_sixteen_bits_in_run_eval_and_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow is not installed; scripts/setup installs it")
    x = np.random.default_rng(5).integers(0, 256, (12, 16, 1))
    folders = {}
    for depth in (8, 16):
        folders[depth] = tmp_path / str(depth) / "photos"  # the file says what it was packed with
        for k, label in enumerate(LABELS.split()):
            (folders[depth] / label).mkdir(parents=True)
            pixels = (x // 3 + 150 * k) * (1 if depth == 8 else 257)
            _png(folders[depth] / label / "a.png", pixels, depth)
    said, files = [], []
    for depth in (8, 16):
        packed = _pack(tmp_path, 1, False, "--calib", str(folders[depth]), "--json")
        files.append(packed.read_bytes())
        capsys.readouterr()
        for words in (
            ["run", str(packed), str(folders[depth] / "dark" / "a.png")],
            ["eval", str(packed), str(folders[depth])],
        ):
            assert main(words) == 0
        said.append(capsys.readouterr().out)
    assert files[0] == files[1] and said[0] == said[1] and "top1 100.00 %" in said[0]


def test_pictures_that_would_turn_black_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """10 or 12 bits in 16, in grey and colours; nothing tells a full scale that is not 65,535."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed; scripts/setup installs it")
    packed = _pack(tmp_path, 1, False, "--picture", "grey")
    x = np.random.default_rng(0).integers(0, 1024, (8, 8, 3))
    for channels in (1, 3):
        for bits in (10, 12):
            file = _png(tmp_path / "x.png", x[..., :channels] << (bits - 10), 16)
            assert "its 16-bit pixels are at most" in _error(["run", str(packed), str(file)], capsys)
    assert not pictures.decoded(_png(tmp_path / "x.png", 0 * x[..., :1], 16))[..., :3].any()  # no light at all
    for kind in (np.float32, np.int32):
        image.fromarray(x[..., 0].astype(kind)).save(tmp_path / "x.tif")
        with pytest.raises(MicaError, match=f"its pixels are {np.dtype(kind)}; expected 8 or 16 bits"):
            pictures.decoded(tmp_path / "x.tif")
    image.fromarray((x[..., 0] * 64).astype(np.uint16)).save(tmp_path / "x.tif")
    assert np.array_equal(pictures.decoded(tmp_path / "x.tif")[..., 1], x[..., 0] >> 2)
