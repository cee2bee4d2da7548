"""The arguments and steps that commands with a target share."""

from __future__ import annotations

import argparse
from pathlib import Path

from mica.cli.say import say
from mica.cli.text import Progress
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.fleet.open import is_fleet, open_fleet
from mica.format.schema import MAGIC
from mica.run.open import open_runner
from mica.run.runner import Runner


def add_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        metavar="T",
        default="host",
        help="host (default), an emulated board (MPS2_AN385, RPI_PICO@emu, ...; see mica boards), a port (/dev/ttyACM0, COM5, "
        "socket://...), auto, or a fleet (usb:all, fleet:UNIX*3,MPS2_AN385, fleet:plant)",
    )
    add_custom(parser)


def add_custom(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--custom", metavar="FILE.py", action="append", default=[], help="operators of your own: see mica/custom.py"
    )


def custom_of(args: argparse.Namespace) -> CustomOps:
    """The operators of `--custom`. Raises MicaError."""
    return CustomOps.read(args.custom) if args.custom else NO_CUSTOM


def is_packed(path: str) -> bool:
    """Whether a file begins as a .mica file does. Raises MicaError."""
    p = Path(path)
    if not p.exists():
        raise MicaError(f"{p}: no such file")
    try:
        with open(p, "rb") as f:
            return f.read(len(MAGIC)) == MAGIC
    except OSError as e:
        raise MicaError(f"{p}: cannot be read: {e.strerror}") from None


def read_model(path: str) -> bytes:
    """Bytes of a .mica file. Raises MicaError."""
    p = Path(path)
    if not p.exists():
        raise MicaError(f"{p}: no such file")
    try:
        data = p.read_bytes()
    except OSError as e:
        raise MicaError(f"{p}: cannot be read: {e.strerror}") from None
    if data[: len(MAGIC)] != MAGIC:
        hint = "make one with `mica pack`" if p.suffix in (".onnx", ".tflite") else ""
        raise MicaError(f"{p}: not a .mica file", todo=hint)
    return data


def open_model(path: str, target: str, *, custom: CustomOps, icount: bool = False) -> Runner:
    """The model of a file, loaded on a target, with progress on stderr. `icount`, `custom`: see open_runner."""
    from mica.format.codec import FormatError

    data = read_model(path)
    if is_fleet(target):
        try:
            return open_fleet(data, target, say, custom=custom)
        except FormatError as e:
            raise e.at(path) from None
    with Progress(f"sending {Path(path).name} to {target}", "bytes") as progress:
        try:
            return open_runner(data, target, say, progress, icount=icount, custom=custom)
        except FormatError as e:
            raise e.at(path) from None
