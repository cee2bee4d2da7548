"""Boards that cannot run here: their flash is divided as in board.toml, and their builds name the parts they need."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from mica.boards import BoardSpec, all_boards, load_board, read_board
from mica.errors import MicaError, Unsupported
from mica.resources import data_dir
from mica.toolchain import build as builder
from mica.toolchain import esp_idf, sources
from mica.toolchain.micropython import choose

MEGABYTE = 1 << 20
RP2 = [board.name for board in all_boards() if board.port.name == "rp2"]
ESP32 = [board.name for board in all_boards() if board.port.name == "esp32"]


def test_all_are_here() -> None:
    assert {"RPI_PICO", "RPI_PICO2", "RPI_PICO_W", "RPI_PICO2_W"} <= set(RP2)
    assert {"ESP32_GENERIC", "ESP32_GENERIC_S3", "ESP32_GENERIC_C3"} <= set(ESP32)


@pytest.mark.parametrize("name", RP2)
def test_rp2_flash(name: str) -> None:
    """MicroPython puts storage at the end of flash and ROMFS right below it, in sectors of 4 KB."""
    board = load_board(name)
    assert board.romfs and board.uf2
    assert board.romfs.base + board.romfs.size + board.storage == board.uf2.base + board.flash
    assert board.romfs.size >= (832 if board.network else 896) * 1024
    assert board.romfs.base % 4096 == board.romfs.size % 4096 == board.storage % 4096 == 0
    # The port's own images are 330 to 700 KB; with a network, lwIP and the radio's firmware, mica's is 975 KB.
    assert board.romfs.base - board.uf2.base >= (1088 if board.network else 640) * 1024


def partitions(board: BoardSpec) -> dict[str, tuple[str, str, int, int]]:
    """Type, subtype, offset and size of each partition of a board."""
    rows = csv.reader((board.folder / "partitions.csv").read_text(encoding="utf-8").splitlines())
    fields = [[field.strip() for field in row] for row in rows if row and not row[0].startswith("#")]
    return {name: (kind, sub, int(offset, 0), int(size, 0)) for name, kind, sub, offset, size in fields}


@pytest.mark.parametrize("name", ESP32)
def test_esp32_partitions(name: str) -> None:
    """One behind the other without overlap, programs at multiples of 64 KB, and ROMFS where board.toml says."""
    board = load_board(name)
    table = partitions(board)
    end = 0x9000  # boot loader and partition table lie in front
    for kind, _, offset, size in table.values():
        assert offset >= end
        assert offset % (0x10000 if kind == "app" else 0x1000) == size % 0x1000 == 0
        end = offset + size
    assert end == board.flash
    assert board.romfs
    # The port finds it by its label; the memory map has pages of 64 KB.
    assert table["romfs"] == ("data", "0x8f", board.romfs.base, board.romfs.size)
    assert board.romfs.base % 0x10000 == 0
    assert board.romfs.size >= MEGABYTE
    assert table["vfs"][3] == board.storage
    assert table["factory"][3] >= 0x1D0000  # as in the port's own table with a ROMFS


@pytest.mark.parametrize("name", ESP32)
def test_esp32_configuration_exists(name: str) -> None:
    """The files that a board names are those of the tree, and ROMFS, off by default in 1.25, is on."""
    board = load_board(name)
    text = (board.folder / "mpconfigboard.cmake").read_text(encoding="utf-8")
    names = [word for word in text.split() if word.startswith("boards/")]
    assert names
    port = sources.fetch() / "ports" / "esp32"
    assert [name for name in names if not (port / name).is_file()] == []
    assert "#define MICROPY_VFS_ROM (1)" in (board.folder / "mpconfigboard.h").read_text(encoding="utf-8")
    spiram = any("spiram" in name for name in names)
    assert spiram == (board.core != "RISC-V")  # those have no bus for it
    assert board.esptool and (f"set(IDF_TARGET {board.esptool.chip})" in text) == (board.mcu != "ESP32")


PORTS_OWN = [name for name in ESP32 if name.startswith("ESP32_GENERIC")]


@pytest.mark.parametrize("name", PORTS_OWN)
def test_esp32_agrees_with_the_port(name: str) -> None:
    """MicroPython's esp32 port of this version has the board: target, settings, macros, the image's place, partitions
    that its C and Python look for, modules that it freezes. That is as much as can be seen without the SDK."""
    board = load_board(name)
    port = sources.fetch() / "ports" / "esp32"
    theirs = port / "boards" / name

    def words(folder: Path) -> list[str]:
        return (folder / "mpconfigboard.cmake").read_text(encoding="utf-8").split()

    def macros(folder: Path) -> set[tuple[str, str]]:
        text = (folder / "mpconfigboard.h").read_text(encoding="utf-8")
        return set(re.findall(r"^#define (\w+) +(.*)$", text, flags=re.MULTILINE))

    def targets(folder: Path) -> list[str]:
        return re.findall(r"set\(IDF_TARGET (\w+)\)", (folder / "mpconfigboard.cmake").read_text(encoding="utf-8"))

    assert targets(board.folder) == targets(theirs)
    ours, known = ([w for w in words(f) if w.startswith("boards/")] for f in (board.folder, theirs))
    assert set(ours) - set(known) <= {"boards/sdkconfig.spiram"} and set(known) <= set(ours)  # of the variant SPIRAM
    assert macros(board.folder) - macros(theirs) == {("MICROPY_VFS_ROM", "(1)")}
    assert macros(theirs) <= macros(board.folder)
    options = json.loads((theirs / "board.json").read_text(encoding="utf-8"))["deploy_options"]
    assert board.esptool and int(options["flash_offset"], 0) == board.esptool.offset

    table = partitions(board)
    rows = csv.reader((port / "partitions-4MiB-romfs.csv").read_text(encoding="utf-8").splitlines())
    for label, kind, sub, offset, size, *_ in ([f.strip() for f in row] for row in rows if row[0][0] != "#"):
        assert table[label][:2] == (kind, sub)
        if label in ("nvs", "phy_init"):
            assert table[label][2:] == (int(offset, 0), int(size, 0))
        if label == "factory":
            assert table[label][2] == int(offset, 0) and table[label][3] >= int(size, 0)
    assert 'label="vfs"' in (port / "modules" / "flashbdev.py").read_text(encoding="utf-8")
    assert '"romfs"' in (port / "esp32_partition.c").read_text(encoding="utf-8")

    frozen = set(
        re.findall(
            r'"(\w+\.py)"', (data_dir("boards") / "common" / "esp32" / "manifest.py").read_text(encoding="utf-8")
        )
    )
    assert frozen == {path.name for path in (port / "modules").glob("*.py")}  # _boot.py is ours
    assert 'include("$(MPY_DIR)/extmod/asyncio")' in (port / "boards" / "manifest.py").read_text(encoding="utf-8")
    emits = "#define MICROPY_EMIT_XTENSAWIN" in (port / "mpconfigport.h").read_text(encoding="utf-8")
    assert emits and (board.native == "xtensawin") == board.core.startswith("Xtensa")


# --- ESP-IDF --------------------------------------------------------------------------------------------


def fake_idf(folder: Path, version: tuple[int, int] = (5, 2)) -> Path:
    """A folder that looks like an ESP-IDF. Its export.sh puts a make first that notes how it was called."""
    (folder / "tools" / "cmake").mkdir(parents=True)
    (folder / "tools" / "idf.py").touch()
    (folder / "tools" / "cmake" / "version.cmake").write_text(
        f"set(IDF_VERSION_MAJOR {version[0]})\nset(IDF_VERSION_MINOR {version[1]})\n"
    )
    (folder / "export.sh").write_text(f'export PATH={folder}/bin:$PATH\necho "exported"\n')
    make = folder / "bin" / "make"
    make.parent.mkdir()
    make.write_text(
        f"""#!/bin/bash
