"""mica verify: a target against the host, layer by layer, byte by byte."""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from mica.cli import target, text
from mica.cli.run import pick
from mica.data.calibration import read_arrays
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.printable import printable
from mica.run import evaluation
from mica.run.golden import random_input
from mica.run.host import HostRunner
from mica.run.runner import Runner

DEFAULT_SAMPLES = 3

JSON_KEYS = "equal, target, layers, samples, first_difference"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica")
    target.add_on(parser)
    parser.add_argument(
        "--data", metavar="X", help="inputs, .npz, .npy or .csv; default: the file's golden vectors, else random ones"
    )
    parser.add_argument("--samples", metavar="N", type=int, help="how many (default 3, of golden vectors all)")


def run(args: argparse.Namespace) -> int:
    if args.samples is not None and args.samples < 1:
        raise MicaError("--samples: at least 1 is expected")
    custom = target.custom_of(args)
    with target.open_model(args.model, args.on, custom=custom, check=check_of(args.data)) as board:
        samples = inputs_for(board, args.data, args.samples)
        with (
            HostRunner(target.read_model(args.model), custom) as host,
            text.Progress("verifying", "samples") as progress,
        ):
            result = verify(host, board, samples, progress)
    text.show(args, result, report)
    return 0 if result["equal"] else 1


def check_of(path: str | None) -> Callable[[ModelFile], object]:
    """Raises MicaError where a file has no sample for the model."""
    return lambda model: path and pick(model, read_arrays(path), 0, path)


def inputs_for(board: Runner, path: str | None, n: int | None) -> list[list[np.ndarray]]:
    """Quantised inputs: the first n samples of a file, else the golden vectors of the model, else n random ones."""
    if path is None and board.model.golden:
        return [list(g.inputs) for g in board.model.golden[:n]]
    n = DEFAULT_SAMPLES if n is None else n
    if path is not None:
        arrays = dict(read_arrays(path, evaluation.table_inputs(board.model)))  # each is looked at n times
        return [board.quantise(pick(board.model, arrays, k, path)) for k in range(n)]
    rng = np.random.default_rng(0)
    return [[random_input(board.model, board.model.tensors[t], rng) for t in board.model.inputs] for _ in range(n)]


def verify(host: Runner, board: Runner, samples: list[list[np.ndarray]], progress: Any = None) -> dict[str, Any]:
    """Compares hashes of all layers first, bytes only where a hash differs. The keys of `mica verify --json`."""
    steps = host.model.steps
    difference = None
    for k, inputs in enumerate(samples):
        expected, found = host.layer_hashes(inputs), board.layer_hashes(inputs)
        bad = next((i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b), None)
        if bad is not None:
            if host.model.state_bytes:
                for runner in (host, board):  # the state that this sample met
                    runner.reset()
                    runner.run(samples[:k])
            a, b = host.layer_output(inputs, bad), board.layer_output(inputs, bad)
            where = np.flatnonzero(a.reshape(-1) != b.reshape(-1))
            at = int(where[0]) if len(where) else -1
            shape = host.model.tensors[steps[bad].outputs[0]].dims
            difference = {
                "sample": k,
                "layer": bad,
                "name": steps[bad].name,
                "kernel": steps[bad].kernel,
                "index": [int(i) for i in np.unravel_index(at, shape)] if at >= 0 else [],
                "host": int(a.reshape(-1)[at]) if at >= 0 else None,
                "target": int(b.reshape(-1)[at]) if at >= 0 else None,
                "differing": len(where),
                "size": int(a.size),
            }
            break
        if progress is not None:
            progress(k + 1, len(samples))
    return {
        "equal": difference is None,
        "target": board.target,
        "layers": len(steps),
        "samples": len(samples),
        "first_difference": difference,
    }


def report(r: dict[str, Any]) -> str:
    """One line where all is equal, else the first difference."""
    d = r["first_difference"]
    if d is None:
        return f"equal: {r['layers']} layers, {r['samples']} samples, every byte the same on {r['target']} and host"
    if not d["index"]:
        return (
            f"DIFFERENT: sample {d['sample']}, layer {d['layer']} ({printable(d['name'])}, {d['kernel']}): its bytes "
            "changed between two runs of the same input"
        )
    return (
        f"DIFFERENT: sample {d['sample']}, layer {d['layer']} ({printable(d['name'])}, {d['kernel']}), index "
        f"{d['index']}: host {d['host']}, {r['target']} {d['target']}; {d['differing']} of {d['size']} values differ"
    )
