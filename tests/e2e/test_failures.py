"""The failure table: mistakes of a new user, mica's messages, and the exit codes. One line each, never a traceback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import text_nets
from helpers import DEMO, mica

from mica.boards import load_board
from mica.cli.main import main
from mica.file.codec import with_crc
from mica.link.board import BoardError
from mica.link.qemu import Emulator
from mica.link.serial_board import SerialBoard
from mica.link.targets import open_board
from mica.toolchain.build import build

CALIB = DEMO / "digits_calib.npz"
TEST = DEMO / "digits_test.npz"
Args = Callable[[Path, Path], list[object]]  # (scratch folder, packed digits) -> arguments


def conv_net(path: Path, dims: tuple[object, ...] = ("N", 1, 8, 8), op: str = "Relu") -> Path:
    """Conv + one more operator."""
    w = np.random.default_rng(0).standard_normal((4, 1, 3, 3)).astype(np.float32)
    text = (
        f"(float[{','.join(map(str, dims))}] x) => (float[a,b,c,d] y) {{ [conv1] c = Conv(x, w) [second] y = {op}(c) }}"
    )
    return text_nets.save(path, text, w=w)


def file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def newer(packed: Path) -> bytes:
    data = bytearray(packed.read_bytes())
    data[4] = 2  # version_major
    return with_crc(bytes(data))


def flipped(packed: Path) -> bytes:
    data = bytearray(packed.read_bytes())
    data[len(data) // 2] ^= 1
    return bytes(data)


def copy(path: Path, to: Path) -> Path:
    return Path(shutil.copy(path, to))


def with_sources(folder: Path) -> Path:
    """Make a folder with the runtime's sources, as firmware/ is. An installed package has compiled ones instead."""
    (folder / "mica").mkdir()
    (folder / "mica" / "model.py").write_text("precious = 1\n")
    return folder


def with_data(path: Path) -> Path:
    """A model whose weights are in a file beside it."""
    model = onnx.load(conv_net(path))
    name = path.with_suffix(".data").name
    onnx.save(model, str(path), save_as_external_data=True, location=name, size_threshold=0)
    return path


DIGITS = DEMO / "digits.onnx"
LABELS = DEMO / "labels.txt"
READ = ("which would be overwritten",)
ONES = np.ones((4, 1, 8, 8), np.float32)

