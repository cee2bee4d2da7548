"""mica flash for RP2040 boards, end to end: the virtual Pico goes into BOOTSEL mode, a drive appears,
and what a reader of UF2 files made of the copy is what starts."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_bootsel import FakeBootsel

from mica.boards import load_board
from mica.cli.main import main
from mica.flash import board_files, firmware_image, flash, flash_map
from mica.flash.flash_map import Span
from mica.images import romfs
from mica.link.answers import require_mica
from mica.link.serial_board import SerialBoard
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.build import BuildResult

NAME = "RPI_PICO"
DIGITS = Path(__file__).resolve().parent.parent / "format" / "golden" / "v1.mica"
Firmware = Callable[[str], BuildResult]

FILES = {
    "main.py": b"import time\nfor i in range(80):\n    print('mine runs')\n    time.sleep(0.25)\n",
    "lib/a name with blanks.bin": bytes(range(256)) * 20,
    "lib/deep/er/empty.txt": b"",
    "größe.txt": "Maß\n".encode(),
}


class Cable:
    """A virtual Pico on a cable: when it goes into BOOTSEL mode its drive appears, and it comes back at its port."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.drive = folder / "RPI-RP2"
        self.flash = folder / "flash.bin"
        self.image = image
        self.fakes: list[FakeBootsel] = []
        self.vanish_at: int | None = None  # what the next drive does
        self.port = ""
        self._plugged, self._unplugged = threading.Event(), False
        # The emulator ends with the thread that starts it, so one thread starts all of them.
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self._plugged.wait(300)

    def _run(self) -> None:
        facts = load_board(NAME)
        rom = romfs.build({"pushed.mica": DIGITS.read_bytes()})
        pico = VirtualPico(facts, self.image, flash=self.flash, rom=rom)
        self.port = pico.port
        self._plugged.set()
        while not self._unplugged:
            if not pico.ends_within(0.1):
                continue
            pico.close()
            fake = FakeBootsel(self.drive, self.flash, vanish_at=self.vanish_at)
            self.fakes.append(fake)
            while not fake.done.wait(0.1):
                if self._unplugged:
                    fake.close()
            if not self._unplugged:
                pico = VirtualPico(facts, None, flash=self.flash, tcp=int(self.port.rpartition(":")[2]))
        pico.close()

    def unplug(self) -> None:
        self._unplugged = True
        self.thread.join(120)


def with_files_elsewhere(image: Path, to: Path) -> None:
    """The firmware, with a file system of 256 K at the end of flash: changed where the program declares it,
    and where its driver has it."""
    data = image.read_bytes()
    found = 0
    for base in (0, flash_map.XIP_BASE):
        old = struct.pack("<II", base + 0x190000, 0x70000)
        found += data.count(old)
        data = data.replace(old, struct.pack("<II", base + 0x1C0000, 0x40000))
    assert found == 2
    to.write_bytes(data)


@pytest.fixture(scope="module")
def cable(firmware: Firmware, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cable]:
    """A board with an older firmware, whose files lie elsewhere, and some of those."""
    folder = tmp_path_factory.mktemp("cable")
    old = folder / "old.uf2"
    with_files_elsewhere(firmware(NAME).image, old)
    plugged = Cable(folder / "plugged", old)
    try:
        with SerialBoard(plugged.port) as board:
            board.exec("import os\nos.mkdir('lib')\nos.mkdir('lib/deep')\nos.mkdir('lib/deep/er')")
            for name, data in FILES.items():
                board.exec(f"with open({name!r}, 'wb') as f: f.write({data[:256]!r} * {max(1, len(data) // 256)})")
        yield plugged
    finally:
        plugged.unplug()


