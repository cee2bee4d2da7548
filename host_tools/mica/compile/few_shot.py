"""The accuracy that a head reaches behind each tensor of a network, from a few examples of each class.

Each draw takes some classes of labelled data, learns the mean of some examples of each, and tells others by the nearest mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.compile import embedding, front
from mica.compile.job import Job, Watch
from mica.compile.reading import import_graph
from mica.compile.state import State
from mica.errors import MicaError
from mica.ir.graph import Graph
from mica.passes import pipeline
from mica.reference import float_ops
from mica.run import evaluation
from mica.run.evaluation import Dataset
from mica.sound import insert

WAYS, SHOTS, TESTS, DRAWS = 5, 5, 10, 200
MOST = 40  # samples of a class that are run through the network


@dataclass(frozen=True)
class Figure:
    """A tensor for --embedding, its numbers, and the accuracy over all draws; None where no data was given."""

    name: str
    size: int
    default: bool
    accuracy: float | None


@dataclass(frozen=True)
class Rule:
    """The size of a draw: so many classes, and so many examples of each."""

    ways: int
    shots: int


def figures(
    path: Path, front_end: str | None = None, data: str | Path | None = None
) -> tuple[list[Figure], Rule | None]:
    """Candidates for the embedding of a model file, with accuracies on labelled data. Raises MicaError."""
    state = front.recognise_front_end(import_graph(State(Job(path, front_end=front_end), Watch())))
    g, listed = state.graph, embedding.candidates(state.graph)
    if data is None or not listed:
        return [Figure(c.name, c.size, c.default, None) for c in listed], None
    embedding.shorten(g, [c.name for c in listed])
    state = front.choose(state)
    g = pipeline.run(g)
    if state.sound is not None and not state.in_graph:
        g = insert.put(g, state.sound.front, state.sound.name)
    labelled = evaluation.load(data)
    rows = _few_of_each(labelled)
    found = _embeddings(g, labelled, rows)
    y = labelled.y[rows]
    rule = _rule(y, data)
    return [Figure(c.name, c.size, c.default, accuracy(e, y, rule)) for c, e in zip(listed, found, strict=True)], rule


def accuracy(x: np.ndarray, y: np.ndarray, rule: Rule) -> float:
    """Share of examples that the nearest mean tells, over draws that a seed fixes. x: [n, numbers]; y: labels [n]."""
    rng = np.random.default_rng(0)
    places = [np.flatnonzero(y == label) for label in np.unique(y)]
    places = [p for p in places if len(p) > rule.shots]
    hits = tests = 0
    for _ in range(DRAWS):
        drawn = [rng.permutation(places[k]) for k in rng.choice(len(places), rule.ways, replace=False)]
        means = np.stack([x[p[: rule.shots]].mean(axis=0) for p in drawn])
        for k, p in enumerate(drawn):
            judged = x[p[rule.shots : rule.shots + TESTS]]
            nearest = ((judged[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
            hits += int((nearest == k).sum())
            tests += len(judged)
    return hits / tests


def _few_of_each(data: Dataset) -> np.ndarray:
    """Places of at most MOST samples of each label."""
    if data.metric != "top1":
        raise MicaError(f"--data: metric {data.metric} has no classes", todo="expected an array y of labels")
    return np.sort(np.concatenate([np.flatnonzero(data.y == label)[:MOST] for label in np.unique(data.y)]))


def _rule(y: np.ndarray, data: str | Path) -> Rule:
    counts = np.unique(y, return_counts=True)[1]
    shots = min(SHOTS, int(np.sort(counts)[-2:][0]) - 1) if len(counts) > 1 else 0
    if shots < 1:
        raise MicaError(f"{data}: has no two classes of two samples or more", todo="give some of several classes")
    return Rule(min(WAYS, int((counts > shots).sum())), shots)


def _embeddings(g: Graph, data: Dataset, rows: np.ndarray) -> Sequence[np.ndarray]:
    """Of each output of a core graph its numbers for these samples, float32 [n, numbers]."""
    if len(g.inputs) != 1:
        raise MicaError(f"--data feeds one input; the model has {', '.join(g.inputs)}")
    value = g.value(g.inputs[0])
    made: list[list[np.ndarray]] = [[] for _ in g.outputs]
    for x in Dataset(data.x[rows], data.y[rows], "top1").inputs(value.shape, value.name):
        kept = {
            name: y for name, y in float_ops.stream(g, {value.name: x[0].reshape(value.shape)}) if name in g.outputs
        }
        for k, name in enumerate(g.outputs):
            made[k].append(kept[name].reshape(-1))
    return [np.stack(rows_of) for rows_of in made]
