"""mica.camera's OV7670 and OV2640 at pins of the virtual Picos: each byte is the picture's, and a cut frame raises."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from nets import MODELS
from targets import ALL, PICO, PICO2

from mica import engine
from mica.cli.main import main
from mica.compile import compile_file
from mica.data import pictures
from mica.data.calibration import load_calibration
from mica.errors import MicaError
from mica.file.codec import encode
from mica.file.pictures import read, write
from mica.link.emulated import EmulatedBoard
from mica.link.sensors import Sensors, Wired
from mica.link.targets import open_board
from mica.listen import recorder, sensor_files

KINDS = ("ov7670", "ov2640")
SIZES = ((96, 96), (160, 120))
SHORT_ROW, SHORT_FRAME, LONG_ROW, NO_CLOCK = range(1, 5)  # of camera.c
BEGIN = """
from machine import I2C, Pin
from time import sleep_ms, ticks_ms, ticks_diff
import gc, mica, rp2
from machine import mem32
i2c = I2C(1, sda=Pin(14), scl=Pin(15), freq=100_000)
def left():
    "Channels of DMA at work, machines of PIO0 that run, the function of XCLK's pin, and how many channels are free."
    some = []
    try:
        while True:
            some.append(rp2.DMA())
    except OSError:
        n = len(some)
    for dma in some:
        dma.close()
    return sum([mem32[0x50000010 + 64 * k] >> 24 & 1 for k in range(12)]), mem32[0x50200000] & 15, n
"""


def wired(kind: str, seen: np.ndarray, cuts: list[tuple[int, int]] | None = None) -> Sensors:
    """seen: uint8 [n, 120, 160, 3]. cuts: each second frame has the next one."""
    facts = {"name": "test", "kind": kind, "data": 0, "xclk": 11, "sda": 14, "scl": 15, "cuts": cuts or []}
    return Sensors({"camera": Wired(facts, seen.reshape(-1).view(np.int16))})  # type: ignore[arg-type]


def sent(picture: np.ndarray, width: int, height: int, format_: str) -> bytes:
    """Return the bytes of a frame that shows the middle of a picture, uint8 [120, 160, 3]."""
    x = picture[60 - height // 2 : 60 + height // 2, 80 - width // 2 : 80 + width // 2].astype(int)
    if format_ == "grey":
        return (x @ [77, 150, 29] >> 8).astype(np.uint8).tobytes()
    return ((x[..., 0] >> 3) << 11 | (x[..., 1] >> 2) << 5 | x[..., 2] >> 3).astype(">u2").tobytes()


@pytest.fixture(scope="module")
def seen() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (7, 120, 160, 3), np.uint8)


@contextmanager
def opened(target: str, sensors: Sensors) -> Iterator[EmulatedBoard]:
    with open_board(target, rom_files={"there.txt": b"is"}, sensors=sensors) as board:
        assert isinstance(board, EmulatedBoard)
        board.exec(BEGIN)
        yield board


@pytest.fixture(scope="module", params=[(PICO, "ov7670"), (PICO2, "ov2640")], ids=lambda p: f"{p[0]}-{p[1]}")
def camera(request: pytest.FixtureRequest, seen: np.ndarray) -> Iterator[tuple[EmulatedBoard, str]]:
    target, kind = request.param
    with opened(target, wired(kind, seen)) as board:
        yield board, kind.upper()


def take(board: EmulatedBoard, kind: str, words: str) -> bytes:
    board.exec(
        f"x = cam = None\ngc.collect()\nwith mica.camera.{kind}(i2c, {words}) as cam:\n    x = cam.frame()[0]\n",
        timeout=60,
    )
    return board.get("x", limit=100_000)


def test_every_byte(camera: tuple[EmulatedBoard, str], seen: np.ndarray) -> None:
    """In each size and format; mirrored, upside down, darker. Afterwards nothing is taken."""
    board, kind = camera
    before = board.exec("print(left())")
    for width, height in SIZES:
        for format_ in ("grey", "rgb565be"):
            frames = [sent(p, width, height, format_) for p in seen]
            got = take(board, kind, f"width={width}, height={height}, format={format_!r}")
            assert got in frames, f"{width} x {height} {format_}"
    upright = [sent(p[::-1, ::-1], 96, 96, "grey") for p in seen]
    assert take(board, kind, "width=96, height=96, mirror=True, flip=True, sm=5") in upright
    darker = [sent(np.minimum(p.astype(int) * 200 // 480, 255), 96, 96, "grey") for p in seen]
    assert take(board, kind, "width=96, height=96, exposure=200") in darker
    assert board.exec("print(left())") == before and before.startswith(b"(0, 0, ")


def test_one_after_the_other(camera: tuple[EmulatedBoard, str], seen: np.ndarray) -> None:
    """frame() gives the next picture each time, also where begin() had it taken before; an old one is taken again."""
    board, kind = camera
    code = f"""