@pytest.fixture
def here(cable: Cable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MICA_DRIVES", str(cable.drive))
    monkeypatch.setattr(board_files, "_PIECE", 4096)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def what_it_prints(port: str, until: bytes) -> bytes:
    """Return the text that a board prints by itself, up to these bytes."""
    said = b""
    with socket.create_connection(("127.0.0.1", int(port.rpartition(":")[2])), timeout=120) as line:
        while until not in said:
            said += line.recv(1024)
    return said


def files_on(port: str) -> dict[str, bytes]:
    # A port that was just closed may be taken for a moment.
    with flash.wait_for_board(port, frozenset(), None, NAME) as board:
        return {name: board.get(f"open({name!r}, 'rb').read()") for name in FILES}


def answers(port: str, name: str) -> None:
    """The model in /rom passes its golden vectors, used in place."""
    with SerialBoard(port) as board:
        run = f"import mica\nm = mica.Model('/rom/{name}')\nprint(m.selftest(), m._m.copied)"
        assert board.exec(run) == b"None False\n"


def test_files_move(cable: Cable, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new firmware would format them; it starts and answers, all files are back, and so is the model in /rom."""
    code = main(["flash", "--board", NAME, "--on", cable.port, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    facts = json.loads(captured.out)
    assert (facts["files"], facts["restored"], facts["models"]) == ("restored", len(FILES), ["pushed.mica"])
    assert "the file system moves from 256 K at 0x1c0000 to 448 K at 0x190000: copying 4 files" in captured.err
    assert facts["port"] == cable.port
    assert list(here.iterdir()) == []  # the copies are gone, now that the board has them
    (fake,) = cable.fakes
    assert fake.faults == [] and fake.passed_over == 0
    assert b"mine runs" in what_it_prints(cable.port, b"mine runs")
    assert files_on(cable.port) == FILES
    with SerialBoard(cable.port) as board:
        board.exec("import os\nos.remove('main.py')")
        assert facts["mica"] == require_mica(board)
        assert flash_map.rp2_files_of_board(board) == Span(0x190000, 0x70000)
    answers(cable.port, "pushed.mica")


def test_files_stay(cable: Cable, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An update with the same layout copies nothing: files stay, and so do models, also the one that was pushed."""
    (here / "two.mica").write_bytes(DIGITS.read_bytes())
    assert main(["push", "two.mica", "--on", cable.port]) == 0
    capsys.readouterr()
    assert main(["flash", "--board", NAME, "--on", cable.port]) == 0
    assert "the files on the board are where they were" in capsys.readouterr().out
    with SerialBoard(cable.port) as board:
        assert board.exec("import os\nprint(*sorted(os.listdir()))").decode() == "größe.txt lib rom\n"
        assert board.exec("print(*sorted(os.listdir('/rom')))") == b"pushed.mica two.mica\n"
    answers(cable.port, "two.mica")


def test_new_board(
    firmware: Firmware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Pico fresh from its box, plugged in with BOOTSEL held, gets a release's firmware, and its port appears."""
    facts = load_board(NAME)
    image = tmp_path / "release.uf2"
    image.write_bytes(firmware_image.combined_image(facts, [DIGITS], firmware(NAME).image))
    # A second set of models replaces the first in an image that has come with it.
    assert firmware_image.combined_image(facts, [DIGITS], image) == image.read_bytes()
    copied = threading.Event()
    ports: list[SimpleNamespace] = []
    fake = FakeBootsel(tmp_path / "drive", tmp_path / "flash.bin", started=copied.set)
    monkeypatch.setenv("MICA_DRIVES", str(fake.folder))
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: list(ports))
    codes: list[int] = []
    command = ["flash", "--board", NAME, "--image", str(image), "--erase-files", "--json"]
    flashing = threading.Thread(target=lambda: codes.append(main(command)))
    flashing.start()
    assert copied.wait(300) and fake.faults == []
    with VirtualPico(facts, None, flash=fake.flash) as pico:
        ports.append(SimpleNamespace(device=pico.port, vid=0x2E8A, serial_number="E6"))
        flashing.join(300)
        assert codes == [0]
        said = json.loads(capsys.readouterr().out)
        assert (said["port"], said["files"]) == (pico.port, "unseen")
        answers(pico.port, DIGITS.name)
