"""Boards that the tests run on: one of each kind of compiler on each run, all of them with `scripts/test --all`.

Tests of the things that every board must do run on EVERY; all others on DEEP, to keep the run short.
"""

import os

from mica.boards import all_boards

ALL = bool(os.environ.get("MICA_TEST_ALL"))  # scripts/test --all sets it
PICO = "RPI_PICO@emu"
PICO2 = "RPI_PICO2@emu"
VIRTUAL = [PICO, PICO2] if ALL else [PICO]  # with their own flash, resets and counters
DEEP = ["UNIX", "MPS2_AN385"]
# GCC for Arm, RISC-V and Xtensa; this computer's and the Pico's are in EVERY. tests/bench/test_isa.py runs the kernels of
# every instruction set, those of the other boards too.
QEMU = [
    board.name
    for board in all_boards()
    if board.port.name == "qemu" and (ALL or board.name in ("MPS2_AN385", "VIRT_RV32", "XTENSA_SIM"))
]
# Only a board's timer, UART and addresses decide what these tests see: two boards have the MPS2_AN385's, with another core.
OWN_FILES = [name for name in QEMU if name not in ("MPS2_AN386", "MPS2_AN500")]
EVERY = ["UNIX", *QEMU, *VIRTUAL]
# Built alone, for a real board.
BUILT = EVERY

# On the newest MicroPython that Debian has, too. The binding and the board files are compiled against other headers there: the
# user module's scripts run on the 64-bit build, and a 32-bit board answers with the digits; with --all a board of every compiler
# and port does.
DEEP_ON_NEWEST = DEEP if ALL else ["UNIX"]
ALSO_ON_NEWEST = ["QEMU_M0", "VIRT_RV32", "XTENSA_SIM", PICO] if ALL else ["MPS2_AN385"]


def sampled(whole: int, plain: int) -> int:
    """The number of cases of a sweep: all with `scripts/test --all`, else a part."""
    return whole if ALL else plain