import binascii
x = cam = None
with mica.camera.{kind}(i2c, width=96, height=96, late=300) as cam:
    for wait in (0, 0, 0, 100, 0, 400):
        if wait:
            cam.begin()
            sleep_ms(wait)
        begun = ticks_ms()
        x = cam.frame()
        print(binascii.crc32(x[0]), ticks_diff(ticks_ms(), begun), x[1:])
    used = gc.mem_alloc()
    for _ in range(3):
        cam.frame()
        cam.begin()
    print(gc.mem_alloc() - used)
try:
    cam.frame()
except ValueError as e:
    print(e)
"""
    *lines, allocated, closed = board.exec(code, timeout=60).decode().splitlines()
    frames = [np.frombuffer(sent(p, 96, 96, "grey"), np.uint8) for p in seen]

    sums = [zlib.crc32(f.tobytes()) for f in frames]
    got = [sums.index(int(line.split()[0])) for line in lines]
    steps = [(b - a) % len(seen) for a, b in itertools.pairwise(got)]
    took = [int(line.split()[1]) for line in lines]
    assert steps == [1, 1, 1, 1, 2] and took[3] < 5 < took[5], (steps, took)
    assert lines[0].endswith("(96, 96, 'grey')")
    assert int(allocated) == 0 and "it is closed" in closed


def test_given_back(camera: tuple[EmulatedBoard, str]) -> None:
    """After an exception in the block, after one while it is set up, and where a channel of DMA is missing."""
    board, kind = camera
    code = f"""
before = left()
try:
    with mica.camera.{kind}(i2c, width=96, height=96) as cam:
        cam.begin()
        1 / 0
except ZeroDivisionError:
    print(left() == before)
for words in ("i2c, data=3", "I2C(0, sda=Pin(20), scl=Pin(21))", "i2c, xclk=13"):
    try:
        with eval("mica.camera.{kind}(" + words + ", late=100)") as cam:
            cam.frame()
    except OSError as e:
        print(e, left() == before)
channels = []
try:
    while True:
        channels.append(rp2.DMA())
except OSError:
    pass
try:
    with mica.camera.{kind}(i2c) as cam:
        pass
except OSError as e:
    print(e)
for dma in channels:
    dma.close()
print(left() == before)
for words in ("width=100", "format='jpeg'", "data=20", "sm=3", "clk=5"):
    try:
        eval("mica.camera.{kind}(i2c, " + words + ")")
    except ValueError as e:
        print(e)
"""
    lines = board.exec(code, timeout=60).decode().splitlines()
    assert lines[0] == "True"
    assert lines[1] == "camera: no frame came in time; are VSYNC, HREF, PCLK and XCLK connected? True"
    assert all((line.endswith(" True") and "ENODEV" in line) or "EIO" in line for line in lines[2:4]), lines
    assert lines[5] == "True", lines
    assert sum("are expected" in line for line in lines[6:]) == 5


def cuts() -> list[tuple[int, int]]:
    """200 places of a frame of 96 rows of 192 bytes, spread over all of it; a short run has some of each kind."""
    rng, n = np.random.default_rng(3), 200 if ALL else 12
    places = [(int(k) % 4 + 1, int(rng.integers(1, 96 * 192))) for k in range(n)]
    return [*places[:-2], (SHORT_ROW, 96 * 192 - 1), (SHORT_FRAME, 1)]


@pytest.mark.parametrize("target", [PICO, PICO2])
def test_cut_frames(target: str, seen: np.ndarray) -> None:
    """A row or frame too short, a row too long, a clock that stops: an exception, and the next frame is right."""
    kind = "ov7670" if target == PICO else "ov2640"
    with opened(target, wired(kind, seen, cuts())) as board:
        code = f"""
import binascii
with mica.camera.{kind.upper()}(i2c, width=96, height=96, late=180) as cam:
    for _ in range({len(cuts())}):
        try:
            print(cam.frame())
        except OSError as e:
            print(e)
        print(binascii.crc32(cam.frame()[0]))
