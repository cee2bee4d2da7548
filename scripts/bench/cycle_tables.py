"""Cycles by a core's published table, beside the instructions that QEMU counts: a plugin of QEMU, from cycles/.

A model over the instructions as they are executed, with memory that never waits; no measurement on a chip.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mica.errors import MicaError
from mica.toolchain.cache import cache_dir
from mica.toolchain.process import need_program

PLUGIN = Path(__file__).resolve().parent / "cycles"
SHARED = (
    Path(__file__).resolve().parents[2] / "boards" / "common" / "virtual"
)  # the M4's table, which an emulator uses too
FLAGS = ("-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared")

# Core of the benchmark -> the table that its code is counted by.
# Of the Cortex-M33 there is no such table: its code by the M4's.
TABLES = {"m4": "cortex_m4", "m33": "cortex_m4", "rv32": "hazard3"}
NAMES = {"cortex_m4": "cycles (M4)", "hazard3": "cycles (Hazard3)"}

MARK = "board_count"  # the program's reading of its counter
MISS = 56  # cycles that a line takes in the plugin's cache
READINGS_OF_LOADING = 4  # by bare/main.c: around mica_check(), around loading; then two for each step


@cache
def library(qemu: str) -> Path:
    """The plugin for an emulator, made once for each state of its sources. Raises MicaError."""
    gcc = need_program("gcc", "gcc")
    said = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"version (\d+)", said)
    version = f"-DPLUGIN_VERSION={2 if release and int(release[1]) >= 9 else 1}"
    sources = [*sorted(PLUGIN.glob("*.c")), SHARED / "cortex_m4.c", SHARED / "count.c"]
    digest = hashlib.sha256(version.encode() + b"".join(p.read_bytes() for p in (*sources, SHARED / "cycles.h")))
    made = cache_dir() / "bench" / f"cycles-{digest.hexdigest()[:12]}.so"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        half = made.with_suffix(f".{os.getpid()}")
        command = [gcc, *FLAGS, version, "-I", SHARED, "-o", half, *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MicaError(f"building the plugin that counts cycles failed:\n{done.stderr.strip()}")
        half.replace(made)
    return made


def options(
    qemu: str, table: str, mark: int, out: Path, flash: tuple[int, int] | None = None, cold: bool = False
) -> list[str]:
    """Options with which QEMU is started. mark: the address at which the program reads its counter. flash: where code
    and data begin that a Pico 2 would have in flash; the cycles that it waits then stand in the place of late
    addresses. cold: nothing is in the cache when a step begins."""
    waits = f",code={flash[0]:#x},data={flash[1]:#x}{',cold=on' if cold else ''}" if flash else ""
    return ["-plugin", f"{library(qemu)},table={table},mark={mark:#x},out={out}{waits}"]


def steps(out: Path, n_steps: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """For each job, of so many steps: of each step the instructions, the cycles,
    and the cycles that late addresses would add.

    Raises MicaError where the plugin has not written as much as the program has read its counter.
    """
    totals = [tuple(map(int, line.split())) for line in out.read_text(encoding="ascii").splitlines()]
    if len(totals) != sum(READINGS_OF_LOADING + 2 * n for n in n_steps):
        raise MicaError(
            f"the plugin that counts cycles has seen {len(totals)} readings of the counter, not as many as there were"
        )
    found, at = [], 0
    for n in n_steps:
        at += READINGS_OF_LOADING
        pairs = (totals[at + 2 * k : at + 2 * k + 2] for k in range(n))
        found.append([(e[0] - b[0], e[1] - b[1], e[2] - b[2]) for b, e in pairs])
        at += 2 * n
    return found
