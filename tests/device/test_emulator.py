"""The emulated Cortex-M3 board as a board: mpremote, files, time, Ctrl-C, and an emulator that never stays behind."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mica.boards import load_board
from mica.errors import MicaError
from mica.link.board import BoardError, Link
from mica.link.emulated import EmulatedBoard
from mica.link.qemu import Emulator
from mica.link.serial_board import SerialBoard
from mica.link.targets import open_board
from mica.toolchain.build import BuildResult

NAME = "MPS2_AN385"
Firmware = Callable[[str], BuildResult]


@pytest.fixture
def emulator(firmware: Firmware) -> Iterator[Emulator]:
    with Emulator(load_board(NAME), firmware(NAME).image) as running:
        yield running


def test_two_on_one_port(emulator: Emulator) -> None:
    with SerialBoard(emulator.port) as board:
        assert board.exec("print(1)") == b"1\n"
        code = f"from mica.link.serial_board import SerialBoard\nSerialBoard({emulator.port!r})"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "is held by" in result.stderr


def test_a_program_is_interrupted_by_a_new_connection(emulator: Emulator) -> None:
    code = (
        "import os\nfrom mica.link import serial_board as s\n"
        f"b = s.SerialBoard({emulator.port!r})\n"
        "b.exec_follow('while True: print(1)', lambda data: os.kill(os.getpid(), 9))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    with SerialBoard(emulator.port) as board:
        assert board.exec("print('mine')") == b"mine\n"


def test_a_transfer_left_by_another_program_is_overcome(emulator: Emulator) -> None:
    code = (
        "import os, sys\nfrom mica.link import serial_board as s\n"
        f"b = s.SerialBoard({emulator.port!r})\n"
        "b.put(bytes(5000), 'x', lambda done, total: os.kill(os.getpid(), 9) if done > 1000 else None)"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False)
    assert result.returncode == -9
    with SerialBoard(emulator.port) as board:
        assert board.exec("print('mine')") == b"mine\n"


def test_socket_port(firmware: Firmware) -> None:
    with Emulator(load_board(NAME), firmware(NAME).image, tcp=0) as running:
        assert running.port.startswith("socket://127.0.0.1:")
        with open_board(running.port) as board:
            board.put(bytes(range(256)), "b")
            assert board.get("b") == bytes(range(256))


def test_time_is_right_also_in_long_c_calls(qemu_board: Link) -> None:
    code = """
import binascii, time
b = bytes(1 << 20)
def work(seconds):
    n = 0
    start = time.time_ns()
    while time.time_ns() - start < seconds * 1_000_000_000:
        binascii.crc32(b)
        n += 1
    return n
def now():  # ms before and after us: between two readings other programs may run
    return time.ticks_ms(), time.ticks_us(), time.ticks_ms()
a = now()
work(2)
b = now()
ms = [time.ticks_diff(b[k], a[2 - k]) for k in (0, 2)]
print(*ms, time.ticks_diff(b[1], a[1]))
"""
    begun = time.monotonic()
    least, most, us = map(int, qemu_board.exec(code).split())
    real = time.monotonic() - begun
    assert 1999 <= least <= 1000 * real + 50
    assert least - 1 <= us / 1000 <= most + 1


def test_sleep(qemu_board: Link) -> None:
    code = """
import time
def slept(ms):
    t = time.ticks_us()
    time.sleep_ms(ms)
    return time.ticks_diff(time.ticks_us(), t)
"""
    qemu_board.exec(code)
    for ms in (1, 30, 1500):
        begun = time.monotonic()
        us = int(qemu_board.exec(f"print(slept({ms}))"))
        assert 1000 * ms <= us <= 1e6 * (time.monotonic() - begun) + 50_000
    # No wait is much longer than it was to be, unless other programs run meanwhile: not each of five times.
    assert min(map(int, qemu_board.exec("for _ in range(5): print(slept(30))").split())) < 530_000


def test_instructions_are_counted_the_same_each_time(firmware: Firmware) -> None:
    code = """
import binascii, time
b = bytes(20000)
def f():
    t = time.ticks_cpu()
    binascii.crc32(b)
    return time.ticks_diff(time.ticks_cpu(), t)
f()
print([f() for i in range(5)])
"""
    counts: list[int] = []
    for _ in range(2):
        with open_board(NAME, icount=True) as board:
            counts += eval(board.exec(code))
    # Ticks of 40 instructions: what lies around the call shifts where they begin.
    assert max(counts) - min(counts) <= 4
    assert counts[0] * 40 > 20000


def test_idle_board_leaves_the_processor_alone(emulator: Emulator) -> None:
    def cpu_seconds() -> float:
        fields = Path(f"/proc/{emulator.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    time.sleep(1)
    before = cpu_seconds()
    time.sleep(2)
    assert cpu_seconds() - before < 1


def test_romfs_from_a_file(firmware: Firmware, tmp_path: Path) -> None:
    (tmp_path / "rom").mkdir()
    (tmp_path / "rom" / "data.bin").write_bytes(b"in place")
    image = tmp_path / "image.romfs"
    command = [sys.executable, "-m", "mpremote", "romfs", "--no-mpy", "-o", str(image), "build", str(tmp_path / "rom")]
    subprocess.run(command, check=True, capture_output=True)
    facts = load_board(NAME)
    assert facts.romfs
    with (
        Emulator(facts, firmware(NAME).image, tcp=0, rom=image.read_bytes()) as running,
        SerialBoard(running.port) as board,
    ):
        code = "import uctypes\nm = memoryview(open('/rom/data.bin', 'rb'))\nprint(bytes(m), uctypes.addressof(m))"
        text, address = board.exec(code).decode().rsplit(" ", 1)
        assert text == "b'in place'"
        assert facts.romfs.base < int(address) < facts.romfs.base + 1000


def gone(pid: int, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("end", ["sys.exit(0)", "1 / 0", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_no_emulator_stays_behind(firmware: Firmware, end: str) -> None:
    code = (
        "import os, sys\nfrom mica.link.qemu import Emulator\nfrom mica.boards import load_board\n"
        "from pathlib import Path\n"
        f"e = Emulator(load_board({NAME!r}), Path({str(firmware(NAME).image)!r}))\nprint(e.pid, flush=True)\n{end}"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert gone(int(result.stdout)), "QEMU still runs"


def test_the_emulator_dies(firmware: Firmware) -> None:
    with EmulatedBoard(load_board(NAME), firmware(NAME).image) as board:
        with pytest.raises(BoardError):
            board.exec("import machine\nmachine.reset()", timeout=3)  # ends QEMU
        with pytest.raises(BoardError, match="the emulator has ended"):
            board.exec("print(1)")


def test_no_such_image(tmp_path: Path) -> None:
    with pytest.raises(MicaError, match=r"none\.elf is not there"):
        Emulator(load_board(NAME), tmp_path / "none.elf").close()


def test_qemu_that_does_not_start(firmware: Firmware) -> None:
    facts = load_board(NAME)
    assert facts.emulator
    odd = dataclasses.replace(facts, emulator=dataclasses.replace(facts.emulator, machine="mps2-an0"))
    with pytest.raises(MicaError, match=r"QEMU did not start MPS2_AN385; it said: .*unsupported machine type"):
        Emulator(odd, firmware(NAME).image).close()
