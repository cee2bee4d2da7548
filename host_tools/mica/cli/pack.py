"""mica pack: ONNX or TensorFlow Lite -> .mica."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mica.cli import chart, model_options, outputs, text
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.format.names import clean, file_fault
from mica.format.weights import CODE_BITS, LAYOUT_BY_CODE
from mica.printable import attributes, shown
from mica.report.arena_chart import peak_row

if TYPE_CHECKING:
    from mica.compile import State

JSON_KEYS = (
    "file, size, weight_bytes, arena_bytes, scratch_min, scratch_want, arena_lower_bound, activation_bytes, peak_step, "
    "macs, strips[], fed, layers[], signed, accuracy, quality (sqnr_db, plus_minus_db, agreement, samples, outputs[] "
    "(name, kind, sqnr_db, plus_minus_db, error, largest, distinct, expected, alike, found, others, of, beyond_db, "
    "flat), worst_output, worst_layer, data, cannot_tell, line, warnings[]), recipe (name, tried)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help=".onnx or .tflite; left out, --frontend is the whole model"
    )
    parser.add_argument(
        "more",
        metavar="NEXT",
        nargs="*",
        help="networks that follow, each taking what the one before gives; of one that takes more rows the board keeps "
        "the rows of earlier runs",
    )
    parser.add_argument(
        "--together", action="store_true", help="all models take the same input, as wake words do: one file for them"
    )
    parser.add_argument("-o", "--output", metavar="M.mica", help="default: MODEL.mica beside the model")
    model_options.add_arguments(parser)
    parser.add_argument("--report-error", action="store_true", help="print each layer's error against float")
    parser.add_argument("--report", metavar="F.html", help="write a page to look at: graph, memory, costs, errors")
    chart.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from mica.boards import load_board
    from mica.compile import quality, stages
    from mica.importer import kinds

    if args.model is None and args.embedding and Path(args.embedding).is_file():
        args.model, args.embedding = args.embedding, ""  # --embedding MODEL
    args.alone = args.model is None
    if args.alone:
        if not (args.frontend and args.output):
            raise MicaError("pack: there is no MODEL", todo="give one, or --frontend and -o M.mica for features alone")
        args.model = args.frontend.partition(":")[0]
    else:
        kinds.read_as(Path(args.model))  # before what is said of other files: this one may be of the wrong kind
    output = _output(args)
    job = model_options.job_of(args, load_board(args.board) if args.board else None)
    streams = job.states or job.windows or job.step
    if args.report_error and streams:
        raise MicaError("--report-error is not there for streaming models")
    with text.watch() as watch:
        state = stages.run(job, watch)
    packed = state.compiled
    if args.report_error and packed.model.state_bytes:
        raise MicaError(
            f"{args.model}: has a state, which lives from run to run; --report-error measures one sample at a time"
        )
    result = _facts(state, output)
    found = quality.measure(packed, state.labelled)
    result["quality"] = None if found is None else {**found.facts(), "warnings": state.warnings}
    if args.report_error or (args.report and not packed.model.state_bytes):
        result |= _add_errors(state, result["layers"])
    outputs.write(output, packed.data)
    if args.report:
        outputs.write(Path(args.report), _page(state, result))
    drawn = chart.draw(args, packed.model)
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
        if args.report_error:
            print("\n" + error_table(result))
        print(drawn, end="")
        for line in state.doubts:  # once more, where it is read: on a file that is of little use
            print(f"mica: warning: {line}", file=sys.stderr)
    return 0


def _output(args: argparse.Namespace) -> Path:
    """The file to write. Raises MicaError where one of the files cannot be written, or is read as well."""
    output = Path(args.output) if args.output else Path(args.model).with_suffix(".mica")
    if fault := file_fault(output.name):
        raise MicaError(f"'{output.name}': a model's file name {fault}", todo="name another with -o")
    read = model_options.files_read(args, output)
    outputs.check("-o", output, read)
    for option, path in (("--chart-file", args.chart_file), ("--report", args.report)):
        if path:
            outputs.check(option, Path(path), [*read, ("the packed model", output)])
    return output


def _facts(s: State, output: Path) -> dict[str, Any]:
    """The keys of --json, but for `quality`."""
    packed, model = s.compiled, s.compiled.model
    return {
        "file": str(output),
        "size": len(packed.data),
        "weight_bytes": packed.weight_bytes,
        "arena_bytes": packed.plan.arena_bytes,
        **attributes(model, "scratch_want scratch_min"),
        "arena_lower_bound": packed.plan.lower_bound,
        "strips": [[strip.first, strip.steps, len(strip.calls)] for strip in model.strips],
        "fed": None if model.fed is None else model.tensors[model.inputs[model.fed]].name,
        **attributes(packed.plan, "activation_bytes peak_step"),
        "macs": packed.macs,
        "layers": layers(model, packed.plan.live_bytes),
        "recipe": {"name": packed.tuned.recipe.name, "tried": packed.tuned.tried},
        "signed": s.job.key is not None,
        **({} if s.accuracy is None else {"accuracy": s.accuracy}),
    }


def _page(s: State, result: dict[str, Any]) -> bytes:
    """The page of --report."""
    from mica.report.facts import facts
    from mica.report.page import Report

    model = s.compiled.model
    found = facts(model, s.compiled.data)
    for layer, known in zip(found["layers"], result["layers"], strict=True):
        layer["sqnr_db"] = known.get("sqnr_db")
    found |= {"quality": result["quality"], "evaluation": result.get("accuracy")}
    names = {step.name for step in model.steps}
    gone = Counter(op for op, name in s.operators if clean(name) not in names)
    found["source"] = {"kept": len(s.operators) - gone.total(), "gone": dict(gone)}
    return Report(found, model).html().encode()


def _add_errors(s: State, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Puts sqnr_db and own_db into the layers; returns sqnr_db of the output."""
    from mica.compile import layer_errors
    from mica.data.calibration import default_samples, samples_for

    core, model = s.compiled.core, s.compiled.model
    samples = default_samples(core) if s.calibration is None else samples_for(core, s.calibration)
    for row, e in zip(rows, layer_errors.measure(s.compiled, samples), strict=True):
        row.update(sqnr_db=e.sqnr_db, own_db=e.own_db)
    maker = {step.outputs[0]: k for k, step in enumerate(model.steps)}
    last = maker.get(model.outputs[0])
    return {"sqnr_db": None if last is None else rows[last]["sqnr_db"]}


