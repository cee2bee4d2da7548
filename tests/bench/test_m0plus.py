"""The virtual Pico's core refuses what a Cortex-M0+ refuses, and the page's Pico has the same answers."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bare_metal
import layers
import pytest
from bare_metal import CORES

from mica.link import emulator
from mica.resources import data_dir
from mica.web import site

HERE = Path(__file__).resolve().parent
DATA, BKPT = 0x20020000, 0xBE00
STACK = DATA + 3072
FEW = 5  # words of flash
# From r1, or the stack, in bytes of one access.
ACCESSES = {
    "ldr": (0x6808, 4),
    "ldr, by a register": (0x5888, 4),
    "ldrh": (0x8808, 2),
    "ldrh, by a register": (0x5A88, 2),
    "ldrsh": (0x5E88, 2),
    "ldm": (0xC90D, 4),
    "str": (0x6008, 4),
    "str, by a register": (0x5088, 4),
    "strh": (0x8008, 2),
    "strh, by a register": (0x5288, 2),
    "stm": (0xC10D, 4),
    "ldrb": (0x7808, 1),
    "strb": (0x7008, 1),
    "ldrsb": (0x5688, 1),
}


def run(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    command = [sys.executable, "-B", HERE / "m0plus_programs.py", emulator.install()]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("where", [DATA, 0x10000040], ids=["RAM", "flash"])
def test_an_access_that_is_not_aligned_is_a_fault(where: int) -> None:
    loads = {name: of for name, of in ACCESSES.items() if where == DATA or name.startswith("ld")}
    asked = [(name, op, size, shift) for name, (op, size) in loads.items() for shift in range(5)]
    cases = [
        {"code": [op, BKPT], "registers": [0, where + shift, *[0] * 11, STACK], "data": "00" * 64}
        for _, op, _, shift in asked
    ]
    for (name, _, size, shift), found in zip(asked, run(cases), strict=True):
        expected = "not aligned" if shift % size else "end"
        assert expected in found["stopped"], f"{name} at {shift}: {found['stopped']}"


@pytest.mark.parametrize("code", [(0xF240, 1), (0xFBB0, 0xF1F0), (0xF8D1, 0x0000)])
def test_instructions_of_a_larger_core_are_faults(code: tuple[int, int]) -> None:
    """A wide move, a division, and a wide load."""
    (found,) = run([{"code": [*code, BKPT], "registers": [0, DATA, *[1] * 11, STACK], "data": "00" * 64}])
    assert found["stopped"] != "end" and found["cycles"] < 10, found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's scripts for its Pico, with what they import."""
    folder = tmp_path_factory.mktemp("page") / "pico"
    shutil.copytree(data_dir("host_tools/web") / "page" / "pico", folder)
    site.write_emulator(folder)
    return folder


def signed(x: int) -> int:
    return x - ((x & 1 << 31) << 1)


def test_both_emulators_have_the_same_answers(page: Path) -> None:
    """Registers, flags, memory and cycles of random programs, and of sums whose answer the manual tells."""
    command = ["node", HERE / "m0plus_programs.mjs", page, "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    both = json.loads(done.stdout)
    assert len(both) == 300 + 256
    found = run([case for case, _ in both])
    for (case, theirs), ours in zip(both, found, strict=True):
        assert theirs == ours, " ".join(f"{half:04x}" for half in case["code"])
    for (case, _), ours in zip(both[:256], found, strict=False):
        (b, carry, a), op = (case["registers"][k] for k in (1, 3, 4)), case["code"][2]
        total = signed(a) + (signed(b) if op == 0x4148 else -signed(b) - 1) + carry
        assert ours["registers"][0] == total & 0xFFFFFFFF
        assert ours["registers"][7] == (total != signed(total & 0xFFFFFFFF))


def test_both_emulators_wait_for_flash_alike(page: Path, tmp_path: Path) -> None:
    """Cycles of layers whose code and weights are in flash, with the cache in front of it; a block's last word of code
    may be looked up sooner by one of them."""
    core = CORES["m0plus"]
    names = ("kws.dw3x3", "kws.fc", "softmax 12", "vww.dw 3x3x256")
    jobs = [layers.job(layer, "", core.board) for layer in layers.LAYERS if layer.name.startswith(names)]
    program = bare_metal.build(core)
    rom, flash, code = (tmp_path / name for name in ("rom", "flash", "code"))
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", program, code], check=True)
    image = bytearray(core.jobs - core.code) + bare_metal._block(jobs)
    image[: code.stat().st_size] = code.read_bytes()
    flash.write_bytes(image)
    head = bytearray(0x4000)
    head[:8] = image[:8]
    struct.pack_into("<H", head, 0x16, 0x20)  # a table of functions that is empty
    struct.pack_into("<H", head, 0x1C, len(head))  # and no function of floats
    rom.write_bytes(head)
    command = ["node", HERE / "bare_page.mjs", page, rom, flash, "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    steps = [[int(word, 16) for word in line.split()[1:]] for line in done.stdout.splitlines() if line[:2] == "S "]
    ours = bare_metal.run(core, program, jobs, xip=40)
    without = bare_metal.run(core, program, jobs)
    assert len(steps) == len(jobs) >= len(names)
    for (_, _, count, value), job, result, plain in zip(steps, jobs, ours, without, strict=True):
        assert [value] == result.hashes, job.name
        assert abs(count - job.times * result.counts[0]) <= FEW * 40, job.name
        assert result.counts[0] > plain.counts[0], job.name
