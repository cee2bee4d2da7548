"""Heads that learn, for the commands that take one: `teach` makes it, `eval` measures it. The model's output is the embedding."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import text
from mica.cli.say import say
from mica.errors import MicaError
from mica.format.codec import ModelFile
from mica.learn import Head, digest
from mica.run import evaluation, examples
from mica.run.examples import Example
from mica.run.runner import Runner

UNKNOWN = "unknown"
BATCH = 32


def width(model: ModelFile, path: str) -> int:
    """Numbers of the embedding. Raises MicaError where the model's output is none."""
    ends = [model.tensors[t] for t in model.outputs]
    if len(ends) != 1 or ends[0].dtype != "int8" or model.state_bytes:
        raise MicaError(
            f"{path}: has {len(ends)} outputs ({', '.join(t.dtype for t in ends)}){' and a state' if model.state_bytes else ''}",
            todo="expected one of int8: mica pack --embedding",
        )
    return int(np.prod(ends[0].dims))


def read(path: str, data: bytes) -> Head:
    """The head of a file, of this model. Raises MicaError."""
    p = Path(path)
    if not p.is_file():
        raise MicaError(f"{p}: no such file", todo="mica teach makes a head")
    try:
        return Head.from_state(p.read_bytes(), model=digest(data))
    except MicaError as e:
        raise e.at(path) from None


def embedded(
    given: Sequence[Example], runner: Runner, progress: Callable[[str, int, int], None]
) -> Iterator[tuple[str, np.ndarray]]:
    """The label and the embedding of each example, int8, from the target that runs the model."""
    for at in range(0, len(given), BATCH):
        some = given[at : at + BATCH]
        for example, outputs in zip(some, runner.run([[e.x] for e in some]), strict=True):
            yield example.label, np.asarray(outputs[0], np.int8).reshape(-1)
        progress(f"embeddings on {runner.target}", at + len(some), len(given))


def evaluate(head: Head, path: str, runner: Runner, most: int | None = None) -> dict[str, Any]:
    """The keys of `mica eval --head --json`. Labels that the head was not taught are to be unknown to it."""
    given = examples.read(path, runner.model, say)[:most]
    width(runner.model, "the model")
    answers: list[str] = []
    margins: list[float] = []
    with text.watch() as watch:
        for _, x in embedded(given, runner, watch.progress):
            label, _, margin = head.closest(x)
            answers.append(label if margin >= 0 else UNKNOWN)
            margins.append(margin)
    names, columns = sorted({e.label for e in given}), [*head.labels, UNKNOWN]
    counts = np.zeros((len(names), len(columns)), np.int64)
    for example, answer in zip(given, answers, strict=True):
        counts[names.index(example.label), columns.index(answer)] += 1
    taught = np.array([e.label in head.labels for e in given])
    right = np.array([e.label == a for e, a in zip(given, answers, strict=True)])
    known = np.array([a != UNKNOWN for a in answers])
    auc = evaluation.auc(-np.array(margins), (~taught).astype(int)) if 0 < taught.sum() < len(taught) else None
    return {
        "target": runner.target,
        "kind": head.kind,
        "samples": len(given),
        "taught": int(taught.sum()),
        "value": float(right[taught].mean()) if taught.any() else None,
        "accepted": float(known[taught].mean()) if taught.any() else None,
        "taken": float(known[~taught].mean()) if (~taught).any() else None,
        "auc": auc,
        "labels": columns,
        "confusion": [{"label": name, "answers": row.tolist()} for name, row in zip(names, counts, strict=True)],
    }


def report(r: dict[str, Any]) -> str:
    """The figures of a head as lines for a terminal."""

    def share(x: float | None) -> str:
        return "-" if x is None else text.percent(x)

    lines = []
    if r["taught"]:
        lines.append(
            f"right {share(r['value'])} of {r['taught']} samples of what was taught; {share(r['accepted'])} are not unknown"
        )
    if r["taken"] is not None:
        lines.append(
            f"taken for a taught label: {share(r['taken'])} of {r['samples'] - r['taught']} samples of other labels"
        )
    if r["auc"] is not None:
        lines.append(f"auc {r['auc']:.3f}: the chance that a sample of another label is farther away than a taught one")
    rows = [(row["label"], *(n or "." for n in row["answers"])) for row in r["confusion"]]
    return "\n".join([*lines, "", text.table(("samples of", *r["labels"]), rows, "l" + "r" * len(r["labels"]))])
