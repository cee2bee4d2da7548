"""The failure table of ports and boards: every line was tried, against a pretend device where a real one would be
needed.

| what is wrong | pretended by | tested |
| --- | --- | --- |
| no board plugged in | a listing without USB ports | here |
| a board in BOOTSEL mode instead of a port | a folder with INFO_UF2.TXT | here |
| two boards | a listing with two, as Linux, macOS and Windows name them | here |
| a port that is not there; Windows's words for it | its name; pyserial's error | here |
| a file, a device that is no port | themselves | here |
| no permission | a pseudo-terminal of another user, a child that is not root | here, test_ports.py |
| held: locked by flock, by TIOCEXCL, without any lock; Windows | other programs that have it open;
pyserial's error | here, test_ports.py |
| nothing answers | a pseudo-terminal whose other end only reads | here, test_ports.py |
| MicroPython without mica; half of it | a module that stands before the frozen one | here |
| an older or newer mica | the same | here |
| a model packed for a newer runtime | its version in the header, and an engine that tells another | here |
| firmware of another board | `--board` of another | here |
| kernels missing, plain kernels, no arena, no ROMFS, no models, little heap | answers of such firmware | here |
| out of memory | a heap that is full, and a model that is too big | here |
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import serial
import serial.tools.list_ports
from test_ports import dead_port, held_by  # noqa: F401 - a fixture

from mica.boards import load_board
from mica.cli.main import main
from mica.errors import MicaError
from mica.kernels import KERNELS
from mica.link import diagnosis, on_board, ports
from mica.link.answers import ask
from mica.link.board import BoardError, Link
from mica.link.diagnosis import BAD, OK, WARNING, examine, judge, parse
from mica.resources import data_dir


class Listed:
    """An entry of pyserial's listing."""

    def __init__(self, device: str, vid: int | None) -> None:
        self.device, self.vid = device, vid


def plug_in(monkeypatch: pytest.MonkeyPatch, *devices: str) -> None:
    """Ports by USB, beside one that is not."""
    listing = [Listed("/dev/ttyS0", None), *(Listed(d, 0x2E8A) for d in devices)]
    monkeypatch.setattr(serial.tools.list_ports, "comports", lambda: listing)
    monkeypatch.setenv("MICA_DRIVES", "")


def the_only(target: str = "auto") -> diagnosis.Finding:
    """The one thing that is found, and that it is bad, with something to do about it."""
    (found,) = examine(target)
    assert found.state == BAD and found.text and found.todo
    assert "\n" not in found.text + found.todo
    return found


def test_no_board(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch)
    found = the_only()
    assert found.text == "no board is plugged in by USB"
    assert "cable" in found.todo and ports.example_port() in found.todo
    assert [ports.example_port(s) for s in ("linux", "darwin", "win32")] == [
        "/dev/ttyACM0",
        "/dev/cu.usbmodem101",
        "COM5",
    ]


@pytest.mark.parametrize(("chip", "board"), [("RPI-RP2", "RPI_PICO"), ("RP2350", "RPI_PICO2")])
def test_bootsel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chip: str, board: str) -> None:
    plug_in(monkeypatch)
    (tmp_path / "INFO_UF2.TXT").write_text(f"UF2 Bootloader v3.0\nModel: Raspberry Pi RP2\nBoard-ID: {chip}\n")
    monkeypatch.setenv("MICA_DRIVES", str(tmp_path))
    found = the_only()
    assert "BOOTSEL" in found.text and str(tmp_path) in found.text
    assert f"mica flash --board {board}," in found.todo


@pytest.mark.parametrize(
    "names", [("/dev/ttyACM0", "/dev/ttyACM1"), ("/dev/cu.usbmodem1101", "/dev/cu.usbmodem1201"), ("COM5", "COM12")]
)
def test_two_boards(monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]) -> None:
    plug_in(monkeypatch, *names)
    found = the_only()
    assert found.text == f"several boards are plugged in: {', '.join(sorted(names))}"
    assert f"--on {sorted(names)[0]}" in found.todo


