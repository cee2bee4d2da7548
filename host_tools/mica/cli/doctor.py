"""mica doctor: looks at a port and the board there, and says what is wrong and what to do.

It looks for the port, the permission to use it, other programs that hold it, and a board that answers. Of the board it
shows mica's version, the board its firmware was built for, kernels, arena, heap, ROMFS and the models in it.
A program that runs on the board is interrupted.
Exit code 0: all is well (a warning is no illness); 1: something is not.
"""

import argparse
import dataclasses

from mica.boards import load_board
from mica.cli import target, text
from mica.errors import MicaError

_MARKS = {"ok": "ok", "warning": "note", "bad": "BAD"}

JSON_KEYS = "target, well, findings[] (what, state, text, todo)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    target.add_on(parser)
    parser.set_defaults(on="auto")
    parser.add_argument("--board", metavar="B", help="the board that it is: says so where its firmware is another's")


def run(args: argparse.Namespace) -> int:
    from mica.link.diagnosis import BAD, examine

    if args.on == "host":
        raise MicaError("--on host: no board is there to look at", todo="expected a port, an emulated board, or auto")
    found = examine(args.on, load_board(args.board) if args.board else None)
    well = all(f.state != BAD for f in found)
    if args.json:
        text.emit_json({"target": args.on, "well": well, "findings": [dataclasses.asdict(f) for f in found]})
    else:
        for f in found:
            print(f"{_MARKS[f.state]:4}  {f.what:11}  {f.text}" + (f"\n{'':19}-> {f.todo}" if f.todo else ""))
    return 0 if well else 1
