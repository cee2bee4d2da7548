"""mica push: put models onto a board, beside those that are there, and have the board try them.

A model is on trial until it has given its golden vectors' outputs on this board (mica pack --golden N); one that fails,
or resets the board, is dropped, and what was there before is used. A transfer that broke off goes on where it was.

A board with stock MicroPython gets mica's native module first, with --yes or after a question.
"""

import argparse
from pathlib import Path
from typing import Any

from mica.boards import emulated_board
from mica.cli import options, target, text
from mica.cli.text import say
from mica.errors import MicaError, found_at

JSON_KEYS = "target, files[], head, sent, kept (bytes that were there already), seconds, confirmed, reason"


HEAD = ".learnt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", metavar="M.mica", nargs="+", help="models, and H.learnt: what a head of one of them has learnt"
    )
    options.add(
        parser,
        """
        --learnt PATH  where mica.Learner looks for the head; default /learnt
        --key FILE     take only what is signed with this key: see mica pack --key
        --yes          install mica's native module first if the board's MicroPython has no mica
        --modules URL  take the native module from this package: a release's address, or a folder of mica natmod
            --package (default: build one with the kernels of these models)
        """,
        learnt={"default": "/learnt"},
    )
    add_board(parser)


def add_board(parser: argparse.ArgumentParser) -> None:
    """The arguments that `push`, `ls` and `rm` share."""
    parser.add_argument(
        "--on",
        metavar="T",
        default="auto",
        help="a port (/dev/ttyACM0, COM5, socket://...), RPI_PICO@emu, or auto (default): the board that is plugged in",
    )
    parser.add_argument(
        "--no-reset", action="store_true", help="leave variables and models in the board's memory as they are"
    )


def open_target(args: argparse.Namespace) -> Any:
    from mica.link.targets import open_board

    if args.on == "host":
        raise MicaError("this computer keeps no models", todo="give a board with --on")
    facts = emulated_board(args.on)
    if facts is not None and not facts.port.virtual_pico:
        other = "" if facts.port.program else f"; one that stays is started by: mica emu {args.on}"
        say(f"{args.on} forgets all when this command ends{other}")
    return open_board(args.on, reset=not args.no_reset, progress=say)


def run(args: argparse.Namespace) -> int:
    from mica.cli.heads import read as read_head
    from mica.file.codec import decode
    from mica.format import signature
    from mica.link import push
    from mica.link.answers import WithoutMica, require_mica

    key = signature.read_key(args.key) if args.key else None
    files: dict[str, bytes] = {}
    heads = [path for path in args.models if Path(path).suffix == HEAD]
    if len(heads) > 1:
        raise MicaError(
            f"{heads[1]}: one head has the place {args.learnt}", todo="push one after the other, each with its --learnt"
        )
    models = [path for path in args.models if path not in heads]
    for path in models:
        data = target.read_model(path)
        with found_at(path):
            decode(data)
        if Path(path).suffix != ".mica":
            raise MicaError(f"{path}: a model on a board is called *.mica", todo="rename the file")
        if key is not None:
            signature.check(data, key, path)
        if Path(path).name in files:
            raise MicaError(f"{path}: two models are called {Path(path).name}, and a board would keep one of them")
        files[Path(path).name] = data
    if heads and not files:
        raise MicaError(f"{heads[0]}: a head goes beside its model", todo=f"mica push M.mica {heads[0]}")
    head = read_head(heads[0], *files.values()).state() if heads else b""
    with open_target(args) as board:
        try:
            require_mica(board)
        except WithoutMica as missing:
            from mica.cli import native  # here: it imports all that builds one

            native.offer(board, args, native.contents.chosen(models, ["learn"] if heads else []), missing)
        with text.Progress(f"pushing to {board.name}", "bytes") as progress:
            done = push.push(board, files, say=say, progress=progress, key=key)
        if heads and done.confirmed:
            push.store_head(board, head, args.learnt)
        result = {"target": board.name, "files": sorted(files), "head": heads[0] if heads else None, **vars(done)}
        result["seconds"] = round(done.seconds, 3)
    if args.json:
        text.emit_json(result)
    elif done.confirmed:
        names = ", ".join(sorted(files))
        print(f"{names}: on {board.name}, tried there and in use")
        if heads:
            print(f"{heads[0]}: at {args.learnt} on {board.name}, where mica.Learner takes it up")
    if not done.confirmed:
        say(f"error: rejected by {board.name}: {done.reason}; what was there before is still in use")
    return 0 if done.confirmed else 1
