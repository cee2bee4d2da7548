"""mica bench: what a model costs on a target, layer by layer."""

from __future__ import annotations

import argparse
from typing import Any

from mica.boards import emulated_boards
from mica.cli import target, text
from mica.cli.verify import inputs_for
from mica.errors import MicaError
from mica.runner import Runner

NAME = "bench"
HELP = "what a model costs on a target, layer by layer"
RUNS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    target.add_on(parser)
    parser.add_argument("--data", metavar="X.npz", help="the input is its first sample; default: a random one")
    parser.add_argument(
        "--runs", metavar="N", type=int, default=RUNS, help=f"take the shortest of N runs (default {RUNS})"
    )


def run(args: argparse.Namespace) -> int:
    if args.runs < 1:
        raise MicaError("--runs: at least 1 is wanted")
    emulated = emulated_boards().get(args.on)
    with target.open_model(args.model, args.on, icount=emulated is not None and emulated.port == "qemu") as runner:
        result = bench(runner, args.data, args.runs)
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
    return 0


def bench(runner: Runner, data: str | None, runs: int) -> dict[str, Any]:
    """The keys of `mica bench --json`."""
    times = runner.bench(inputs_for(runner, data, 1)[0], runs)
    steps = runner.model.steps
    round_ = (lambda value: value) if times.unit == "seconds" else round
    return {
        "target": runner.target,
        "unit": times.unit,
        "total": round_(times.total),
        "overhead": round_(times.total - sum(times.steps)),
        "free_heap": times.free_heap,
        "runs": runs,
        "layers": [
            {"index": i, "name": step.name, "op": step.kernel, "macs": step.macs, "cost": round_(cost)}
            for i, (step, cost) in enumerate(zip(steps, times.steps, strict=True))
        ],
    }


def report(r: dict[str, Any]) -> str:
    """A table of layers, most expensive marked by its share, and the sums."""
    seconds = r["unit"] == "seconds"

    def amount(value: float) -> str:
        return f"{1000 * value:.3f}" if seconds else text.count(int(value))

    rows = [
        (
            layer["index"],
            layer["op"],
            text.count(layer["macs"]),
            amount(layer["cost"]),
            f"{layer['cost'] / layer['macs']:.1f}" if layer["macs"] and not seconds else "-",
            text.percent(layer["cost"] / r["total"] if r["total"] else 0),
            layer["name"],
        )
        for layer in r["layers"]
    ]
    unit = "ms" if seconds else r["unit"]
    lines = [text.table(("", "op", "MACs", unit, "per MAC", "share", "name"), rows, "r rrrr")]
    lines.append("")
    lines.append(
        f"{unit} on {r['target']}: {amount(r['total'])} in all, {amount(r['overhead'])} of it outside of layers"
    )
    if r["free_heap"] is not None:
        lines.append(f"free heap with the model loaded: {text.count(r['free_heap'])} bytes")
    return "\n".join(lines)
