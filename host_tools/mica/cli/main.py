"""The command `mica`: a table of commands, and errors turned into one line and an exit code.

A command is a module here with NAME, HELP, add_arguments(parser) and run(args) -> exit code. Only the module of the
command that was typed is imported, so `mica boards` need not wait for onnx.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import mica
from mica.cli import signals
from mica.errors import MicaError
from mica.printable import printable_lines

# In the order of the help: the way of a model first, then boards.
COMMANDS = (
    "pack",
    "info",
    "run",
    "eval",
    "compare",
    "verify",
    "bench",
    "fit",
    "demo",
    "doctor",
    "build",
    "natmod",
    "flash",
    "push",
    "ls",
    "rm",
    "repl",
    "emu",
    "boards",
    "fleet",
)

_PROGRAM_BROKEN = 70  # sysexits.h, EX_SOFTWARE
_INTERRUPTED = 130  # 128 + SIGINT, as shells count


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, exit code 1."""

    def error(self, message: str) -> NoReturn:
        raise MicaError(message, todo=f"see {self.prog} -h")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    try:
        with signals.as_exits(lambda: _fail("interrupted", _INTERRUPTED, as_json)):
            code = _run(words)
        sys.stdout.flush()
        return code
    except MicaError as error:
        values = {"found": error.found, "todo": error.todo, "reasons": list(getattr(error, "reasons", ()))}
        return _fail(str(error), error.exit_code, as_json, {key: value for key, value in values.items() if value})
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED, as_json)
    except BrokenPipeError:
        # The reader (head, less) has gone; keep Python from complaining about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        return _fail(f"this computer has not enough memory: {error or 'MemoryError'}", MicaError.exit_code, as_json)
    except Exception as error:
        if os.environ.get("MICA_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        return _fail(f"{what} (a bug in mica; MICA_DEBUG=1 shows where)", _PROGRAM_BROKEN, as_json)


def _run(words: list[str]) -> int:
    parser = _Parser(
        prog="mica", description="int8 neural networks on MicroPython boards: from an ONNX file to a board's answer"
    )
    parser.add_argument("--version", action="version", version=f"mica {mica.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    typed = next((word for word in words if not word.startswith("-")), None)
    if typed is not None and typed not in COMMANDS:
        raise MicaError(f"there is no command {typed!r}", todo=f"known are {', '.join(COMMANDS)}")
    for name in COMMANDS:
        module = _command(name) if name == typed else None
        if module is not None:
            sub = subparsers.add_parser(name, help=module.HELP, description=_about(module))
            sub.add_argument("--json", action="store_true", help="print one JSON object on stdout")
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
        elif (line := _help_line(name)) is not None:
            subparsers.add_parser(name, help=line)
    if not words:
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    return int(args.run(args))


def _command(name: str) -> ModuleType | None:
    """Import a command; None when it does not exist (yet)."""
    full = f"{__package__}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name == full:
            return None
        raise MicaError(
            f"the Python package {error.name} is missing", todo="install mica again: pip install mica"
        ) from None


def _help_line(name: str) -> str | None:
    """HELP of a command, read from its source so that `mica -h` imports nothing; None when it does not exist."""
    path = Path(__file__).with_name(f"{name}.py")
    if not path.exists():
        return None
    match = re.search(r'^HELP = "(.*)"$', path.read_text(encoding="utf-8"), flags=re.M)
    return match[1].replace("%", "%%") if match else ""


def _about(module: ModuleType) -> str:
    """The module's docstring without the command's name, else its HELP."""
    text = (module.__doc__ or module.HELP).strip()
    return text.removeprefix(f"mica {module.NAME}:").strip()


def _fail(message: str, code: int, as_json: bool, values: Mapping[str, Any] | None = None) -> int:
    """values: what the message is made of, for `--json`."""
    print(f"mica: error: {printable_lines(message)}", file=sys.stderr)
    if as_json:
        from mica.cli.text import emit_json

        emit_json({"error": message, **(values or {}), "exit_code": code})
    return code


if __name__ == "__main__":
    sys.exit(main())
