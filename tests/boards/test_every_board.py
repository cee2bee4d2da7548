"""Every emulated board does as a real one would: it starts, runs a model in place, and answers mpremote's commands."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from targets import ALSO_ON_NEWEST, EVERY, ONLY_BYTES, OWN_FILES, PICO2, QEMU, needs_windows

import mica
from mica.boards import load_board
from mica.cli.verify import inputs_for, report, verify
from mica.compile import compile_file
from mica.images import romfs
from mica.link.answers import require_mica
from mica.link.board import BoardError
from mica.link.emulated import EmulatedBoard
from mica.link.qemu import Emulator
from mica.link.serial_board import SerialBoard
from mica.run.board import BoardRunner
from mica.run.host import HostRunner
from mica.toolchain.build import BuildResult
from mica.toolchain.micropython import NEWEST

DEMO = Path(mica.__file__).parent / "demo"
Firmware = Callable[[str], BuildResult]


@pytest.fixture(scope="session")
def digits_bytes() -> bytes:
    """The demo's model. Equal bytes need no calibration that makes sense."""
    return compile_file(DEMO / "digits.onnx").data


@pytest.mark.matrix("boots", "equal bytes")
@pytest.mark.parametrize("target", dict.fromkeys([*EVERY, PICO2, *ONLY_BYTES]))
def test_digits_layer_by_layer(digits_bytes: bytes, target: str) -> None:
    check_digits(digits_bytes, target)


