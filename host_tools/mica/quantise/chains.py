"""Models with states: what a run writes wrongly, later runs read.

    sample t + 1: states as the float model leaves them  =>  states as the quantised model left them at sample t

Samples of such a model are consecutive runs, and carry the float states that they meet (`passes/streaming.py`).
That serves for ranges. An error in a key is another matter: it is in every answer that reads the cache while the key is
in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mica.ir.graph import Graph, Node, Quant, StatePair
from mica.quantise import simulate
from mica.quantise.calibrate import Runs, Samples
from mica.reference import batch, functions


@dataclass(frozen=True)
class Chain:
    """Consecutive samples, and the states that a run hands on to the next one.

    texts: more samples, for fits alone. Each text is a new sequence; only its first run holds states (`own_text.py`).
    """

    pairs: Sequence[StatePair] = ()
    samples: Samples = ()
    texts: Sequence[Samples] = ()
    _places: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        place = 0
        for part in (self.samples, *self.texts):
            self._places.update({id(sample): place + k for k, sample in enumerate(part)})
            place += len(part) + 1

    def follows(self, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> bool:
        """True if `after` is the run behind `before`."""
        return self._places[id(after)] == self._places[id(before)] + 1

    def written_first(self, g: Graph) -> dict[str, str]:
        """Result -> state, if nothing reads the state before it is written: layer after layer can hand it on."""
        makers = {o: k for k, node in enumerate(g.nodes) for o in node.outputs}
        first = {i: k for k, node in reversed(list(enumerate(g.nodes))) for i in node.inputs}
        return {r: s for s, r in self.pairs if r in makers and first.get(s, len(g.nodes)) >= makers[r]}


ALONE = Chain()


def noise(
    exact: Graph, tried: Sequence[tuple[Graph, Mapping[str, Quant]]], samples: Samples, pairs: Sequence[StatePair]
) -> list[float]:
    """Measure as `simulate.noise` does, for consecutive samples: each takes the states that the one before made."""
    names = [n for n in simulate.watched(exact) if all(n in quants for _, quants in tried)]
    ends = [*names, *(result for _, result in pairs)]
    error, size = np.zeros((len(tried), len(names))), np.zeros(len(names))
    states: list[dict[str, np.ndarray]] = [{} for _ in tried]
    for sample in samples:
        ((_, expected),) = Runs(exact, room=0)([sample], names)
        real = [expected[name].astype(np.float64) for name in names]
        size += [float(np.sum(w**2)) for w in real]
        for e, state, (g, quants) in zip(error, states, tried, strict=True):
            found = simulate.ends(g, {**batch.inputs([sample]), **state}, quants, ends)
            e += [float(np.sum((found[name] - w) ** 2)) for name, w in zip(names, real, strict=True)]
            state.update({s: found[r].reshape(1, *exact.value(s).shape) for s, r in pairs})
    decibels = 10 / simulate.LN10 * functions.log(np.maximum(error, 1e-30) / np.maximum(size, 1e-30))
    return [float(d) for d in decibels.mean(axis=1)]


def added(exact: Graph, tried: Sequence[Graph], samples: Samples, pairs: Sequence[StatePair]) -> list[float]:
    """Noise that each change of weights adds: mean squared difference of the watched values, relative to their squares.

    Activations are exact. If they were rounded, each change before them would also change their rounding: that is noise
    from another source, and more of it the earlier the layer is. pairs: as in `noise`; without them each sample is a
    run by itself.
    """
    names = simulate.watched(exact)
    changed = [_changed(exact, g, pairs) for g in tried]
    difference, size = np.zeros((len(tried), len(names))), np.zeros(len(names))
    states: list[dict[str, np.ndarray]] = [{} for _ in tried]
    for sample in samples:
        inputs = batch.inputs([sample])
        known = dict(batch.stream(exact, inputs))
        expected = [known[name].astype(np.float64) for name in names]
        size += [float(np.sum(w**2)) for w in expected]
        for d, state, g, nodes in zip(difference, states, tried, changed, strict=True):
            found = {**known, **state}
            for node in nodes:
                arrays = [found[i] if i in found else np.asarray(g.data(i)) for i in node.inputs]
                found.update(zip(node.outputs, batch.apply(g, node, arrays), strict=True))
            d += [float(np.sum((found[name] - w) ** 2)) for name, w in zip(names, expected, strict=True)]
            state.update({s: found[r].reshape(1, *exact.value(s).shape) for s, r in pairs})
    return [float(d) for d in (difference / np.maximum(size, 1e-30)).mean(axis=1)]


def _changed(exact: Graph, g: Graph, pairs: Sequence[StatePair]) -> list[Node]:
    """Nodes of g whose constants differ from those of `exact`, and all that depend on these, in any later run too."""
    values: set[str] = set()
    before = -1
    while before < len(values):
        before = len(values)
        for a, b in zip(exact.nodes, g.nodes, strict=True):
            if a.inputs != b.inputs or not values.isdisjoint(b.inputs):
                values.update(b.outputs)
        values.update(s for s, r in pairs if r in values)
    return [node for node in g.nodes if not values.isdisjoint(node.outputs)]
