"""`mica emu`: a board for other programs, and no emulator stays behind, however the command ends."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from mica.link.serial_board import SerialBoard
from mica.toolchain.build import BuildResult

NAME = "MPS2_AN385"
MICA = [sys.executable, "-c", "import sys; from mica.cli.main import main; sys.exit(main())"]


@pytest.fixture(autouse=True)
def built(firmware: Callable[[str], BuildResult]) -> None:
    """So that no test waits for a build."""
    firmware(NAME)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ends(pid: int, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while running(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def read_json(stream: IO[str]) -> dict:
    """One object, as soon as it is there: the program runs on."""
    lines = ""
    while not lines.endswith("}\n"):
        line = stream.readline()
        assert line, lines
        lines += line
    return json.loads(lines)


def start(*arguments: object) -> tuple[subprocess.Popen[str], dict]:
    """Start `mica emu --json`; return the process and its first object."""
    command = [*MICA, "emu", NAME, "--json", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, read_json(process.stdout)


@pytest.fixture
def started() -> Iterator[tuple[subprocess.Popen[str], dict]]:
    process, said = start()
    yield process, said
    process.kill()
    process.communicate()


def test_a_port_for_others(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "thing.py").write_text("answer = 42\n")
    process, said = start("--rom", tmp_path)
    with SerialBoard(said["port"]) as board:
        assert board.exec("import thing; print(thing.answer, thing.__file__)") == b"42 /rom/lib/thing.py\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"mpremote connect {said['port']}" in err
    assert "Traceback" not in err


def test_a_socket() -> None:
    process, said = start("--socket", 0)
    with SerialBoard(said["port"]) as board:
        assert board.exec("print(1 + 1)") == b"2\n"
    # What it tells to try works: mpremote's commands do at a socket, its prompt does not.
    advice = f"mpremote connect {said['port']} ls"
    listed = subprocess.run([sys.executable, "-m", *advice.split()], capture_output=True, text=True, check=False)
    assert (listed.returncode, listed.stdout.split("\n")[0].strip()) == (0, "ls :"), listed.stderr
    process.terminate()
    _, err = process.communicate(timeout=300)
    assert f"try: {advice}, or for a prompt mica repl --on {said['port']} " in err
    assert ends(said["pid"])


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGKILL", -9)])
def test_signals(started: tuple[subprocess.Popen[str], dict], number: str, code: int) -> None:
    process, said = started
    assert running(said["pid"])
    process.send_signal(getattr(signal, number))
    _, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert "Traceback" not in err
    assert ends(said["pid"]), "QEMU still runs"


def test_the_program_that_started_it_is_killed() -> None:
    code = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen({[*MICA, 'emu', NAME, '--json']!r})\n"
        "print(p.pid, flush=True)\np.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        mica_pid = int(parent.stdout.readline())
        qemu_pid = read_json(parent.stdout)["pid"]
        assert running(mica_pid)
        assert running(qemu_pid)
        parent.kill()
    assert ends(mica_pid), "mica still runs"
    assert ends(qemu_pid), "QEMU still runs"


def test_a_closed_terminal() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(MICA[0], [*MICA, "emu", NAME, "--json"])
    said = b""
    while not (found := re.search(rb'"pid": (\d+)', said)):
        said += os.read(terminal, 1000)
    qemu_pid = int(found[1])
    assert running(qemu_pid)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    assert ends(qemu_pid), "QEMU still runs"


def test_the_board_ends_itself(started: tuple[subprocess.Popen[str], dict]) -> None:
    process, said = started
    with SerialBoard(said["port"]) as board:
        with contextlib.suppress(OSError):  # it may end before it has said OK
            board._open_repl().exec_raw_no_follow("import machine; machine.reset()")  # on QEMU this is the end
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "has ended" in err


def test_compilers_end_as_well(tmp_path: Path) -> None:
    """The way a build runs make, and a signal meanwhile."""
    log = tmp_path / "log"
    code = (
        "from pathlib import Path\n"
        "from mica.cli import signals\n"
        "from mica.toolchain.process import run_logged\n"
        "with signals.as_exits():\n"
        "    program = 'echo $$; sleep 1; kill -TERM $PPID; sleep 600; true'\n"
        f"    run_logged(['sh', '-c', program], 'sleeping', Path({str(log)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 143, done.stderr
    assert ends(int(log.read_text()))
