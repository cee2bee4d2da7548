"""mica fit: whether a model fits a board and what it will take there, before anything is flashed.

MODEL is a .mica file, or an .onnx or .tflite file, which is quantised as by `mica pack`; without --calib its weights and ranges
are made up quickly, which changes neither RAM nor time. Exit code 0: it fits; 2: it does not. Times are predicted from steps that were
measured in an emulator; waiting for flash comes on top.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from mica.boards import BoardSpec, load_board
from mica.cli import proposal, target, text
from mica.cost.prediction import Prediction, predict
from mica.cost.table import Table
from mica.errors import MicaError, Unsupported
from mica.format.codec import FormatError, ModelFile, decode

JSON_KEYS = (
    "file, board, fits, reasons[], notes[], ram, flash, time (unit, total, overhead, error, milliseconds, "
    "revision), layers[] (index, name, kernel, macs, cost, error)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .mica, .onnx or .tflite file")
    parser.add_argument("--board", metavar="B", required=True, help="a board of `mica boards`")
    parser.add_argument("--layers", action="store_true", help="what every layer will take")
    parser.add_argument(
        "--calib", metavar="X.npz", help="of an .onnx or .tflite file: samples of real inputs, as for mica pack"
    )
    parser.add_argument(
        "--shape", metavar="NAME=N", action="append", default=[], help="of an .onnx file: size of a dynamic dimension"
    )
    target.add_custom(parser)


def run(args: argparse.Namespace) -> int:
    board = load_board(args.board)
    table = Table.read()
    try:
        model, data, proposed = _model(args, board)
    except Unsupported as e:
        return _refused(e, args, board)
    prediction = predict(model, data, board, table)
    if proposed is not None:
        prediction.notes.append(proposed.text(args.model, board))
    if args.json:
        text.emit_json({"file": args.model, **dataclasses.asdict(prediction)})
    else:
        print(report(args.model, prediction, board, args.layers))
    return 0 if prediction.fits else Unsupported.exit_code


def _model(args: argparse.Namespace, board: BoardSpec) -> tuple[ModelFile, bytes, proposal.Proposal | None]:
    """The model as it would be packed for the board, and what makes it fit. Raises MicaError and Unsupported."""
    if target.is_packed(args.model):
        for option in ("calib", "shape"):
            if getattr(args, option):
                raise MicaError(f"--{option} is for .onnx and .tflite files; {args.model} is packed already")
        data = target.read_model(args.model)
        try:
            return decode(data), data, None
        except FormatError as e:
            raise e.at(args.model) from None
    from mica.calibration import learnt_missing, load_calibration
    from mica.cli.pack import parse_shapes
    from mica.compiler import Compiled, compile_model
    from mica.importer import import_model
    from mica.ir.graph import Graph
    from mica.quantise.choose_bits import Bits

    custom = target.custom_of(args)
    shapes = parse_shapes(args.shape)
    imported = import_model(args.model, shapes, custom)
    calibration = None
    if args.calib:
        sizes = {name: imported.value(name).shape for name in imported.inputs}
        calibration = load_calibration(args.calib, imported.inputs, sizes, missing=learnt_missing(imported))

    def compiled_with(bits: Bits | None, graph: Graph | None = None) -> Compiled:
        return compile_model(
            args.model,
            calibration,
            shapes,
            plain=True,
            scratch_limit=board.scratch,
            imported=graph,
            custom=custom,
            bits=bits,
        )

    compiled = compiled_with(None, imported)
    found = proposal.find(compiled, lambda: compiled_with(Bits()), board)
    chosen = compiled if found is None else found.compiled
    return chosen.model, chosen.data, found


def _refused(e: Unsupported, args: argparse.Namespace, board: BoardSpec) -> int:
    """Operators that are missing, each with its node."""
    if args.json:
        p = Prediction(board.name, False, list(e.reasons) or [str(e)])
        text.emit_json({"file": args.model, **dataclasses.asdict(p)})
        return Unsupported.exit_code
    raise e


def report(name: str, p: Prediction, board: BoardSpec, with_layers: bool) -> str:
    """What a person reads."""
    n = text.count
    lines = []
    if with_layers:
        lines += [_layers(p), ""]
    lines.append(f"{name} on {board.name}: {'fits' if p.fits else 'does not fit'}")
    lines += [f"  {reason}" for reason in p.reasons]
    ram, flash = p.ram, p.flash
    where = "the static arena" if not ram["arena_on_heap"] else f"a block of {n(ram['arena_on_heap'])} bytes of heap"
    lines.append(
        f"arena   {n(ram['tensors'])} bytes of tensors, {n(ram['scratch'])} of scratch for full speed: in {where}"
        + ("" if ram["arena_on_heap"] else f" of {n(ram['arena'])}")
    )
    heap = "never measured" if ram["heap"] is None else n(ram["heap"]) + ("" if ram["heap_measured"] else ", estimated")
    lines.append(f"heap    {n(ram['heap_needed'])} bytes ({n(ram['tables'])} for tables and runtime); free: {heap}")
    place = {"romfs": "read in place in the ROMFS", "files": "in the file system", None: "nowhere"}[flash["place"]]
    room = flash["romfs"] if flash["place"] == "romfs" else flash["storage"]
    lines.append(f"flash   {n(flash['file'])} bytes, {place}" + (f" of {n(room)}" if room else ""))
    lines += _time(p, board)
    lines += [f"note    {note}" for note in p.notes]
    return "\n".join(lines)


def _time(p: Prediction, board: BoardSpec) -> list[str]:
    t = p.time
    if t is None:
        return []
    ms = ""
    if t["milliseconds"] is not None:
        least = "" if t["unit"] == "cycles" else "at least "  # an instruction takes a cycle or more
        ms = f", {least}{t['milliseconds']:.3g} ms at {t['clock'] / 1e6:.0f} MHz"
    about = f"give or take {100 * t['error']:.0f} %" if t["complete"] else "and more, see below"
    return [
        f"time    {n_(t['total'])} {t['unit']}{ms}, {about}",
        f"        predicted, from steps measured in an emulator (revision {t['revision']}); flash waits come on top",
    ]


def n_(value: int) -> str:
    """1234567 -> 1,230,000: no more digits than are known."""
    digits = max(0, len(str(value)) - 3)
    return text.count(round(value, -digits))


def _layers(p: Prediction) -> str:
    rows: list[tuple[Any, ...]] = []
    total = p.time["total"] if p.time else 0
    for layer in p.layers:
        cost = layer["cost"]
        rows.append(
            (
                layer["index"],
                layer["kernel"],
                text.count(layer["macs"]),
                "?" if cost is None else text.count(cost),
                "" if cost is None else f"{100 * layer['error']:.0f} %",
                "" if cost is None or not total else text.percent(cost / total),
                layer["name"],
            )
        )
    unit = p.time["unit"] if p.time else "cost"
    return text.table(("", "op", "MACs", unit, "+-", "share", "name"), rows, "r rrrr")
