"""Runs that a language model makes of its own words, where its samples are few.

    samples: token, position, ... of consecutive runs  =>  texts: their inputs again,
    but with tokens drawn by the float model's scores

A few hundred consecutive runs are too few for fits: weights fitted to them serve these runs and no others. The model
itself can write the kind of text that it was trained on (Z. Liu et al., "LLM-QAT", 2023, take data from the model
alone). Only fits of weights read such runs; ranges and measurements use the samples that were given.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph, StatePair
from mica.quantise.calibrate import Samples
from mica.quantise.chains import Chain
from mica.reference import batch
from mica.reference.float_ops import softmax

RUNS = 2048  # with those that were given
LENGTH = 256  # runs of a text at most
FEWEST = 8  # runs that were given


def texts(g: Graph, samples: Samples, pairs: Sequence[StatePair], most: int = RUNS) -> list[Samples]:
    """Texts of consecutive runs, so that there are `most` with the samples, about; [] where g is no language model.

    g: core graph with float weights. A text's first run has states of 0; those of the others follow from the runs
    before them, so they are not among its inputs. That needs states that are written before anything reads them.
    """
    found = _roles(g, pairs)
    length = min(LENGTH, len(samples))
    number = (min(RUNS, most) - len(samples)) // max(length, 1)
    if found is None or len(samples) < FEWEST or number <= 0 or len(Chain(pairs).written_first(g)) < len(pairs):
        return []
    token, scores = found
    rng = np.random.default_rng(0)
    states = {s: np.zeros((number, *g.value(s).shape), np.float32) for s, _ in pairs}
    drawn = np.repeat(np.asarray(samples[0][token], np.float32)[None], number, axis=0)
    result: list[list[dict[str, np.ndarray]]] = [[] for _ in range(number)]
    for t in range(length):
        given = {i: np.asarray(samples[t][i], np.float32) for i in g.inputs if i not in states}
        for k, text in enumerate(result):
            text.append({**given, token: drawn[k], **({s: v[k] for s, v in states.items()} if t == 0 else {})})
        inputs = {i: np.repeat(v[None], number, axis=0) for i, v in given.items()}
        made = _ends(g, {**inputs, **states, token: drawn}, {scores, *(r for _, r in pairs)})
        sums = np.cumsum(softmax(made[scores].reshape(number, -1)), axis=1)
        places = rng.random(number)[:, None] * sums[:, -1:]
        drawn = np.sum(sums < places, axis=1).astype(np.float32).reshape(drawn.shape)
        states = {s: made[r].reshape(states[s].shape) for s, r in pairs}
    return list(result)


def _roles(g: Graph, pairs: Sequence[StatePair]) -> tuple[str, str] | None:
    """The input that is a token and the output with a score for each: rows of a table, and as many scores.
    None where not clear."""
    paired = {name for pair in pairs for name in pair}
    given = [i for i in g.inputs if i not in paired]
    answers = [o for o in g.outputs if o not in paired]
    if not pairs or len(answers) != 1 or any(math.prod(g.value(i).shape) != 1 for i in given):
        return None
    size = math.prod(g.value(answers[0]).shape)
    alias = {i: i for i in given}
    tokens = set()
    for node in g.nodes:
        source = alias.get(node.inputs[0])
        if node.op == "Reshape" and source is not None:
            alias[node.outputs[0]] = source
        elif node.op == "Embedding" and source is not None and g.value(node.inputs[1]).shape[0] == size:
            tokens.add(source)
    return (tokens.pop(), answers[0]) if len(tokens) == 1 else None


def _ends(g: Graph, inputs: Mapping[str, np.ndarray], names: set[str]) -> dict[str, np.ndarray]:
    return {name: y for name, y in batch.stream(g, inputs) if name in names}
