"""The virtual Pico's core refuses what a Cortex-M0+ refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mica.link import emulator

HERE = Path(__file__).resolve().parent
DATA, BKPT = 0x20020000, 0xBE00
STACK = DATA + 3072
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