def layers(model: ModelFile, live: list[int]) -> list[dict[str, Any]]:
    """One entry a step, for --json and the table."""
    return [
        {
            **attributes(s, "name kernel macs"),
            "input": list(model.tensors[s.inputs[0]].dims),
            "output": list(model.tensors[s.outputs[0]].dims),
            "weight_bytes": s.constant_bytes,
            "weight_bits": LAYOUT_BY_CODE[s.layout].bits if "weights" in s.blobs else None,
            "live_bytes": live[k],
            "scratch_want": s.scratch_want,
        }
        for k, s in enumerate(model.steps)
    ]


def report(r: dict[str, Any]) -> str:
    """The table of `mica pack`."""
    peak = peak_row(r["layers"], r["peak_step"])
    rows = [
        (
            layer["name"],
            layer["kernel"],
            text.shape(layer["output"]),
            text.count(layer["macs"]),
            text.count(layer["weight_bytes"]),
            text.count(layer["scratch_want"]),
            text.count(layer["live_bytes"]) + (" <- peak" if k == peak else ""),
        )
        for k, layer in enumerate(r["layers"])
    ]
    lines = [
        text.table(("layer", "kernel", "output", "MACs", "weights", "scratch", "arena in use"), rows, "lllrrrl"),
        "",
    ]
    saved = r["activation_bytes"] / max(1, r["arena_bytes"])
    less = f", {saved:.2f}x less than without a plan" if saved > 1 else ""
    lines += [
        f"model       {r['file']}: {text.count(r['size'])} bytes, of which constants {text.count(r['weight_bytes'])}",
        f"MACs        {text.count(r['macs'])}",
        f"arena       {text.count(r['arena_bytes'])} bytes for tensors "
        f"({'layer by layer' if r['strips'] else 'lower bound'} {text.count(r['arena_lower_bound'])}{less})",
        f"scratch     {text.count(r['scratch_want'])} bytes for speed, {text.count(r['scratch_min'])} at least",
    ]
    if r["strips"]:
        each = ", ".join(f"{n} layers from '{r['layers'][first]['name']}' on" for first, n, _ in r["strips"])
        calls = sum(n for _, _, n in r["strips"])
        lines.append(f"strips      {len(r['strips'])}, of {text.count(calls)} calls: {each}")
    few = [layer["name"] for layer in r["layers"] if layer["weight_bits"] == CODE_BITS]
    if few:
        of = sum(layer["weight_bits"] is not None for layer in r["layers"])
        lines.append(f"weights     four bits in {len(few)} of {of} layers that have some: {shown(few, 5)}")
    if r["fed"] is not None:
        lines.append(f"fed         '{r['fed']}': its rows come from the caller while the model runs")
    if r["recipe"]["tried"]:
        lines.append(f"recipe      {r['recipe']['name']}: {r['recipe']['tried']}")
    if r["quality"] is not None:
        lines += map("{}{}".format, ("quality     ", "error       "), r["quality"]["line"].split("\n"))
    if "accuracy" in r:
        a = r["accuracy"]
        real, whole = (text.metric(a["metric"], a[k]) for k in ("float_value", "value"))
        lines.append(f"accuracy    float {real}, int8 {whole} ({a['metric']}, {a['samples']} samples)")
    lines += [f"warning     {w}" for w in (r["quality"] or {}).get("warnings", ())]  # again, where it is not missed
    return "\n".join(lines)


def error_table(r: dict[str, Any]) -> str:
    """Layers by their error, the worst first."""

    def key(layer: dict[str, Any]) -> float:
        return np.inf if layer["sqnr_db"] is None else float(layer["sqnr_db"])

    alone = [layer["own_db"] for layer in r["layers"] if layer["own_db"] is not None]
    rows = [
        (
            layer["name"],
            layer["kernel"],
            _db(layer["sqnr_db"]),
            _db(layer["own_db"]) + (" <- adds most" if alone and layer["own_db"] == min(alone) else ""),
        )
        for layer in sorted(r["layers"], key=key)
    ]
    return text.table(("layer, worst first", "kernel", "SQNR dB", "alone dB"), rows, "llrl")


def _db(x: float | None) -> str:
    return "-" if x is None else f"{x:.1f}"
