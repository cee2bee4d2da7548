"""mica rm: take a model off a board."""

import argparse

from mica.cli import push as push_command
from mica.cli import text
from mica.cli.text import say
from mica.errors import MicaError

JSON_KEYS = "target, removed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="as mica ls shows it")
    push_command.add_board(parser)


def run(args: argparse.Namespace) -> int:
    from mica.link import push

    with push_command.open_target(args) as board:
        done = push.remove(board, args.name, say=lambda message: None)
        name = board.name
    if not done.confirmed:
        raise MicaError(f"{name}: {done.reason}")
    if args.json:
        text.emit_json({"target": name, "removed": args.name})
    else:
        say(f"{args.name} is no longer on {name}")
    return 0
