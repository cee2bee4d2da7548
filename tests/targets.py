"""Boards that the tests run on: one of each kind of compiler on each run, all of them with `scripts/test --all`.

Tests of the things that every board must do run on EVERY; all others on DEEP, to keep the run short.
"""

import os
import subprocess

import pytest

from mica.boards import all_boards
from mica.toolchain import sources

ALL = bool(os.environ.get("MICA_TEST_ALL"))  # scripts/test --all sets it
nightly = pytest.mark.skipif(not ALL, reason="runs in scripts/test --all only (MICA_TEST_ALL=1)")
PICO = "RPI_PICO@emu"
PICO2 = "RPI_PICO2@emu"
VIRTUAL = [PICO, PICO2] if ALL else [PICO]  # with their own flash, resets and counters
DEEP = ["UNIX", "MPS2_AN385"]
# GCC for Arm, RISC-V and Xtensa; this computer's and the Pico's are in EVERY.
# tests/bench/test_isa.py runs the kernels of every instruction set, those of the other boards too.
WINDOWS = "XTENSA_WIN"
HAS_WINDOWS = (
    sources.debian_mirror() is not None
)  # its compiler's parts are Debian packages, of a later release than some
needs_windows = pytest.mark.skipif(not HAS_WINDOWS, reason="the compiler for register windows is Debian's")
QEMU = [
    board.name
    for board in all_boards()
    if board.port.name == "qemu"
    and (ALL or board.name in ("MPS2_AN385", "VIRT_RV32", WINDOWS))
    and (HAS_WINDOWS or board.name != WINDOWS)
]
# Only a board's timer, UART and addresses decide what these tests see: two boards have the MPS2_AN385's,
# with another core.
OWN_FILES = [name for name in QEMU if name not in ("MPS2_AN386", "MPS2_AN500")]
EVERY = ["UNIX", *QEMU, *VIRTUAL]
# Real boards that differ from another of these in pins and the sizes of flash: built alone, or run a model alone.
ONLY_BYTES = ["SEEED_XIAO_RP2040@emu"] if ALL else []
ONLY_BUILT = [
    "ADAFRUIT_FEATHER_RP2040",
    "ARDUINO_NANO_RP2040_CONNECT",
    "PIMORONI_PICO_PLUS2",
    "RPI_PICO2_RISCV",
    "SEEED_XIAO_RP2350",
]
BUILT = [*EVERY, *ONLY_BYTES, *ONLY_BUILT] if ALL else EVERY

# On the newest MicroPython that Debian has, too. The binding and the board files are compiled against other headers
# there: the user module's scripts and the digits run on the 64-bit build;
# with --all a board of every compiler and port answers too.
DEEP_ON_NEWEST = DEEP if ALL else ["UNIX"]
ALSO_ON_NEWEST = ["MPS2_AN385", "QEMU_M0", "VIRT_RV32", *[WINDOWS] * HAS_WINDOWS, PICO] if ALL else ["UNIX"]
# Cores of tests/bench whose kernels another one runs: m0plus-qemu, in a faster emulator, and m33. A program takes 10 s.
SAME_KERNELS = () if ALL else ("m0plus", "m4", "m7")
# Slips in kernels, each in a build of its own: they show that the cases, which all run each time, see mistakes.
NTH_SLIP = 1 if ALL else 3
# Scripts of tests/usermod/ that take a virtual Pico longest; UNIX and MPS2_AN385 run them each time.
LONG_ON_A_PICO = () if ALL else ("fed", "learner", "learner_saved", "model_corrupt", "pictures", "strips")


GCC_OF_FIGURES = 12  # release whose code the recorded costs and sizes are of; another release's code has others


def arm_gcc() -> int:
    """Return the release of this computer's GCC for Arm."""
    said = subprocess.run(["arm-none-eabi-gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return int(said.split(".")[0])


def compiler_of(prefix: str) -> str:
    """Return this computer's GCC of a core, as the table of costs names the one it was made with."""
    said = subprocess.run([f"{prefix}gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return f"{prefix}gcc {said.strip()}"


def costs_within(prefix: str, made_with: str, bound: float = 0.1) -> float:
    """Return how far a foretold cost may be off: `bound`, or 20 % where another compiler made other code."""
    return bound if compiler_of(prefix).split(".")[0] == made_with.split(".")[0] else 0.2


def sampled(whole: int, plain: int) -> int:
    """The number of cases of a sweep: all with `scripts/test --all`, else a part."""
    return whole if ALL else plain
