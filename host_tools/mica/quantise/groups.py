"""Values that share one scale and zero point, so that nothing is computed where elements only move.

Reshape, MaxPool, Slice ...: output and input are one group. Concat, Pad, Resize: inputs and output become one where
that costs no accuracy: all need the output's range anyway, so an input that only goes there may have it. An input with
other readers enters the group only if its own range is at least a quarter of that (two bits are lost at most). If an
input stays apart, a table converts it in front of the operator (`kernels/movement.py`).
"""

from collections.abc import Mapping

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import CORE_BY_NAME
from mica.quantise.calibrate import Range
from mica.reference.recurrent import bounded

# A shared range may be this many times a member's own.
WIDENS = 4.0

# A constant that is joined to data (a mask, a fill value) may widen the range by its own width, or by this if that
# is less. After a softmax exp(-16) is nothing; masks of -1e9 would leave one step for all the data.
MASK = 16.0


class Groups:
    """Union of values. fixed: the scales that are given; ranges: of the groups that have none."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self.fixed: dict[str, Quant] = {}
        self.ranges: dict[str, Range] = {}

    def find(self, name: str) -> str:
        while (up := self._parent.get(name, name)) != name:
            name = up
        return name

    def union(self, a: str, b: str) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        self._parent[b] = a
        if b in self.fixed:
            assert self.fixed.setdefault(a, self.fixed[b]) == self.fixed[b], (a, b)
        if b in self.ranges:
            self.ranges[a] = both(self.ranges.get(a), self.ranges[b])

    def quant(self, name: str) -> Quant | None:
        """The given scale of a value's group."""
        return self.fixed.get(self.find(name))

    def range(self, name: str) -> Range:
        """The range of a value's group, if it has no given scale."""
        return self.ranges[self.find(name)]


def both(a: Range | None, b: Range) -> Range:
    return b if a is None else Range(min(a.low, b.low), max(a.high, b.high))


def width(r: Range) -> float:
    """Return the width of a range with zero in it, as quantisation will have it."""
    return max(r.high, 0.0) - min(r.low, 0.0)


def group(g: Graph, fixed: Mapping[str, Quant], ranges: Mapping[str, Range]) -> Groups:
    """The groups of a core graph. fixed: scales that are given; ranges: of all other values, asked for where needed."""
    groups = Groups()
    groups.fixed.update(fixed)
    activations = [*g.inputs, *(o for node in g.nodes for o in node.outputs)]
    for node in g.nodes:
        if CORE_BY_NAME[node.op].keeps_quant:
            groups.union(node.inputs[0], node.outputs[0])
        elif node.op == "Recurrent":
            _states(g, groups, node)
        elif node.op == "ScatterRows":  # so that it can be written in place
            groups.union(node.inputs[0], node.outputs[0])
    joins = [n for n in g.nodes if CORE_BY_NAME[n.op].joins]
    derived = {n.outputs[0] for n in g.nodes if CORE_BY_NAME[n.op].selects}
    for name in activations:
        if groups.quant(name) is None and name not in derived:
            _note(groups, name, ranges[name])
    for node in joins:
        _join(g, groups, node, ranges)
    return groups


def _join(g: Graph, groups: Groups, node: Node, ranges: Mapping[str, Range]) -> None:
    out = node.outputs[0]
    inputs = list(dict.fromkeys(i for i in node.inputs[: _activations(g, node)] if not g.is_const(i)))
    scales = {groups.quant(i) for i in inputs}
    if groups.quant(out) is None and None not in scales and len(scales) == 1 and _all_fit(g, node, scales, ranges):
        groups.union(inputs[0], out)
    if groups.quant(out) is None:
        _note(groups, out, _range(g, groups, node, inputs, ranges))
    for i in inputs:
        if _may_share(g, groups, node, i):
            groups.union(out, i)


