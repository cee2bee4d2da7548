"""Imports the commands that must work on Windows and macOS, with modules blocked that Windows does not have; runs some.

A program of its own, because what is imported stays: test_diagnosis.py starts it.
"""

import builtins
import importlib
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

BLOCKED = {"fcntl", "termios", "tty", "pty", "grp", "pwd", "resource", "readline", "curses"}
COMMANDS = (
    "pack",
    "info",
    "run",
    "eval",
    "verify",
    "bench",
    "fit",
    "doctor",
    "flash",
    "push",
    "boards",
    "repl",
    "build",
)
MODULES = (
    "link.ports",
    "link.targets",
    "link.serial_board",
    "run.board",
    "link.diagnosis",
    "images.romfs",
    "flash.flash",
    "link.drives",
    "toolchain.build",
)


import_anything = builtins.__import__


def import_what_windows_has(name: str, globals: dict[str, Any] | None = None, *more: Any, **named: Any) -> Any:
    """Other packages (pyserial, mpremote) look at the system's name before they import one of these; it stays Linux."""
    if name.partition(".")[0] in BLOCKED and str((globals or {}).get("__name__", "")).startswith("mica"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return import_anything(name, globals, *more, **named)


builtins.__import__ = import_what_windows_has

from mica.cli.main import COMMANDS as KNOWN  # noqa: E402
from mica.cli.main import main  # noqa: E402

for command in COMMANDS:
    if command in KNOWN and importlib.util.find_spec(f"mica.cli.{command}"):
        importlib.import_module(f"mica.cli.{command}")
for module in MODULES:
    importlib.import_module(f"mica.{module}")
print("all imported")

demo = Path(importlib.import_module("mica").__file__ or "").parent / "demo"
with tempfile.TemporaryDirectory() as folder:
    packed = Path(folder) / "d.mica"
    for words in (
        ["pack", demo / "digits.onnx", "--plain", "-o", packed],
        ["run", packed, demo / "digits_test.npz"],
        ["fit", packed, "--board", "RPI_PICO"],
        ["boards"],
    ):
        if code := main([str(word) for word in words]):
            sys.exit(f"mica {words[0]}: exit code {code}")

# And the wall is one: what does need such a module says so in one line.
from mica.errors import MicaError  # noqa: E402
from mica.toolchain.cache import locked  # noqa: E402

try:
    with locked("wall"):
        sys.exit("fcntl was imported")
except MicaError as error:
    print(error)
