"""mica eval: the metric of a model over labelled data, on any target."""

from __future__ import annotations

import argparse
from typing import Any

from mica.cli import target, text
from mica.run import evaluation
from mica.run.evaluation import Dataset, Score
from mica.run.float_model import FloatModel
from mica.run.runner import Runner


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    parser.add_argument("data", metavar="DATA.npz", help="arrays x and y; see the README for the others")
    target.add_on(parser)
    parser.add_argument("--float", metavar="MODEL.onnx", dest="float_model", help="compare with the float model")
    parser.add_argument("--samples", metavar="N", type=int, help="use the first N samples")


def run(args: argparse.Namespace) -> int:
    custom = target.custom_of(args)
    data = evaluation.load(args.data).first(args.samples)
    float_model = FloatModel(args.float_model) if args.float_model else None
    with target.open_model(args.model, args.on, custom=custom) as runner:
        result = compare(data, runner, float_model)
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
    return 0


def compare(data: Dataset, runner: Runner, float_model: FloatModel | None) -> dict[str, Any]:
    """The keys of `mica eval --json`."""
    shape = runner.model.tensors[runner.model.inputs[0]].dims
    score = _score(data, shape, runner.predict, f"evaluating on {runner.target}")
    result: dict[str, Any] = {
        "target": runner.target,
        "metric": score.metric,
        "value": score.value,
        "samples": len(data),
        "inferences": score.inferences,
        "float_value": None,
        "agreement": None,
    }
    if float_model is not None:
        reference = _score(data, shape, float_model.predict, "evaluating the float model")
        result["float_value"] = reference.value
        result["agreement"] = evaluation.agreement(score, reference)
    return result


def _score(data: Dataset, shape: tuple[int, ...], predict: evaluation.Predict, what: str) -> Score:
    with text.Progress(what, "samples") as progress:
        return evaluation.evaluate(data, shape, predict, progress)


def report(r: dict[str, Any]) -> str:
    """What people read."""
    lines = [f"{r['metric']} {text.metric(r['metric'], r['value'])} on {r['target']} ({r['samples']} samples)"]
    if r["float_value"] is not None:
        lines.append(f"{r['metric']} {text.metric(r['metric'], r['float_value'])} float")
    if r["agreement"] is not None:
        lines.append(f"same answer as float on {text.percent(r['agreement'])} of the samples")
    return "\n".join(lines)
