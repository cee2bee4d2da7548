"""board.toml: the facts that it holds, and the errors of a wrong one."""

from pathlib import Path

import pytest

from mica import boards
from mica.boards import load_board, parse_size, read_board
from mica.errors import MicaError
from mica.resources import data_dir

GOOD = """\
name = "B"
description = "a board"
port = "qemu"
mcu = "M"
core = "Cortex-M3"
isa = "armv7m"
ram = "4M"
arena = 1024
storage = 0
"""


def write(folder: Path, text: str) -> Path:
    (folder / "B").mkdir()
    (folder / "B" / "board.toml").write_text(text, encoding="utf-8")
    return folder / "B"


def test_good(tmp_path: Path) -> None:
    board = read_board(write(tmp_path, GOOD + '[romfs]\nbase = 0x100\nsize = "8K"\n[emulator]\nprogram = "q"\n'))
    assert (board.ram, board.arena, board.flash) == (4 << 20, 1024, 0)
    assert board.romfs == boards.Romfs(base=0x100, size=8192)
    assert board.emulator == boards.Emulator(program="q")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("mcu", "mcuu"), "unknown key mcuu; known are name, description"),
        (('ram = "4M"\n', ""), "ram is missing"),
        (('ram = "4M"', 'ram = "4 apples"'), "ram: '4 apples' is not a size"),
        (('ram = "4M"', "ram = true"), "ram: True is not a size"),
        (('ram = "4M"', "ram = -1"), "ram: -1 is not a size"),
        (('mcu = "M"', "mcu = 3"), "mcu: 3 is not a text"),
        (('mcu = "M"', 'clock = "fast"\nmcu = "M"'), "clock: 'fast' is not a whole number"),
        (('mcu = "M"', 'romfs = "1M"\nmcu = "M"'), "romfs: '1M' is not a table"),
        (('port = "qemu"', 'port = "vax"'), "port is 'vax'; known are unix, qemu, rp2, esp32"),
        (('port = "qemu"', "port = 3"), "port: 3 is not a text"),
        (('port = "qemu"', 'port = "rp2"'), "flash or [uf2] is missing, by which a board of rp2 is flashed"),
        (('port = "qemu"', 'port = "esp32"\nflash = 1'), "flash or [esptool] is missing"),
        (("storage = 0", 'flasher = "uf2"'), "unknown key flasher; known are name, description"),  # its port says that
        (('name = "B"', 'name = "C"'), "name is 'C', but the folder is 'B'"),
        (('name = "B"', "name = "), "Invalid value"),
        (("storage = 0", "[romfs]\nbase = 0\nsize = 1\nspeed = 2"), "romfs: unknown key speed"),
        (("storage = 0", "[emulator]\nprogram = 'q'\nargs = [1]"), "args: [1] is not a list"),
    ],
)
def test_wrong(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    folder = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(MicaError) as error:
        read_board(folder)
    assert said in str(error.value)
    assert str(folder / "board.toml") in str(error.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(MicaError, match=r"board\.toml is missing"):
        read_board(tmp_path)


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("64K", 65536), ("2m", 2 << 20), (4096, 4096), ("0x10", 16)])
def test_size(text: object, size: int) -> None:
    assert parse_size(text, "here") == size


def test_unknown_board_lists_the_known() -> None:
    with pytest.raises(
        MicaError, match=r"no board is called 'NOPE'; known are ADAFRUIT_FEATHER_RP2040, .*, RPI_PICO, .*, UNIX"
    ):
        load_board("NOPE")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Pico", "RPI_PICO"),
        ("rpi_pico", "RPI_PICO"),
        ("RPI_PIC02", "RPI_PICO2"),
        ("ESP32_GENERIC@emu", "ESP32_GENERIC"),
    ],
)
def test_a_name_that_is_nearly_right(name: str, meant: str) -> None:
    with pytest.raises(MicaError, match=rf"no board is called '{name}'; did you mean {meant}\?"):
        load_board(name)


def test_all_are_good() -> None:
    names = [board.name for board in boards.all_boards()]
    assert names == sorted(names)
    assert {"UNIX", "MPS2_AN385", "RPI_PICO"} <= set(names)


def test_a_real_board_is_marked_where_it_is_emulated() -> None:
    emulated = boards.emulated_boards()
    assert {"UNIX", "MPS2_AN385", "RPI_PICO@emu"} <= set(emulated)
    assert emulated["RPI_PICO@emu"] == load_board("RPI_PICO") == load_board("RPI_PICO@emu")


def test_pico_flash_is_divided_without_gaps() -> None:
    """MicroPython puts storage at the end of flash and ROMFS right below it: board.toml must agree."""
    board = load_board("RPI_PICO")
    assert board.romfs and board.uf2
    assert board.romfs.base + board.romfs.size + board.storage == board.uf2.base + board.flash


def test_data_dirs_are_the_checkouts() -> None:
    root = Path(__file__).resolve().parents[2]
    for name in ("boards", "firmware", "usermod_c"):
        assert data_dir(name) == root / name
    with pytest.raises(MicaError, match="incomplete"):
        data_dir("nothing")
