"""The parts of the virtual Pico 2: PyPI's `unicorn`, which the user installs, and a small library that is compiled here once.

    python run.py LIBRARY FLASH PORT SENSORS <- TCP: the board's USB serial port; stdin and stdout as the RP2040's (virtual_pico.py)

The emulator itself is boards/common/rp2350.
"""

import hashlib
import importlib.util
import os
import shlex
import sys
import sysconfig
from pathlib import Path

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged

MACHINE = "rp2350"  # as board.toml calls it
_FLAGS = ("-O2", "-std=c99", "-Wall", "-Wextra", "-fPIC", "-shared")


def runs(board: BoardSpec | None) -> bool:
    """True for a board that this emulates."""
    return board is not None and board.emulator is not None and board.emulator.machine == MACHINE


def install(progress: Progress = quiet) -> Path:
    """Return the library, compiled when missing by the compiler of this computer's engine."""
    if importlib.util.find_spec("unicorn") is None:
        raise MicaError(
            "the package unicorn is missing, which emulates a Pico 2", todo='pip install "mica-mcu[emulators]"'
        )
    files = sorted((data_dir("boards") / "common" / MACHINE).glob("*.[ch]"))
    compiler: list[str | Path] = [*shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "gcc")]
    digest = hashlib.sha256(repr((_FLAGS, compiler)).encode() + b"".join(path.read_bytes() for path in files))
    made = cache_dir() / "emulators" / f"{MACHINE}-{digest.hexdigest()[:12]}.so"
    if not made.exists():
        with locked("emulators", progress):
            made.parent.mkdir(exist_ok=True)
            half = made.with_suffix(".half")
            command = [need_program(str(compiler[0]), "gcc"), *compiler[1:], *_FLAGS, "-o", half]
            sources = [path for path in files if path.suffix == ".c"]
            run_logged([*command, *sources], "building the Pico 2's emulator", made.with_suffix(".log"))
            half.replace(made)
    return made


def command(library: Path, flash: str, port: int, wired: str, memory: str) -> list[str | Path]:
    """Return the program that runs the board, with its arguments. wired: the JSON of sensors.py; memory: `waits` or `ideal`."""
    script = data_dir("boards") / "common" / MACHINE / "run.py"
    return [sys.executable, "-B", script, library, flash, str(port), wired, memory]
