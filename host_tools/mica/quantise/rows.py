"""Rows that join features of the model's input with what is made of others: each number gets a range of its own.

FullyConnected(Concat(Trees(x), Features(x)), w, b)  =>  FullyConnected(Concat(..), w * half, b + w @ middle)
DepthwiseConv2d(Reshape(Concat(..)), w, b)           =>  likewise
Trees(Concat(Trees(x), Features(x)))                 =>  Trees(Concat(Trees(x), Ranks(x))): no question loses anything

Parts give (part - middle) / half, which spans int8. So the 0 and 1 of a category share no scale with a feature of 300.
A product of features is that of features within +-1.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from mica.format.values import LOW
from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node, Quant
from mica.kernels.tabular import MOST_RANKS
from mica.passes import dead_code
from mica.passes.builder import Builder
from mica.passes.features import gathered_factors
from mica.passes.leaf_trees import bounds, step_forest, with_values
from mica.passes.lower.movement import concat
from mica.passes.lower.trees import in_units, ranked
from mica.quantise.calibrate import Samples
from mica.quantise.features import product, scaled
from mica.reference import float_ops

MOST = 127.0  # of a number, in steps
ROOM = 8.0  # samples: n of them leave room for factors that are ROOM / n further out than theirs
SPARE = 40.0  # likewise for numbers


def spread(g: Graph, samples: Samples) -> Graph:
    """A core graph, changed where a row is joined."""
    changed = False
    for joint in [n for n in g.nodes if n.op == "Concat"]:
        y = joint.outputs[0]
        if len(g.value(y).shape) != 2 or joint.attrs["axis"] != 1 or g.value(y).quant is not None:
            continue
        row = _Row(g, joint)
        mixed = any(p.op in ("Features", "Trees") for p in row.makers) or any(row.factors)
        readers = _readers(g, y) if mixed else []
        if readers:
            x = row.measured(y, samples)
            for reader in readers:
                if reader.op != "Trees" or row.rises():
                    row.give(reader, x)
                    changed = True
    for node in [n for n in g.nodes if n.op == "Features"]:
        _unasked(g, node)
    return dead_code.run(g) if changed else g


def _unasked(g: Graph, node: Node) -> None:
    """Features that nobody picks are 0, and may be missing."""
    picks, x = g.consumers().get(node.outputs[0], []), g.value(node.outputs[0])
    if not picks or x.name in g.outputs or any(n.op not in ("Gather", "Remap") for n in picks):
        return
    asked = np.zeros(x.size, bool)
    for n in picks:
        at = [np.arange(x.size, dtype=np.float32).reshape(x.shape), *(np.asarray(g.data(i)) for i in n.inputs[1:])]
        asked[float_ops.OPS[n.op](n, at, g.value(n.outputs[0]).shape).astype(int).reshape(-1)] = True
    made = [np.where(asked, np.asarray(g.data(i)).reshape(-1), 0) for i in node.inputs[1:]]
    node.inputs[1:] = [g.new_const(f"{i}.asked", a) for i, a in zip(node.inputs[1:], made, strict=True)]


def _readers(g: Graph, y: str) -> list[Node]:
    """Nodes that read a row and can take another scale for each of its numbers.
    A scaler in front of some goes into them."""
    consumers, found = g.consumers(), list[Node]()
    for n in consumers.get(y, []):
        if n.op != "Reshape":
            found += [n] if product(g, n) or n.op == "Trees" else []
            continue
        scaler = g.sole_consumer(n.outputs[0], consumers)
        if scaler is None or scaler.op != "DepthwiseConv2d" or g.value(scaler.inputs[1]).shape[1:] != (1, 1):
            continue
        factor, shift = (np.asarray(g.data(i), np.float64).reshape(-1) for i in scaler.inputs[1:])
        last = g.sole_consumer(scaler.outputs[0], consumers)
        behind = consumers.get(last.outputs[0], []) if last is not None and last.op == "Reshape" else []
        plain = scaler.attrs["clip"] == (None, None) and (factor > 0).all()
        if not behind or not plain or not all(r.op in ("FullyConnected", "Trees") for r in behind):
            found.append(scaler)
            continue
        for reader in behind:
            if reader.op == "Trees":
                f: Forest = reader.attrs["forest"]
                at = np.maximum(f.column, 0)
                reader.attrs["forest"] = replace(f, threshold=in_units(f.threshold, factor[at], shift[at]))
            else:
                scaled(g, [reader], shift, factor)
            reader.inputs[0] = y
        found += behind
    return found


class _Row:
    """A Concat, its parts and where each begins; what makes a part and, of features, their places in the input."""

    def __init__(self, g: Graph, concat: Node) -> None:
        self.g, self.producers = g, g.producers()
        self.parts = self._flat(concat)
        ends = np.cumsum([0, *(g.value(p).size for p in self.parts)]).tolist()
        self.spans = [slice(*span) for span in pairwise(ends)]
        made = [self._maker(p) for p in self.parts]
        self.makers, self.places = [m for m, _ in made], [places for _, places in made]
        self.sizes: dict[str, np.ndarray] = {}
        found = [gathered_factors(g, m, self.producers) if m.op == "Mul" else None for m in self.makers]
        self.factors = [f if f is not None and f[0] in self.producers else None for f in found]  # each of a Features

    def _flat(self, concat: Node) -> list[str]:
        inner = [(i, self.producers.get(i)) for i in concat.inputs]
        return [p for i, n in inner for p in (self._flat(n) if n is not None and n.op == "Concat" else [i])]

    def _maker(self, name: str) -> tuple[Node, np.ndarray]:
        moves: list[Node] = []
        node = first = self.producers.get(name) or Node("", "", [], [])
        while node.op in ("Gather", "Remap") and node.inputs[0] in self.producers:
            moves.insert(0, node)
            node = self.producers[node.inputs[0]]
        if node.op != "Features":
            return first, np.zeros(0, int)
        at = np.arange(self.g.value(node.outputs[0]).size, dtype=np.float32)[None]
        for m in moves:
            constants = [np.asarray(self.g.data(i)) for i in m.inputs[1:]]
            at = float_ops.OPS[m.op](m, [at, *constants], self.g.value(m.outputs[0]).shape)
        places = at.reshape(-1).astype(int)
        return (node, places) if len(np.unique(places)) == len(places) else (first, places[:0])

    def rises(self) -> bool:
        """Return True if all features are of one input and none of them falls with it, as ranks are."""
        found = [(m, at) for m, at in zip(self.makers, self.places, strict=True) if m.op == "Features"]
        one = len({m.inputs[0] for m, _ in found}) < 2
        return one and all((np.asarray(self.g.data(m.inputs[1]))[at] > 0).all() for m, at in found)

    def measured(self, y: str, samples: Samples) -> np.ndarray:
        """Return the samples' values of row y, [samples, numbers]; note the sizes of features that are multiplied."""
        multiplied, rows = {f[0] for f in self.factors if f is not None}, []
        for s in samples:
            for name, a in float_ops.stream(self.g, s):
                if name in multiplied:
                    size = np.abs(np.nan_to_num(a.astype(np.float64))).reshape(-1) * (1 + ROOM / len(samples))
                    self.sizes[name] = np.maximum(self.sizes.get(name, 0.0), size)
                if name == y:
                    rows.append(a)
                    break
        for name in multiplied:
            self.sizes[name][self.sizes[name] == 0] = 1.0
        return np.nan_to_num(np.concatenate(rows).astype(np.float64))

    def give(self, reader: Node, x: np.ndarray) -> None:
        """Give a reader a row of its own. x [samples, numbers]: what the samples have in the row."""
        g, b, n = self.g, Builder(self.g, [], reader.name), x.shape[1]
        unit = np.ones(n)
        for factors, at in zip(self.factors, self.spans, strict=True):
            if factors is not None:
                sizes = self.sizes[factors[0]]
                unit[at] = np.append(sizes, np.ones(g.value(factors[1]).size - len(sizes)))[factors[2]].prod(axis=0)
        low, high, kept, spare = x.min(axis=0), x.max(axis=0), np.zeros(n, bool), np.full(n, 1 + SPARE / len(x))
        for maker, at in zip(self.makers, self.spans, strict=True):
            kept[at] = maker.op not in ("Features", "Trees") and not product(g, maker)
            if maker.op == "Trees":
                low[at], high[at], spare[at] = *bounds(maker.attrs["forest"]), 1.0
        step = float(np.float32(np.abs(x / unit)[:, kept].max(initial=0.0) / MOST)) or 1.0
        half = np.where(kept | (high <= low), unit, (high - low) * spare / (2 * MOST * step))
        middle = np.where(kept, 0.0, (low + high) / 2)
        if reader.op == "Trees":
            names = self._asked(b, reader, middle, half, step)
        else:
            names = [self._scaled(b, k, middle, half) for k in range(len(self.parts))]
            scaled(g, [reader], middle, half)
        made = len(b.nodes)
        y = concat(b, names, 1)
        for node in b.nodes[made:]:
            g.value(node.outputs[0]).quant = Quant(step, 0)
        flat = reader.op != "DepthwiseConv2d"
        reader.inputs[0] = y if flat else b.reshape(y, g.value(reader.inputs[0]).shape)
        for node in b.nodes:
            g.insert_before(reader, node)

    def _asked(self, b: Builder, reader: Node, middle: np.ndarray, half: np.ndarray, step: float) -> list[str]:
        """The parts for a forest, which is changed: features and functions of one are ranks among its thresholds."""
        f: Forest = reader.attrs["forest"]
        column, threshold, missing, learnt = np.full(len(f.column), -1), f.threshold.copy(), f.missing.copy(), f.learnt
        ways = [(f.column >= at.start) & (f.column < at.stop) for at in self.spans]
        for k, (maker, asked) in enumerate(zip(self.makers, ways, strict=True)):
            if maker.op == "Features":
                place = self.places[k][f.column[asked] - self.spans[k].start]
                factor, shift, value = (np.asarray(self.g.data(i), np.float64)[place] for i in maker.inputs[1:])
                column[asked], threshold[asked] = place, in_units(threshold[asked], factor, shift)
                missing[asked] = np.where(np.isnan(value), missing[asked], value <= f.threshold[asked])
                learnt |= bool(np.isfinite(value).any())
        result, names, count = replace(f, column=column, threshold=threshold, missing=missing), list[str](), 0
        if (column >= 0).any():
            x = next(m.inputs[0] for m in self.makers if m.op == "Features")
            first, result = ranked(self.g, b, x, result, learnt)
            names, count = [first], self.g.value(first).shape[-1]
            b.nodes[-1].attrs["step"] = step
        column = result.column.copy()
        threshold = (result.threshold + 0.5) * step  # between two ranks, where no rounding matters
        for k, (maker, at, asked) in enumerate(zip(self.makers, self.spans, ways, strict=True)):
            if maker.op == "Features":
                continue
            known = [np.unique(f.threshold[f.column == c]) for c in range(at.start, at.stop)]
            ranks = _by_rank(maker.attrs["forest"], known, step) if maker.op == "Trees" else None
            if ranks is None:
                names.append(self._scaled(b, k, middle, half))
                threshold[asked] = (f.threshold[asked] - middle[f.column[asked]]) / half[f.column[asked]]
            else:
                names.append(b.emit("Trees", maker.inputs, (1, len(known)), {"forest": ranks}))
                threshold[asked] = [
                    (np.searchsorted(known[c - at.start], t) + LOW + 0.5) * step
                    for c, t in zip(f.column[asked], f.threshold[asked], strict=True)
                ]
            column[asked] = f.column[asked] - at.start + count
            count += len(known)
        reader.attrs["forest"] = replace(result, column=column, threshold=threshold)
        return names

    def _scaled(self, b: Builder, k: int, middle: np.ndarray, half: np.ndarray) -> str:
        """A part as (part - middle) / half; itself if that cannot be."""
        g, maker, at, places = self.g, self.makers[k], self.spans[k], self.places[k]
        middle, half, shape = middle[at], half[at], (1, len(half[at]))
        if (factors := self.factors[k]) is not None:
            return self._multiplied(b, maker, factors[0], {})
        if maker.op == "Trees":
            f: Forest = maker.attrs["forest"]
            forest = replace(f, value=f.value / half[f.target], bias=(f.bias - middle) / half)
            return b.emit("Trees", maker.inputs, shape, {"forest": forest})
        if maker.op != "Features" and not product(g, maker):
            return self.parts[k]
        data = [np.asarray(g.data(i), np.float64) for i in maker.inputs[1:]]
        if maker.op == "FullyConnected":
            made = [(data[0] / half[:, None]).astype(np.float32), ((data[1] - middle) / half).astype(np.float32)]
        else:
            made = [np.zeros(len(a)) for a in data]  # of other features nothing is asked; a missing one may be
            for a, all_of, less in zip(made, data, (0.0, middle, middle), strict=True):
                a[places] = (all_of[places] - less) / half
        names = [g.new_const(f"{b.origin}.{i}", a) for i, a in zip(maker.inputs[1:], made, strict=True)]
        y = b.emit(maker.op, [maker.inputs[0], *names], g.value(maker.outputs[0]).shape, maker.attrs)
        if maker.op != "Features" or np.array_equal(places, np.arange(len(data[0]))):
            return y
        return b.emit("Gather", [y, g.new_const(f"{b.origin}.places", places)], shape, {"axis": 1})

    def _multiplied(self, b: Builder, node: Node, x: str, done: dict[str, str]) -> str:
        """A product of features, each divided by its size. done: what has been made anew."""
        g, inputs = self.g, list(node.inputs)
        if node.op == "Features":
            by = self.sizes[x]
            inputs[1:] = [g.new_const(f"{b.origin}.{i}", np.asarray(g.data(i), np.float64) / by) for i in inputs[1:]]
        else:
            for i in (i for i in inputs if not g.is_const(i)):
                done[i] = done.get(i) or self._multiplied(b, self.producers[i], x, done)
            inputs = [done.get(i, i) for i in inputs]
        return b.emit(node.op, inputs, g.value(node.outputs[0]).shape, node.attrs)


def _by_rank(f: Forest, thresholds: list[np.ndarray], step: float) -> Forest | None:
    """The trees with the rank of each answer among thresholds of its readers; None if they ask for several features."""
    inner = f.column >= 0
    if len(np.unique(f.column[inner])) != 1 or max(map(len, thresholds)) > MOST_RANKS:
        return None
    steps = np.unique(f.threshold[inner])
    values = f.run(np.repeat(np.append(steps, np.inf)[:, None], f.columns, axis=1)).astype(np.float32)
    ranks = np.stack([np.searchsorted(t, v) + LOW for t, v in zip(thresholds, values.T, strict=True)], axis=1)
    ends = np.append((ranks[1:] != ranks[:-1]).any(axis=1), True)
    return with_values(step_forest(int(f.column[inner][0]), steps[ends[:-1]]), ranks[ends] * step)
