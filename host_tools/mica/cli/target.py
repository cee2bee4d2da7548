"""The arguments and steps that commands with a target share."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mica.cli.text import Progress, say
from mica.custom import NO_CUSTOM, CustomOps
from mica.data import tables
from mica.errors import MicaError, found_at, reading
from mica.file import codec, parts
from mica.format.schema import MAGIC

if TYPE_CHECKING:
    from mica.file.codec import ModelFile
    from mica.run.runner import Runner


def add_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        metavar="T",
        default="host",
        help="host (default), an emulated board (MPS2_AN385, RPI_PICO@emu, ...; see mica boards), a port "
        "(/dev/ttyACM0, COM5, socket://...), auto, or a fleet (usb:all, fleet:UNIX*3,MPS2_AN385, fleet:plant)",
    )
    add_memory(parser)
    add_custom(parser)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """`--memory`: what MICA_MEMORY says for every emulator that the command starts."""

    class Given(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
            os.environ["MICA_MEMORY"] = values

    parser.add_argument(
        "--memory",
        action=Given,
        choices=("waits", "ideal"),
        default=argparse.SUPPRESS,
        help="virtual Picos: flash that waits (default), or ideal",
    )


def add_custom(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--custom", metavar="FILE.py", action="append", default=[], help="operators of your own: see mica/custom.py"
    )


def add_data(parser: argparse.ArgumentParser, help: str) -> None:
    """`--data DATA`, as all commands spell it; the word alone, without the option, is taken as well."""
    word = parser.add_argument("data", metavar="--data DATA", help=argparse.SUPPRESS)

    class Given(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
            namespace.data = values
            word.required = False

    parser.add_argument("--data", metavar="DATA", action=Given, help=help)


def custom_of(args: argparse.Namespace) -> CustomOps:
    """The operators of `--custom`. Raises MicaError."""
    return CustomOps.read(args.custom) if args.custom else NO_CUSTOM


def is_packed(path: str) -> bool:
    """True if a file begins as a .mica file does. Raises MicaError."""
    p = Path(path)
    if not p.exists():
        raise MicaError(f"{p}: no such file")
    with reading(p), open(p, "rb") as f:
        return f.read(len(MAGIC)) == MAGIC


def read_model(path: str) -> bytes:
    """Bytes of a .mica file. Raises MicaError."""
    p = Path(path)
    if not p.exists():
        raise MicaError(f"{p}: no such file")
    with reading(p):
        data = p.read_bytes()
    if data[: len(MAGIC)] != MAGIC:
        hint = "make one with `mica pack`" if p.suffix in (".onnx", ".tflite") else ""
        raise MicaError(f"{p}: not a .mica file", todo=hint)
    return data


def table_inputs(path: str, data: str) -> tables.Inputs | None:
    """The inputs of a packed model, for a data file that is a table. path: of the model. Raises MicaError."""
    if not tables.is_table(data):
        return None
    from mica.run.evaluation import table_inputs as inputs_of

    with found_at(path, codec.FormatError):
        return inputs_of(codec.decode(read_model(path)))


def read_parts(path: str) -> list[bytes]:
    """Bytes of a .mica file; of a part of a model also of the others, which lie beside it. The given one comes first.
    Raises MicaError."""
    data = read_model(path)
    with found_at(path):
        part = parts.read(codec.decode(data))
    if part is None:
        return [data]
    given = Path(path)
    match = re.fullmatch(r"(.+)\.\d+of\d+\.mica", given.name)
    if match is None:
        raise MicaError(
            f"{path}: part {part.number} of {part.of} of a model", todo="keep the names that mica fleet cut gave"
        )
    names = [f"{match[1]}.{k}of{part.of}.mica" for k in range(1, part.of + 1) if k != part.number]
    return [data, *(read_model(str(given.with_name(name))) for name in names)]


def whole_model(path: str) -> ModelFile:
    """The inputs, outputs and metadata of a model, before a target is opened; its parts lie beside each other.
    Raises MicaError."""
    return parts.chain([codec.decode(data) for data in read_parts(path)]).whole


def _beside(target: str) -> Callable[..., Runner] | None:
    """The function of another package that opens a model there, if it is a target of such a one. Raises MicaError."""
    kind, colon, _ = target.partition(":")
    if not colon:
        return None
    from mica.cli import plugins

    return cast("Callable[..., Runner] | None", plugins.load("mica.targets", kind))


def open_model(
    path: str,
    target: str,
    *,
    custom: CustomOps,
    icount: bool = False,
    check: Callable[[codec.ModelFile], object] | None = None,
) -> Runner:
    """The model of a file, loaded on a target, with progress on stderr. `icount`, `custom`: see open_runner.

    check: raises MicaError where what the model is to be given does not fit it.
    A board may have to be built first, for minutes.
    """
    from mica.run.host import open_runner  # here, so that pack and info need not wait for what talks to boards

    if open_beside := _beside(target):
        data, *others = read_parts(path)
        with found_at(path, codec.FormatError):
            return open_beside(data, target, say, custom=custom, others=others)
    data = read_model(path)
    if check is not None and target != "host":
        with found_at(path, codec.FormatError):
            check(codec.decode(data))
    with Progress(f"sending {Path(path).name} to {target}", "bytes") as progress, found_at(path, codec.FormatError):
        return open_runner(data, target, say, progress, icount=icount, custom=custom)
