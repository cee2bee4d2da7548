"""Faults around a boot loader's drive, and how drives are found on Linux, macOS and Windows. Nothing is emulated."""

from __future__ import annotations

import errno
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_bootsel import INFO, FakeBootsel

from mica.boards import load_board
from mica.cli.main import main
from mica.errors import MicaError
from mica.flash import firmware_image, flash, flash_map, uf2_drive
from mica.flash.board_files import Backup
from mica.flash.flash_map import Span
from mica.images import romfs, uf2
from mica.link import drives
from mica.link.board import BoardError, board_exception
from mica.link.drives import Drive

DIGITS = Path(__file__).resolve().parent.parent / "format" / "golden" / "v1.mica"
PROGRAM = random.Random(1).randbytes(40_000)
BASE = flash_map.XIP_BASE


def declaring(files: Span | None) -> bytes:
    """A program that declares its file system as pico-sdk does, with other records round it."""
    program = bytearray(PROGRAM)
    table, record = 0x300, 0x400
    struct.pack_into("<5I", program, 0x150, 0x7188EBF2, BASE + table, BASE + table + 12, 0, 0xE71AA390)
    struct.pack_into("<3I", program, table, BASE + 0x500, BASE + record, 0x20000100)
    struct.pack_into("<H2sII", program, 0x500, 6, b"RP", 0, 0)
    if files:
        struct.pack_into("<H2sIII", program, record, 7, b"MP", 0, BASE + files.start, files.size)
    return bytes(program)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A firmware as far as its outside goes."""
    path = tmp_path / "firmware.uf2"
    path.write_bytes(uf2.build([(BASE, declaring(Span(0x190000, 0x70000)))], uf2.RP2040))
    return path


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeBootsel]]:
    """Makes drives, and has the computer find them."""
    made: list[FakeBootsel] = []

    def make(chip: str = "RP2040", vanish_at: int | None = None) -> FakeBootsel:
        fake = FakeBootsel(tmp_path / f"drive{len(made)}", tmp_path / f"flash{len(made)}", chip, vanish_at=vanish_at)
        made.append(fake)
        monkeypatch.setenv("MICA_DRIVES", os.pathsep.join(str(one.folder) for one in made))
        return fake

    monkeypatch.setenv("MICA_DRIVES", "")
    yield make
    for fake in made:
        fake.close()


@pytest.fixture
def fails(image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs mica flash, which must fail with one line; returns that."""
    monkeypatch.setattr(flash, "BACK_SECONDS", 0.1)
    monkeypatch.setattr(flash.serial.tools.list_ports, "comports", list)

    def run(*words: str, board: str = "RPI_PICO", code: int = 1) -> str:
        given = [] if "--image" in words else ["--image", str(image)]
        assert main(["flash", "--board", board, *given, *words]) == code
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mica: error:")]
        return line

    return run


def test_the_copy(drive: Callable[..., FakeBootsel], fails: Callable[..., str]) -> None:
    """All of it arrives; without a serial port nothing shows that the firmware runs, and that is an error."""
    fake = drive()
    said = fails("--erase-files")
    assert fake.done.wait(300) and fake.faults == []
    assert fake.flash.read_bytes()[: len(PROGRAM)] == declaring(Span(0x190000, 0x70000))
    assert said == (
        "mica: error: the image is written, but RPI_PICO did not come back within 0 s: no new serial port appeared"
    )


