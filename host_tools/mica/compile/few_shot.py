"""The accuracy that a head reaches behind each tensor of a network, from a few examples of each class.

Each draw takes some classes of labelled data, learns the mean of some examples of each,
and tells others by the nearest mean.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from mica.compile import embedding, front
from mica.compile.embedding import Candidate
from mica.compile.job import Job, Watch
from mica.compile.reading import import_graph
from mica.compile.state import State
from mica.errors import MicaError
from mica.passes import pipeline
from mica.reference import float_ops
from mica.run import evaluation
from mica.run.evaluation import Dataset
from mica.sound import insert

WAYS, SHOTS, TESTS, DRAWS = 5, 5, 10, 200
MOST = 40  # samples of a class that are run through the network


def figures(
    path: Path, front_end: str | None = None, data: str | Path | None = None
) -> tuple[list[Candidate], dict[str, int]]:
    """Candidates for the embedding of a model file; with labelled data their accuracies, and the size of a draw.
    Raises MicaError."""
    state = front.recognise_front_end(import_graph(State(Job(path, front_end=front_end), Watch())))
    g, listed = state.graph, embedding.candidates(state.graph)
    if data is None or not listed:
        return listed, {}
    embedding.shorten(g, [c.name for c in listed])
    state = front.choose(state)
    g = pipeline.run(g)
    if state.sound is not None and not state.in_graph:
        g = insert.put(g, state.sound.front, state.sound.name)
    given = evaluation.load(data)
    if given.metric != "top1" or len(g.inputs) != 1:
        raise MicaError(
            f"{data}: metric {given.metric}, and a model of {len(g.inputs)} inputs; labels and one are expected"
        )
    rows = np.concatenate([np.flatnonzero(given.y == label)[:MOST] for label in np.unique(given.y)])
    y, counts = given.y[rows], np.unique(given.y[rows], return_counts=True)[1]
    shots = min(SHOTS, int(np.sort(counts)[-2:][0]) - 1) if len(counts) > 1 else 0
    if shots < 1:
        raise MicaError(f"{data}: has no two classes of two samples or more", todo="give some of several classes")
    ways = min(WAYS, int((counts > shots).sum()))
    value = g.value(g.inputs[0])
    made = []
    for x in Dataset(given.x[rows], y, "top1").inputs(value.shape, value.name):
        one = float_ops.run(g, {value.name: x[0].reshape(value.shape)})
        made.append([one[name].reshape(-1) for name in g.outputs])
    found = [accuracy(np.stack(e), y, ways, shots) for e in zip(*made, strict=True)]
    return [replace(c, accuracy=a) for c, a in zip(listed, found, strict=True)], {"ways": ways, "shots": shots}


def accuracy(x: np.ndarray, y: np.ndarray, ways: int, shots: int) -> float:
    """Share of examples that the nearest mean tells, over draws that a seed fixes. x: [n, numbers]; y: labels [n]."""
    rng = np.random.default_rng(0)
    places = [p for p in (np.flatnonzero(y == label) for label in np.unique(y)) if len(p) > shots]
    hits: list[bool] = []
    for _ in range(DRAWS):
        drawn = [rng.permutation(places[k]) for k in rng.choice(len(places), ways, replace=False)]
        means = np.stack([x[p[:shots]].mean(axis=0) for p in drawn])
        for k, p in enumerate(drawn):
            far = ((x[p[shots : shots + TESTS], None] - means) ** 2).sum(axis=2)
            hits += (far.argmin(axis=1) == k).tolist()
    return float(np.mean(hits))