"""
        lines = board.exec(code, timeout=600).decode().splitlines()

    for k, (what, place) in enumerate(cuts()):
        error, crc = lines[2 * k], int(lines[2 * k + 1])
        expected = "no frame came in time" if what == NO_CLOCK else "a torn frame"
        assert expected in error, f"cut {what} at {place}: {error}"
        assert crc == zlib.crc32(sent(seen[(2 * k + 1) % len(seen)], 96, 96, "grey")), f"after cut {what} at {place}"


def test_recorded(tmp_path: Path, seen: np.ndarray) -> None:
    """`mica record --camera` writes what `mica emu --camera` was given."""
    folder = tmp_path / "seen"
    folder.mkdir()
    for k, picture in enumerate(seen[:3]):
        (folder / f"{k}.png").write_bytes(pictures.png(picture))
    with open_board(
        PICO, rom_files={"there.txt": b"is"}, sensors=Sensors({"camera": sensor_files.camera(str(folder))})
    ) as board:
        for words, colours in (("ov7670,width=96,height=96", 1), ("ov7670,rgb565be", 3)):
            camera = recorder.camera(words)
            ((path, x),) = recorder.record(board, camera, tmp_path / "out", 1, 1, 1)
            assert x.shape == ((96, 96, 1) if colours == 1 else (120, 160, 3)) and path.suffix == ".png"
            read = pictures.decoded(path)[..., :colours]
            np.testing.assert_array_equal(read, x)
            height, width, _ = camera.picture or (0, 0, 0)
            frames = [sent(p, width, height, "grey" if colours == 1 else "rgb565be") for p in seen[:3]]
            if colours == 1:
                assert x.tobytes() in frames
            else:
                w = x.astype(int)
                assert ((w[..., 0] >> 3) << 11 | (w[..., 1] >> 2) << 5 | w[..., 2] >> 3).astype(
                    ">u2"
                ).tobytes() in frames
        with pytest.raises(MicaError, match="connected, at these pins"):
            next(recorder.record(board, recorder.camera("ov2640"), tmp_path / "out", 1, 1, 1))


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], seen: np.ndarray) -> None:
    good = tmp_path / "good.png"
    good.write_bytes(pictures.png(seen[0]))
    (tmp_path / "empty").mkdir()
    for words, said in (
        (f"{good},kind=5", "kind=5; expected 7670 or 2640"),
        (f"{good},data=10", "one pin for two wires"),
        (f"{good},data=20", "D10=30: a Pico has pins 0 to 29"),
        (f"{good},sda=15,scl=14", "are no two pins of one I2C"),
        (str(tmp_path / "empty"), "has no pictures"),
        (str(tmp_path / "none.png"), "none.png"),
    ):
        assert main(["emu", "RPI_PICO@emu", "--camera", words]) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
    for words in ("ov5640", "ov7670,jpeg", "ov7670,size=3", "ov7670,width=a"):
        with pytest.raises(MicaError, match="--camera"):
            recorder.camera(words)
    assert recorder.camera("ov7670,exposure=9").arguments(1, 1)[4]["exposure"] == 9  # type: ignore[index]


VWW = MODELS / "vww"
PERSON = """
from binascii import crc32
from time import ticks_us
m = mica.Model("vww.mica")
m.see(bytes(2), 1, 1, "rgb565be")
gc.collect()
used = -gc.mem_alloc()
with mica.camera.{kind}(i2c, width=96, height=96, format="rgb565be") as cam:
    m.see(cam)
    gc.collect()
    used += gc.mem_alloc()
    begun = ticks_us()
    for _ in range({n}):
        label, score = m.see(cam)
        print(label, score, crc32(m.output(0)))
    took = ticks_diff(ticks_us(), begun) / 1e6
print({n} / took, used)
"""


@pytest.mark.skipif(not VWW.is_dir(), reason="the folder ../shared/models is missing")
@pytest.mark.parametrize("target", [PICO, PICO2])
def test_persons(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Pictures through the pins to the person detector: label and bytes of this computer, 5 a second,
    1.2 frames of RAM."""
    kind, n = "ov7670" if target == PICO else "ov2640", 100 if ALL else 3
    compiled = compile_file(VWW / "model.onnx", load_calibration(VWW / "calib.npz", ["input"]), plain=True)
    file = compiled.model
    file.metadata["picture"] = write("rgb", (1 / 255,), (0.0,), file.tensors[file.inputs[0]])
    labels = (VWW / "labels.txt").read_text().split()
    file.metadata["labels"] = "\n".join(labels)
    desired = read(file)
    assert desired is not None
    with np.load(VWW / "eval.npz") as data:
        small = data["x"][: n + 1]
    pictures_ = np.zeros((n + 1, 120, 160, 3), np.uint8)
    pictures_[:, 12:108, 32:128] = small
    model, frame = engine.load(encode(file)), desired.frame(96, 96, "rgb565be")
    with open_board(target, rom_files={"vww.mica": encode(file)}, sensors=wired(kind, pictures_)) as board:
        board.exec(BEGIN)
        code = PERSON.format(kind=kind.upper(), n=n)
        *lines, last = board.exec(code, timeout=1200).decode().splitlines()
    for picture, line in zip(pictures_[1:], lines, strict=True):
        model.set_input(0, engine.see(frame, sent(picture, 96, 96, "rgb565be"), desired.table).reshape(1, 96, 96, 3))
        model.run()
        out = model.output(0).reshape(-1)
        label, _, crc = line.split()
        assert label == labels[int(out.argmax())] and int(crc) == zlib.crc32(out.tobytes())
    rate, used = (float(word) for word in last.split())
    with capsys.disabled():
        print(f"\n{target}: {rate:.2f} pictures a second, {used:.0f} bytes beside the model")
    assert rate >= 5 and used <= 1.2 * 2 * 96 * 96
