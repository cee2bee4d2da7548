"""Parts of the virtual Picos: PyPI's `unicorn`, which the user installs; a library and a boot ROM, compiled here once.

The emulator itself is boards/common/virtual; run.py tells its arguments and what it says.
"""

import hashlib
import importlib.util
import os
import shlex
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged

RP2350 = "rp2350"  # as board.toml calls it; the other is the RP2040
_FLAGS = ("-O2", "-std=c99", "-Wall", "-Wextra", "-fPIC", "-shared")
_ROM_BYTES = 0x4000
_ROM_FLAGS = (
    *("-mcpu=cortex-m0plus", "-mthumb", "-Os", "-std=c99", "-Wall", "-Wextra", "-Werror"),
    # It is the C library: the compiler may not turn its memcpy into a call of memcpy.
    *("-ffreestanding", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-nostdlib"),
)
_Words = Sequence[str | Path]


def is_rp2350(board: BoardSpec | None) -> bool:
    """True for a board that is emulated with an RP2350."""
    return board is not None and board.emulator is not None and board.emulator.machine == RP2350


def install(progress: Progress = quiet) -> Path:
    """Return the library, compiled when missing by the compiler of this computer's engine."""
    if importlib.util.find_spec("unicorn") is None:
        raise MicaError(
            "the package unicorn is missing, which emulates a Pico", todo='pip install "mica-mcu[emulators]"'
        )
    files = sorted((data_dir("boards") / "common" / "virtual").glob("*.[ch]"))
    compiler: _Words = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "gcc")

    def build(made: Path) -> None:
        command = [need_program(str(compiler[0]), "gcc"), *compiler[1:], *_FLAGS, "-o", made]
        run_logged(
            [*command, *(path for path in files if path.suffix == ".c")],
            "building the emulator",
            made.with_suffix(".log"),
        )

    return _made("virtual-{}.so", files, (_FLAGS, compiler), build, progress)


def boot_rom(progress: Progress = quiet) -> Path:
    """Return the RP2040's, built when missing."""
    folder = data_dir("boards") / "common" / "rp2040"
    files = [folder / "bootrom.c", folder / "bootrom.ld"]

    def build(made: Path) -> None:
        compiler = need_program("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi")
        what, log, elf = "building the boot ROM", made.with_suffix(".log"), made.with_suffix(".elf")
        run_logged([compiler, *_ROM_FLAGS, "-T", files[1], files[0], "-lgcc", "-o", elf], what, log)
        copy: _Words = [need_program("arm-none-eabi-objcopy", "binutils-arm-none-eabi"), "-O", "binary"]
        run_logged([*copy, f"--pad-to={_ROM_BYTES:#x}", elf, made], what, log)

    return _made("bootrom-{}.bin", files, _ROM_FLAGS, build, progress)


def _made(name: str, files: Sequence[Path], how: object, build: Callable[[Path], None], progress: Progress) -> Path:
    """A file in the cache, made once of `files`; build(path) makes it."""
    digest = hashlib.sha256(repr(how).encode() + b"".join(path.read_bytes() for path in files))
    made = cache_dir() / "emulators" / name.format(digest.hexdigest()[:12])
    if not made.exists():
        with locked("emulators", progress):
            made.parent.mkdir(exist_ok=True)
            half = made.with_suffix(".half")
            build(half)
            half.replace(made)
    return made


def command(board: BoardSpec, flash: str, port: int, wired: str, memory: str, progress: Progress) -> list[str | Path]:
    """Return the program that runs the board, with its arguments; its parts are made when missing.

    wired: the JSON of sensors.py; memory: `waits` or `ideal`.
    """
    library = install(progress)
    rom = RP2350 if is_rp2350(board) else boot_rom(progress)
    script = data_dir("boards") / "common" / "virtual" / "run.py"
    return [sys.executable, "-B", script, rom, library, flash, str(port), wired, memory]
