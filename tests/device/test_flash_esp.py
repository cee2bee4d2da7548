"""mica flash for the ESP32 family: the real esptool against a pretend ROM loader, with a MicroPython behind it.

No ESP32 was flashed. The firmware here is made up: what belongs to a loader (header, chip id, partition table) is as a
build makes it, and the program is random bytes. What starts afterwards is the emulated RISC-V board,
whose files are gone then, as they are on a board whose partition has moved.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_esp_rom import CHIPS, FakeEsp

from mica.boards import load_board
from mica.cli.main import main
from mica.errors import MicaError
from mica.flash import board_files, firmware_image, flash, flash_map
from mica.flash.esp import EspWriter
from mica.images import romfs
from mica.link.answers import require_mica
from mica.link.qemu import Emulator
from mica.link.serial_board import SerialBoard
from mica.toolchain.build import BuildResult

Firmware = Callable[[str], BuildResult]
DIGITS = Path(__file__).resolve().parent.parent / "format" / "golden" / "v1.mica"
BOARDS = {"esp32": "ESP32_GENERIC", "esp32s3": "ESP32_GENERIC_S3", "esp32c3": "ESP32_GENERIC_C3"}

TYPES = {"app": 0, "data": 1}
SUBTYPES = {"factory": 0, "nvs": 2, "phy": 1, "fat": 0x81}
SETTINGS = b"the user's Wi-Fi password".ljust(0x6000, b"\0")

# What MicroPython's own firmware has on a module with 4 MB.
STOCK = [
    ("nvs", 1, 2, 0x9000, 0x6000),
    ("phy_init", 1, 1, 0xF000, 0x1000),
    ("factory", 0, 0, 0x10000, 0x1F0000),
    ("vfs", 1, 0x81, 0x200000, 0x200000),
]
Rows = list[tuple[str, int, int, int, int]]


def rows_of(board: str) -> Rows:
    """partitions.csv, read without mica."""
    path = load_board(board).folder / "partitions.csv"
    found = []
    for row in csv.reader(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")):
        name, kind, subtype, start, size = (word.strip() for word in row[:5])
        number = SUBTYPES[subtype] if subtype in SUBTYPES else int(subtype, 0)
        found.append((name, TYPES[kind], number, int(start, 0), int(size, 0)))
    return found


def table(rows: Rows) -> bytes:
    entries = [
        b"\xaa\x50" + struct.pack("<BBII16sI", k, s, at, size, name.encode(), 0) for name, k, s, at, size in rows
    ]
    return b"".join(entries).ljust(0xC00, b"\xff")


def firmware_bin(chip: str, path: Path, rows: Rows | None = None) -> Path:
    """Write a firmware file as MicroPython's makeimg.py does: boot loader, 0xff, partition table, 0xff, program."""
    facts = load_board(BOARDS[chip])
    assert facts.esptool
    rng = random.Random(chip)
    header = struct.pack("<BBBBIB3xHB8xB", 0xE9, 1, 2, 0x20, 0x40080000, 0xEE, CHIPS[chip].id, 0, 0)
    data = (header + rng.randbytes(15000)).ljust(0x8000 - facts.esptool.offset, b"\xff")
    data += table(rows or rows_of(facts.name)).ljust(0x8000, b"\xff")
    path.write_bytes(data + rng.randbytes(60000))
    return path


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., EspWriter]:
    """A function that makes the writer of a firmware, for a chip and a port."""
    folder = tmp_path_factory.mktemp("esp")
    quiet = flash.FlashCallbacks(lambda message: None, lambda what, unit: _Silent())

    def make(chip: str, port: str, erase_all: bool = False) -> EspWriter:
        path = folder / f"{chip}.bin"
        if not path.exists():
            firmware_bin(chip, path)
        return EspWriter(firmware_image.read(load_board(BOARDS[chip]), path), port, erase_all, quiet)

    return make


