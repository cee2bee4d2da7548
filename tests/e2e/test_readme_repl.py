"""The REPL sessions of README.md and firmware/README.md, typed at emulated boards, give the printed answers.

.venv/bin/python tests/e2e/test_readme_repl.py    writes what the board answers today into them
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial
from helpers import mica

from mica.boards import load_board
from mica.images import romfs
from mica.link.emulated import start_emulator
from mica.link.qemu import Emulator
from mica.toolchain.build import build

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "firmware" / "README.md"  # says how its model is packed, which is that of README.md too
PAGES = (ROOT / "README.md", PAGE)
COMMAND = ROOT / "host_tools" / "mica" / "demo" / "command.mica"
TARGET = "MPS2_AN385"
BEGIN, END = "```pycon\n", "```\n"
PROMPT = ">>> "


def pack_line(text: str) -> list[str]:
    """The arguments of the command above the session, which makes its file."""
    before = text[: text.index(BEGIN)]
    return shlex.split(before[before.rindex("\nmica pack ") :].partition("\n```")[0].replace("\\\n", " "))


def packed(to: Path) -> Path:
    """Run that command with paths of the test, and return the file that it writes."""
    words = pack_line(PAGE.read_text(encoding="utf-8"))
    assert words[:2] == ["mica", "pack"] and words[-2:] == ["-o", "digits.mica"]
    root = ROOT
    result = mica("pack", *(root / word if (root / word).is_file() else word for word in words[2:-1]), to / words[-1])
    assert result.code == 0, result.err
    return to / words[-1]


def session(text: str, number: int = 0) -> str:
    """A block of a page that is a REPL session."""
    return text.split(BEGIN)[number + 1].partition(END)[0]


def statements(block: str) -> list[str]:
    return [line[len(PROMPT) :] for line in block.splitlines() if line.startswith(PROMPT)]


def type_at(emulator: Emulator, lines: list[str]) -> str:
    """Type each line when the board is ready for it; return the text that a person would then see on the screen."""
    with serial.serial_for_url(emulator.port, 115200, timeout=0.2) as port:

        def until(last: bytes = b">>> ") -> str:
            seen = b""
            end = time.monotonic() + 120
            while not seen.endswith(last):
                seen += port.read(max(1, port.in_waiting))
                assert time.monotonic() < end, f"no prompt; there was {seen!r}"
            return seen.decode().replace("\r\n", "\n")

        # It may still be starting, and what it says by itself is not of the session.
        port.write(b"print('now ' + 'then')\r")
        until(b"now then\r\n>>> ")
        screen = PROMPT
        for line in lines:
            port.write(line.encode() + b"\r")
            screen += until()
        return screen.removesuffix(PROMPT)


def start(model: Path, target: str = TARGET) -> Emulator:
    board = load_board(target)
    rom = romfs.build({model.name: model.read_bytes()})
    return start_emulator(board, build(board).image, rom=rom, keep_flash=False)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    with start(packed(tmp_path)) as emulator:
        yield emulator


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_session(emulator: Emulator, page: Path) -> None:
    block = session(page.read_text(encoding="utf-8"))
    lines = statements(block)
    assert len(lines) > 4
    assert type_at(emulator, lines) == block


def test_text() -> None:
    """The second session of firmware/README.md, at a virtual Pico."""
    block = session(PAGE.read_text(encoding="utf-8"), 1)
    with start(COMMAND, "RPI_PICO") as emulator:
        assert type_at(emulator, statements(block)) == block


def write(page: Path, number: int, emulator: Emulator) -> None:
    """Write the board's answers into a page."""
    old = page.read_text(encoding="utf-8")
    block = session(old, number)
    page.write_text(old.replace(block, type_at(emulator, statements(block))), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        model = packed(Path(folder))
        for changing in PAGES:
            with start(model) as running:
                write(changing, 0, running)
    with start(COMMAND, "RPI_PICO") as running:
        write(PAGE, 1, running)