def test_no_such_port(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "/dev/ttyACM7")
    found = the_only("/dev/ttyNOPE3")
    assert found.text == "there is no port /dev/ttyNOPE3"
    assert found.todo == "plugged in are /dev/ttyACM7"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("PermissionError(13, 'Access is denied.', None, 5)", "port COM5 is held by another program; end"),
        (
            "FileNotFoundError(2, 'The system cannot find the file', None, 2)",
            "there is no port COM5; plugged in are COM7",
        ),
        ("OSError(22, 'The semaphore timeout period has expired.', None, 121)", "cannot open port COM5: "),
    ],
)
def test_windows(monkeypatch: pytest.MonkeyPatch, error: str, said: str) -> None:
    """On Windows, pyserial passes the system's message as a text without errno."""
    plug_in(monkeypatch, "COM7")

    def fail(*args: object, **kwargs: object) -> None:
        raise serial.SerialException(f"could not open port 'COM5': {error}")

    monkeypatch.setattr(serial, "serial_for_url", fail)
    monkeypatch.setattr(ports.os, "name", "nt")
    text = str(ports.explain_failure("COM5"))
    monkeypatch.undo()
    assert text.startswith(said)


def test_not_a_port(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    for name in (str(path), "/dev/null"):
        with pytest.raises(MicaError, match=f"{name} is not a serial port"):
            ports.check_port(name)


def test_permission_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import grp

    class Entry:
        gr_name = "dialout"

    monkeypatch.setattr(grp, "getgrgid", lambda gid: Entry)
    assert ports._permission_hint(tmp_path) == "type: sudo usermod -aG dialout $USER   and log in again"


EXCLUSIVE = """
import fcntl, sys, termios
f = open(sys.argv[1], 'r+b', 0)
fcntl.ioctl(f, termios.TIOCEXCL)
print('open', flush=True)
input()
"""


def test_held_by_tiocexcl(dead_port: str) -> None:  # noqa: F811
    process = held_by(EXCLUSIVE, dead_port)
    try:
        found = the_only(dead_port)
    finally:
        process.communicate()
    assert f"(process {process.pid})" in found.text and found.todo == "end that program first"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EAGAIN])
def test_held_by_what_we_may_not_see(
    monkeypatch: pytest.MonkeyPatch,
    dead_port: str,  # noqa: F811
    number: int,
) -> None:
    """Another user's program: /proc does not tell, the system refuses to open the port."""

    def refuse(*args: object, **kwargs: object) -> None:
        error = serial.SerialException("could not open")
        error.errno = number
        raise error

    monkeypatch.setattr(serial, "serial_for_url", refuse)
    text = str(ports.explain_failure(dead_port))
    assert text == f"port {dead_port} is held by another program; end that program first"


def test_nothing_answers(dead_port: str) -> None:  # noqa: F811
    found = the_only(dead_port)
    assert found.text.startswith(f"no MicroPython answers at {dead_port}")
    assert "reset" in found.todo


# --- answers of boards ------------------------------------------------------------------------------------------------


def looked_at(board: Link, expected: str | None = None) -> dict[str, diagnosis.Finding]:
    found = judge(parse(ask(board, on_board.call("probe"))), load_board(expected) if expected else None)
    return {f.what: f for f in found}


def test_a_healthy_board(qemu_board: Link) -> None:
    found = looked_at(qemu_board, "MPS2_AN385")
    assert {k: f.state for k, f in found.items() if f.state != OK} == {"models": WARNING}
    assert found["firmware"].text == "built for MPS2_AN385"
    assert found["arena"].text == f"{load_board('MPS2_AN385').arena:,} bytes"
    assert found["kernels"].text.endswith("for armv7m")
    assert "mica push" in found["models"].todo


def test_firmware_of_another_board(qemu_board: Link) -> None:
    found = looked_at(qemu_board, "RPI_PICO")["firmware"]
    assert found.state == BAD and "MPS2_AN385" in found.text and "mica flash --board RPI_PICO" in found.todo