class _Silent:
    def __enter__(self) -> Callable[[int, int], None]:
        return lambda done, of: None

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("chip", list(BOARDS))
def test_every_chip(chip: str, writer: Callable[..., EspWriter]) -> None:
    """The image is where the chip looks for it, and the settings of a board that has them in the same place are not
    touched."""
    facts = load_board(BOARDS[chip])
    assert facts.esptool
    with FakeEsp(chip, flash_bytes=facts.flash) as board:
        memory = board.loader.flash
        memory[0x8000:0x8C00] = table(rows_of(facts.name))
        memory[0x9000:0xF000] = SETTINGS
        job = writer(chip, board.port)
        assert job.files_without_repl() == job.image.files
        job.write(None, moved=False)
        (start, data), *_ = job.image.parts
        assert start == facts.esptool.offset
        assert memory[start:0x9000] == data[: 0x9000 - start]
        assert memory[0x9000:0xF000] == SETTINGS
        assert memory[0xF000 : start + len(data)] == data[0xF000 - start :]


FILES = {
    # The emulated board has no such module. What it tells is the table that is in the pretend flash.
    "esp32.py": f"""\
class Partition:
    TYPE_APP, TYPE_DATA = 0, 1
    def __init__(self, row):
        self.row = row
    def info(self):
        n, k, s, a, z = self.row
        return k, s, a, z, n, False
    @staticmethod
    def find(kind):
        return [Partition(row) for row in {STOCK} if row[1] == kind]
""".encode(),
    "main.py": b"print('mine')\n",
    "data/log 1.bin": bytes(range(256)) * 37,
}


@pytest.fixture(scope="module")
def c3(firmware: Firmware) -> Iterator[FakeEsp]:
    """A board that runs a firmware with MicroPython's own partitions, and files of the user's."""
    facts, image = load_board("VIRT_RV32"), firmware("VIRT_RV32").image

    def boot(memory: bytes) -> tuple[str, Callable[[], None]]:
        rom = memory[0x1E0000:0x300000].rstrip(b"\xff")
        running = Emulator(facts, image, rom=rom if rom.startswith(b"\xd2\xcd\x31") else None)
        running.keep_connected()
        return running.port, running.close

    with FakeEsp("esp32c3", boot=boot) as board:
        board.loader.flash[0x8000:0x8C00] = table(STOCK)
        board.loader.flash[0x9000:0xF000] = SETTINGS
        board.loader.flash[0x10000:] = b"an older firmware, and files".ljust(64) * (
            len(board.loader.flash[0x10000:]) // 64
        )
        with SerialBoard(board.port, reset=False) as repl:
            repl.exec("import os\nos.mkdir('data')")
            for name, data in FILES.items():
                repl.put(data, "d")
                repl.exec(f"with open({name!r}, 'wb') as f: f.write(d)")
        yield board