printf '%s\\n' "$@" >{folder}/called
for word; do case $word in BUILD=*) to=${{word#BUILD=}};; esac; done
mkdir -p "$to" && echo image >"$to/firmware.bin" && cp {shutil.which("true")} "$to/micropython.elf"
"""
    )
    make.chmod(0o755)
    return folder


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No ESP-IDF in any usual place, and an empty cache."""
    monkeypatch.delenv("IDF_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MICA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(esp_idf, "_usual_places", lambda: [tmp_path / "home" / "esp" / "esp-idf"])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("ESP32_GENERIC", "esp32"),
        ("ESP32_GENERIC_C3", "esp32c3"),
        ("ESP32_GENERIC_C6", "esp32c6"),
        ("SEEED_XIAO_ESP32S3", "esp32s3"),
    ],
)
def test_no_idf(nowhere: Path, name: str, chip: str) -> None:
    with pytest.raises(Unsupported) as error:
        builder.build(load_board(name))
    text = str(error.value)
    assert "needs Espressif's ESP-IDF, which is not here; to get it: git clone -b v5.2.2 " in text
    assert f"install.sh {chip} && export IDF_PATH=" in text
    assert "\n" not in text


def test_wrong_idf(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDF_PATH", str(nowhere / "none"))
    with pytest.raises(Unsupported, match="where no ESP-IDF is; to get one: git clone"):
        esp_idf.find("esp32")
    monkeypatch.setenv("IDF_PATH", str(fake_idf(nowhere / "new", (6, 0))))
    with pytest.raises(Unsupported, match=r"is ESP-IDF 6\.0, and MicroPython 1\.25\.0 wants 5\.2 to 5\.4; to get one"):
        esp_idf.find("esp32")


def test_idf_in_the_usual_place(nowhere: Path) -> None:
    idf = fake_idf(nowhere / "home" / "esp" / "esp-idf", (5, 4))
    assert esp_idf.find("esp32") == idf
    assert esp_idf.version(idf) == (5, 4)


def test_build_with_idf(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The make command names this board, our module and our settings; the image is where the board expects it."""
    idf = fake_idf(nowhere / "idf")
    monkeypatch.setenv("IDF_PATH", str(idf))
    asked = {}

    def fetch(release: object, **expected: object) -> Path:
        asked.update(expected)
        return nowhere / "tree"

    monkeypatch.setattr(sources, "fetch", fetch)
    board = load_board("ESP32_GENERIC_S3")
    result = builder.build(board, arena=12345)
    assert asked["submodules"] == ("lib/berkeley-db-1.xx",)
    called = (idf / "called").read_text().splitlines()
    assert called[:2] == ["-C", str(nowhere / "tree" / "ports" / "esp32")]
    assert "BOARD=ESP32_GENERIC_S3" in called
    assert f"BOARD_DIR={board.folder}" in called
    options = next(word for word in called if word.startswith("CMAKE_ARGS=")).removeprefix("CMAKE_ARGS=").split()
    assert "-DMICA_ARENA_BYTES=12345" in options
    assert any(word.startswith("-DUSER_C_MODULES=") and Path(word.partition("=")[2]).is_file() for word in options)
    manifest = next(word for word in called if word.startswith("FROZEN_MANIFEST=")).partition("=")[2]
    assert "firmware/manifest.py" in Path(manifest).read_text()
    assert result.image.read_text() == "image\n"
    assert result.image.name == "firmware.bin"
    assert result.text > 0
    assert result.compiler == f"ESP-IDF 5.2 at {idf}"
    assert not builder.build(board, arena=12345).built


# --- what only git has ----------------------------------------------------------------------------------


def test_pico_w_without_git(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its radio's driver is in no Debian package: said with the command, and nothing half-fetched stays."""
    programs = nowhere / "bin"
    programs.mkdir()
    git = programs / "git"
    git.write_text("#!/bin/sh\necho 'fatal: unable to access: Could not resolve host' >&2\nexit 128\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with pytest.raises(Unsupported) as error:
        builder.build(load_board("RPI_PICO_W"))
    text = str(error.value)
    assert text.startswith("RPI_PICO_W: it needs lib/cyw43-driver and lib/lwip of MicroPython's git repository")
    assert "Could not resolve host" in text
    assert "git clone --depth 1 --branch v1.25.0 " in text
    assert "\n" not in text
    assert [path.name for path in (nowhere / "cache" / "src").iterdir() if path.is_dir()] == []


def test_submodules_of_a_tree_from_git(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only missing submodules are fetched, into the existing tree."""
    tree = choose().tree
    (tree / ".git").mkdir(parents=True)
    (tree / "lib" / "lwip").mkdir(parents=True)
    (tree / "lib" / "lwip" / "here").touch()
    commands: list[list[str]] = []
    monkeypatch.setattr(sources, "run_logged", lambda command, *_, **__: commands.append([str(w) for w in command]))
    (tree / "mpy-cross" / "build").mkdir(parents=True)
    (tree / "mpy-cross" / "build" / "mpy-cross").touch()
    assert sources.fetch(submodules=("lib/cyw43-driver", "lib/lwip")) == tree
    assert [command[-1] for command in commands] == ["lib/cyw43-driver"]


def test_a_board_is_flashed_as_its_port_is(tmp_path: Path) -> None:
    """`flasher` stood in each board.toml, too, where it could be another's."""
    assert {load_board(name).flasher for name in RP2} == {"uf2"}
    assert {load_board(name).flasher for name in ESP32} == {"esptool"}
    assert {board.flasher for board in all_boards() if board.name not in RP2 + ESP32} == {"none"}
    text = (load_board("ESP32_GENERIC").folder / "board.toml").read_text(encoding="utf-8")
    folder = tmp_path / "ESP32_GENERIC"
    folder.mkdir()
    (folder / "board.toml").write_text(f'flasher = "magic"\n{text}', encoding="utf-8")
    with pytest.raises(MicaError, match="unknown key flasher"):
        read_board(folder)
