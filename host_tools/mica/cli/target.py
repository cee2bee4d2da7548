"""The arguments and steps that commands with a target share."""

from __future__ import annotations

import argparse
from pathlib import Path

from mica.cli.say import say
from mica.cli.text import Progress
from mica.errors import MicaError
from mica.run.open import open_runner
from mica.run.runner import Runner


def add_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        metavar="T",
        default="host",
        help="host (default), an emulated board (MPS2_AN385, RPI_PICO@emu, ...; see mica boards), a port (/dev/ttyACM0, COM5, "
        "socket://...), or auto",
    )
    add_custom(parser)


def add_custom(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--custom", metavar="FILE.py", action="append", default=[], help="operators of your own: see mica/custom.py"
    )


def read_model(path: str) -> bytes:
    """Bytes of a .mica file. Raises MicaError."""
    p = Path(path)
    if not p.exists():
        raise MicaError(f"{p}: no such file")
    try:
        data = p.read_bytes()
    except OSError as e:
        raise MicaError(f"{p}: cannot be read: {e.strerror}") from None
    if data[:4] != b"MICA":
        hint = "; make one with `mica pack`" if p.suffix == ".onnx" else ""
        raise MicaError(f"{p}: not a .mica file{hint}")
    return data


def open_model(path: str, target: str, *, icount: bool = False) -> Runner:
    """The model of a file, loaded on a target, with progress on stderr. `icount`: see open_runner."""
    from mica.format.codec import FormatError

    data = read_model(path)
    with Progress(f"sending {Path(path).name} to {target}", "bytes") as progress:
        try:
            return open_runner(data, target, say, progress, icount=icount)
        except FormatError as e:
            raise MicaError(f"{path}: {e}") from None
