"""mica compare: two models side by side: RAM, flash and time, accuracy, and the layers that differ.

A and B are .mica files, or .onnx or .tflite files, which are quantised as by `mica pack` with the same options.

DATA is labelled data as for mica eval, or samples as for mica pack --calib. With --float the errors of both are beside
the float network; without, those of B beside A. Time is predicted for --board.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mica.boards import load_board
from mica.cli import model_options, target, text
from mica.cli.eval import float_model_of
from mica.cli.model_options import parse_shapes
from mica.cli.text import say
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.custom import CustomOps
from mica.errors import MicaError, found_at
from mica.file.codec import FormatError, ModelFile
from mica.ir.front_end import IN_GRAPH
from mica.run import comparison, evaluation, given
from mica.run.evaluation import Score
from mica.run.float_model import FloatModel
from mica.run.host import HostRunner

WORST = 5  # layers that are printed

JSON_KEYS = (
    "a, b (file, size, weight_bytes, arena_bytes, scratch_want, steps, macs, time, metric, value, float_value, "
    "agreement, sqnr_db, worst_output, worst_layers[]), agreement, sqnr_db, samples, board, same_file, layers[]"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a .mica, .onnx or .tflite file")
    parser.add_argument("b", metavar="B", help="another")
    target.add_data(parser, "labelled data (arrays x and y), or samples as for pack --calib")
    parser.add_argument(
        "--float", metavar="MODEL", dest="float_model", help="the float model of both, .onnx or .tflite"
    )
    parser.add_argument("--board", metavar="B", help="whose time is predicted; default RPI_PICO")
    parser.add_argument("--samples", metavar="N", type=int, help="use the first N samples of labelled data")
    model_options.add_arguments(parser, board=False, data=False)


def run(args: argparse.Namespace) -> int:
    board, table = load_board(args.board or "RPI_PICO"), Table.read()
    custom = target.custom_of(args)
    model_options.refuse_options(args, args.a, args.b, kept=("shape",))
    runners = [_open(args, path, custom) for path in (args.a, args.b)]
    a, b = runners
    comparison.check(a.model, b.model)
    if args.float_model and (a.model.state_bytes or b.model.state_bytes):
        raise MicaError("--float compares single samples; a streaming model has a state, which lives from run to run")
    data, samples = comparison.load(args.data, a.model)
    exact = _float(args, custom, a.model) if args.float_model else None
    found = comparison.compare(a, b, samples, exact)
    for line in given.saturating(a.model, [np.stack(find_front) for find_front in zip(*samples, strict=True)]):
        say(f"warning: {line}")
    rows = []
    for path, runner in zip((args.a, args.b), runners, strict=True):
        model = runner.model
        rows.append(
            {
                "file": path,
                "size": len(runner.data),
                "weight_bytes": sum(s.constant_bytes for s in model.steps),
                "arena_bytes": model.arena_bytes,
                "scratch_want": model.scratch_want,
                "steps": len(model.steps),
                "macs": sum(s.macs for s in model.steps),
                "time": predict(model, runner.data, board, table).time,
            }
        )
    scores: list[Score] = []
    if data is not None:
        data = data.first(args.samples)
        evaluation.for_model(data, b.model)
        dims = a.model.tensors[a.model.inputs[0]].dims
        scores = [_score(data, dims, r, r.model, path) for r, path in zip(runners, (args.a, args.b), strict=True)]
        real = None
        if args.float_model:
            real = _score(data, dims, float_model_of(args.float_model, a.model), a.model, args.float_model)
        for row, score in zip(rows, scores, strict=True):
            row |= {"metric": score.metric, "value": score.value, "samples": len(data)}
            if real is not None:
                row |= {"float_value": real.value, "agreement": evaluation.agreement(score, real)}
    for row, error, layers in zip(rows, found.errors, found.layers, strict=False):
        worst = error.worst
        row |= {"sqnr_db": error.sqnr_db, "worst_output": None if worst is None else vars(worst)}
        row.setdefault("agreement", error.agreement)
        row["worst_layers"] = [vars(layer) for layer in layers[:WORST]]
    result = {
        "a": rows[0],
        "b": rows[1],
        "agreement": evaluation.agreement(*scores) if scores else found.beside.agreement,
        "sqnr_db": found.beside.sqnr_db,
        "samples": len(samples),
        "board": board.name,
        "same_file": runners[0].data == runners[1].data,
        "layers": [vars(layer) for layer in found.layers[0]] if exact is None else None,
    }
    text.show(args, result, report)
    return 0


def _open(args: argparse.Namespace, path: str, custom: CustomOps) -> HostRunner:
    board = load_board(args.board) if args.board else None
    with found_at(path, FormatError):
        return HostRunner(model_options.file_bytes(args, path, board), custom)


def _score(
    data: evaluation.Dataset, dims: tuple[int, ...], runner: HostRunner | FloatModel, packed: ModelFile, path: str
) -> Score:
    place, threshold = evaluation.decision(packed, data)
    with text.Progress(f"evaluating {path}", "samples") as progress:
        return evaluation.evaluate(data, dims, lambda x: runner.predict(x, place), progress, threshold)


def _float(args: argparse.Namespace, custom: CustomOps, packed: ModelFile) -> comparison.Float:
    """The values of the float network, in the layout of the packed one, with its front end."""
    from mica.importer import import_model
    from mica.passes import pipeline
    from mica.reference import float_ops
    from mica.sound import front_ends, recognise
    from mica.sound import insert as front_end

    text_ = packed.metadata.get("frontend", IN_GRAPH)
    imported = import_model(args.float_model, parse_shapes(args.shape), custom, text_ != IN_GRAPH)
    core = pipeline.run(recognise.run(imported) if text_ == IN_GRAPH else imported)
    if text_ != IN_GRAPH:
        (name,) = core.inputs
        made, _ = front_ends.find_front(text_, core.value(name).shape, f"the input of {args.float_model}")
        core = front_end.put(core, made, name)

    def values(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        for name in core.inputs:
            if name not in inputs:
                raise MicaError(
                    f"{args.float_model}: has an input '{name}' that {args.a} has not", todo="expected its model"
                )
        feeds = {name: np.asarray(inputs[name], np.float32).reshape(core.value(name).shape) for name in core.inputs}
        return dict(float_ops.run(core, feeds))

    return values


def report(r: dict[str, Any]) -> str:
    """The comparison as lines for a terminal."""
    pair = (r["a"], r["b"])
    n = text.count
    lines: list[tuple[str, ...]] = [
        ("bytes", *(n(m["size"]) for m in pair)),
        ("constants", *(n(m["weight_bytes"]) for m in pair)),
        ("arena", *(n(m["arena_bytes"]) for m in pair)),
        ("scratch", *(n(m["scratch_want"]) for m in pair)),
        ("layers", *(n(m["steps"]) for m in pair)),
        ("MACs", *(n(m["macs"]) for m in pair)),
        (f"time on {r['board']}", *(_time(m["time"]) for m in pair)),
    ]
    if "metric" in pair[0]:
        metric = pair[0]["metric"]
        lines.append((f"{metric} ({pair[0]['samples']} samples)", *(text.metric(metric, m["value"]) for m in pair)))
    if "float_value" in pair[0]:
        lines.append(("float", *(text.metric(metric, m["float_value"]) for m in pair)))
    if pair[0].get("agreement") is not None:
        lines.append(("same answer as float", *(text.percent(m["agreement"]) for m in pair)))
    if "sqnr_db" in pair[0]:
        lines.append((f"SQNR ({r['samples']} samples)", *(_db(m["sqnr_db"]) for m in pair)))
        if any(m["worst_output"] for m in pair):
            lines.append(("worst output", *(_worst(m["worst_output"]) for m in pair)))
        for k in range(min(WORST, *(len(m["worst_layers"]) for m in pair))):
            lines.append((f"worst layer {k + 1}", *(_worst(m["worst_layers"][k]) for m in pair)))
    shown = [text.table(("", *(Path(m["file"]).name for m in pair)), lines, "lrr"), ""]
    if r["same_file"]:
        shown.append("the two files are the same, byte by byte")
    alike = "" if r["agreement"] is None else f"same answer on {text.percent(r['agreement'])} of the samples; "
    shown.append(f"B beside A: {alike}SQNR {_db(r['sqnr_db'])} ({r['samples']} samples)")
    if r["layers"]:
        shown.append("layers that differ most: " + ", ".join(_worst(layer) for layer in r["layers"][:WORST]))
    return "\n".join(shown)


def _time(t: dict[str, Any] | None) -> str:
    if t is None:
        return "-"
    return f"{t['milliseconds']:,.1f} ms" if t["milliseconds"] else f"{text.count(t['total'])} {t['unit']}"


def _db(x: float | None) -> str:
    return "-" if x is None else f"{x:.1f} dB"


def _worst(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else f"{row['name']} {_db(row['sqnr_db'])}"
