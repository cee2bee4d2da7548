"""Content of kernels/isa/<isa>/isa.toml, and the errors for a wrong one."""

from pathlib import Path

import pytest

from mica.boards import board_names, isa, load_board
from mica.cost.table import Table
from mica.errors import MicaError
from mica.resources import data_dir

KERNELS = data_dir("usermod_c") / "kernels" / "isa"


def test_every_folder_of_kernels_has_its_facts() -> None:
    assert set(isa.isas()) == {path.parent.name for path in KERNELS.glob("*/mica_select.h")}


def test_costs_were_measured_on_emulated_cores() -> None:
    cores = {bench.name for i in isa.isas().values() for bench in i.bench}
    named = {cost for i in isa.isas().values() for cost in (i.cost, *i.cost_of.values()) if cost}
    assert named <= cores
    assert set(Table.read().content["cores"]) == named


def test_every_board_has_a_compiler() -> None:
    for name in board_names():
        board = load_board(name)
        assert bool(isa.toolchain(board.isa).prefix) == (board.isa != "host"), name
        assert isa.toolchain(board.isa).packages, name


def test_a_core_without_kernels_of_its_own() -> None:
    """Another core of a family is compiled for by its compiler."""
    assert isa.toolchain("armv8.1m").prefix == "arm-none-eabi-"
    assert isa.toolchain("rv32e").prefix == "riscv64-unknown-elf-"
    assert isa.toolchain("host").prefix == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("prefix = ", "isa.toml: "),
        ('compiler = "gcc"', "no key is called 'compiler'; known are name, prefix"),
        ('[[native]]\nname = "x"', "native: 'boards' is missing"),
    ],
)
def test_a_wrong_file(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "isa.toml"
    path.write_text(text)
    with pytest.raises(MicaError) as e:
        isa.read(path)
    assert error in str(e.value) and str(path) in str(e.value) and "\n" not in str(e.value)


def test_objects_have_names_of_their_own() -> None:
    """MicroPython's makefiles make x.o of x.c and of x.S: one would take the other's place."""
    for folder in (path for path in KERNELS.iterdir() if path.is_dir()):
        stems = [path.stem for path in folder.iterdir() if path.suffix in (".c", ".S")]
        assert len(stems) == len(set(stems)), folder.name
