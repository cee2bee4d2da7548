"""The options that describe a model, for all commands that take one, and the `Job` that they make.

`pack`, `fit`, `compare`, `report` and `fleet cut` share them, so all of them see the same model.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mica.cli import options, target
from mica.data.calibration import Pixels
from mica.errors import MicaError
from mica.format.schema import PICTURE_COLOURS
from mica.passes.streaming import Window
from mica.printable import printable
from mica.quantise.choose_bits import Bits
from mica.quantise.tune import AUTO, CHOICES

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.compile import Job, Ram

WEIGHTS = ("8", "4", "auto")
ROMFS_SPARE = 4096  # bytes of a window beside the weights: the file system's own, and golden vectors


def add_arguments(parser: argparse.ArgumentParser, board: bool = True, data: bool = True) -> None:
    """board, data: False where the command has a --board or --data with a meaning of its own."""
    # pack's: a front end that is the whole model, and networks that follow or stand side by side
    parser.set_defaults(alone=False, more=(), together=False)
    first = parser.add_argument_group("most used")
    first.add_argument(
        "--calib",
        metavar="X.npz",
        help="samples of real inputs: an .npz with array 'x' or one array per input, an .npy, "
        "a table (.csv, .tsv), or a folder of .npy, .npz, .csv, pictures or sound files",
    )
    if data:
        first.add_argument(
            "--data", dest="eval", metavar="DATA.npz", help="labelled data: prints float accuracy beside int8 accuracy"
        )
        first.add_argument("--eval", help=argparse.SUPPRESS)  # the same
    if board:
        first.add_argument(
            "--board", metavar="B", help="check that the model fits this board, and limit scratch to what the board has"
        )
    first.add_argument("--labels", metavar="FILE", help="class names, one per line, kept in the file")
    first.add_argument(
        "--golden", metavar="N", type=int, default=0, help="store N vectors for self-tests, which `mica push` needs"
    )
    samples = parser.add_argument_group("accuracy")
    samples.add_argument(
        "--calib-method",
        choices=CHOICES,
        default=AUTO,
        help="how ranges are found; auto, the default: for each tensor what gives the smallest measured error",
    )
    samples.add_argument(
        "--plain", action="store_true", help="no equalisation, weight tuning and bias correction, for comparing"
    )
    options.add(
        parser.add_argument_group("inputs"),
        """
        --shape NAME=N  size of a dynamic dimension
        --picture       the input is a picture of these colours; the file stores this for cameras' frames and picture
            files. With pictures as --calib the default comes from the input's channels
        --pixel-scale S[,S,S]  of pictures: input = pixel * S + O; default 1/255
        --pixel-offset O[,O,O]  of pictures, one number or one a channel; default 0
        --frontend KIND:WORDS  the model takes samples of a sensor, and makes its features itself: mfcc:mlperf-kws,
            logmel:KEY=VALUE,..., features:KEY=VALUE,... (docs/sound.md)
        """,
        shape={"action": "append", "default": []},
        picture={"choices": PICTURE_COLOURS},
    )
    parser.add_argument(
        "--embedding",
        metavar="TENSOR",
        nargs="?",
        const="",
        help="the output is this tensor, for heads that learn on a board (mica teach); by default what stands before "
        "the last dense layer. TENSOR:max and TENSOR:mean pool a feature map. mica info MODEL lists tensors. Without "
        "a MODEL the features of --frontend are it",
    )
    options.add(
        parser.add_argument_group("memory"),
        """
        --ram N[K]   bytes for tensors and scratch together: where that is too little for layer after layer, layers
            run in strips, some rows of each in turn
        --feed       the caller delivers the input row by row, from a buffer or a function, so the model has no tensor
            for it; for pictures with channels last
        --weights    bits of a weight: 4 for all large layers but depthwise ones, in half of their flash; or auto, 4
            where it costs least, with --size or --loss, or as a --board needs
        --size N[K]  with --weights auto: bytes that the file may take
        --loss DB    with --weights auto: dB by which the outputs' noise may grow on samples of --calib
        """,
        weights={"choices": WEIGHTS, "default": "8"},
    )
    options.add(
        parser.add_argument_group("streaming"),
        """
        --state IN=OUT  this input and output are one tensor that lives from run to run, 0 at first. Samples of
            --calib are then consecutive runs. Pairs such as past_X and present_X are found by their names; `none`
            prevents this
        --window INPUT[:AXIS]=N  the input slides; a run is given N new rows (axis 0 is the batch; default: the first
            that is longer than 1), and so is each sample of --calib
        --stream INPUT[:AXIS]=N  as --window, and layers compute what is new: convolutions without padding along that
            axis keep the rows that they need. The answers are those of the whole window; samples of --calib are whole
            windows. N may be all rows where a front end's noise or the model's own states go on
        """,
        state={"action": "append", "default": []},
        window={"action": "append", "default": []},
    )
    file = parser.add_argument_group("file")
    file.add_argument("--name", help="name of the model; default: the file's")
    file.add_argument(
        "--tokens",
        metavar="FILE[,begin=N][,end=N][,padding=N][,unknown=N][,space][,plain][,merges]",
        help="the vocabulary of a language model, or of one that classifies texts, for the file: a tokenizer.json, a "
        "JSON list of pieces, or a vocab.txt. begin and end are the tokens around a text, space puts a space before "
        "it, merges merges the pieces of a list in its order (BPE). plain drops capitals, accents and marks that are "
        "no pieces",
    )
    file.add_argument("--key", metavar="FILE", help="sign the file with this key, so that a board can tell whose it is")
    target.add_custom(parser)


def job_of(args: argparse.Namespace, board: BoardSpec | None, model: str | None = None) -> Job:
    """Everything that the options say of the model at `model`, by default that of the command. Raises MicaError."""
    from mica.compile import Job
    from mica.format import signature
    from mica.importer import vocabulary

    named = model or args.model
    return Job(
        model=Path(named),
        samples=args.calib,
        shapes=parse_shapes(args.shape),
        metadata={"command": command(args, named), **({"name": args.name} if args.name else {})},
        labels=args.labels or (),
        board=board,
        ram=_ram(args, board),
        bits=_bits(args, board),
        calib_method=args.calib_method,
        plain=args.plain,
        states=_states(args.state),
        windows=tuple(_window(text) for text in args.window),
        step=_window(args.stream, "--stream") if args.stream else None,
        front_end=args.frontend,
        pixels=_pixels(args),
        picture=bool(args.picture),
        tokens=vocabulary.read(args.tokens) if args.tokens else None,
        custom=target.custom_of(args),
        labelled=getattr(args, "eval", None),
        golden=args.golden,
        key=signature.read_key(args.key) if args.key else None,
        embedding="" if args.alone and args.embedding is None else args.embedding,
        alone=args.alone,
        joined=tuple(map(Path, args.more)),
        together=args.together,
    )


def file_bytes(
    args: argparse.Namespace, path: str, board: BoardSpec | None = None, scratch: int | None = None
) -> bytes:
    """The bytes of a .mica file; of an .onnx or .tflite file those that `mica pack` makes with these options.
    Raises MicaError.

    scratch: bytes of RAM for speed, in the place of a board's.
    """
    from mica.cli import text
    from mica.compile import stages

    if target.is_packed(path):
        return target.read_model(path)
    with text.watch() as watch:
        job = replace(job_of(args, board, path), scratch_limit=scratch)
        return stages.run(job, watch).compiled.data


def refuse_options(args: argparse.Namespace, *models: str, kept: Sequence[str] = ()) -> None:
    """Raises MicaError where all models are packed already, and an option describes one that is not.

    kept: options that the command uses for a packed model as well.
    """
    if not all(target.is_packed(path) for path in models):
        return
    defaults = argparse.ArgumentParser(add_help=False)
    add_arguments(defaults, board=False)
    for name, value in vars(defaults.parse_args([])).items():
        if name not in ("custom", *kept) and getattr(args, name, value) != value:
            option = "--" + name.replace("_", "-")
            raise MicaError(f"{option} is for .onnx and .tflite files; {' and '.join(models)} is packed already")


def files_read(args: argparse.Namespace, output: Path) -> list[tuple[str, str | Path | None]]:
    """The files that a job reads, for `outputs.check`."""
    from mica.data.calibration import sample_files
    from mica.importer.onnx_file import external_files

    read: list[tuple[str, str | Path | None]] = [
        ("the model", None if args.alone else args.model),
        *(("a model that follows", path) for path in args.more),
        ("the labels", args.labels),
        ("the vocabulary", args.tokens.split(",")[0] if args.tokens else None),
        ("the key", args.key),
        ("the data of --data", args.eval),
        *(("a file of --custom", path) for path in args.custom),
    ]
    if args.calib:
        read += [("the calibration data", path) for path in sample_files(args.calib)]
    if output.exists() and not args.alone:  # to look takes as long as reading the model
        read += [("a part of the model", path) for path in external_files(args.model)]
    return read


def command(args: argparse.Namespace, model: str) -> str:
    """Return the command that makes these bytes: files by name, without words that only tell where or print."""
    options: list[tuple[str, Sequence[str]]] = [
        ("--calib", _file_names(args.calib)),
        ("--calib-method", [args.calib_method] if args.calib_method != AUTO else []),
        ("--frontend", [args.frontend] if args.frontend else []),
        ("--picture", [args.picture] if args.picture else []),
        ("--pixel-scale", [args.pixel_scale] if args.pixel_scale else []),
        ("--pixel-offset", [args.pixel_offset] if args.pixel_offset else []),
        ("--data", _file_names(getattr(args, "eval", None))),
        ("--shape", args.shape),
        ("--labels", _file_names(args.labels)),
        ("--name", [args.name] if args.name else []),
        ("--board", _file_names(args.board) if isinstance(args.board, str) else []),
        ("--ram", [args.ram] if args.ram else []),
        ("--weights", [args.weights] if args.weights != "8" else []),
        ("--size", [args.size] if args.size else []),
        ("--loss", [args.loss] if args.loss else []),
        ("--state", args.state),
        ("--window", args.window),
        ("--stream", [args.stream] if args.stream else []),
        ("--tokens", [_file_with_words(args.tokens)] if args.tokens else []),
        ("--golden", [str(args.golden)] if args.golden else []),
        ("--custom", _file_names(*args.custom)),
    ]
    words = ["mica", "pack"]
    words += [] if args.alone else _file_names(model, *args.more)
    words += ["--together"] if args.together else []
    words += ["--plain"] if args.plain else []
    words += ["--feed"] if args.feed else []
    words += [] if args.embedding is None else [f"--embedding={args.embedding}" if args.embedding else "--embedding"]
    words += [word for option, values in options for value in values for word in (option, value)]
    return printable(shlex.join(words))


def _file_names(*paths: str | None) -> list[str]:
    return [Path(path).name for path in paths if path]


def _file_with_words(text: str) -> str:
    """ "dir/vocab.json,begin=1" -> "vocab.json,begin=1"."""
    file, *words = text.split(",")
    return ",".join([Path(file).name, *words])


def parse_shapes(items: list[str]) -> dict[str, int]:
    """["N=1"] -> {"N": 1}. Raises MicaError."""
    shapes = {}
    for item in items:
        name, _, size = item.rpartition("=")
        if not name or not size.isdigit() or int(size) < 1:
            raise MicaError(f"--shape {item}: expected NAME=N with N a positive number")
        shapes[name] = int(size)
    return shapes


def _states(items: list[str]) -> tuple[tuple[str, str], ...] | None:
    """["IN=OUT"] -> pairs; [] -> None: they are found by their names; ["none"] -> none. Raises MicaError."""
    if items == ["none"]:
        return ()
    pairs = []
    for item in items:
        source, _, result = item.partition("=")
        if not source or not result:
            raise MicaError(f"--state {item}: expected IN=OUT, an input and an output of the model")
        pairs.append((source, result))
    return tuple(pairs) or None


def _window(text: str, option: str = "--window") -> Window:
    """INPUT=N or INPUT:AXIS=N. Raises MicaError."""
    name, _, rows = text.rpartition("=")
    stem, _, axis = name.rpartition(":")
    if not (stem and axis.isdecimal()):
        stem, axis = name, ""
    if not stem or not rows.isdecimal():
        raise MicaError(f"{option} {text}: expected INPUT=N or INPUT:AXIS=N with N a positive number")
    return Window(stem, int(axis) if axis else None, int(rows))


def _pixels(args: argparse.Namespace) -> Pixels:
    found = {}
    for name in ("scale", "offset"):
        if (text := getattr(args, f"pixel_{name}")) is not None:
            try:
                found[name] = tuple(_number(part) for part in text.split(","))
            except (ValueError, ZeroDivisionError):
                raise MicaError(f"--pixel-{name} {text}: expected numbers such as 0.5, 1/255 or 0.1,0.2,0.3") from None
    return Pixels(**found, colours=args.picture or "")


def _number(text: str) -> float:
    """ "1/255" or "0.5"."""
    a, slash, b = text.partition("/")
    return float(a) / float(b) if slash else float(a)


def _ram(args: argparse.Namespace, board: BoardSpec | None) -> Ram | None:
    """The limit of --ram and --feed; None where neither was given. Raises MicaError."""
    from mica.compile import board_fit

    if args.ram is None:
        return board_fit.budget(None, board, True) if args.feed else None
    return board_fit.budget(_bytes("--ram", args.ram, "32000 or 31K"), board, args.feed)


def _bits(args: argparse.Namespace, board: BoardSpec | None) -> Bits | None:
    """--weights, --size and --loss; without a limit `auto` takes what the board has for models. Raises MicaError."""
    limits = [name for name in ("size", "loss") if getattr(args, name) is not None]
    if args.weights != "auto":
        if limits:
            raise MicaError(f"--{limits[0]} is for --weights auto")
        return Bits() if args.weights == "4" else None
    if not limits and board is not None and board.romfs:
        return Bits(size=board.romfs.size - ROMFS_SPARE)
    if len(limits) != 1:
        raise MicaError("--weights auto: expected --size or --loss, one of them, or a --board that has a ROMFS")
    if args.size is not None:
        return Bits(size=_bytes("--size", args.size, "500000 or 480K"))
    try:
        loss = float(args.loss)
    except ValueError:
        loss = -1.0
    if not 0 <= loss < 200:
        raise MicaError(f"--loss {args.loss}: expected a number of dB such as 1.5")
    return Bits(loss=loss)


def _bytes(option: str, text: str, examples: str) -> int:
    """N or NK. Raises MicaError."""
    number, kilo = (text[:-1], 1024) if text[-1:] in ("K", "k") else (text, 1)
    if not number.isdecimal() or int(number) * kilo < 1:
        raise MicaError(f"{option} {text}: expected a number of bytes such as {examples}")
    return int(number) * kilo
