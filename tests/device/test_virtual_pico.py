"""The virtual Pico: the image for the real board, its USB port, its flash file, its counter,
and an end without remains."""

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets import PICO, PICO2, VIRTUAL

from mica.boards import load_board
from mica.errors import MicaError
from mica.images import uf2
from mica.link.answers import require_mica
from mica.link.board import BoardError, Link
from mica.link.serial_board import SerialBoard
from mica.link.targets import open_board
from mica.link.virtual_pico import CYCLES_ON_BOARD, FLASH_BASE, VirtualPico
from mica.resources import data_dir
from mica.toolchain.build import BuildResult
from mica.web import rp2040js

MACHINES = {PICO: "Raspberry Pi Pico with RP2040", PICO2: "Raspberry Pi Pico2 with RP2350"}
Firmware = Callable[[str], BuildResult]


@pytest.fixture(scope="module", params=VIRTUAL)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def name(target: str) -> str:
    return target.removesuffix("@emu")


@pytest.fixture(scope="module")
def flash(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flash file that this module's emulators use in turn."""
    return tmp_path_factory.mktemp("pico") / "flash.bin"


@pytest.fixture(scope="module")
def pico(firmware: Firmware, flash: Path, name: str) -> Iterator[VirtualPico]:
    """One emulator for all tests that do not end it."""
    with VirtualPico(load_board(name), firmware(name).image, flash=flash) as running:
        yield running


def mpremote(port: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "mpremote", "connect", port, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_mpremote(pico: VirtualPico, tmp_path: Path, target: str) -> None:
    local = tmp_path / "data.bin"
    local.write_bytes(bytes(range(256)) * 20)
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('ran on', sys.platform, sys.implementation._machine)\n", encoding="utf-8")
    assert mpremote(pico.port, "run", str(script)).strip() == f"ran on rp2 {MACHINES[target]}"
    mpremote(pico.port, "cp", str(local), ":data.bin")
    # Each command soft-resets the board first; the file is still there.
    assert "5120 data.bin" in mpremote(pico.port, "ls")
    mpremote(pico.port, "cp", ":data.bin", str(tmp_path / "back.bin"))
    assert (tmp_path / "back.bin").read_bytes() == local.read_bytes()
    mpremote(pico.port, "rm", ":data.bin")
    assert "data.bin" not in mpremote(pico.port, "ls")
    mounted = mpremote(pico.port, "mount", str(tmp_path), "exec", "import os; print(sorted(os.listdir('/remote')))")
    assert "'data.bin'" in mounted
    assert mpremote(pico.port, "soft-reset", "exec", "print(6 * 7)").strip().endswith("42")


def test_mpremote_romfs(pico: VirtualPico, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "rom"
    folder.mkdir()
    (folder / "hello.txt").write_bytes(b"in place" * 1000)
    mpremote(pico.port, "romfs", "--no-mpy", "deploy", str(folder))
    window = load_board(name).romfs
    assert window and f"has size {window.size} bytes" in mpremote(pico.port, "romfs", "query")
    code = "import uctypes\nm = memoryview(open('/rom/hello.txt', 'rb'))\nprint(len(m), uctypes.addressof(m))"
    size, address = mpremote(pico.port, "exec", code).split()
    facts = load_board(name)
    assert facts.romfs
    assert int(size) == 8000
    assert facts.romfs.base <= int(address) < facts.romfs.base + facts.romfs.size


def test_bytes_under_load(pico: VirtualPico) -> None:
    """Many packets in both directions, while the board is busy in between, and none is lost."""
    data = os.urandom(40_000)
    with SerialBoard(pico.port) as board:
        board.put(data, "data")
        assert board.get("data") == data
        # A burst that is larger than all buffers together, from a board that never waits.
        text = board.exec("for i in range(5000): print(i)")
        assert text == b"".join(b"%d\n" % i for i in range(5000))
        # And one that comes before the board reads: mpremote's own flow control is not at work here.
        repl = board._open_repl()
        repl.exec_raw_no_follow(
            "import sys, time\ntime.sleep(0.3)\nn = 0\nfor i in range(3000):\n    n += "
            "len(sys.stdin.readline())\nprint(n)"
        )
        repl.serial.write(b"".join(b"line %d\n" % i for i in range(3000)))
        output, error = repl.follow(120)
        assert (output, error) == (b"%d\r\n" % sum(len(b"line %d\n" % i) for i in range(3000)), b"")


def test_a_reader_that_stops_does_not_lose_bytes(pico: VirtualPico) -> None:
    number = int(pico.port.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", number)) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(b"\r\x03\r\x01for i in range(20000): print(i)\nprint('end')\x04")
        time.sleep(1.5)
        text = b""
        while b"end\r\n" not in text:
            text += line.recv(65536)
        numbers = text.partition(b"OK")[2].split()
        assert [int(n) for n in numbers[: numbers.index(b"end")]] == list(range(20000))


def test_cycles_are_the_same_on_both_sides(pico: VirtualPico) -> None:
    code = f"import machine\nprint([machine.mem32[{CYCLES_ON_BOARD} + 4 * i] & 0xffffffff for i in range(3)])"
    with SerialBoard(pico.port) as board:
        before = pico.cycles()
        magic, low, high = ast.literal_eval(board.exec(code).decode())
        after = pico.cycles()
        assert magic == int.from_bytes(b"mica", "little")
        assert before.executed < low + (high << 32) < after.executed
        # A sleep takes the board's time, not cycles.
        start = pico.cycles()
        board.exec("import time; time.sleep(0.5)")
        end = pico.cycles()
        assert end.board_seconds - start.board_seconds > 0.499  # sleep() counts whole milliseconds
        assert (end.executed - start.executed) / 125e6 < 0.1


def test_cycles_repeat(pico: VirtualPico) -> None:
    """Without interrupts: USB asks at other moments each time."""
    code = f"""
import binascii, machine
b = bytes(20000)
def f():
    state = machine.disable_irq()
    start = machine.mem32[{CYCLES_ON_BOARD + 4}]
    binascii.crc32(b)
    end = machine.mem32[{CYCLES_ON_BOARD + 4}]
    machine.enable_irq(state)
    return end - start
f()
print([f() for i in range(5)])
"""
    with SerialBoard(pico.port) as board:
        counts = ast.literal_eval(board.exec(code).decode()) + ast.literal_eval(board.exec(code).decode())
    assert max(counts) - min(counts) < min(counts) / 100
    assert min(counts) > 20000


def test_speed_is_told(pico: VirtualPico, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Printed, not asserted: how fast a computer is, no test can know."""
    with SerialBoard(pico.port) as board:
        start = pico.cycles()
        board.exec("import binascii\nb = bytes(20000)\nfor i in range(100): binascii.crc32(b)")
        end = pico.cycles()
    speed = (end.executed - start.executed) / (end.busy_seconds - start.busy_seconds)
    with capsys.disabled():
        print(f"\n{name}@emu: {speed / 1e6:.0f} million cycles a second")
    assert speed > 0


def test_idle_board_leaves_the_processor_alone(pico: VirtualPico) -> None:
    time.sleep(1)
    before = pico.cycles().busy_seconds
    time.sleep(2)
    assert pico.cycles().busy_seconds - before < 0.5


def test_sleep_takes_its_time(pico: VirtualPico) -> None:
    """A wait with a time-out must not run out while we are on our way."""
    with SerialBoard(pico.port) as board:
        begun = time.monotonic()
        board.exec("import time; time.sleep(1)")
        assert time.monotonic() - begun > 0.9


def test_a_second_program_is_told(pico: VirtualPico) -> None:
    with SerialBoard(pico.port) as board:
        with pytest.raises(MicaError):
            SerialBoard(pico.port).close()
        assert board.exec("print(1)") == b"1\n"


def test_hard_reset(pico: VirtualPico) -> None:
    """After a hard reset the port disappears and returns, as on a cable; files stay."""
    with SerialBoard(pico.port) as board:
        board.exec("with open('kept.txt', 'w') as f: f.write('still here')\nx = 1")
        with pytest.raises(BoardError):
            board.exec("import machine\nmachine.reset()", timeout=3)
    with SerialBoard(pico.port) as board:
        assert board.exec("print(open('kept.txt').read(), 'x' in globals())") == b"still here False\n"


def test_flash_file_outlives_the_emulator(firmware: Firmware, tmp_path: Path, name: str) -> None:
    flash = tmp_path / "flash.bin"
    facts, image = load_board(name), firmware(name).image
    with VirtualPico(facts, image, flash=flash) as pico, SerialBoard(pico.port) as board:
        board.exec("with open('a.txt', 'w') as f: f.write('written')")
        with pytest.raises(MicaError, match=f"another virtual {name} runs with this flash"):
            VirtualPico(facts, image, flash=flash).close()
    assert flash.stat().st_size == facts.flash
    with VirtualPico(facts, image, flash=flash) as pico, SerialBoard(pico.port) as board:
        assert board.exec("print(open('a.txt').read())") == b"written\n"


def test_an_image_of_its_romfs_is_put_into_flash(firmware: Firmware, tmp_path: Path, name: str) -> None:
    facts, flash = load_board(name), tmp_path / "flash.bin"
    assert facts.romfs
    with (
        VirtualPico(facts, firmware(name).image, flash=flash, rom=b"in flash") as pico,
        SerialBoard(pico.port) as board,
    ):
        code = f"import uctypes; print(bytes(uctypes.bytearray_at({facts.romfs.base}, 8)))"
        assert board.exec(code) == b"b'in flash'\n"


def test_an_image_that_does_not_lie_in_flash(tmp_path: Path, name: str) -> None:
    facts, image = load_board(name), tmp_path / "outside.uf2"
    assert facts.uf2
    image.write_bytes(uf2.build([(FLASH_BASE + facts.flash, b"x")], facts.uf2.family))
    with pytest.raises(MicaError, match="lie outside of flash"):
        VirtualPico(facts, image, flash=tmp_path / "flash.bin").close()


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


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_no_emulator_stays_behind(firmware: Firmware, flash: Path, tmp_path: Path, end: str, name: str) -> None:
    code = (
        "import os, sys\nfrom mica.link.virtual_pico import VirtualPico\nfrom mica.boards import load_board\n"
        "from pathlib import Path\n"
        f"e = VirtualPico(load_board({name!r}), Path({str(firmware(name).image)!r}), "
        f"flash=Path({str(tmp_path / 'f.bin')!r}))\nprint(e.pid, flush=True)\n{end}"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert gone(int(result.stdout)), "node still runs"


def test_it_ends_with_its_standard_input(firmware: Firmware, tmp_path: Path, name: str) -> None:
    with VirtualPico(load_board(name), firmware(name).image, flash=tmp_path / "f.bin") as pico:
        assert pico._process.stdin is not None
        pico._process.stdin.close()
        assert gone(pico.pid)


def test_ctrl_c_ends_a_held_port(firmware: Firmware, tmp_path: Path, name: str) -> None:
    firmware(name)
    command = [sys.executable, "-m", "mica", "emu", name]
    env = {**os.environ, "MICA_FLASH": str(tmp_path / "f.bin")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with SerialBoard(port) as board:
            assert board.exec("print(1)") == b"1\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    with pytest.raises(MicaError, match="nothing answers"):
        SerialBoard(port).close()


def test_the_board_crashes(name: str) -> None:
    """An unaligned word, which a Cortex-M0+ does not read; on a Cortex-M33 an address at which nothing is."""
    with open_board(f"{name}@emu", rom_files={"no.txt": b"flash that is not kept"}) as board:
        with pytest.raises(BoardError):
            board.exec(
                "import uctypes\nuctypes.struct(0x2000001, {'a': uctypes.UINT32 | 0}, uctypes.NATIVE).a", timeout=3
            )
        with pytest.raises(BoardError, match=r"not 32 bit aligned|fault|stopped itself"):
            board.exec("print(1)")


# --- what can be wrong ----------------------------------------------------------------------------------


def test_no_such_image(tmp_path: Path, name: str) -> None:
    with pytest.raises(MicaError, match=r"none\.uf2 is not there"):
        VirtualPico(load_board(name), tmp_path / "none.uf2", flash=tmp_path / "f.bin").close()


def test_image_of_another_kind(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.uf2"
    path.write_bytes(b"no UF2" * 100)
    with pytest.raises(MicaError, match="not a UF2 file"):
        VirtualPico(load_board(name), path, flash=tmp_path / "f.bin").close()


def test_empty_flash(firmware: Firmware, tmp_path: Path, name: str) -> None:
    image = bytearray(firmware(name).image.read_bytes())
    for at in range(
        32, 16 * 512, 512
    ):  # RP2040: in the second stage, whose checksum is wrong; RP2350: the mark of an image
        image[at + 8] ^= 1
        image[at : at + 256] = bytes(image[at : at + 256]).replace(b"\xd3\xde\xff\xff", bytes(4))
    path = tmp_path / "x.uf2"
    path.write_bytes(image)
    with pytest.raises(MicaError, match="there is no firmware in its flash"):
        VirtualPico(load_board(name), path, flash=tmp_path / "f.bin").close()


def test_port_taken(firmware: Firmware, tmp_path: Path, name: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        with pytest.raises(MicaError, match=f"port {number} is taken by another program"):
            VirtualPico(load_board(name), firmware(name).image, flash=tmp_path / "f.bin", tcp=number).close()


def test_flash_file_of_another_size(firmware: Firmware, tmp_path: Path, name: str) -> None:
    (tmp_path / "f.bin").write_bytes(b"123")
    with pytest.raises(MicaError, match="has 3 bytes"):
        VirtualPico(load_board(name), firmware(name).image, flash=tmp_path / "f.bin").close()
    with pytest.raises(MicaError, match="cannot be used as flash"):
        VirtualPico(load_board(name), firmware(name).image, flash=tmp_path).close()


def test_npm_missing_and_npm_failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an empty cache rp2040js has to be fetched."""
    monkeypatch.setenv("MICA_CACHE", str(tmp_path / "cache"))
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(MicaError, match="npm is not installed; on Debian and Ubuntu: sudo apt install npm"):
        rp2040js.install()
    npm = programs / "npm"
    npm.write_text("#!/bin/sh\necho 'npm ERR! network'\nexit 1\n", encoding="utf-8")
    npm.chmod(0o755)
    with pytest.raises(MicaError, match=r"npm could not fetch rp2040js; is there a network\?") as error:
        rp2040js.install()
    assert "\n" not in str(error.value)


def test_lock_file_names_no_registry() -> None:
    folder = data_dir("boards") / "common" / "rp2040"
    lock = (folder / "package-lock.json").read_text(encoding="utf-8")
    assert '"version": "1.4.1"' in lock and "sha512-" in lock
    assert "resolved" not in lock and "http" not in lock


def test_the_real_board_is_not_the_virtual_one() -> None:
    with pytest.raises(MicaError, match=r"RPI_PICO is a real board; .*emulated, it is --on RPI_PICO@emu"):
        open_board("RPI_PICO")


def test_board_type(pico: VirtualPico) -> None:
    with open_board(pico.port) as board:
        assert isinstance(board, Link)
        assert require_mica(board)


def mica(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mica", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **env})


def test_mistakes_on_the_command_line(firmware: Firmware, tmp_path: Path, name: str) -> None:
    firmware(name)
    (tmp_path / "short.bin").write_bytes(b"123")
    result = mica("emu", name, MICA_FLASH=str(tmp_path / "short.bin"))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"mica: error: {tmp_path}/short.bin: has 3 bytes, a {name}'s flash has {load_board(name).flash}; remove it "
        "to begin again\n"
    )
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = str(other.getsockname()[1])
        result = mica("emu", f"{name}@emu", "--socket", number, MICA_FLASH=str(tmp_path / "f.bin"))
    # Another test may build this firmware at that moment, and a line before says so.
    error = result.stderr.splitlines()[-1]
    assert (result.returncode, error) == (1, f"mica: error: {name}@emu: port {number} is taken by another program")


def test_build_tells_the_free_heap(firmware: Firmware, name: str) -> None:
    firmware(name)
    result = mica("build", "--board", name, "--json")
    assert result.returncode == 0, result.stderr
    facts = json.loads(result.stdout)
    assert 150_000 < facts["free_heap"] < load_board(name).ram - facts["data"] - facts["bss"]
    assert facts["micropython"] == "1.25.0"
    assert facts["compiler"].startswith("arm-none-eabi-gcc")
