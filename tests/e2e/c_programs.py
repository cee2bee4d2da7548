"""Models as C programs, built and run on this computer and on the emulated cores of tests/bench."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import bare_metal
import usermod_models as models

from mica.c_program.folder import Program
from mica.file.codec import encode

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover")
# What it prints: counts of a run, then the CRC-32 of all outputs.
MAIN = """\
#include "board.h"
#include "net.h"
static void print_number(uint32_t v) {
    char text[11];
    for (int i = 0; i < 8; ++i) {
        text[i] = "0123456789abcdef"[v >> (28 - 4 * i) & 15];
    }
    text[8] = ' ';
    text[9] = 0;
    board_print(text);
}
int main(void) {
    if (net_begin() != 0) {
        board_print("refused");
        board_exit();
    }
    uint32_t begin = board_count();
    net_run();
    print_number(board_elapsed(begin, board_count()));
    print_number(net_self_test());
    board_exit();
}
"""
# Kernels and sections of many kinds: windows, signals, strips, fed rows, 4-bit weights, states, text, sound, motion.
SMALL = {
    make.__name__: make
    for make in (
        *(models.small, models.signal, models.by_rows, models.fed, models.coded, models.golden_state, models.language),
        *(models.remembering, models.hearing, models.moving, models.two, models.joined, models.seen_fed),
    )
}


def program(name: str, cores: Sequence[str], checked: bool = False) -> Program:
    """Return one of SMALL as a program with the name net."""
    return Program(encode(SMALL[name]()), "net", cores, checked)


def put(path: Path, text: str) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write(made: Program, folder: Path) -> list[Path]:
    """Write a program's folder; returns its sources."""
    written = [put(folder / path, text) for path, text in made.files().items()]
    return sorted(path for path in written if path.suffix in (".c", ".S") and folder / "src" in path.parents)


def run_here(folder: Path, flags: Sequence[str] = ("-O0", *SANITIZED)) -> subprocess.CompletedProcess[str]:
    """Build a folder with the kernels of `ref` on this computer, and run its example."""
    sources = sorted((folder / "src").rglob("*.c"))
    command = [
        "gcc",
        "-std=c99",
        *flags,
        *STRICT,
        f"-I{folder / 'src'}",
        *sources,
        folder / "main.c",
        "-o",
        folder / "a",
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return subprocess.run([folder / "a"], capture_output=True, text=True, check=False)


def run_on(core: bare_metal.Core, folder: Path, sources: Sequence[Path]) -> tuple[int, int, Path]:
    """Build a program for a core and run it there: counts of a run, in the core's unit, the CRC-32, and the program."""
    main = folder / "bare.c"
    main.write_text(MAIN)
    elf = build_for(core, folder, [*sources, main])
    words = emulate(core, elf).split()
    assert len(words) >= 2, words
    return int(int(words[-2], 16) * core.per_tick), int(words[-1], 16), elf


def build_for(core: bare_metal.Core, folder: Path, sources: Sequence[Path]) -> Path:
    """Build a bare-metal program from its sources."""
    elf = folder / f"{core.name}.elf"
    options = [f"-I{folder / 'src'}", f"-Wl,-Map={elf}.map"]
    bare_metal.link(core, elf, [*sources, bare_metal.BARE / core.start], options)
    return elf


def emulate(core: bare_metal.Core, elf: Path, serial: str | None = None) -> str:
    """Return what a program prints. serial: what its serial port receives."""
    options = ["-serial", "stdio"] if serial is not None and "-serial" not in core.command else []
    run = bare_metal.command(core, elf, options=options)
    given = {"input": serial} if serial is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(run, capture_output=True, text=True, timeout=600, check=False, **given)
    return done.stdout + done.stderr
