"""mica generate: text from a language model, on any target."""

import argparse
import sys
import time

from mica.cli import target, text
from mica.custom import NO_CUSTOM
from mica.errors import MicaError
from mica.printable import printable_lines
from mica.run.text import Wish, generate

JSON_KEYS = "target, prompt, text, pieces[], seconds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica", help="packed with --tokens")
    parser.add_argument("prompt", metavar="TEXT", help="what the text begins with; \\n is a new line")
    target.add_on(parser)
    parser.add_argument(
        "--max-tokens", metavar="N", type=int, default=100, help="at most so many new tokens (default 100)"
    )
    parser.add_argument(
        "--temperature", metavar="T", type=float, default=0.0, help="0, the default: the likeliest token; up to 10"
    )
    parser.add_argument(
        "--top-k", metavar="K", type=int, default=0, help="draw among the K likeliest; 0, the default: all"
    )
    parser.add_argument("--stop", metavar="TEXT", action="append", default=[], help="end before this text")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="same seed, same text, on every target")


def run(args: argparse.Namespace) -> int:
    if args.custom:
        raise MicaError("--custom: a language model with operators of one's own is not run here")
    wish = Wish(
        args.prompt.replace("\\n", "\n"),
        args.max_tokens,
        args.temperature,
        args.top_k,
        [s.replace("\\n", "\n") for s in args.stop],
        args.seed,
    )
    pieces = []
    with target.open_model(args.model, args.on, custom=NO_CUSTOM) as runner:
        begun = time.perf_counter()
        for piece in generate(runner, wish):
            pieces.append(piece)
            if not args.json:
                sys.stdout.write(printable_lines(piece))
                sys.stdout.flush()
        seconds = time.perf_counter() - begun
    if args.json:
        found = {
            "target": args.on,
            "prompt": wish.prompt,
            "text": "".join(pieces),
            "pieces": pieces,
            "seconds": seconds,
        }
        text.emit_json(found)
    else:
        print()
    return 0