def _states(g: Graph, groups: Groups, node: Node) -> None:
    """The state that a recurrent layer begins with gets the scale of those that it makes, where both fit it.

    The candidates of a GRU, too: a hidden state is between them and the one before.
    """
    first, out, carried = node.inputs[1], node.outputs[0], "carried" in node.attrs
    if node.attrs["cell"] != "lstm":
        for inner in node.outputs[1:2] if carried else node.outputs[1:]:
            groups.union(out, inner)
    if carried or len(node.inputs) == 6 or g.is_const(first) or groups.quant(out) is not None:
        return
    if groups.quant(first) is None or bounded(node.attrs):
        groups.union(first, out)


def _activations(g: Graph, node: Node) -> int:
    op = CORE_BY_NAME[node.op]
    if node.op == "ScatterRows":
        return op.activations - 1  # the index is no activation
    return len(node.inputs) if op.variadic else op.activations


def _note(groups: Groups, name: str, r: Range) -> None:
    root = groups.find(name)
    groups.ranges[root] = both(groups.ranges.get(root), r)


def real_range(q: Quant) -> Range:
    """Range of the real values that integers with this scale can hold."""
    return Range(*q.reals)


def constants(g: Graph, node: Node) -> list[np.ndarray]:
    """Constants that a joining operator puts into its output beside its inputs."""
    if node.op == "Pad":
        return [np.array(node.attrs["value"])] if node.attrs["mode"] == "constant" else []
    return [np.asarray(g.data(i)) for i in node.inputs if g.is_const(i)] if node.op == "Concat" else []


def _all_fit(g: Graph, node: Node, scales: set[Quant | None], ranges: Mapping[str, Range]) -> bool:
    """True if the inputs' one scale can hold the output, with its constants and the overshoot of a Resize."""
    (q,) = scales
    assert q is not None
    more = [Range(float(c.min()), float(c.max())) for c in constants(g, node)]
    if node.op == "ResizeLinear":
        more.append(ranges[node.outputs[0]])
    return all(_inside(r, q) for r in more)


def _inside(r: Range, q: Quant) -> bool:
    room, half = real_range(q), q.scale / 2
    return room.low - half <= r.low and r.high <= room.high + half


def _range(g: Graph, groups: Groups, node: Node, inputs: list[str], ranges: Mapping[str, Range]) -> Range:
    """Return the range of the output: the inputs' and the constants', as far as they may widen it; a Resize may
    overshoot."""
    if node.op == "ResizeLinear":
        return ranges[node.outputs[0]]
    found: Range | None = None
    for i in inputs:
        q = groups.quant(i)
        found = both(found, real_range(q) if q is not None else groups.ranges[groups.find(i)])
    for c in constants(g, node):
        r = Range(float(c.min()), float(c.max()))
        if found is not None:
            room = max(width(found), MASK)
            r = Range(max(r.low, min(found.low, 0.0) - room), min(r.high, max(found.high, 0.0) + room))
        found = both(found, r)
    assert found is not None
    return found


def _may_share(g: Graph, groups: Groups, node: Node, i: str) -> bool:
    mine, theirs = groups.find(i), groups.find(node.outputs[0])
    if mine == theirs:
        return False
    a, b = groups.fixed.get(mine), groups.fixed.get(theirs)
    if a is not None or b is not None:
        return a == b or (a is None and b is not None and _within(groups.ranges[mine], b))
    wide = width(both(groups.ranges[mine], groups.ranges[theirs]))
    return wide <= WIDENS * width(groups.ranges[mine]) or not _others(g, groups, mine, node)


def _within(r: Range, q: Quant) -> bool:
    """True if a free range may take a given scale: it fits, and loses no more than two bits."""
    return _inside(r, q) and width(real_range(q)) <= WIDENS * width(r)


def _others(g: Graph, groups: Groups, root: str, node: Node) -> bool:
    """True if a node other than `node` computes with a value of the group, or one is an output of the model."""
    if any(groups.find(o) == root for o in g.outputs):
        return True
    for n in g.nodes:
        inside = any(not g.is_const(i) and groups.find(i) == root for i in n.inputs)
        if inside and n is not node and not (CORE_BY_NAME[n.op].keeps_quant and groups.find(n.outputs[0]) == root):
            return True
    return False
