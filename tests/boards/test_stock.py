"""Boards without a folder: those that keep stock MicroPython, and chips;
and the kernels that a compiler chooses for its core."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import mica
from mica.boards import NATIVE_ARENA, RUNTIME, all_boards, load_board, native_of, on_stock, read_board, stock_boards
from mica.boards.isa import isas, natives
from mica.cli.main import main
from mica.cost.table import Table
from mica.errors import MicaError
from mica.link import diagnosis
from mica.resources import data_dir

DEMO = Path(mica.__file__).parent / "demo"
COMMAND = str(DEMO / "command.mica")


@pytest.mark.parametrize("name", stock_boards())
def test_the_facts_agree(name: str) -> None:
    """A heap is part of the RAM, files are part of the flash, and a module has been measured."""
    bare, board = stock_boards()[name], load_board(name)
    assert 0 < bare.stock_heap < bare.ram and bare.storage <= bare.flash and bare.clock
    native = natives()[board.native]
    assert native.ram > 100_000 and board.isa == native.isa and board.arena == NATIVE_ARENA
    assert board.heap == max(-1, bare.stock_heap - native.ram - RUNTIME - NATIVE_ARENA)
    assert Table.read().core_of(board) == ("m7" if board.core == "Cortex-M7" else "m4")
    assert Table.read().heap(board) == (max(0, board.heap), False)


def test_what_cannot_be_done_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["build", "--board", "TEENSY41"], ["flash", "--board", "TEENSY41"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "TEENSY41 keeps its MicroPython" in said and "mica natmod --board TEENSY41" in said
    assert main(["verify", COMMAND, "--on", "TEENSY41"]) == 1
    assert "TEENSY41 is a real board; plug it in and give its port" in capsys.readouterr().err
    answers = {"heap": ["200000 1000"], "build": ["TEENSY41"], "nomica": ["no module named 'mica'"]}
    of, no_mica = diagnosis.judge(answers, load_board("TEENSY41"))[1:3]
    assert (of.state, of.text) == (diagnosis.OK, "built for TEENSY41")
    assert no_mica.todo == "add it to this firmware: mica natmod --board TEENSY41 --package DIR"
    assert main(["emu", "TEENSY41"]) == 2 and "TEENSY41 is a real board" in capsys.readouterr().err


def test_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole module leaves a small board no room, one of its own kernels does; a board that never ran says so."""
    assert main(["fit", COMMAND, "--board", "SEEED_XIAO_NRF52"]) == 2
    said = capsys.readouterr().out
    assert "RAM: needs" in said and "for the file" in said and "SEEED_XIAO_NRF52 was never run" in said
    assert main(["fit", COMMAND, "--board", "SEEED_XIAO_NRF52", "--native", "34K"]) == 0
    assert f"take {34 * 1024 + RUNTIME + NATIVE_ARENA:,} bytes of its heap" in capsys.readouterr().out
    assert main(["fit", COMMAND, "--board", "OPENMV_N6"]) == 0
    assert "in place in the ROMFS of 25,165,824" in capsys.readouterr().out
    assert main(["fit", COMMAND, "--board", "RPI_PICO"]) == 0
    assert "in place" in (said := capsys.readouterr().out) and "never run" not in said
    assert main(["fit", COMMAND, "--board", "RPI_PICO", "--native"]) == 2  # stock firmware has no ROMFS there
    # Stock has 32 KB more: its own image ends below the place that mica's takes.
    assert "in the file system of 1,409,024" in capsys.readouterr().out


def test_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", COMMAND, "--core", "m7", "--mhz", "600", "--ram", "512K", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["fit", COMMAND, "--board", "TEENSY41", "--json"]) == 0
    teensy = json.loads(capsys.readouterr().out)
    assert found["time"] == teensy["time"] and found["time"]["clock"] == 600_000_000
    assert found["ram"]["heap"] == (512 - 32 - 16) * 1024 and not any("never run" in note for note in found["notes"])
    assert main(["fit", COMMAND, "--core", "m0plus", "--ram", "32K"]) == 2
    assert "RAM: needs" in capsys.readouterr().out
    for words, line in (
        (["--core", "z80", "--ram", "1K"], "--core z80: no core is called so; known are m0plus, m3"),
        (["--core", "m7"], "--core: how much RAM has the chip?"),
        ([], "give either --board B or --core C"),
        (["--core", "m7", "--board", "UNIX"], "give either --board B or --core C"),
        (["--board", "UNIX", "--native", "much"], "--native: 'much' is not a size"),
    ):
        assert main(["fit", COMMAND, *words]) == 1
        assert line in (said := capsys.readouterr().err) and said.count("\n") == 1


def test_boards_by_the_way_mica_gets_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards", "--json"]) == 0
    boards = {board["name"]: board for board in json.loads(capsys.readouterr().out)["boards"]}
    assert set(boards) == {board.name for board in all_boards()} | set(stock_boards())
    ways = {name: board["way"] for name, board in boards.items()}
    assert (ways["RPI_PICO"], ways["TEENSY41"], ways["MPS2_AN385"]) == ("firmware", "native", "emulated")
    assert main(["boards"]) == 0
    groups = capsys.readouterr().out.split("\n\n")
    assert [group.split(":")[0] for group in groups] == [
        "Firmware image",
        "Stock MicroPython stays",
        "Emulated on this computer",
    ]
    for group, way in zip(groups, ("firmware", "native", "emulated"), strict=True):
        assert [line.split()[0] for line in group.strip().splitlines()[3:]] == [n for n in boards if ways[n] == way]