@pytest.mark.parametrize("target", ALSO_ON_NEWEST)
def test_digits_on_newest(digits_bytes: bytes, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request in the environment, and every command builds and uses that MicroPython."""
    monkeypatch.setenv("MICA_MICROPYTHON", NEWEST)
    said = check_digits(
        digits_bytes,
        target,
        "import sys, time\nprint(sys.version, time.localtime()[:5] == time.localtime(time.time())[:5])",
    )
    assert said.endswith("True\n") and f"MicroPython v{NEWEST} " in said


def check_digits(digits_bytes: bytes, target: str, code: str = "") -> str:
    """Compare every layer's bytes with the host's. Return the text that the board prints last for `code`."""
    with HostRunner(digits_bytes) as host, BoardRunner(digits_bytes, target) as board:
        assert require_mica(board.board) == mica.__version__
        samples = inputs_for(host, str(DEMO / "digits_test.npz"), 3)
        result = verify(host, board, samples)
        assert result["equal"], report(result)
        assert result["layers"] == 9
        for a, b in zip(host.run(samples), board.run(samples), strict=True):
            assert a[0].tobytes() == b[0].tobytes()
        return board.board.exec(code).decode()


@pytest.mark.parametrize("target", QEMU)
def test_weights_are_used_in_place(digits_bytes: bytes, target: str) -> None:
    """The file lies in the ROMFS window at a multiple of 16, the model's RAM has no room for it, and a weight that is
    changed in the window changes the answer."""
    romfs_window = load_board(target).romfs
    assert romfs_window
    with BoardRunner(digits_bytes, target) as runner:
        assert not runner.copied
        code = """
import uctypes
from mica import remote
file = memoryview(open("/rom/model.mica", "rb"))
print(uctypes.addressof(file), len(file), remote.model.ram, remote.model.copied)
"""
        address, length, ram, copied = runner.board.exec(code).decode().split()
        start = romfs_window.base
        assert start <= int(address) < int(address) + int(length) <= start + romfs_window.size
        assert int(address) % 16 == 0
        assert int(length) == len(digits_bytes)
        assert int(ram) < len(digits_bytes)
        assert copied == "False"
        # Some kernels' weights lie in another order in the file than in the list of blobs; these do not.
        depthwise = next(step for step in runner.model.steps if step.kernel == "depthwise_conv2d_s8")
        weights = depthwise.blobs["weights"].tobytes()
        at = digits_bytes.find(weights)
        assert at > 0
        code = f"""
import mica
m = remote.model
x = bytes(64)
def answer():
    m._m.write(0, mica.Quantised(x))
    m.run()
    return bytes(m.output(0))
before = answer()
whole = uctypes.bytearray_at(uctypes.addressof(file), len(file))
for i in range({at}, {at + len(weights)}):
    whole[i] ^= 0x55
print(before == answer())
"""
        assert runner.board.exec(code) == b"False\n"


@pytest.mark.parametrize("target", OWN_FILES)
def test_clock_select_and_ctrl_c(firmware: Firmware, target: str) -> None:
    """Boards with files of their own have the clock, select and Ctrl-C, which their ports leave out."""
    with EmulatedBoard(load_board(target), firmware(target).image) as board:
        code = """
import select, sys, time
start = time.time_ns(), time.ticks_us()
time.sleep_ms(30)
us = time.ticks_diff(time.ticks_us(), start[1])
ns = time.time_ns() - start[0]
poll = select.poll()
poll.register(sys.stdin, select.POLLIN)
print(us, ns // 1000, poll.poll(10))
"""
        begun = time.monotonic()
        us, us_by_the_clock, ready = board.exec(code).decode().split(" ", 2)
        assert 30_000 <= int(us) <= int(us_by_the_clock) + 1000 < 1e6 * (time.monotonic() - begun) + 50_000
        assert ready == "[]\n"
        with pytest.raises(BoardError, match=r"was silent for 0\.5 s; its program was interrupted"):
            board.exec("while True: pass", timeout=0.5)
        assert board.exec("print(1 + 1)") == b"2\n"


@needs_windows
def test_a_crash_is_told(firmware: Firmware) -> None:
    """On Xtensa a load from an odd address stops the board with a word, where the port would loop without one."""
    received = bytearray()
    code = """
import uctypes
block = bytearray(8)
print(uctypes.struct(uctypes.addressof(block) + 1, {"x": uctypes.UINT32 | 0}, uctypes.NATIVE).x)
"""
    with (
        EmulatedBoard(load_board("XTENSA_WIN"), firmware("XTENSA_WIN").image) as board,
        pytest.raises(BoardError, match="XTENSA_WIN: the emulator has ended"),
    ):
        board.exec_follow(code, received.extend, timeout=5)
    assert b"exception 9 at " in received


class Mpremote:
    """mpremote at the port of a board. Each call is a new process, which soft-resets the board unless it resumes."""

    def __init__(self, port: str) -> None:
        self.port = port

    def __call__(self, *arguments: str | Path) -> str:
        command = [sys.executable, "-m", "mpremote", "connect", self.port, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.mark.parametrize("target", QEMU)
def test_mpremote(firmware: Firmware, digits_bytes: bytes, tmp_path: Path, target: str) -> None:
    """ls, cp, run, mount, romfs and soft-reset, on files of every byte there is."""
    every_byte = bytes(range(256)) * 3
    (tmp_path / "hello.bin").write_bytes(every_byte)
    (tmp_path / "script.py").write_text("import sys\nprint('runs on', sys.platform)\n")
    (tmp_path / "mounted.py").write_text("print('imported from the host')\n")
    image = tmp_path / "image.romfs"
    image.write_bytes(romfs.build({"digits.mica": digits_bytes, "here.py": b"answer = 42\n"}))
    with Emulator(load_board(target), firmware(target).image) as running:
        running.keep_connected()  # QEMU takes a second to notice each new connection otherwise
        mpremote = Mpremote(running.port)

        mpremote("cp", tmp_path / "hello.bin", ":hello.bin")
        # A new process has soft-reset the board, and the file is still there.
        listing = mpremote("ls", "+", "cp", ":hello.bin", tmp_path / "back.bin", "+", "run", tmp_path / "script.py")
        assert "768 hello.bin" in listing
        assert (tmp_path / "back.bin").read_bytes() == every_byte
        assert "runs on qemu" in listing

        assert "imported from the host" in mpremote("mount", tmp_path, "exec", "import mounted")

        mpremote("romfs", "deploy", image)
        code = "import here, mica; print(here.answer, mica.Model('/rom/digits.mica').copied)"
        assert mpremote("exec", code) == "42 False\n"  # our image keeps its alignment on its way through mpremote
        assert "ROMFS" in mpremote("romfs", "query")

        mpremote("exec", "left = 1")
        assert mpremote("resume", "exec", "print('left' in globals())") == "True\n"
        mpremote("soft-reset")
        assert mpremote("resume", "exec", "print('left' in globals())") == "False\n"


@pytest.mark.parametrize("target", OWN_FILES)
def test_a_model_over_the_wire(firmware: Firmware, digits_bytes: bytes, target: str) -> None:
    """A model works on a board at a real port, whose memory cannot be reached from outside."""
    with Emulator(load_board(target), firmware(target).image) as running:
        with SerialBoard(running.port) as board:
            assert not board.rom_files
        with BoardRunner(digits_bytes, running.port) as runner, HostRunner(digits_bytes) as host:
            samples = inputs_for(host, None, 1)
            assert verify(host, runner, samples)["equal"]
