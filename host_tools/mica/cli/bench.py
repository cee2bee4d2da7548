"""mica bench: what a model costs on a target, layer by layer."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mica.boards import emulated_board
from mica.cli import options, outputs, target, text
from mica.cli.verify import check_of, inputs_for
from mica.cost import waits
from mica.errors import MicaError
from mica.printable import printable_lines
from mica.report import layer_bars
from mica.run.golden import most_rows
from mica.run.runner import Inputs, Runner

RUNS = 3
ESTIMATED = "cycles (estimate)"  # by another core's table, since no table of this core is published

JSON_KEYS = (
    "file, target, unit (cycles, instructions or seconds), estimate (true for cycles that are one), total, overhead "
    "(outside of layers), instructions (counted beside such cycles, else null), free_heap (with the model loaded), "
    "runs, macs_per_second (null where the unit is no time), layers[] (index, name, kernel, macs, cost, flash, "
    "instructions, share, macs_per_second, runs_in), functions[] with --functions (name, instructions, cycles, share)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    target.add_on(parser)
    options.add(
        parser,
        f"""
        --data X.npz          the input is its first sample; default: a random one, with row numbers and lengths at
            their largest
        --runs N              take the shortest of N runs (default {RUNS})
        --copy-weights BYTES  first copy so many bytes of weights into RAM, or auto: as of mica.Model
        --functions           RPI_PICO2@emu: list the firmware's functions too, by their instructions and cycles in
            one run
        --chart               draw a bar for each layer too
        --trace FILE.json     write the layers for chrome://tracing or ui.perfetto.dev as well
        """,
        runs={"type": int, "default": RUNS},
    )


def run(args: argparse.Namespace) -> int:
    if args.runs < 1:
        raise MicaError("--runs: at least 1 is expected")
    custom = target.custom_of(args)
    if args.trace:
        outputs.check("--trace", Path(args.trace), [("the model", args.model), ("the data of --data", args.data)])
    emulated = emulated_board(args.on)
    with target.open_model(
        args.model,
        args.on,
        custom=custom,
        icount=emulated is not None,
        check=check_of(args.data),
    ) as runner:
        clock = emulated.clock if emulated else 0
        if args.copy_weights:
            runner.hold(waits.budget(args.copy_weights))
        result = {"file": args.model, **bench(runner, args.data, args.runs, clock)}
        if args.functions:
            result["functions"] = functions(runner, args.data)
    if args.trace:
        outputs.write(Path(args.trace), json.dumps(layer_bars.trace(result, clock)).encode())
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
        if args.functions:
            print("\n" + function_table(result["functions"]))
        if args.chart:
            print("\n" + printable_lines(layer_bars.chart(result)))
    return 0


def bench(runner: Runner, data: str | None, runs: int, clock: int = 0) -> dict[str, Any]:
    """The keys of `mica bench --json`. `clock`, in Hz, makes seconds of cycles."""
    times = runner.bench(_sample(runner, data), runs)
    steps = runner.model.steps
    round_ = (lambda value: value) if times.unit == "seconds" else round
    second = 1 if times.unit == "seconds" else clock if times.unit == "cycles" else 0

    def rate(macs: int, cost: float) -> float | None:
        return round(macs * second / cost) if macs and cost and second else None

    return {
        "target": runner.target,
        "unit": times.unit,
        "estimate": bool(times.instructions),
        "total": round_(times.total),
        "overhead": round_(times.total - sum(times.steps)),
        "flash": times.waits[-1] if times.waits else None,
        "instructions": times.instructions[-1] if times.instructions else None,
        "free_heap": times.free_heap,
        "runs": runs,
        "macs_per_second": rate(sum(step.macs for step in steps), times.total),
        "layers": [
            {
                "index": i,
                "name": step.name,
                "kernel": step.kernel,
                "macs": step.macs,
                "cost": round_(cost),
                "flash": times.waits[i] if times.waits else None,
                "instructions": times.instructions[i] if times.instructions else None,
                "share": cost / times.total if times.total else 0.0,
                "macs_per_second": rate(step.macs, cost),
                "runs_in": times.runs_in[i] if times.runs_in else "C",
            }
            for i, (step, cost) in enumerate(zip(steps, times.steps, strict=True))
        ],
    }


def _sample(runner: Runner, data: str | None) -> Inputs:
    inputs = inputs_for(runner, data, 1)[0]
    return inputs if data else most_rows(runner.model, inputs)


def functions(runner: Runner, data: str | None) -> list[dict[str, Any]]:
    """The key `functions` of `mica bench --functions --json`."""
    found = runner.functions(_sample(runner, data))
    whole = sum(f.cycles for f in found)
    return [{**asdict(f), "share": f.cycles / whole} for f in found]


def function_table(rows: list[dict[str, Any]]) -> str:
    """A table of the functions that take a thousandth of the time; the others in one line."""
    few = [r for r in rows if r["share"] >= 0.001]
    others = rows[len(few) :]
    sums = {key: sum(r[key] for r in others) for key in ("instructions", "cycles", "share")}
    shown = [*few, {"name": f"({len(others)} more)", **sums}]
    head = ("instructions", ESTIMATED, "share", "function")
    return text.table(
        head,
        [(text.count(r["instructions"]), text.count(r["cycles"]), text.percent(r["share"]), r["name"]) for r in shown],
        "rrr",
    )


def report(r: dict[str, Any]) -> str:
    """A table of layers, most expensive marked by its share, and the sums."""
    seconds = r["unit"] == "seconds"

    def amount(value: float) -> str:
        return f"{1000 * value:.3f}" if seconds else text.count(int(value))

    counted = [(text.count(layer["instructions"]),) if r["estimate"] else () for layer in r["layers"]]
    rows = [
        (
            layer["index"],
            layer["kernel"],
            text.count(layer["macs"]),
            *count,
            amount(layer["cost"]),
            f"{layer['cost'] / layer['macs']:.1f}" if layer["macs"] and not seconds else "-",
            f"{layer['macs_per_second'] / 1e6:.2f}" if layer["macs_per_second"] else "-",
            text.percent(layer["share"]),
            layer["runs_in"],
            layer["name"],
        )
        for layer, count in zip(r["layers"], counted, strict=True)
    ]
    unit = "ms" if seconds else ESTIMATED if r["estimate"] else r["unit"]
    instructions = ("instructions",) if r["estimate"] else ()
    head = ("", "kernel", "MACs", *instructions, unit, "per MAC", "MMAC/s", "share", "in", "name")
    lines = [text.table(head, rows, "r rrrrr" + "r" * len(instructions)), ""]
    lines.append(
        f"{unit} on {r['target']}: {amount(r['total'])} in all, {amount(r['overhead'])} of it outside of layers"
    )
    if r["macs_per_second"]:
        lines[-1] += f"; {r['macs_per_second'] / 1e6:.2f} million multiply-accumulates a second"
    if r["flash"]:
        lines[-1] += f"; of which flash {amount(r['flash'])}"
    if r["estimate"]:
        lines.append(f"instructions, counted: {text.count(r['instructions'])} in all")
    if r["free_heap"] is not None:
        lines.append(
            "free heap, with the model and the program that serves this computer loaded: "
            f"{text.count(r['free_heap'])} bytes"
        )
    return "\n".join(lines)