@pytest.mark.parametrize(
    ("module", "state", "text"),
    [
        ("raise ImportError(\"no module named 'mica'\")", BAD, "half of mica"),
        ("__version__ = '0.0.9'", BAD, "mica 0.0.9 on the board is older than"),
        ("__version__ = '9.1.0'", BAD, "mica 9.1.0 on the board is newer than"),
    ],
)
def test_versions(qemu_board: Link, module: str, state: str, text: str) -> None:
    """A file that is found before the frozen package stands for such firmware; the boot has imported the package."""
    qemu_board.exec(f"with open('mica.py', 'w') as f: f.write({module!r})\nimport sys\nsys.path.insert(0, '')")
    qemu_board.exec("sys.modules.pop('mica', None)")
    try:
        found = looked_at(qemu_board)["mica"]
        assert found.state == state and text in found.text and found.todo
        with pytest.raises(MicaError) as error:
            diagnosis.check_board(qemu_board, b"MICA" + bytes([1, 0, 0, 0]))
        assert str(error.value).count("\n") == 0
        if "version" in module:
            assert text in str(error.value)
    finally:
        qemu_board.exec("import os\nos.remove('mica.py')")
        qemu_board.soft_reset()


def test_a_model_for_a_newer_runtime(qemu_board: Link) -> None:
    with pytest.raises(MicaError, match=r"reads models of format 1; this one has format 2\.3; flash a firmware"):
        diagnosis.check_board(qemu_board, b"MICA" + bytes([2, 0, 3, 0]))


def test_out_of_memory(qemu_board: Link) -> None:
    """The message names the bytes that are free on the board, and the largest piece of them."""
    qemu_board.exec("import gc\ngc.collect()\nfull = bytearray(gc.mem_free() - 60000)")
    text = str(diagnosis.out_of_memory(qemu_board, 100_000, 5_000))
    assert "is out of memory: the model takes 100,000 bytes" in text and "5,000 for a copy" in text
    free, largest = (int(n.replace(",", "")) for n in re.search(r"; ([0-9,]+) bytes .* has ([0-9,]+);", text).groups())
    assert 10_000 < largest <= free < 62_000


@pytest.mark.parametrize(
    ("size", "said", "todo"),
    [
        # free, largest piece, static arena, window in flash
        (5_000, "150000 40000 16384 983040", "reset the board: its heap is in pieces"),
        (160_000, "200000 190000 16384 983040", "put it into flash, where it is read without a copy: mica push"),
        (160_000, "200000 190000 16384 0", "; pack it for less RAM: mica pack --ram 35904"),
        (160_000, "60000 50000 16384 983040", "without a copy: mica push; pack it for less RAM: mica pack --ram 45904"),
        (1_000, "200000 190000 16384 983040", "without a copy: mica push"),
        (0, "60000 50000 16384 983040", "pack it for less RAM: mica pack --ram 45904"),  # it is there
    ],
)
def test_a_memory_error_is_explained(size: int, said: str, todo: str) -> None:
    """Only advice that helps is given. Nothing is said about a copy if the file is read in flash."""

    class Full:
        name = "RPI_PICO"

        def exec(self, code: str, *_: object, **__: object) -> bytes:
            return f"mica:memory {said}\n".encode()

    text = str(diagnosis.out_of_memory(Full(), 70_000, size))  # type: ignore[arg-type]
    assert text.startswith("RPI_PICO is out of memory: the model takes 70,000 bytes for tensors and scratch")
    assert ("copy of the file" in text) == (size > 0) and text.endswith(todo)


HEALTHY = {
    "heap": ["200000 1000"],
    "micropython": ["1.25.0"],
    "machine": ["Raspberry Pi Pico with RP2040"],
    "build": ["RPI_PICO"],
    "clock": ["125000000"],
    "engine": ["1.0 armv6m 16384 " + ",".join(k.name for k in KERNELS)],
    "mica": [diagnosis.mica.__version__],
    "romfs": ["1048576"],
    "model": [f"8464 {b'/rom/digits.mica'.hex()}"],
}