def test_no_board_no_build(
    drive: Callable[..., FakeBootsel], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing board is reported before its firmware is built, which takes minutes."""
    monkeypatch.setattr(flash.serial.tools.list_ports, "comports", list)

    def build(*_: object, **__: object) -> None:
        raise MicaError("builds")

    monkeypatch.setattr("mica.toolchain.build.build", build)
    for words, said in (
        (["RPI_PICO"], "no RPI_PICO is in BOOTSEL mode"),
        (["RPI_PICO", "--drive", "/nowhere"], "/nowhere is not the drive of a board in BOOTSEL mode"),
        (["RPI_PICO", "--on", "/dev/nothing"], "there is no port /dev/nothing"),
        (["ESP32_GENERIC"], "no board is plugged in by USB"),
    ):
        assert main(["flash", "--board", *words]) == 1
        assert said in capsys.readouterr().err
    drive()
    assert main(["flash", "--board", "RPI_PICO"]) == 1
    assert capsys.readouterr().err == "mica: error: builds\n"


def test_no_drive(drive: Callable[..., FakeBootsel], fails: Callable[..., str], tmp_path: Path) -> None:
    assert fails("--erase-files") == (
        "mica: error: no RPI_PICO is in BOOTSEL mode; hold its BOOTSEL button while you plug it in, "
        "or give the port of one that runs MicroPython with --on"
    )
    assert f"{tmp_path} is not the drive of a board in BOOTSEL mode: there is no INFO_UF2.TXT in it" in fails(
        "--drive", str(tmp_path)
    )


def test_files_that_nobody_can_see(drive: Callable[..., FakeBootsel], fails: Callable[..., str]) -> None:
    fake = drive()
    said = fails()
    assert "they cannot be seen in BOOTSEL mode" in said
    assert "a new board has none: add --erase-files. To keep them, plug it in while it runs MicroPython" in said
    assert not fake.seen


def test_two_drives(drive: Callable[..., FakeBootsel], fails: Callable[..., str]) -> None:
    first, second = drive(), drive()
    said = fails("--erase-files")
    assert f"several boards are in BOOTSEL mode: {first.folder}, {second.folder}; choose one with --drive" in said
    fails("--erase-files", "--drive", str(second.folder))
    assert second.done.wait(300) and not first.seen


def test_drive_of_another_chip(drive: Callable[..., FakeBootsel], fails: Callable[..., str]) -> None:
    fake = drive("RP2350")
    assert fails("--erase-files") == (
        f"mica: error: {fake.folder} (Raspberry Pi RP2350) is not the drive of an RP2040, which RPI_PICO has"
    )


def test_image_of_another_chip(drive: Callable[..., FakeBootsel], fails: Callable[..., str], tmp_path: Path) -> None:
    fake = drive()
    other = tmp_path / "pico2.uf2"
    other.write_bytes(uf2.build([(BASE, PROGRAM)], uf2.RP2350))
    said = fails("--erase-files", "--image", str(other))
    assert said == f"mica: error: {other}: is for RP2350 (Arm); RPI_PICO has an RP2040"
    assert not fake.seen


def test_cable_pulled(drive: Callable[..., FakeBootsel], fails: Callable[..., str]) -> None:
    fake = drive(vanish_at=20)
    said = fails("--erase-files")
    assert f"the drive {fake.folder} vanished after " in said
    assert said.endswith(" of 160 blocks (Broken pipe); plug the board in with BOOTSEL again and repeat")
    assert not fake.flash.exists()


def test_full(tmp_path: Path, image: Path) -> None:
    (tmp_path / "mica.uf2").symlink_to("/dev/full")
    silent = flash.FlashCallbacks(lambda message: None, lambda what, unit: _Silent())
    with pytest.raises(MicaError, match=r"is full: the image has 81,920 bytes"):
        uf2_drive.copy(image.read_bytes(), Drive(tmp_path, "RPI-RP2", ""), silent)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_no_permission(number: int, tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, whom nothing is forbidden: so the system is made to refuse."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    silent = flash.FlashCallbacks(lambda message: None, lambda what, unit: _Silent())
    with pytest.raises(MicaError, match=f"no permission to write to {tmp_path}; mount it as your own user"):
        uf2_drive.copy(b"x" * 512, Drive(tmp_path, "RPI-RP2", ""), silent)


def test_gone_after_the_last_block(tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The board restarts when it has everything; an error of the system about its drive is no failure then."""

    def gone(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    silent = flash.FlashCallbacks(lambda message: None, lambda what, unit: _Silent())
    data = image.read_bytes()
    monkeypatch.setattr(os, "fsync", gone)
    with pytest.raises(MicaError, match="vanished after 128 of 160 blocks"):
        uf2_drive.copy(data, Drive(tmp_path, "RPI-RP2", ""), silent)
    monkeypatch.setattr(uf2_drive, "_CHUNK", len(data))
    uf2_drive.copy(data, Drive(tmp_path, "RPI-RP2", ""), silent)


class _Silent:
    def __enter__(self) -> Callable[[int, int], None]:
        return lambda done, of: None

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("words", "board", "code", "says"),
    [
        ([], "MPS2_AN385", 2, "MPS2_AN385 is emulated, and runs what mica builds; there is nothing to flash"),
        (["--on", "RPI_PICO@emu"], "RPI_PICO", 2, "'RPI_PICO@emu' is not a port that a board is plugged in at"),
        (["--on", "/dev/none"], "RPI_PICO", 1, "there is no port /dev/none"),
        (["--on", "/dev/none", "--drive", "/"], "RPI_PICO", 1, "give one of them"),
        (["--erase"], "RPI_PICO", 1, "--erase: a boot loader's drive cannot erase"),
        (["--image", "/none.uf2"], "RPI_PICO", 1, "/none.uf2: no such file"),
        (["--image", __file__], "RPI_PICO", 1, "not a UF2 file"),
        (["--with", "/none.mica"], "RPI_PICO", 1, "/none.mica: no such file"),
        (["--with", __file__], "RPI_PICO", 1, "test_flash_faults.py: "),
        (["--with", str(DIGITS), str(DIGITS)], "RPI_PICO", 1, "models on a board need names of their own"),
        ([], "ESP32_GENERIC", 1, "not a firmware for an ESP32"),
    ],
)
def test_mistakes(words: list[str], board: str, code: int, says: str, drive: object, fails: Callable[..., str]) -> None:
    assert says in fails(*words, board=board, code=code)


# --- a board that runs ----------------------------------------------------------------------------------


class Running:
    """A stand-in for a board's REPL, with one answer to everything."""

    name = "/dev/ttyX"

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer

    def exec(self, code: str, timeout: float = 0, **limits: object) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        pass


def test_nobody_answers(fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mica.link.serial_board._ANSWER", 0.1)
    master, slave = os.openpty()
    port = os.ttyname(slave)
    assert fails("--on", port) == (
        f"mica: error: no MicroPython answers at {port}; hold the board's BOOTSEL button while you plug it in, "
        "and leave out --on"
    )
    os.close(master)
    os.close(slave)


def test_another_board_answers() -> None:
    pico2 = Running(b"micropython Raspberry Pi Pico2 with RP2350\n")
    flash._check_chip(load_board("RPI_PICO2"), pico2)  # type: ignore[arg-type]
    flash._check_chip(load_board("RPI_PICO2"), Running(b"micropython Raspberry Pi Pico2 with RP2350-RISCV\n"))
    said = "/dev/ttyX is a Raspberry Pi Pico2 with RP2350; RPI_PICO has an RP2040"
    with pytest.raises(MicaError, match=said):
        flash._check_chip(load_board("RPI_PICO"), pico2)  # type: ignore[arg-type]
    with pytest.raises(
        MicaError, match="/dev/ttyX runs circuitpython, not MicroPython; put the board into its boot loader"
    ):
        flash._check_chip(load_board("RPI_PICO"), Running(b"circuitpython Pico with rp2040\n"))
    with pytest.raises(MicaError, match="/dev/ttyX is no ESP32: its MicroPython has no module esp32"):
        flash_map.partitions_of_board(
            Running(board_exception("ImportError: no module named 'esp32'"))  # type: ignore[arg-type]
        )


def test_where_a_board_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board comes back by its serial number, if USB has one; else at its port, or at a new port."""

    def plugged(*boards: tuple[str, str | None]) -> None:
        found = [SimpleNamespace(device=name, vid=0x2E8A, serial_number=number) for name, number in boards]
        found.append(SimpleNamespace(device="/dev/ttyS0", vid=None, serial_number=None))
        monkeypatch.setattr("serial.tools.list_ports.comports", lambda: found)

    before = frozenset({"/dev/ttyACM0", "/dev/ttyACM1"})
    plugged(("/dev/ttyACM0", "A"), ("/dev/ttyACM1", "B"))
    assert flash._serial_number("/dev/ttyACM1") == "B"
    assert flash._came_back(None, before, None) == []
    plugged(("/dev/ttyACM0", "A"), ("/dev/ttyACM2", "B"))
    assert flash._came_back("/dev/ttyACM1", before, "B") == ["/dev/ttyACM2"]
    assert flash._came_back("/dev/ttyACM1", before, "C") == ["/dev/ttyACM1", "/dev/ttyACM2"]
    assert flash._came_back(None, before, None) == ["/dev/ttyACM2"]


def test_no_way_into_bootsel(image: Path, drive: object, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = flash.FlashCallbacks(lambda message: None, lambda what, unit: _Silent())
    writer = uf2_drive.Uf2Writer(firmware_image.read(load_board("RPI_PICO"), image), None, silent)
    old = Running(board_exception("AttributeError: no bootloader"))
    with pytest.raises(MicaError, match="/dev/ttyX does not go into BOOTSEL mode: AttributeError: no bootloader"):
        writer.write(old, moved=False)  # type: ignore[arg-type]
    monkeypatch.setattr(uf2_drive, "_DRIVE_SECONDS", 0.1)
    gone = Running(BoardError("the connection broke"))
    with pytest.raises(MicaError, match="went into BOOTSEL mode, but no drive appeared within 0 s; when it is there"):
        writer.write(gone, moved=False)  # type: ignore[arg-type]


# --- images ---------------------------------------------------------------------------------------------


def test_layout_of_an_image() -> None:
    for files in (Span(0x190000, 0x70000), None):
        blocks = uf2.parse(uf2.build([(BASE, declaring(files))], uf2.RP2040), "x")
        assert flash_map.rp2_files_of_image((block.address, block.data) for block in blocks) == files
    assert flash_map.rp2_files_of_image([(BASE, bytes(256))]) is None
    assert flash_map.rp2_files_of_image([]) is None


def test_images_that_are_refused(tmp_path: Path) -> None:
    board = load_board("RPI_PICO")
    path = tmp_path / "x.uf2"
    inside = declaring(Span(0x190000, 0x70000))
    for parts, says in (
        ([(0x20000000, PROGRAM)], "no program begins at 0x10000000"),
        ([(BASE, PROGRAM), (BASE + (2 << 20), b"x")], "writes at 0x10200000, which is not in the flash of RPI_PICO"),
        ([(BASE, inside), (BASE + 0x1FF000, b"x")], "writes into its own file system"),
    ):
        path.write_bytes(uf2.build(parts, uf2.RP2040))
        with pytest.raises(MicaError, match=says):
            firmware_image.read(board, path)
    # One with another layout than mica's has no window for models.
    path.write_bytes(uf2.build([(BASE, declaring(Span(0xA0000, 0x160000)))], uf2.RP2040))
    with pytest.raises(MicaError, match="has no ROMFS as RPI_PICO's, for models"):
        firmware_image.combined_image(board, [DIGITS], path)


def test_models_replace_what_was_pushed(image: Path) -> None:
    """The logs of both halves are blank in the file, so the board mounts the image in front of them."""
    facts = load_board("RPI_PICO")
    blocks = uf2.parse(firmware_image.combined_image(facts, [DIGITS], image), "x")
    flat = {block.address - BASE: block.data for block in blocks}
    rom = romfs.rom_window_image({DIGITS.name: DIGITS.read_bytes()}, 928 << 10)
    assert b"".join(flat[0xA8000 + at] for at in range(0, len(rom), 256)).startswith(rom)
    for log in (0xA8000 + (464 << 10) - 4096, 0xA8000 + (928 << 10) - 4096):
        assert b"".join(flat[log + at] for at in range(0, 4096, 256)) == b"\xff" * 4096
    # An image that reaches over the first log is not cut up by it.
    large = firmware_image.with_models(firmware_image.read(facts, image), {"large.mica": b"x" * (600 << 10)})
    assert [at for at, _ in large.parts] == [0, 0xA8000, 0xA8000 + (928 << 10) - 4096]


def test_the_block_for_an_erratum(tmp_path: Path) -> None:
    """A UF2 for an RP2350 may begin with a block of the family "absolute"; it is neither program nor another chip's."""
    board = load_board("RPI_PICO2")
    path = tmp_path / "x.uf2"
    extra = uf2.build([(0x10FFF000, b"\xef" * 256)], uf2.ABSOLUTE)[:512]
    path.write_bytes(extra + uf2.build([(BASE, PROGRAM)], uf2.RP2350))
    image = firmware_image.read(board, path)
    assert image.parts[0][0] == 0 and image.parts[0][1].startswith(PROGRAM)


def test_blocks() -> None:
    """Sectors are filled: a boot ROM can damage one that comes in part (RP2040-E14). A later part wins."""
    blocks = uf2.parse(
        uf2.build([(BASE + 4000, b"a" * 200), (BASE + 0x8000, b"b"), (BASE + 4001, b"c")], uf2.RP2040), "x"
    )
    assert [block.address for block in blocks] == [
        BASE + sector + page for sector in (0, 4096, 0x8000) for page in range(0, 4096, 256)
    ]
    assert [(block.number, block.of) for block in blocks] == [(i, 48) for i in range(48)]
    flat = b"".join(block.data for block in blocks)
    assert flat[:4000] == b"\xff" * 4000 and flat[4000:4200] == b"ac" + b"a" * 198 and flat[4200:8192] == b"\xff" * 3992


@pytest.mark.parametrize("damage", [0, 4, 508, 16])
def test_not_uf2(damage: int) -> None:
    data = bytearray(uf2.build([(BASE, PROGRAM)], uf2.RP2040))
    data[512 + damage : 512 + damage + 4] = b"\xff\xff\xff\x0f"
    with pytest.raises(MicaError, match=r"x: not a UF2 file \(block 1\)"):
        uf2.parse(bytes(data), "x")
    with pytest.raises(MicaError, match="expected a multiple of 512"):
        uf2.parse(bytes(data[:700]), "x")


# --- where drives are -----------------------------------------------------------------------------------


def test_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MICA_DRIVES", raising=False)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "mounts").write_text(
        "/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 /media/me/RPI-RP2 vfat rw 0 0\n/dev/sdc1 /mnt/my\\040drive vfat "
        "ro 0 0\nshort\n"
        "E: /mnt/e 9p rw 0 0\n"
    )
    (tmp_path / "run" / "media" / "me" / "RP2350").mkdir(parents=True)
    found = drives.candidates("linux", tmp_path)
    assert found == [
        *(Path("/media/me/RPI-RP2"), Path("/mnt/my drive"), Path("/mnt/e")),
        tmp_path / "run" / "media" / "me" / "RP2350",
    ]
    shutil.rmtree(tmp_path / "proc")
    assert drives.candidates("linux", tmp_path) == found[3:]


def test_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MICA_DRIVES", raising=False)
    for name in ("Macintosh HD", "RPI-RP2"):
        (tmp_path / "Volumes" / name).mkdir(parents=True)
    assert drives.candidates("darwin", tmp_path) == [tmp_path / "Volumes" / n for n in ("Macintosh HD", "RPI-RP2")]


def test_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MICA_DRIVES", raising=False)
    monkeypatch.setattr(drives, "_logical_drives", lambda: 0b10101)  # A, C and E
    assert [str(path) for path in drives.candidates("win32")] == ["C:\\", "E:\\"]


def test_drives_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (
        ("nrf", "UF2 Bootloader 0.4.0\r\nModel: Feather\r\nBoard-ID: NRF52840-X-revD\r\n"),
        ("pico", INFO["RP2040"].replace("\n", "\r\n")),
        ("stick", None),
    ):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "INFO_UF2.TXT").write_bytes(text.encode())
    monkeypatch.setenv(
        "MICA_DRIVES", os.pathsep.join(str(tmp_path / name) for name in ("nrf", "stick", "pico", "none"))
    )
    nrf, pico = drives.find()
    assert (nrf.chip, pico.chip, pico.model) == ("", "RP2040", "Raspberry Pi RP2")
    assert drives.choose("RP2040", "RPI_PICO", [nrf, pico]) == pico
    with pytest.raises(MicaError, match=r"nrf \(Feather\) is not the drive of an RP2040, which RPI_PICO has"):
        drives.choose("RP2040", "RPI_PICO", [nrf])


def test_not_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Linux without a desktop: the device is there, and no program mounts it."""
    labels = tmp_path / "dev" / "disk" / "by-label"
    labels.mkdir(parents=True)
    (labels / "RPI-RP2").touch()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(drives, "unmounted", lambda find=drives.unmounted: find(tmp_path))
    with pytest.raises(MicaError, match=f"not mounted; type: udisksctl mount -b {labels}/RPI-RP2"):
        drives.choose("RP2040", "RPI_PICO", [])


@pytest.mark.parametrize("name", ["/../boot.py", "/a/../../b", "/.", "/a//b"])
def test_a_board_does_not_say_where_its_copies_go(name: str, tmp_path: Path) -> None:
    with pytest.raises(MicaError, match="which this computer cannot keep"):
        Backup(tmp_path, (), {}).local(name)
    assert Backup(tmp_path, (), {}).local("/lib/a..b.py") == tmp_path / "lib" / "a..b.py"
