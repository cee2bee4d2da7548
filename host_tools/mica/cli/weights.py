"""`--weights 4`, `--weights auto` with `--size` or `--loss`: which weights take four bits."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mica.errors import MicaError

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.quantise.choose_bits import Bits

CHOICES = ("8", "4", "auto")
ROMFS_ROOM = 4096  # of a window: the file system's own bytes, and what comes behind the weights, as golden vectors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mica pack`."""
    parser.add_argument(
        "--weights",
        choices=CHOICES,
        default="8",
        help="bits of a weight: 4 for all large layers but depthwise ones, in half of their flash; or auto, 4 where it costs least, "
        "with --size or --loss, or as a --board needs",
    )
    parser.add_argument("--size", metavar="N[K]", help="with --weights auto: bytes that the file may take")
    parser.add_argument(
        "--loss",
        metavar="DB",
        help="with --weights auto: dB by which the outputs' noise may grow on samples of --calib",
    )


def parse(args: argparse.Namespace, board: BoardSpec | None) -> Bits | None:
    """What the options ask for; without a limit `auto` takes what the board has for models. Raises MicaError."""
    from mica.quantise.choose_bits import Bits

    limits = [name for name in ("size", "loss") if getattr(args, name) is not None]
    if args.weights != "auto":
        if limits:
            raise MicaError(f"--{limits[0]} is for --weights auto")
        return Bits() if args.weights == "4" else None
    if not limits and board is not None and board.romfs:
        return Bits(size=board.romfs.size - ROMFS_ROOM)
    if len(limits) != 1:
        raise MicaError("--weights auto: expected --size or --loss, one of them, or a --board that has a ROMFS")
    if args.size is not None:
        return Bits(size=_size(args.size))
    try:
        loss = float(args.loss)
    except ValueError:
        loss = -1.0
    if not 0 <= loss < 200:
        raise MicaError(f"--loss {args.loss}: expected a number of dB such as 1.5")
    return Bits(loss=loss)


def _size(text: str) -> int:
    number, kilo = (text[:-1], 1024) if text[-1:] in ("K", "k") else (text, 1)
    if not number.isdecimal() or int(number) * kilo < 1:
        raise MicaError(f"--size {text}: expected a number of bytes such as 500000 or 480K")
    return int(number) * kilo


def require_size(limit: int | None, size: int) -> None:
    """Raises MicaError where the finished file passes the limit of --size."""
    if limit is not None and size > limit:
        raise MicaError(
            f"--size {limit}: the file takes {size:,} bytes, what was added behind the weights included",
            todo="fewer vectors of --golden, or a larger --size",
        )
