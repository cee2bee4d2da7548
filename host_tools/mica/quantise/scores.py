"""Finds the output that holds scores of the classes, where a model has several outputs (file/scores.py)."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mica.file import scores
from mica.ir.graph import Graph
from mica.quantise.parts import Split
from mica.reference import float_ops

SAMPLES = 32  # at most
# Share of samples whose largest score is the class itself; votes and probabilities of a machine may differ on some
ALIKE = 0.8


def find(
    g: Graph,
    samples: Sequence[Mapping[str, np.ndarray]],
    splits: Sequence[Split],
    states: Collection[str],
    labels: Sequence[str],
) -> int | None:
    """The place of the scores among the arrays of predict(), NONE where there are none;
    None where any reader finds it itself.

    g: float core operators; states: outputs that are none of the file's.
    Beside the number of a class, an output holds scores where the largest is at that number;
    distances and scores of pairs do not.
    """
    outputs = _outputs(g, splits, states)
    values = [g.value(names[0]) for names in outputs]
    found = [k for k, v in enumerate(values) if v.dtype != "int32"]
    classes = [k for k, v in enumerate(values) if scores.is_class(v.dtype, v.shape)]
    if classes and found:
        kept = samples[:: max(1, len(samples) // SAMPLES)]
        runs = [{n: y for n, y in float_ops.stream(g, s) if n in g.outputs} for s in kept]
        number = np.array([_whole(run, outputs[classes[0]])[0] for run in runs])
        tried = {k: np.stack([_whole(run, outputs[k]) for run in runs]) for k in found}
        found = [k for k, y in tried.items() if y.shape[1] == 1 or np.mean(np.argmax(y, axis=1) == number) >= ALIKE]
    named = [k for k in found if sum(g.value(name).size for name in outputs[k]) == len(labels)]
    place = (*named, *found, scores.NONE)[0]
    return None if place == scores.usual([v.dtype for v in values]) else place


def _outputs(g: Graph, splits: Sequence[Split], states: Collection[str]) -> list[list[str]]:
    """For each array that predict() returns, its parts."""
    ends = np.cumsum([s.parts for s in splits] or [1] * len(g.outputs)).tolist()
    found = [g.outputs[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return [names for names in found if names[0] not in states]


def _whole(run: Mapping[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    """The numbers of an output, whose parts lie side by side."""
    return np.concatenate([np.asarray(run[name]).reshape(-1) for name in names])