@pytest.mark.parametrize(
    ("change", "what", "state", "text", "todo"),
    [
        ({}, "clock", OK, "125 MHz", ""),
        ({}, "models", OK, "/rom/digits.mica (8,464 bytes)", ""),
        (
            {"engine": ["1.0 armv6m 16384 conv2d_s8"]},
            "kernels",
            WARNING,
            "are not in this firmware: depthwise",
            "mica build",
        ),
        (
            {"engine": [HEALTHY["engine"][0].replace("armv6m", "ref")]},
            "kernels",
            WARNING,
            "plain kernels",
            "mica build",
        ),
        ({"engine": [HEALTHY["engine"][0].replace("16384", "0")]}, "arena", WARNING, "from the heap", "--arena"),
        ({"engine": [HEALTHY["engine"][0].replace("1.0", "2.0")]}, "format", BAD, "files of format 2.0", "mica flash"),
        ({"engine": None, "mica": None, "nomica": ["no module named 'mica'"]}, "mica", BAD, "no mica in", "mica flash"),
        ({"mica": None, "nomica": ["x"]}, "mica", BAD, "half of mica", "mica flash --board RPI_PICO"),
        ({"romfs": None}, "romfs", WARNING, "copied into RAM", "mica build"),
        ({"model": None}, "models", WARNING, "none on the board", "mica push"),
        ({"heap": ["4000 190000"]}, "heap", WARNING, "4,000 bytes free", "main.py"),
    ],
)
def test_answers(change: dict[str, list[str] | None], what: str, state: str, text: str, todo: str) -> None:
    answers = {k: v for k, v in (HEALTHY | change).items() if v is not None}
    found = [f for f in judge(answers, None) if f.what == what and text in f.text]
    assert [f.state for f in found] == [state]
    assert todo in found[0].todo and bool(found[0].todo) == (state != OK)
    if not change:
        assert all(f.state == OK for f in judge(answers, load_board("RPI_PICO")))


def test_romfs_of_a_pico(pico_board: Link) -> None:
    """Its window is a block device, which has no len()."""
    found = judge(parse(ask(pico_board, on_board.call("probe"))), None)
    (romfs,) = (f for f in found if f.what == "romfs")
    assert (romfs.state, romfs.text) == (OK, "a window of 950,272 bytes")


def test_probe_on_stock_micropython() -> None:
    """A firmware without mica answers the probe, which asks only for things that every MicroPython has."""
    answers = {k: v for k, v in HEALTHY.items() if k in ("heap", "micropython", "machine")}
    found = {f.what: f for f in judge(answers, None)}
    assert found["mica"].state == BAD and "mica flash --board B" in found["mica"].todo
    assert set(found) == {"micropython", "mica", "heap"}


def test_a_native_module_beside_a_built_in_one(unix_board: Link) -> None:
    """It is never imported: doctor says so, and install.py, before it copies anything."""
    unix_board.exec(
        "import os, sys\nos.mkdir('beside')\nopen('beside/_mica.mpy', 'w').close()\nsys.path.append('beside')"
    )
    found = judge(parse(ask(unix_board, on_board.call("probe"))), None)
    (finding,) = [f for f in found if "is not used" in f.text]
    assert (
        finding.what == "mica" and finding.state == WARNING and finding.text.startswith("beside/_mica.mpy is not used")
    )
    assert finding.todo == "remove it: mpremote rm :beside/_mica.mpy"
    unix_board.put((data_dir("firmware") / "mica" / "install.py").read_bytes(), "install")
    unix_board.exec("with open('install.py', 'wb') as f:\n    f.write(install)")
    with pytest.raises(BoardError, match=r"RuntimeError: this firmware has mica \S+ built in, and imports that first"):
        unix_board.exec("import install\ninstall.install('nowhere', 'beside')")
    assert unix_board.exec("print(os.listdir('beside'), 'beside' in sys.path)") == b"['_mica.mpy'] True\n"


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plug_in(monkeypatch)
    assert main(["doctor"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith("BAD   port         no board is plugged in by USB") and err == ""
    assert out.splitlines()[1].strip().startswith("-> plug one in")
    assert main(["doctor", "--on", "host"]) == 1
    assert "--on host: no board" in capsys.readouterr().err


def test_modules_that_windows_lacks() -> None:
    """`pack`, `run`, `push`, `flash`, `fit` and `doctor` are imported, and `run` and `fit` do their work,
    without them."""
    script = Path(__file__).with_name("without_posix.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all imported" in done.stdout
