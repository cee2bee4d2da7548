"""mica fit: RAM, flash and time of a model on a board, before anything is flashed.

MODEL is a .mica file, or an .onnx or .tflite file, which is quantised as by `mica pack` with the same options.
Exit code 0: it fits; 2: it does not. Times are predicted from steps that were measured in an emulator,
and so are the waits for flash of boards with an RP2040 or RP2350.
--copy-weights auto counts what mica.Model(..., weights="auto") copies into RAM.
A chip that has no folder is --core m7 --mhz 600 --ram 512K: --ram is all of its RAM then.
"""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mica.boards import BoardSpec, chip, load_board, on_stock, parse_size, stock_boards
from mica.c_program import measure
from mica.cli import heads, model_options, options, target, text
from mica.cost import waits
from mica.cost.prediction import Prediction, predict
from mica.cost.table import Table
from mica.errors import MicaError, Unsupported, found_at
from mica.file.codec import ModelFile, decode
from mica.printable import three_digits
from mica.toolchain.ports.base import kernels_of

if TYPE_CHECKING:
    from mica.compile.board_fit import Proposal

JSON_KEYS = (
    "file, board, fits, reasons[], notes[], ram, flash, time (unit, total, overhead, error, milliseconds, flash, "
    "flash_milliseconds, revision), layers[] (index, name, kernel, macs, cost, flash, error), c (code, constants, ram: "
    "bytes; compiler; null without --c), heads[] (kind, examples[], bytes[], labels[])"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .mica, .onnx or .tflite file")
    options.add(
        parser,
        """
        --board B             a board of `mica boards`, or its folder
        --core C              in the place of --board, a chip's core: m0plus, m3, m4, m7, m33, rv32
        --mhz N               clock of --core
        --native BYTES        mica is a native module on stock MicroPython, of so many bytes of RAM (as mica natmod
            --for prints; default: with all kernels)
        --copy-weights BYTES  bytes of weights that are copied into RAM, or auto: as of mica.Model
        --layers              what every layer will take
        --c                   what the model takes as a C program (mica cc)
        --head                of heads: bytes of a label, and how many fit
        """,
        mhz={"type": float, "default": 0},
        native={"nargs": "?", "const": ""},
    )
    model_options.add_arguments(parser, board=False)


def run(args: argparse.Namespace) -> int:
    board = _board(args)
    try:
        model, data, proposed = _model(args, board)
    except Unsupported as e:
        return _refused(e, args, board)
    weights = waits.budget(args.copy_weights) if args.copy_weights else None
    prediction = predict(model, data, board, Table.read(), weights)
    if proposed is not None:
        prediction.notes.append(proposed.text(args.model, board))
    in_c = measure.measure_program(data, kernels_of(board)) if args.c else None
    ram = prediction.ram
    free = None if ram["heap"] is None else ram["heap"] - ram["heap_needed"]
    rooms = heads.room(heads.width(model, args.model), free) if args.head else []
    lines = [report(args.model, prediction, board, args.layers), *([_in_c(in_c)] if in_c else [])]
    lines += ["", heads.room_table(rooms)] if rooms else []
    said = {"file": args.model, **dataclasses.asdict(prediction), "c": in_c, "heads": rooms}
    text.show(args, said, "\n".join(lines))
    return 0 if prediction.fits else Unsupported.exit_code


def _in_c(found: dict[str, Any]) -> str:
    """The line about the model as a C program."""
    n = text.count
    code = f"never measured: {found['compiler']}" if found["code"] is None else f"{n(found['code'])} bytes of code"
    return f"in C    {code}, {n(found['constants'])} of constants, {n(found['ram'])} of RAM"


def _board(args: argparse.Namespace) -> BoardSpec:
    """The board of --board, or the chip of --core; with --native as stock MicroPython leaves it."""
    if (args.board is None) == (args.core is None):
        raise MicaError("fit: give either --board B or --core C", todo="mica boards lists boards")
    if args.core:
        if args.ram is None or args.mhz < 0:
            raise MicaError("--core: how much RAM has the chip?", todo="such as --core m7 --mhz 600 --ram 512K")
        board = chip(args.core, parse_size(args.ram, "--ram"), int(args.mhz * 1e6))
        args.ram = None
    else:
        board = load_board(args.board)
    if args.native is None:
        return board
    module = parse_size(args.native, "--native") if args.native else None
    bare = stock_boards().get(board.name, board)
    free, _ = Table.read().heap(bare)
    return on_stock(bare, bare.stock_heap or (free + bare.arena if free else 0), module)


def _model(args: argparse.Namespace, board: BoardSpec) -> tuple[ModelFile, bytes, Proposal | None]:
    """The model as `mica pack --board` makes it, and what makes it fit. Raises MicaError and Unsupported."""
    if target.is_packed(args.model):
        model_options.refuse_options(args, args.model)
        data = target.read_model(args.model)
        with found_at(args.model):
            return decode(data), data, None
    from mica.compile import board_fit, stages
    from mica.quantise.choose_bits import Bits

    job = replace(model_options.job_of(args, board), must_fit=False)
    with text.watch() as watch:
        state = stages.run(job, watch)
        proposed = board_fit.proposal(state, lambda: stages.run(replace(job, bits=Bits()), watch), board)
    chosen = proposed.compiled if proposed is not None and proposed.by_board else state.compiled
    return chosen.model, chosen.data, proposed


def _refused(e: Unsupported, args: argparse.Namespace, board: BoardSpec) -> int:
    """Operators that are missing, each with its node."""
    if args.json:
        p = Prediction(board.name, False, list(e.reasons) or [str(e)])
        text.emit_json({"file": args.model, **dataclasses.asdict(p)})
        return Unsupported.exit_code
    raise e


def report(name: str, p: Prediction, board: BoardSpec, with_layers: bool) -> str:
    """The prediction as lines for a terminal."""
    n = text.count
    lines = []
    if with_layers:
        lines += [_layers(p), ""]
    lines.append(f"{name} on {board.name}: {'fits' if p.fits else 'does not fit'}")
    lines += [f"  {reason}" for reason in p.reasons]
    ram, flash = p.ram, p.flash
    where = "the static arena" if not ram["arena_on_heap"] else f"a block of {n(ram['arena_on_heap'])} bytes of heap"
    lines.append(
        f"arena   {n(ram['tensors'])} bytes of tensors, {n(ram['scratch_want'])} of scratch for full speed: in {where}"
        + ("" if ram["arena_on_heap"] else f" of {n(ram['arena'])}")
    )
    heap = "never measured" if ram["heap"] is None else n(ram["heap"]) + ("" if ram["heap_measured"] else ", estimated")
    copies = f", {n(ram['weights'])} for copies of weights" if ram.get("weights") else ""
    lines.append(
        f"heap    {n(ram['heap_needed'])} bytes ({n(ram['tables'])} for tables and runtime{copies}); free at the "
        f"prompt: {heap}"
    )
    rooms = {"romfs": flash["romfs"] or 0, "files": flash["storage"] or 0}
    places = {"romfs": ", read in place in the ROMFS", "files": ", in the file system"}
    place, room = places.get(flash["place"], ", more than the space for models"), rooms.get(flash["place"])
    room = max(rooms.values()) if room is None else room
    lines.append(f"flash   {n(flash['file'])} bytes{place}" + (f" of {n(room)}" if room else ""))
    lines += time_lines(p, board)
    lines += [f"note    {note}" for note in p.notes]
    return "\n".join(lines)


def time_lines(p: Prediction, board: BoardSpec) -> list[str]:
    """Return what is predicted, and from what; nothing for a core that was never measured."""
    t = p.time
    if t is None:
        return []
    ms = ""
    if t["milliseconds"] is not None:
        least = "" if t["unit"] == "cycles" else "at least "  # an instruction takes a cycle or more
        ms = f", {least}{three_digits(t['milliseconds'])} ms at {t['clock'] / 1e6:.0f} MHz"
        if t["flash"]:
            ms += f", of which flash {three_digits(t['flash_milliseconds'])}"
    waits = "" if board.flash_miss else "; flash waits come on top"
    about = f"give or take {_error(t['error'])}" if t["complete"] else "and more, see below"
    return [
        f"time    {three_digits(t['total'])} {t['unit']}{ms}, {about}",
        f"        predicted, from steps measured in an emulator (revision {t['revision']}){waits}",
    ]


def _error(share: float) -> str:
    """A share in percent; a prediction is never without an error."""
    return f"{max(100 * share, 1):.0f} %"


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
                "" if cost is None else _error(layer["error"]),
                "" if cost is None or not total else text.percent(cost / total),
                layer["name"],
            )
        )
    unit = p.time["unit"] if p.time else "cost"
    return text.table(("", "kernel", "MACs", unit, "+-", "share", "name"), rows, "r rrrr")