# name, arguments, exit code, what the line must hold
TABLE: list[tuple[str, Args, int, tuple[str, ...]]] = [
    ("model missing", lambda t, d: ["pack", t / "no.onnx"], 1, ("no.onnx", "no such file")),
    ("model is a folder", lambda t, d: ["pack", t], 1, ("folder",)),
    ("not ONNX", lambda t, d: ["pack", file(t / "a.onnx", b"hello world" * 9)], 1, ("a.onnx", "not an ONNX file")),
    ("empty file", lambda t, d: ["pack", file(t / "a.onnx", b"")], 1, ("a.onnx", "not an ONNX file")),
    (
        "dynamic dimension",
        lambda t, d: ["pack", conv_net(t / "a.onnx", dims=("N", 1, "height", 8))],
        2,
        ("'x'", "--shape height=N"),
    ),
    (
        "--shape of no dimension",
        lambda t, d: ["pack", conv_net(t / "a.onnx"), "--shape", "width=8"],
        1,
        ("width", "no such dimension"),
    ),
    ("--golden below 0", lambda t, d: ["pack", conv_net(t / "a.onnx"), "--golden", "-1"], 1, ("--golden",)),
    (
        "--window without a number",
        lambda t, d: ["pack", conv_net(t / "a.onnx"), "--window", "x=\u00b2"],
        1,
        ("INPUT=N",),
    ),
    ("nothing to verify", lambda t, d: ["verify", d, "--samples", "0"], 1, ("--samples", "at least 1")),
    ("no such TCP port", lambda t, d: ["emu", "MPS2_AN385", "--socket", "65536"], 1, ("65536", "0 to 65535")),
    ("--shape without a number", lambda t, d: ["pack", conv_net(t / "a.onnx"), "--shape", "N=x"], 1, ("NAME=N",)),
    (
        "unsupported operator",
        lambda t, d: ["pack", conv_net(t / "a.onnx", op="Det")],
        2,
        ("second", "Det", "not supported"),
    ),
    (
        "calibration of the wrong shape",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", npz(t / "c.npz", x=np.ones((4, 3, 8, 8)))],
        1,
        ("image", "[4, 3, 8, 8]", "[n, 1, 8, 8]"),
    ),
    (
        "calibration with NaN",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", npz(t / "c.npz", x=ONES * np.nan)],
        1,
        ("sample 0", "NaN"),
    ),
    (
        "empty calibration",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", npz(t / "c.npz", x=ONES[:0])],
        1,
        ("no samples",),
    ),
    ("calibration missing", lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", t / "c.npz"], 1, ("no such file",)),
    (
        "calibration is no .npz",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", file(t / "c.npz", b"not an archive")],
        1,
        ("c.npz", "no plain arrays of numbers"),
    ),
    (
        "output folder missing",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", CALIB, "-o", t / "no" / "m.mica"],
        1,
        ("cannot be written",),
    ),
    (
        "labels missing",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", CALIB, "--labels", t / "l.txt"],
        1,
        ("l.txt", "no such file"),
    ),
    (
        "board that does not exist, pack",
        lambda t, d: ["pack", DEMO / "digits.onnx", "--calib", CALIB, "--board", "NOPE", "-o", t / "m.mica"],
        1,
        ("NOPE", "RPI_PICO"),
    ),
    ("board that does not exist, build", lambda t, d: ["build", "--board", "NOPE"], 1, ("NOPE", "RPI_PICO")),
    ("target that does not exist", lambda t, d: ["run", d, TEST, "--on", "NOPE"], 1, ("NOPE", "MPS2_AN385")),
    ("real board without a port", lambda t, d: ["run", d, TEST, "--on", "RPI_PICO"], 1, ("RPI_PICO", "port")),
    ("port that is not there", lambda t, d: ["run", d, TEST, "--on", "/dev/ttyNOPE7"], 1, ("/dev/ttyNOPE7",)),
    (
        "socket that nobody serves",
        lambda t, d: ["run", d, TEST, "--on", f"socket://127.0.0.1:{free_port()}"],
        1,
        ("socket",),
    ),
    ("model file missing", lambda t, d: ["run", t / "m.mica", TEST], 1, ("m.mica", "no such file")),
    ("an ONNX file run", lambda t, d: ["run", DEMO / "digits.onnx", TEST], 1, ("not a .mica file", "mica pack")),
    ("cut short", lambda t, d: ["run", file(t / "m.mica", d.read_bytes()[:-7]), TEST], 1, ("m.mica",)),
    ("cut inside the header", lambda t, d: ["info", file(t / "m.mica", d.read_bytes()[:30])], 1, ("m.mica",)),
    ("one bit flipped", lambda t, d: ["info", file(t / "m.mica", flipped(d))], 1, ("m.mica",)),
    ("newer format", lambda t, d: ["run", file(t / "m.mica", newer(d)), TEST], 1, ("version 2",)),
    ("input missing", lambda t, d: ["run", d, t / "x.npy"], 1, ("x.npy", "no such file")),
    ("input of the wrong shape", lambda t, d: ["run", d, npz(t / "x.npz", x=np.ones((2, 7)))], 1, ("[n, 1, 8, 8]",)),
    ("sample beyond the last", lambda t, d: ["run", d, TEST, "--sample", 360], 1, ("359",)),
    ("input with NaN", lambda t, d: ["run", d, npz(t / "x.npz", x=ONES * np.inf)], 1, ("NaN or infinity",)),
    ("data without labels", lambda t, d: ["eval", d, npz(t / "x.npz", x=ONES)], 1, ("'y'",)),
    ("data of two lengths", lambda t, d: ["eval", d, npz(t / "x.npz", x=ONES, y=[1, 2])], 1, ("4 samples", "2 labels")),
    ("empty data", lambda t, d: ["eval", d, npz(t / "x.npz", x=ONES[:0], y=[])], 1, ("no samples",)),
    (
        "data of another shape",
        lambda t, d: ["eval", d, npz(t / "x.npz", x=ONES[:, :, 1:], y=[1] * 4)],
        1,
        ("[4, 1, 7, 8]",),
    ),
    (
        "unknown metric",
        lambda t, d: ["eval", d, npz(t / "x.npz", x=ONES, y=[1] * 4, metric="f1")],
        1,
        ("f1", "top1"),
    ),
    ("output is the model", lambda t, d: ["pack", copy(DIGITS, t), "--plain", "-o", t / "digits.onnx"], 1, READ),
    (
        "output is the model by default",
        lambda t, d: ["pack", copy(DIGITS, t).rename(t / "digits.mica")],
        1,
        ("digits.mica", "is the model"),
    ),
    (
        "output is the calibration data",
        lambda t, d: ["pack", DIGITS, "--calib", copy(CALIB, t), "-o", t / CALIB.name],
        1,
        READ,
    ),
    (
        "output is a sample in a folder",
        lambda t, d: ["pack", DIGITS, "--calib", npz(t / "c.npz", x=ONES).parent, "-o", t / "c.npz"],
        1,
        READ,
    ),
    (
        "output is the labels",
        lambda t, d: ["pack", DIGITS, "--labels", copy(LABELS, t), "-o", t / LABELS.name],
        1,
        READ,
    ),
    ("output is the test data", lambda t, d: ["pack", DIGITS, "--eval", copy(TEST, t), "-o", t / TEST.name], 1, READ),
    (
        "output is the weights beside the model",
        lambda t, d: ["pack", with_data(t / "a.onnx"), "-o", t / "a.data"],
        1,
        ("a part of the model", "overwritten"),
    ),
    (
        "chart and model in one file",
        lambda t, d: ["pack", DIGITS, "-o", t / "a.svg", "--chart-file", t / "a.svg"],
        1,
        READ,
    ),
    (
        "chart over the model",
        lambda t, d: ["info", copy(d, t).rename(t / "a.svg"), "--chart-file", t / "a.svg"],
        1,
        READ,
    ),
    ("trace over the model", lambda t, d: ["bench", copy(d, t), "--trace", t / d.name], 1, READ),
    (
        "image over a model",
        lambda t, d: ["build", "--board", "MPS2_AN385", "--for", copy(d, t), "-o", t / d.name],
        1,
        READ,
    ),
    (
        "package over sources",
        lambda t, d: ["natmod", "--package", with_sources(t), "--arch", "x64"],
        1,
        ("mica/model.py would be lost", "name another folder"),
    ),
    (
        "module into a file",
        lambda t, d: ["natmod", "--arch", "x64", "-o", file(t / "a", b"") / "b"],
        1,
        ("cannot write there", "is a file"),
    ),
    (
        "package into a file",
        lambda t, d: ["natmod", "--package", file(t / "a", b"")],
        1,
        ("cannot write there", "is a file"),
    ),
    (
        "backup over what is flashed",
        lambda t, d: ["flash", "--board", "ESP32_GENERIC_C3", "--with", copy(d, t), "--backup", t],
        1,
        ("--backup", "is there already; give another folder"),
    ),
    ("output is a folder", lambda t, d: ["pack", DIGITS, "-o", t], 1, ("is a folder",)),
    (
        "labels, one too few",
        lambda t, d: ["pack", DIGITS, "--plain", "--labels", file(t / "l.txt", b"a\n" * 9), "-o", t / "m.mica"],
        1,
        ("l.txt: 9 names", "'probabilities' has 10"),
    ),
    (
        "labels in Latin-1",
        lambda t, d: ["pack", DIGITS, "--labels", file(t / "l.txt", b"caf\xe9\n")],
        1,
        ("l.txt", "UTF-8"),
    ),
    (
        "labels in UTF-16 without its mark",
        lambda t, d: ["pack", DIGITS, "--labels", file(t / "l.txt", "a\nb".encode("utf-16-le"))],
        1,
        ("l.txt", "UTF-8"),
    ),
    ("no labels", lambda t, d: ["pack", DIGITS, "--labels", file(t / "l.txt", b"\r\n")], 1, ("l.txt", "no names")),
    (
        "float model that is packed",
        lambda t, d: ["eval", d, TEST, "--float", d],
        1,
        ("packed already", ".onnx"),
    ),
    ("model of another name", lambda t, d: ["push", copy(d, t).rename(t / "digits.onnx")], 1, ("*.mica", "rename")),
    (
        "target with a slip",
        lambda t, d: ["run", d, TEST, "--on", "rpi_pcio@emu"],
        1,
        ("did you mean RPI_PICO@emu?",),
    ),
    ("half a board's name", lambda t, d: ["pack", DIGITS, "--board", "Pico"], 1, ("did you mean RPI_PICO?",)),
    (
        "board that is emulated only",
        lambda t, d: ["pack", DIGITS, "--board", "MPS2_AN385@emu"],
        1,
        ("did you mean MPS2_AN385?",),
    ),
    ("the same as a target", lambda t, d: ["run", d, TEST, "--on", "MPS2_AN385@emu"], 1, ("did you mean MPS2_AN385?",)),
    ("demo on the host", lambda t, d: ["demo", "--on", "host"], 1, ("board",)),
    ("demo on a port that is none", lambda t, d: ["demo", "--on", "/dev/nothing"], 1, ("no port /dev/nothing",)),
    ("no such command", lambda t, d: ["pak"], 1, ("'mica pak'", "did you mean pack?")),
    ("no such action", lambda t, d: ["fleet", "pusch"], 1, ("'mica fleet pusch'", "did you mean push?")),
    (
        "no such choice",
        lambda t, d: ["pack", DIGITS, "--picture", "grye"],
        1,
        ("--picture grye", "did you mean grey?"),
    ),
    ("no such option", lambda t, d: ["pack", "a.onnx", "--frob"], 1, ("--frob", "see mica pack -h")),
    (
        "an option that is spelled wrongly",
        lambda t, d: ["pack", DIGITS, "--clib=x.npz"],
        1,
        ("did you mean --calib?", "see mica pack -h"),
    ),
    (
        "no such option of an action",
        lambda t, d: ["fleet", "ls", "plant.toml", "--frob"],
        1,
        ("--frob", "see mica fleet ls -h"),
    ),
    ("one word too many", lambda t, d: ["info", d, "more"], 1, ("cannot use more", "see mica info -h")),
    ("a chip's name", lambda t, d: ["fit", d, "--board", "esp32-s3"], 1, ("did you mean SEEED_XIAO_ESP32S3?",)),
    ("a part of a board's name", lambda t, d: ["fit", d, "--board", "ESP32"], 1, ("did you mean ESP32_GENERIC?",)),
    ("argument left out", lambda t, d: ["eval", d], 1, ("DATA",)),
    ("info of nothing", lambda t, d: ["info"], 1, (".mica",)),
]


def free_port() -> int:
    """Return one that nobody else is given, and nobody listens at."""
    KEPT.append(socket.socket())
    KEPT[-1].bind(("127.0.0.1", 0))
    return int(KEPT[-1].getsockname()[1])


KEPT: list[socket.socket] = []


@pytest.mark.parametrize(("name", "args", "code", "words"), TABLE, ids=[row[0] for row in TABLE])
def test_failure(
    name: str,
    args: Args,
    code: int,
    words: tuple[str, ...],
    tmp_path: Path,
    digits: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # In this process: the table is long, and starting Python for each row would be most of its time.
    words_given = [str(a) for a in args(tmp_path, digits)]
    there = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    found = main(words_given)
    out, err = capsys.readouterr()
    said = [line for line in err.splitlines() if "warning" not in line]
    assert found == code, err
    assert len(said) == 1, err
    assert said[0].startswith("mica: error: ")
    for word in words:
        assert word in said[0]
    assert out == ""
    now = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert now == there, "a file was written, or half of one stays behind"


# The same for boards, which need one running.


@pytest.fixture
def emulated_port() -> Iterator[str]:
    """The port of an emulated board, as if it were plugged in."""
    with Emulator(load_board("MPS2_AN385"), build(load_board("MPS2_AN385")).image) as running:
        assert running.port
        yield running.port


def error_line(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    code = main([str(a) for a in args])
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert line.startswith("mica: error: ")
    assert out == ""
    return code, line


def test_port_that_another_program_holds(emulated_port: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold = "import sys, serial; s = serial.Serial(sys.argv[1], exclusive=True); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, emulated_port], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        code, line = error_line(capsys, "run", digits, TEST, "--on", emulated_port)
        holder.communicate()
    assert code == 1
    assert f"is held by python (process {holder.pid})" in line.replace("python3", "python")


def test_board_without_mica(emulated_port: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file in front of the frozen package stands for a firmware without mica."""
    with SerialBoard(emulated_port) as board:
        board.exec("""with open('mica.py', 'w') as f: f.write("raise ImportError(\\"no module named 'mica'\\")")""")
    code, line = error_line(capsys, "run", digits, TEST, "--on", emulated_port)
    assert code == 1
    assert "without mica" in line
    assert "mica build" in line


def test_arena_too_small(digits: Path) -> None:
    """At the REPL: an exception that says how much is needed, and the board lives on."""
    with open_board("MPS2_AN385") as board:
        board.put(digits.read_bytes(), "data")
        with pytest.raises(BoardError) as e:
            board.exec("import mica; mica.Model(data, arena=bytearray(1000))")
        assert "MemoryError" in str(e.value)
        assert "3072" in str(e.value)
        board.exec("m = mica.Model(data, arena=bytearray(4000)); m.run()")


def test_board_refuses_a_corrupt_file_and_lives_on(digits: Path) -> None:
    with open_board("MPS2_AN385") as board:
        board.put(flipped(digits), "bad")
        board.put(digits.read_bytes(), "good")
        with pytest.raises(BoardError) as e:
            board.exec("import mica; mica.Model(bad)")
        assert "ValueError" in str(e.value)
        assert board.exec("m = mica.Model(good); m.run(); print(len(m.output(0)))") == b"10\n"


def test_all_unsupported_operators_at_once(tmp_path: Path) -> None:
    text = "(float[1,4,4] x) => (int64[a,b] y) { [first] a = Det(x) [fine] b = Relu(a) [last] y = NonZero(b) }"
    r = mica("pack", text_nets.save(tmp_path / "a.onnx", text))
    assert r.code == 2
    assert "'first' (Det)" in r.err
    assert "'last' (NonZero)" in r.err
    assert "fine" not in r.err


def test_nothing_is_written_when_pack_fails(tmp_path: Path) -> None:
    out = tmp_path / "m.mica"
    out.write_bytes(b"precious")
    r = mica("pack", DEMO / "digits.onnx", "--calib", npz(tmp_path / "c.npz", x=ONES * np.nan), "-o", out)
    assert r.code == 1
    assert out.read_bytes() == b"precious"
