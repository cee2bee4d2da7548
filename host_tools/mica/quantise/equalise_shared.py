"""Channels of very different size get one size where several layers share them, and float arithmetic does not notice.

    norm    y_i = W_i @ (norm(x) * g)              =>  W_i' = W_i * s, g' = g / s        for all layers i that read the
                                                       norm
    gate    y = W @ (a * (U @ x))                  =>  W' = W * s, U' = U / s
    scores  attend(Q @ x, K @ x)                   =>  Q' = Q * s, K' = K / s            per pair of multiplied channels

As in `equalise.py`, an activation has one scale for all channels;
a weight's scale is its output channel's, so that the layer in front pays nothing. Keys and queries pay for each other.
A rotation turns two channels into two, so both have the same s; queries that share a head of keys share it too.
Keys that a state holds are divided as well: a state begins with 0, and its samples are divided with it.

How far to go is measured for each place, on samples that had no part in the ranges;
the place stays as it is unless the error falls by 2 %.
What is good for each place need not be good for what comes out: where the outputs have more noise than before,
all stay.
A table that another node reads (an embedding that is the head as well) stays: it is once in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mica.ir.graph import Graph, Node, Quant, StatePair
from mica.quantise.calibrate import Runs, Samples, calibrate
from mica.quantise.equalise import CHOICES, GAIN, HEADROOM, LARGEST, free, quarters, rounded_rows, scaled
from mica.quantise.histogram import Range
from mica.quantise.params import choose_quants, from_range
from mica.quantise.rounding import plain
from mica.quantise.simulate import apply, noise, rounded
from mica.quantise.tune import MAX_MACS, MIN_SAMPLES, TRIED, copy, macs, thin

# Quarters of the powers of keys' and queries' sizes, that s = keys**a / queries**b is tried with.
BOTH = ((1, 0), (2, 0), (3, 0), (1, 1), (2, 2), (3, 1), (0, 2))
MOVES = ("Reshape", "Transpose", "Remap", "StridedCopy")
RUNS = 80_000_000  # multiplications of the run that measures ranges, as far as 64 samples allow

Values = Mapping[str, np.ndarray]
Sizes = dict[str, np.ndarray]  # value -> largest |x| of each channel, or of each place in a row of keys


def run(g: Graph, samples: Samples, pairs: Sequence[StatePair] = ()) -> Graph:
    """The graph with such channels alike, by real samples; pairs: (state, what it becomes).
    Keys among the samples' states change too."""
    places = _places(g, pairs)
    work = macs(g)
    if not places or len(samples) < MIN_SAMPLES or work > MAX_MACS:
        return g
    samples_of_ranges = thin(samples, max(RUNS // max(work, 1), 64))
    halves = [_sizes(g, places, samples_of_ranges[k::2]) for k in range(2)]
    whole = {name: np.maximum(halves[0][name], halves[1][name]) for name in halves[0]}
    held = thin(samples_of_ranges[1::2], min(max(TRIED // max(work, 1), 8), 64))
    tried = [p.candidates(halves[0]) for p in places]
    errors = [np.zeros(len(t)) for t in tried]
    for values in runs(g, held):
        for p, t, e in zip(places, tried, errors, strict=True):
            e += [p.error(g, values, s, halves[0]) for s in t]
    chosen = [int(np.argmin(e)) if e.min() < GAIN * e[0] else 0 for e in errors]
    if not any(chosen):
        return g
    alike, changed = copy(g), [dict(sample) for sample in samples]
    for p, k in zip(_places(alike, pairs), chosen, strict=True):
        if k > 0:
            p.scale(alike, p.candidates(whole)[k], changed)
    becomes = {id(sample): s for sample, s in zip(samples, changed, strict=True)}
    measured = samples_of_ranges[0::2]
    before = _noise(g, measured, held)
    after = _noise(alike, [becomes[id(s)] for s in measured], [becomes[id(s)] for s in held])
    if after >= before:
        return g
    for sample, new in zip(samples, changed, strict=True):
        sample.update(new)
    return alike


def _places(g: Graph, pairs: Sequence[StatePair]) -> list[Place]:
    return [*_norms(g), *_gates(g), *_scores(g, pairs)]


def _noise(g: Graph, samples: Samples, held: Samples) -> float:
    """Measure the noise of the outputs with 8 bits, in dB: ranges by `samples`, measured on `held`. Places help
    alone, and may hurt each other."""
    quants = choose_quants(g, calibrate(g, samples))
    return noise(g, [(plain(copy(g), quants), quants)], held)[0]


def runs(g: Graph, samples: Samples) -> Iterator[Values]:
    """The activations of each sample."""
    for part, values in Runs(g, room=0)(samples):
        for k in range(len(part)):
            yield {name: array[k] for name, array in values.items()}


class Place(Protocol):
    """A place where channels can be made alike. s: one factor a channel; the values there are divided by it."""

    def measured(self) -> Mapping[str, int]:
        """Values whose sizes are needed -> the axis along which they do not differ; -1: sizes of the last axis."""

    def candidates(self, sizes: Sizes) -> list[np.ndarray]:
        """Factors to try, the first of them ones."""

    def error(self, g: Graph, values: Values, s: np.ndarray, sizes: Sizes) -> float:
        """Measure the error of what comes out behind it with 8 bits, against its size."""

    def scale(self, g: Graph, s: np.ndarray, samples: Samples) -> None:
        """Changes weights, and states among the samples."""


def _sizes(g: Graph, places: Sequence[Place], samples: Samples) -> Sizes:
    desired = {name: axis for p in places for name, axis in p.measured().items()}
    sizes: Sizes = {}
    for values in runs(g, samples):
        for name, axis in desired.items():
            a = np.abs(values[name]).astype(np.float64)
            size = a.reshape(-1, a.shape[-1]).max(axis=0) if axis == -1 else a.max(axis=axis)
            sizes[name] = np.maximum(sizes.get(name, 0.0), size)
    return sizes


def _quant(x: np.ndarray, sizes: np.ndarray) -> Quant:
    """A scale for values of these sizes, with the signs of this sample."""
    top = float(sizes.max())
    return from_range(Range(-top if float(x.min()) < 0 else 0.0, top))


def _relative(found: np.ndarray, expected: np.ndarray) -> float:
    size = float(np.sum(expected.astype(np.float64) ** 2))
    return float(np.sum((found.astype(np.float64) - expected) ** 2)) / max(size, 1e-30)


def _factors(sizes: np.ndarray, read: np.ndarray, choices: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """size**a / read**b in quarters, so that the largest channel keeps its size;
    channels that are zero, or not read, keep 1."""
    live = (sizes > 1e-6 * sizes.max(initial=0.0)) & (read > 1e-6 * read.max(initial=0.0))
    result = [np.ones(len(sizes))]
    for a, b in choices if live.any() else ():
        r, c = sizes[live] / sizes[live].max(), read[live] / read[live].max()
        raw = quarters(r, a) / quarters(c, b)
        raw /= np.max(r / raw)
        raw = np.maximum(raw, np.minimum(1.0, HEADROOM * r))
        s = np.ones(len(sizes))
        s[live] = np.clip(raw, 1.0 / LARGEST, LARGEST)
        result.append(s)
    return result


def _read(g: Graph, readers: Sequence[Node]) -> np.ndarray:
    """Largest weight of each column."""
    return np.max([np.abs(np.asarray(g.data(n.inputs[1]), np.float64)).max(axis=0) for n in readers], axis=0)


def _owned(g: Graph, node: Node) -> bool:
    """A matrix product whose weights are real numbers that no other node reads."""
    if node.op != "FullyConnected" or not free(g, node) or node.attrs.get("clip") != (None, None):
        return False
    return sum(node.inputs[1] in n.inputs for n in g.nodes) == 1


def _product(g: Graph, node: Node, x: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Output of a product for x, with its weights times s in 8 bits."""
    w = rounded_rows(np.asarray(g.data(node.inputs[1])) * s.astype(np.float32))
    (y,) = apply(g, node, [x, w, np.asarray(g.data(node.inputs[2]))])
    return y


# ---- norms -----------------------------------------------------------------------------------------------------------


@dataclass
class Norm:
    """A norm whose gain, and bias, several products may share."""

    node: Node
    readers: list[Node]
    read: np.ndarray  # largest weight of each column

    @property
    def name(self) -> str:
        return self.node.outputs[0]

    def measured(self) -> Mapping[str, int]:
        return {self.name: -1}

    def candidates(self, sizes: Sizes) -> list[np.ndarray]:
        return _factors(sizes[self.name], self.read, CHOICES)

    def error(self, g: Graph, values: Values, s: np.ndarray, sizes: Sizes) -> float:
        x = values[self.name] / s.astype(np.float32)
        x = rounded(x, _quant(x, sizes[self.name] / s))
        return sum(_relative(_product(g, n, x, s), values[n.outputs[0]]) for n in self.readers)

    def scale(self, g: Graph, s: np.ndarray, samples: Samples) -> None:
        self.node.inputs[1:] = [
            scaled(g, name, 1.0 / s, 0) if np.any(np.asarray(g.data(name))) else name for name in self.node.inputs[1:]
        ]
        for n in self.readers:
            n.inputs[1] = scaled(g, n.inputs[1], s, -1)


def _norms(g: Graph) -> list[Place]:
    consumers, result = g.consumers(), list[Place]()
    for node in g.nodes:
        y = node.outputs[0]
        if node.op != "LayerNorm" or y in g.outputs or g.value(y).quant is not None:
            continue
        readers = consumers.get(y, [])
        size = g.value(y).shape[-1:]
        mine = all(g.is_const(i) and g.value(i).shape == size for i in node.inputs[1:]) and len(node.inputs) > 1
        if mine and node.attrs["clip"] == (None, None) and readers and all(_owned(g, n) for n in readers):
            result.append(Norm(node, readers, _read(g, readers)))
    return result


# ---- gates -----------------------------------------------------------------------------------------------------------


@dataclass
class Gate:
    """first, times something, read by second."""

    first: Node
    times: Node
    second: Node
    read: np.ndarray

    def measured(self) -> Mapping[str, int]:
        return {self.first.outputs[0]: -1, self.times.outputs[0]: -1}

    def candidates(self, sizes: Sizes) -> list[np.ndarray]:
        return _factors(sizes[self.times.outputs[0]], self.read, CHOICES)

    def error(self, g: Graph, values: Values, s: np.ndarray, sizes: Sizes) -> float:
        own, after = self.first.outputs[0], self.times.outputs[0]
        x = values[own] / s.astype(np.float32)
        x = rounded(x, _quant(x, sizes[own] / s))
        (y,) = apply(g, self.times, [x if i == own else values[i] for i in self.times.inputs])
        y = rounded(y, _quant(y, sizes[after] / s))
        return _relative(_product(g, self.second, y, s), values[self.second.outputs[0]])

    def scale(self, g: Graph, s: np.ndarray, samples: Samples) -> None:
        self.first.inputs[1:] = [scaled(g, name, 1.0 / s, 0) for name in self.first.inputs[1:]]
        self.second.inputs[1] = scaled(g, self.second.inputs[1], s, -1)


def _gates(g: Graph) -> list[Place]:
    consumers, producers, result = g.consumers(), g.producers(), list[Place]()
    for node in g.nodes:
        if node.op != "Mul" or node.attrs["clip"] != (None, None) or any(g.is_const(i) for i in node.inputs):
            continue
        second = g.sole_consumer(node.outputs[0], consumers)
        if second is None or not _owned(g, second) or len({g.value(i).shape for i in node.inputs}) > 1:
            continue
        for i in node.inputs:
            first = producers.get(i)
            if first is not None and _owned(g, first) and g.sole_consumer(i, consumers) is node:
                result.append(Gate(first, node, second, _read(g, [second])))
                break
    return result


# ---- scores ----------------------------------------------------------------------------------------------------------


@dataclass
class Traced:
    """Channels of a product in a value that is made of them by copies and rotations."""

    product: Node
    channels: np.ndarray  # of each element of the value
    pairs: list[np.ndarray]  # [n, 2]: channels that rotations turn into each other
    states: list[str]  # that hold earlier rows of the value


@dataclass
class Scores:
    """Queries and keys of an attention; s has one factor for each set of channels that products join."""

    node: Node
    queries: Traced
    keys: Traced
    sets: tuple[np.ndarray, np.ndarray]  # set of each channel, of queries and of keys

    def measured(self) -> Mapping[str, int]:
        return dict.fromkeys(self.node.inputs[:2], -2)

    def candidates(self, sizes: Sizes) -> list[np.ndarray]:
        q, k = (self._of_sets(sizes[self.node.inputs[side]], side) for side in (0, 1))
        result = [np.ones(len(k))]
        if not (q.min() > 1e-6 * q.max() and k.min() > 1e-6 * k.max()):
            return result
        for a, b in BOTH:
            s = quarters(k / k.max(), a) / quarters(q / q.max(), b)
            result.append(np.clip(s, 1.0 / LARGEST, LARGEST))
        return result

    def _of_sets(self, sizes: np.ndarray, side: int) -> np.ndarray:
        found = np.zeros(1 + max(int(v.max()) for v in self.sets))
        places = self._places(side).max(axis=-2)  # one set along the rows
        np.maximum.at(found, places.reshape(-1), sizes.reshape(-1))
        return found

    def _places(self, side: int) -> np.ndarray:
        """The set of each element."""
        return self.sets[side][(self.queries, self.keys)[side].channels]

    def error(self, g: Graph, values: Values, s: np.ndarray, sizes: Sizes) -> float:
        arrays = [values[i] for i in self.node.inputs]
        for side in range(2):
            by = s[self._places(side)] if side == 0 else 1.0 / s[self._places(side)]
            arrays[side] = arrays[side] * by.astype(np.float32)
            size = sizes[self.node.inputs[side]] * by.max(axis=-2)
            arrays[side] = rounded(arrays[side], _quant(arrays[side], size))
        (y,) = apply(g, self.node, arrays)
        return _relative(y, values[self.node.outputs[0]])

    def scale(self, g: Graph, s: np.ndarray, samples: Samples) -> None:
        q, k = self.queries.product, self.keys.product
        q.inputs[1:] = [scaled(g, name, s[self.sets[0]], 0) for name in q.inputs[1:]]
        k.inputs[1:] = [scaled(g, name, 1.0 / s[self.sets[1]], 0) for name in k.inputs[1:]]
        by = s[self._places(1)].astype(np.float32)
        for sample in samples:
            for state in self.keys.states:
                sample[state] = sample[state] / by.reshape(sample[state].shape)


def _scores(g: Graph, pairs: Sequence[StatePair]) -> list[Place]:
    result = list[Place]()
    for node in g.nodes:
        if node.op != "Attend":
            continue
        q, k = (_trace(g, i, dict(pairs)) for i in node.inputs[:2])
        if q is None or k is None or q.product is k.product or q.states:
            continue
        sets = _sets(q, k)
        if sets is not None:
            result.append(Scores(node, q, k, sets))
    return result


_DEPTH = 100  # nodes behind one another that are looked through


def _trace(g: Graph, name: str, pairs: Mapping[str, str], depth: int = 0) -> Traced | None:
    """Product that a value is made of, None if others read the values between. pairs: state -> its result."""
    node = g.producers().get(name)
    shape = g.value(name).shape
    if node is None or depth > _DEPTH or g.value(name).quant is not None or len(g.consumers().get(name, [])) != 1:
        return None
    if node.op == "ScatterRows":
        row = _trace(g, node.inputs[1], pairs, depth + 1)
        if row is None or pairs.get(node.inputs[0]) != name or len(g.consumers()[node.inputs[0]]) != 1:
            return None
        first = np.take(row.channels, [0], axis=node.attrs["axis"])
        if np.any(row.channels != first):
            return None
        return Traced(row.product, np.broadcast_to(first, shape), row.pairs, [*row.states, node.inputs[0]])
    if name in g.outputs:
        return None
    if node.op == "FullyConnected":
        if not _owned(g, node):
            return None
        return Traced(node, np.broadcast_to(np.arange(shape[-1]), shape), [], [])
    if node.op not in (*MOVES, "Rotate"):
        return None
    before = _trace(g, node.inputs[0], pairs, depth + 1)
    if before is None:
        return None
    if node.op == "Rotate":
        half = g.value(node.inputs[1]).shape[-1]
        x = before.channels.reshape(-1, 2 * half)
        channels = np.unique(np.stack([x[:, :half], x[:, half:]], axis=-1).reshape(-1, 2), axis=0)
        return Traced(before.product, before.channels.reshape(shape), [*before.pairs, channels], before.states)
    (moved,) = apply(g, node, [before.channels.astype(np.float32)])
    return Traced(before.product, np.rint(moved).astype(np.int64), before.pairs, before.states)


def _sets(q: Traced, k: Traced) -> tuple[np.ndarray, np.ndarray] | None:
    """The sets of channels that one factor serves; None if rows of one matrix of keys come from different channels."""
    if np.any(k.channels != k.channels[..., :1, :]):
        return None
    n = _size(q), _size(k)
    joined = np.stack(np.broadcast_arrays(q.channels, k.channels[..., :1, :] + n[0]), axis=-1).reshape(-1, 2)
    links = np.unique(np.concatenate([joined, *q.pairs, *(p + n[0] for p in k.pairs)]), axis=0)
    label = np.arange(sum(n))
    while True:  # each takes the least label of those it is joined to
        before = label.copy()
        low = np.minimum(label[links[:, 0]], label[links[:, 1]])
        np.minimum.at(label, links[:, 0], low)
        np.minimum.at(label, links[:, 1], low)
        if np.array_equal(before, label):
            break
    _, label = np.unique(label, return_inverse=True)
    return label[: n[0]], label[n[0] :]


def _size(t: Traced) -> int:
    """Channels of the product."""
    return int(t.channels.max()) + 1
