"""Ten models as C programs (`mica cc`): the same bytes here and on seven cores, and the same folder each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import bare_metal
import pytest
from c_models import TEN
from c_programs import SANITIZED, STRICT, run_on, write
from targets import nightly

from mica.c_program.folder import Program

OFTEN = ("kws", "wake_word", "gru", "forest", "texts", "four_bits")
SEVEN = ("m0plus-qemu", "m3", "m4", "m7", "m33", "m55", "rv32")


@pytest.mark.parametrize("name", [name if name in OFTEN else pytest.param(name, marks=nightly) for name in TEN])
def test_the_same_bytes_here(name: str, tmp_path: Path) -> None:
    """Under the sanitizers, as C99, and with the example as C++11."""
    sources = write(Program(TEN[name](tmp_path), "net", ["ref"]), tmp_path)
    flags = ["-O1", *STRICT, *SANITIZED, f"-I{tmp_path / 'src'}"]
    subprocess.run(["gcc", "-std=c99", *flags, "-r", "-nostdlib", *sources, "-o", tmp_path / "all.o"], check=True)
    for language in (["gcc", "-std=c99", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"]):
        command = [*language, *flags, tmp_path / "main.c", "-x", "none", tmp_path / "all.o", "-o", tmp_path / "a"]
        subprocess.run(command, check=True)
        done = subprocess.run([tmp_path / "a"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done


@nightly
@pytest.mark.parametrize("core", SEVEN)
@pytest.mark.parametrize("name", TEN)
def test_the_same_bytes_on_a_core(name: str, core: str, tmp_path: Path) -> None:
    """With kernels of that core alone. The memory of the cores that are emulated holds each of the models."""
    emulated = bare_metal.CORES[core]
    if reason := bare_metal.available(emulated):
        pytest.skip(reason)
    made = Program(TEN[name](tmp_path), "net", [emulated.isa])
    assert run_on(emulated, tmp_path, write(made, tmp_path))[1] == made.golden_crc


@pytest.mark.parametrize("name", [name if name == "texts" else pytest.param(name, marks=nightly) for name in TEN])
def test_the_folder_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    """Two processes, whose sets have different orders, write the same bytes."""
    path = tmp_path / "net.mica"
    path.write_bytes(TEN[name](tmp_path))
    found = []
    for seed in "12":
        to = tmp_path / seed / "net"
        command = [sys.executable, "-m", "mica", "cc", path, "-o", to]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed})
        found.append({file.relative_to(to): file.read_bytes() for file in to.rglob("*") if file.is_file()})
    assert found[0] == found[1] and len(found[0]) > 20
