"""mica repl: type into the MicroPython of a board, real or emulated."""

import argparse
import os
import sys
from types import SimpleNamespace

from mica.boards import emulated_board
from mica.cli.text import say
from mica.errors import MicaError
from mica.link.board import BoardError
from mica.link.emulated import EmulatedBoard
from mica.link.serial_board import SerialBoard
from mica.link.targets import open_board


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on", metavar="T", required=True, help="an emulated board (MPS2_AN385, RPI_PICO@emu, ...), a port, or auto"
    )


def run(args: argparse.Namespace) -> int:
    if args.json:
        raise MicaError("repl: has nothing to say in JSON")
    if args.on == "host":
        raise MicaError("repl: the host is not a MicroPython", todo="for one on this computer use --on UNIX")
    facts = emulated_board(args.on)
    if facts and facts.emulator and facts.port.program:
        from mica.toolchain.build import build

        image = build(facts, progress=say).image
        sys.stdout.flush()
        os.execv(image, [str(image), *facts.emulator.args])
    board = open_board(args.on, reset=False, progress=say)
    assert isinstance(board, SerialBoard)
    with board:
        if sys.stdin.isatty():
            return _talk(board, args.on)
        # A file or a pipe is a program, as it is for Python itself.
        printed: list[int] = []

        def show(data: bytes) -> None:
            printed.append(len(data))
            _print(data)

        try:
            board.exec_follow(sys.stdin.read(), show, timeout=None)
        except BoardError as error:
            sys.stderr.write(error.traceback or f"{error}\n")
            return error.exit_code
        if not any(printed):
            say("the program from standard input has ended and printed nothing; use print() to see a value")
        return 0


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _talk(board: SerialBoard, target: str) -> int:
    repl = board.friendly_repl()
    from mpremote.console import Console
    from mpremote.repl import do_repl_main_loop

    if isinstance(board, EmulatedBoard):
        say(f"{board.name} is emulated at {board.port}; for other programs: mica emu {target}")
    else:
        other = "" if str(board.port).startswith("socket:") else f"; when this has ended: mpremote connect {board.port}"
        say(f"connected to {board.name}{other}")
    say("Ctrl-] or Ctrl-x ends this")
    console = Console()
    console.enter()
    try:
        lost = do_repl_main_loop(
            SimpleNamespace(transport=repl),
            console,
            console.write,
            escape_non_printable=False,
            code_to_inject=None,
            file_to_inject=None,
        )
    finally:
        console.exit()
        print()
    if lost:
        raise MicaError(f"{board.name} has gone away")
    return 0