@pytest.mark.parametrize("board", [b for b in all_boards() if b.port.name != "unix"], ids=lambda b: b.name)
def test_a_module_for_each(board: mica.boards.BoardSpec) -> None:
    """Each has one; its RAM is not taken for nothing where it was never measured."""
    assert native_of(board) in natives()
    on = on_stock(board, 400_000)
    assert on.heap == (0 if native_of(board) == "xtensawin" else 400_000 - on.module)


def test_like(tmp_path: Path) -> None:
    """A board says what differs from another; the other's emulator is not its own."""
    pico, xiao, feather = (load_board(name) for name in ("RPI_PICO", "SEEED_XIAO_RP2040", "ADAFRUIT_FEATHER_RP2040"))
    assert (xiao.romfs, xiao.uf2, xiao.clock, xiao.target) == (
        pico.romfs,
        pico.uf2,
        pico.clock,
        "SEEED_XIAO_RP2040@emu",
    )
    assert feather.emulator is None and feather.uf2 == pico.uf2 and feather.romfs != pico.romfs
    for like in ('"MINE"', '"NOPE"', "1"):
        (tmp_path / "MINE").mkdir(exist_ok=True)
        (tmp_path / "MINE" / "board.toml").write_text(f'name = "MINE"\ndescription = ""\nlike = {like}\n')
        with pytest.raises(MicaError, match=r"board\.toml: like is .*; known are ADAFRUIT"):
            read_board(tmp_path / "MINE")


# ---- The kernels of a core, in a firmware tree of one's own ----

CORES = [
    *((isa.prefix, isa.name, list(bench.flags)) for isa in isas().values() for bench in isa.bench),
    *((n.prefix, n.isa, list(n.flags)) for n in natives().values() if n.prefix not in ("", "xtensawin-")),
    ("arm-none-eabi-", "armv6m", ["-mcpu=cortex-m23", "-mthumb"]),
    ("arm-none-eabi-", "armv7m", ["-mcpu=cortex-m33+nodsp", "-mthumb"]),
    ("arm-none-eabi-", "armv8m", ["-mcpu=cortex-m55+nomve", "-mthumb"]),
    ("arm-none-eabi-", "armv81m", ["-march=armv8.1-m.main+mve", "-mthumb", "-mfloat-abi=hard"]),
    ("arm-none-eabi-", "c32", ["-mcpu=cortex-a9"]),
    ("riscv64-unknown-elf-", "c32", ["-march=rv32ic", "-mabi=ilp32"]),
    ("riscv64-unknown-elf-", "ref", ["-march=rv64imac", "-mabi=lp64"]),
    ("xtensa-lx106-elf-", "xtensa", []),
    ("", "ref", []),
]


@pytest.mark.parametrize(("prefix", "isa", "flags"), CORES)
def test_the_compiler_tells_the_core(prefix: str, isa: str, flags: list[str]) -> None:
    flags = [flag for flag in flags if "specs" not in flag]
    command = [f"{prefix}gcc", *flags, "-E", "-P", "-x", "c", str(data_dir("usermod_c") / "kernels/isa/choose.inc")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [isa]


# As MicroPython's ports: the flags of the core come behind the user modules.
MAKEFILE = """\
USERMOD_DIR := {usermod}
BUILD = build
SRC_USERMOD_LIB_C :=
CFLAGS_USERMOD :=
include {usermod}/micropython.mk
CC = $(CROSS)gcc
CFLAGS += $(if $(filter F446,$(BOARD)),-mcpu=cortex-m4 -mthumb) -DNAME=\\"a\\"
all: ; @echo $(MICA_ISA) $(filter %/gemm.S,$(MICA_ISA_SOURCES))
"""


def test_make_takes_the_kernels_of_the_core(tmp_path: Path) -> None:
    usermod = data_dir("usermod_c")
    (tmp_path / "Makefile").write_text(MAKEFILE.format(usermod=usermod))

    def make(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", "-s", "-C", tmp_path, *words], capture_output=True, text=True, check=True)

    found = make("BOARD=F446", "CROSS=arm-none-eabi-").stdout.split()
    assert found[0] == "armv7em" and found[1].endswith("isa/armv7em/gemm.S")
    assert make("BOARD=F446", "CROSS=arm-none-eabi-", "MICA_ISA=armv7m").stdout.split()[0] == "armv7m"
    assert make().stdout.split() == ["ref"]
    strange = make("CROSS=no-such-")
    assert (
        strange.stdout.split() == ["ref"]
        and "mica: plain C, because the compiler did not tell the core" in strange.stderr
    )


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_takes_the_kernels_of_the_core(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.13)
project(x C)
add_library(usermod INTERFACE)
include({data_dir("usermod_c")}/micropython.cmake)
message("isa ${{MICA_ISA}}")
"""
    )
    words = "-DCMAKE_SYSTEM_NAME=Generic -DCMAKE_C_COMPILER=arm-none-eabi-gcc -DCMAKE_C_COMPILER_WORKS=1"
    command = [
        "cmake",
        "-S",
        tmp_path,
        "-B",
        tmp_path / "out",
        *shlex.split(words),
        "-DCMAKE_C_FLAGS=-mcpu=cortex-m33 -mthumb",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "isa armv8m\n" in done.stderr
