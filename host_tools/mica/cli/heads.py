"""Heads that learn, for the commands that take one. The model's output is the embedding."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mica.cli import text
from mica.cli.text import say
from mica.errors import MicaError, found_at
from mica.file.codec import ModelFile
from mica.learn import KINDS, MOST_LABELS, Head, digest
from mica.run import evaluation, examples
from mica.run.examples import Example
from mica.run.runner import Runner

UNKNOWN = "unknown"
BATCH = 32
ENOUGH = 0.9  # a share of what was taught that is not unknown
SHOTS = 1, 5, 20  # examples of a label
SAVING = 4096  # bytes that a Learner keeps for save(), SAVING of firmware/mica/learn.py
BESIDE = 96  # bytes of a label for its name, objects and whole blocks of heap


def width(model: ModelFile, path: str) -> int:
    """Numbers of the embedding. Raises MicaError where the model's output is none."""
    ends = [model.tensors[t] for t in model.outputs]
    if len(ends) != 1 or ends[0].dtype != "int8" or model.state_bytes:
        found = f"{len(ends)} outputs ({', '.join(t.dtype for t in ends)}){' and a state' if model.state_bytes else ''}"
        raise MicaError(f"{path}: has {found}", todo="expected one of int8: mica pack --embedding")
    return int(np.prod(ends[0].dims))


def read(path: str, *models: bytes) -> Head:
    """The head of a file, of one of these models. Raises MicaError."""
    if not Path(path).is_file():
        raise MicaError(f"{path}: no such file", todo="mica teach makes a head")
    with found_at(path):
        head = Head.from_state(Path(path).read_bytes())
    if head.model not in map(digest, models):
        raise MicaError(f"{path}: taught with another model", todo="teach again, or take that model")
    return head


def embedded(
    given: Sequence[Example], runner: Runner, progress: Callable[[str, int, int], None]
) -> Iterator[tuple[str, np.ndarray]]:
    """The label and the embedding of each example, int8, from the target that runs the model."""
    for at in range(0, len(given), BATCH):
        some = given[at : at + BATCH]
        for example, outputs in zip(some, runner.run([[e.x] for e in some]), strict=True):
            yield example.label, np.asarray(outputs[0], np.int8).reshape(-1)
        progress(f"embeddings on {runner.target}", at + len(some), len(given))


def room(width: int, heap: int | None) -> list[dict[str, Any]]:
    """Return for each kind the bytes of a label of so many examples, and how many such labels that much heap holds."""
    rows = []
    for kind in KINDS:
        head = Head(kind, width, model=bytes(8))
        sizes = [head._bytes(head._numbers, n) for n in SHOTS]
        free = None if heap is None else max(heap - SAVING - len(head._work), 0)
        labels = [None if free is None else min(free // (size + BESIDE), MOST_LABELS) for size in sizes]
        rows.append({"kind": kind, "examples": list(SHOTS), "bytes": sizes, "labels": labels})
    return rows


def room_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a line for each kind."""
    names = [f"bytes of a label of {n}" for n in SHOTS] + ["labels of 20 that fit"]
    lines = [
        (r["kind"], *map(text.count, r["bytes"]), "?" if r["labels"][-1] is None else r["labels"][-1]) for r in rows
    ]
    return text.table(("head", *names), lines, "lrrrr")


def labels_of(head: Head) -> list[dict[str, Any]]:
    """Its labels and their numbers of examples, for --json."""
    return [{"label": label, "examples": n} for label, n in zip(head.labels, head.counts, strict=True)]


def table(r: dict[str, Any]) -> str:
    """The labels of a result as lines for a terminal."""
    return text.table(("label", "examples"), [tuple(row.values()) for row in r["labels"]], "lr")


def evaluate(head: Head, path: str, runner: Runner, most: int | None = None) -> dict[str, Any]:
    """The keys of `mica eval --head --json`. Labels that the head was not taught are to be unknown to it."""
    given = examples.read(path, runner.model, say)[:most]
    width(runner.model, "the model")
    with text.watch() as watch:
        found = [head.closest(x) for _, x in embedded(given, runner, watch.progress)]
    answers = [label if margin >= 0 else UNKNOWN for label, _, margin in found]
    pairs = Counter(zip((e.label for e in given), answers, strict=True))
    taught = np.array([e.label in head.labels for e in given])
    right = np.array([e.label == a for e, a in zip(given, answers, strict=True)])
    known = np.array([a != UNKNOWN for a in answers])
    far = -np.array([margin for _, _, margin in found])

    def share(x: np.ndarray) -> float | None:
        return float(x.mean()) if len(x) else None

    columns = [*head.labels, UNKNOWN]
    return {
        "target": runner.target,
        "kind": head.kind,
        "samples": len(given),
        "taught": int(taught.sum()),
        "value": share(right[taught]),
        "accepted": share(known[taught]),
        "taken": share(known[~taught]),
        "auc": evaluation.auc(far, (~taught).astype(int)) if 0 < taught.sum() < len(taught) else None,
        "labels": columns,
        "confusion": [
            {"label": name, "answers": [pairs[name, c] for c in columns]} for name in sorted({e.label for e in given})
        ],
    }


def report(r: dict[str, Any]) -> str:
    """The figures of a head as lines for a terminal."""
    value, accepted, taken = ("-" if r[k] is None else text.percent(r[k]) for k in ("value", "accepted", "taken"))
    lines = [
        (r["taught"], f"right {value} of {r['taught']} samples of what was taught; {accepted} are not unknown"),
        (r["taken"] is not None, f"taken for a taught label: {taken} of {r['samples'] - r['taught']} of other labels"),
        (r["auc"] is not None, f"auc {r['auc'] or 0:.3f}: the chance that a sample of another label is farther away"),
    ]
    if r["accepted"] is not None and r["accepted"] < ENOUGH:
        todo = "teach more examples of each label, or teach with a larger --loose, "
        todo += "which also takes more of what was not taught"
        lines.append((True, f"many are unknown: {todo}"))
    rows = [(row["label"], *(n or "." for n in row["answers"])) for row in r["confusion"]]
    matrix = text.table(("samples of", *r["labels"]), rows, "l" + "r" * len(r["labels"]))
    return "\n".join([*(line for there, line in lines if there), "", matrix])
