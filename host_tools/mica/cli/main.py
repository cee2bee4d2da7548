"""The command `mica`: a table of commands, and errors turned into one line and an exit code.

A command is a row of COMMANDS and a module of that name with add_arguments(parser) and run(args) -> exit code, and with
JSON_KEYS, what `--json` prints, for its help and for COMMANDS.md. Only the module of the command that was typed is
imported, so `mica boards` need not wait for onnx.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn, cast

import mica
from mica.cli import signals
from mica.cli.text import say
from mica.errors import MicaError, did_you_mean
from mica.notes import Printer
from mica.printable import printable_lines

# In the order of the help: the way of a model first, then boards. Here, so that `mica -h` imports no command.
COMMANDS = {
    "train": "a model from labelled recordings, pictures or a table",
    "pack": "quantise an ONNX or TensorFlow Lite model and pack it into one flat file",
    "info": "what a .mica file holds",
    "generate": "text from a language model",
    "report": "a packed model as a page to look at",
    "web": "models on a page in the browser",
    "run": "run one input through a model",
    "eval": "accuracy of a model over labelled data",
    "teach": "a head that learns labels from examples, on a model's embeddings",
    "record": "what a board's microphone, analogue pin or motion sensor gives, into files by label",
    "listen": "what a model recognises in a recording, or at a board's microphone",
    "compare": "two packed models side by side: sizes, accuracy, error, time",
    "verify": "compare every layer on a target with the host, byte for byte",
    "bench": "what a model costs on a target, layer by layer",
    "fit": "whether a model fits a board, and what it will take there",
    "demo": "handwritten digits at a board's REPL, sentences that a house obeys, or a board that learns",
    "doctor": "what is wrong with a board or its port, and what to do",
    "cc": "a model as a C program, for firmware without MicroPython",
    "build": "build the firmware for a board",
    "natmod": "build the engine as a native module, for stock firmware",
    "flash": "put firmware onto a board",
    "push": "put models onto a board, to stay there",
    "ls": "list the models on a board",
    "rm": "take a model off a board",
    "repl": "type into a board's MicroPython",
    "emu": "start an emulated board and print its port",
    "boards": "the boards that mica knows",
    "fleet": "many boards as one: a broker, who has joined, and a stream of work",
}

_PROGRAM_BROKEN = 70  # sysexits.h, EX_SOFTWARE
_INTERRUPTED = 130  # 128 + SIGINT, as shells count


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, exit code 1.
    They name the command whose help says more."""

    def error(self, message: str) -> NoReturn:
        raise MicaError(message, todo=f"see {self.prog} -h")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The parser of a command would leave what it does not know to the parser above."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [option for option in self._option_string_actions if option.startswith("--")]
            hint = did_you_mean(unknown[0].partition("=")[0], options) if unknown[0].startswith("-") else ""
            error = MicaError(f"{self.prog}: cannot use {' '.join(unknown)}", todo=hint)
            raise error.then(f"see {self.prog} -h")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """In the same words for a command, an action and a choice, whichever Python this is."""
        if action.choices is not None and value not in action.choices:
            what = action.option_strings[-1] if action.option_strings else self.prog
            known = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), known, f"known are {', '.join(known)}")
            raise MicaError(f"there is no '{what} {value}'", todo=hint)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    # Set before numpy is imported. Networks of boards are small matrices,
    # for which its threads mostly wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if argv is None:  # a process of its own: little refers to itself, and looking for it took 4 % of `pack`'s time
        gc.set_threshold(20_000, 20, 50)
    try:
        with signals.as_exits(lambda: _fail("interrupted", _INTERRUPTED, as_json)), Printer(say):
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
    except RecursionError:
        if os.environ.get("MICA_DEBUG"):
            raise
        return _fail(
            "too many things lie one inside or behind the other; expected some hundreds at most",
            MicaError.exit_code,
            as_json,
        )
    except MemoryError as error:
        return _fail(f"this computer has not enough memory: {error or 'MemoryError'}", MicaError.exit_code, as_json)
    except Exception as error:
        if os.environ.get("MICA_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        return _fail(f"{what} (a bug in mica; MICA_DEBUG=1 shows where)", _PROGRAM_BROKEN, as_json)


def _run(words: list[str]) -> int:
    if words[:1] == ["help"]:  # as of git: mica help, mica help pack
        words = [*words[1:2], "-h"]
    parser = new_parser()
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    typed = next((word for word in words if not word.startswith("-")), None)
    for name, line in COMMANDS.items():
        if name != typed:
            subparsers.add_parser(name, help=line)
            continue
        add_command(subparsers, name, find_command(name))
    if not words:
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    for name in ("board", "on"):
        if isinstance(given := getattr(args, name, None), str):
            from mica.boards import as_spelled

            setattr(args, name, as_spelled(given))
    return int(args.run(args))


def new_parser() -> argparse.ArgumentParser:
    """`mica`, without its commands."""
    parser = _Parser(
        prog="mica", description="int8 neural networks on MicroPython boards: from an ONNX file to a board's answer"
    )
    parser.add_argument("--version", action="version", version=f"mica {mica.__version__}")
    return parser


def add_command(subparsers: Any, name: str, module: ModuleType) -> argparse.ArgumentParser:
    """The parser of one command. JSON_KEYS of its module, if it has some, say what the object of `--json` holds."""
    about = (module.__doc__ or COMMANDS[name]).strip().removeprefix(f"mica {name}:").strip()
    keys = getattr(module, "JSON_KEYS", None)
    epilog = None if keys is None else f"--json has the keys {keys}."
    sub: argparse.ArgumentParser = subparsers.add_parser(name, help=COMMANDS[name], description=about, epilog=epilog)
    sub.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    module.add_arguments(sub)
    sub.set_defaults(run=module.run)
    return sub


def find_command(name: str) -> ModuleType:
    """Its module, of this folder or of another package. Raises MicaError."""
    if name == "fleet":
        from mica.cli import plugins  # here, since it takes time

        return cast(ModuleType, plugins.load("mica.commands", name))
    try:
        return importlib.import_module(f"{__package__}.{name}")
    except ModuleNotFoundError as error:
        raise MicaError(
            f"the Python package {error.name} is missing", todo="install mica again: pip install mica-mcu"
        ) from None


def _fail(message: str, code: int, as_json: bool, values: Mapping[str, Any] | None = None) -> int:
    """values: what the message is made of, for `--json`."""
    print(f"mica: error: {printable_lines(message)}", file=sys.stderr)
    if as_json:
        from mica.cli.text import emit_json

        emit_json({"error": message, **(values or {}), "exit_code": code})
    return code


if __name__ == "__main__":
    sys.exit(main())
