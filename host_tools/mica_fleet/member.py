"""Puts boards into a fleet: MicroPython processes on this computer, and boards at a port."""

import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.link import child
from mica.link.board import Link, Say
from mica.toolchain.build import build
from mica.toolchain.cache import quiet
from mica_fleet.machines import board_called

_AGENT = "import mica_fleet\nmica_fleet.run()"
_MAIN = b"# Written by mica fleet join.\nimport mica_fleet\n\nmica_fleet.run()\n"
# A line of what it is called, and a line for each module that it does not have.
_LACKING = """import sys
print(getattr(sys.implementation, '_machine', sys.platform))
for name in ('network', 'mica_fleet'):
    try:
        __import__(name)
    except ImportError:
        print(name)"""
_KILLED = -9  # of a process: it was killed, as a board whose power is cut


def firmware(board: BoardSpec, say: Say = quiet) -> Path:
    """The board's image with `mica_fleet` in it; it is built where it is not up to date."""
    return build(board, extras=["fleet"], progress=say).image


class Member:
    """MicroPython on this computer as a board of a fleet. When the process ends it is started again,
    as a board gets power again."""

    def __init__(
        self,
        board: BoardSpec,
        image: Path,
        settings: Mapping[str, Any],
        models: Mapping[str, bytes],
        say: Say,
        program: str = _AGENT,
        revive: float = 1.0,
    ) -> None:
        """`models`: file names -> bytes. `revive`: seconds until it is started again."""
        self.name = str(settings["name"])
        self.starts = 0
        self._say = say
        self._revive = revive
        self._folder = Path(tempfile.mkdtemp(prefix="mica-"))
        for name, data in models.items():
            (self._folder / name).write_bytes(data)
        (self._folder / "fleet.json").write_text(json.dumps(dict(settings)), encoding="utf-8")
        self._command: list[str | Path] = [image, *(board.emulator.args if board.emulator else ()), "-c", program]
        self._closing = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._live, name=f"board {self.name}", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        wait = self._revive
        while not self._closing.is_set():
            self.starts += 1
            process = child.start(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
            self.process = process
            assert process.stdout is not None
            if self._closing.is_set():
                process.kill()
            begun, said = time.monotonic(), ""
            for line in process.stdout:
                text = line.decode(errors="replace").rstrip()
                if text.startswith("mica: "):
                    self._say(f"{self.name}: {text[6:]}")
                said = text
            process.wait()
            lived = time.monotonic() - begun
            # One that cannot start is not started all the time; one that is killed can.
            wait = self._revive if lived > 2.0 or process.returncode == _KILLED else min(2 * wait, 30.0)
            if not self._closing.is_set():
                self._say(f"{self.name} has ended{': ' + said if said else ''}; it is started again in {wait:.3g} s")
            self._closing.wait(wait)

    def close(self) -> None:
        self._closing.set()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        self._thread.join(timeout=10)
        if self.process is not None:
            child.stop(self.process)
        shutil.rmtree(self._folder, ignore_errors=True)


def _check(board: Link) -> None:
    """Raises MicaError where the board can be in no fleet."""
    lacking = board.exec(_LACKING).decode(errors="replace").split("\n")
    if "network" in lacking:
        todo = "a board at a cable needs no broker: --on fleet:PORT, or --on usb:all"
        raise MicaError("this board has no network", todo=todo)
    if "mica_fleet" in lacking:
        known = board_called(lacking[0].strip())
        name = "BOARD" if known is None else known.name
        todo = f"mica build --board {name} --with fleet -o FILE, then mica flash --board {name} --image FILE"
        raise MicaError("this board's firmware has no mica_fleet", todo=todo)


def install(board: Link, settings: Mapping[str, Any], models: Mapping[str, bytes]) -> None:
    """Write what a board needs to work for a fleet from its next reset on. Raises MicaError where it cannot."""
    _check(board)
    there = (
        board.exec("try:\n print(open('main.py').read(64))\nexcept OSError:\n print()").decode(errors="replace").strip()
    )
    if there and not there.startswith("# Written by mica fleet join."):
        raise MicaError("the board has a main.py already", todo="call mica_fleet.run() in it, or take it away")
    files: Sequence[tuple[str, bytes]] = [
        *models.items(),
        ("fleet.json", json.dumps(dict(settings)).encode()),
        ("main.py", _MAIN),
    ]
    for name, data in files:
        board.put(data, "d")
        board.exec(f"with open({name!r}, 'wb') as f:\n f.write(d)\nd = None")
    board.soft_reset()