def test_files_that_do_not_fit(
    c3: FakeEsp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said before anything is touched."""
    monkeypatch.chdir(tmp_path)
    before = bytes(c3.loader.flash)
    small = [row if row[0] != "vfs" else ("vfs", 1, 0x81, 0x300000, 0x6000) for row in rows_of("ESP32_GENERIC_C3")]
    image = firmware_bin("esp32c3", tmp_path / "firmware.bin", small)
    words = ["flash", "--board", "ESP32_GENERIC_C3", "--on", c3.port, "--image", str(image)]
    assert main(words) == 1
    said = "the file system moves from 2048 K at 0x200000 to 24 K at 0x300000, and the 3 files on the board may need"
    assert said in capsys.readouterr().err
    firmware_bin("esp32c3", image)
    (tmp_path / "there").mkdir()
    assert main([*words, "--backup", str(tmp_path / "there")]) == 1
    assert f"{tmp_path}/there is there already; give another folder" in capsys.readouterr().err
    assert c3.loader.flash == before and c3.starts == 1


def test_files_move(
    c3: FakeEsp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command copies files, writes firmware and model, makes the new file system, and puts the files back."""
    monkeypatch.chdir(tmp_path)
    image = firmware_bin("esp32c3", tmp_path / "firmware.bin")
    kept = tmp_path / "kept"
    before = c3.starts
    words = ["flash", "--board", "ESP32_GENERIC_C3", "--on", c3.port, "--image", str(image), "--with", str(DIGITS)]
    code = main([*words, "--backup", str(kept), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    facts = json.loads(captured.out)
    assert (facts["files"], facts["restored"], facts["backup"]) == ("restored", len(FILES), str(kept))
    assert facts["selftest"] == {DIGITS.name: "passed"}
    assert "moves from 2048 K at 0x200000 to 1024 K at 0x300000: copying 3 files" in captured.err
    for name, data in FILES.items():
        assert (kept / name).read_bytes() == data
    # The flash: settings where they were, the model in its window, the file system as MicroPython wants an empty one.
    memory, written = c3.loader.flash, image.read_bytes()
    assert memory[0x9000:0xF000] == SETTINGS
    assert memory[0x10000 : len(written)] == written[0x10000:]
    assert memory[0x8000:0x8C00] == written[0x8000:0x8C00]
    assert romfs.build({DIGITS.name: DIGITS.read_bytes()}) in memory[0x1E0000:0x300000]
    assert memory[0x300000:0x302000] == b"\xff" * 0x2000
    assert c3.starts == before + 1
    with SerialBoard(c3.port) as board:
        assert {name: board.get(f"open({name!r}, 'rb').read()") for name in FILES} == FILES
        assert facts["mica"] == require_mica(board)


def test_it_dies_in_the_middle(
    c3: FakeEsp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the write fails, the copies of the files stay, and the message names their folder. (The layout is the old
    one.)"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(c3.loader, "fault", "bad-md5")
    image = firmware_bin("esp32c3", tmp_path / "firmware.bin")
    assert main(["flash", "--board", "ESP32_GENERIC_C3", "--on", c3.port, "--image", str(image)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "what was written reads back different; try again, with --erase" in last
    (folder,) = tmp_path.glob("mica-backup-*")
    assert last.endswith(f"; the board's files are in {folder}: mpremote cp -r {folder}/. : puts them back")
    for name, data in FILES.items():
        assert (folder / name).read_bytes() == data


def test_files_are_compared(c3: FakeEsp, tmp_path: Path) -> None:
    """The host compares each restored file with the backup, by a hash that the board computes."""
    (tmp_path / "a.txt").write_bytes(b"a")
    kept = board_files.Backup(tmp_path, (), {"/a.txt": hashlib.sha256(b"b").hexdigest()})
    with (
        flash.wait_for_board(c3.port, frozenset(), None, "") as board,
        pytest.raises(MicaError, match=r"/a.txt is not what was backed up"),
    ):
        board_files.restore(board, kept, lambda done, of: None)


# --- what can be wrong ----------------------------------------------------------------------------------

FAULTS = {
    "bad-md5": r"what was written reads back different; try again, with --erase \(MD5 of file does not match",
    "die-at=2": "the board fell silent; check its cable, and try again",
    "no-sync": r"no ESP32 answers; hold its BOOT button, press reset, and try again",
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults(fault: str, writer: Callable[..., EspWriter], monkeypatch: pytest.MonkeyPatch) -> None:
    if fault.startswith("die"):  # how long it waits for a board that is silent
        monkeypatch.setattr("esptool.loader.DEFAULT_TIMEOUT", 1.0)
        monkeypatch.setattr("esptool.cmds._get_flash_defl_block_timeout", lambda *_: 1.0)
    with FakeEsp("esp32c3", fault=fault) as board, pytest.raises(MicaError, match=FAULTS[fault]) as error:
        writer("esp32c3", board.port).write(None, moved=False)
    assert "\n" not in str(error.value)


def test_noise(writer: Callable[..., EspWriter]) -> None:
    """Noise may come while the chip tells its kind; esptool alone would give up at the first time."""
    with FakeEsp("esp32c3", fault="noise=2") as board:
        job = writer("esp32c3", board.port)
        job.write(None, moved=False)
        (start, data), *_ = job.image.parts
        assert board.loader.flash[start : start + len(data)] == data
    with FakeEsp("esp32c3", fault="noise=9") as board, pytest.raises(MicaError, match="Unexpected chip magic value"):
        writer("esp32c3", board.port).write(None, moved=False)


def test_another_chip(writer: Callable[..., EspWriter]) -> None:
    with (
        FakeEsp("esp32s3") as board,
        pytest.raises(MicaError, match="is an ESP32-S3; ESP32_GENERIC_C3 has an ESP32-C3"),
    ):
        writer("esp32c3", board.port).write(None, moved=False)


def test_erase_all(writer: Callable[..., EspWriter]) -> None:
    with FakeEsp("esp32c3") as board:
        memory = board.loader.flash
        memory[:] = b"x" * len(memory)
        job = writer("esp32c3", board.port, erase_all=True)
        job.write(None, moved=True)
        (_, data), *_ = job.image.parts
        assert memory == data.ljust(len(memory), b"\xff")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (b"", None),  # erased: a new module
        (b"garbage", "what is in its flash is no partition table"),
        (table(STOCK), flash_map.Span(0x200000, 0x200000)),
    ],
)
def test_without_a_repl(found: bytes, says: object, writer: Callable[..., EspWriter]) -> None:
    """The loader reads the table of a board whose firmware does not answer."""
    with FakeEsp("esp32c3") as board:
        board.loader.flash[0x8000 : 0x8000 + len(found)] = found
        assert writer("esp32c3", board.port).files_without_repl() == says


def test_no_esptool(monkeypatch: pytest.MonkeyPatch, writer: Callable[..., EspWriter]) -> None:
    monkeypatch.setitem(sys.modules, "esptool", None)
    with pytest.raises(MicaError, match=r'^esptool is not installed; type: pip install "esptool>=5,<6"$'):
        writer("esp32", "/dev/null")


def test_another_esptool(monkeypatch: pytest.MonkeyPatch, writer: Callable[..., EspWriter]) -> None:
    monkeypatch.setattr("esptool.__version__", "4.8.1")
    with pytest.raises(MicaError, match=r"esptool 4\.8\.1 is installed, and mica works with 5; type: pip install"):
        writer("esp32", "/dev/null")


def test_images(tmp_path: Path) -> None:
    board = load_board("ESP32_GENERIC_C3")
    good = firmware_bin("esp32c3", tmp_path / "good.bin").read_bytes()
    for data, says in (
        (b"not a firmware" * 10, "not a firmware for an ESP32"),
        (firmware_bin("esp32s3", tmp_path / "s3.bin").read_bytes(), "is for esp32s3; ESP32_GENERIC_C3 has an esp32c3"),
        (good[:0x8000], "has no partition table"),
        (good.ljust((4 << 20) + 1, b"x"), r"4,194,305 bytes do not fit into the flash of ESP32_GENERIC_C3"),
    ):
        (tmp_path / "x.bin").write_bytes(data)
        with pytest.raises(MicaError, match=says):
            firmware_image.read(board, tmp_path / "x.bin")
    # With models: one file again, from the same offset; and one with models takes others in their place.
    (tmp_path / "with.bin").write_bytes(firmware_image.combined_image(board, [DIGITS], tmp_path / "good.bin"))
    whole = (tmp_path / "with.bin").read_bytes()
    assert whole[: len(good)] == good
    assert whole[0x1E0000:].startswith(b"\xd2\xcd\x31")
    assert firmware_image.combined_image(board, [DIGITS], tmp_path / "with.bin") == whole
