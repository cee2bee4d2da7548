"""mica report: a model as a page to look at.

MODEL is a .mica file, or an .onnx or .tflite file, which is quantised as by `mica pack` with the same options.
"""

import argparse
from pathlib import Path

from mica.cli import model_options, outputs, target, text
from mica.errors import found_at
from mica.file import codec
from mica.report.facts import BOARDS

JSON_KEYS = (
    "name, size, version, arena_bytes, scratch_want, scratch_min, state_bytes, macs, weight_bytes, inputs[], "
    "outputs[], layers[] (name, kernel, inputs, output, macs, weight_bytes, live_bytes), peak_step, front_end, "
    "strips[], boards[] (board, core, fits, reasons, unit, total, milliseconds, flash_milliseconds, layers), "
    "evaluation (as `eval`), metadata"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .mica, .onnx or .tflite file")
    parser.add_argument("-o", "--output", metavar="F.html", help="default: M.html beside the model")
    parser.add_argument("--data", metavar="DATA", help="labelled data: adds accuracy and the confusion matrix")
    parser.add_argument(
        "--board",
        metavar="B",
        action="append",
        help=f"whose costs are shown; may be given again; default: {', '.join(BOARDS)}",
    )
    model_options.add_arguments(parser, board=False, data=False)


def run(args: argparse.Namespace) -> int:
    from mica.boards import load_board
    from mica.report.facts import facts
    from mica.report.page import Report
    from mica.run import accuracy, evaluation
    from mica.run.host import HostRunner

    output = Path(args.output) if args.output else Path(args.model).with_suffix(".html")
    outputs.check("-o", output, [("the model", args.model), ("the data", args.data)])
    custom = target.custom_of(args)
    data = evaluation.load(args.data, target.table_inputs(args.model, args.data)) if args.data else None
    model_options.refuse_options(args, args.model)
    board = load_board(args.board[0]) if args.board and len(args.board) == 1 else None
    blob = model_options.file_bytes(args, args.model, board)
    with found_at(args.model):
        model = codec.decode(blob)
    found = facts(model, blob, args.board or BOARDS)
    if data is not None:
        with HostRunner(blob, custom) as runner, text.watch() as watch:
            found["evaluation"] = accuracy.compare(data, runner, None, watch.progress, watch.warn)
    page = Report(found, model).html().encode()
    outputs.write(output, page)
    text.show(args, found, f"{output}: {len(page):,} bytes; open it in a browser")
    return 0
