"""Masks in front of a Softmax or an Exp become an operator of their own, with any number that stands for infinity.

y = Add(x, constant of 0 and -inf)                       =>   y = Mask(x, constant of 0 and 1)
y = Where(c, -inf, x), Where(c, x, -inf)                 =>   y = Mask(x, c), Mask(x, Not(c))
y = Add(x, Mul(m, -3.4e38)), Add(x, Where(c, -inf, 0))   =>   y = Mask(x, Less(Mul(m, ...), ...)), Mask(x, c)

for x that only a Softmax reads, or an Exp, directly, through operators that move elements, or less the largest of a
row. Any constant of -1000 or below counts, such as -65504 or -1e9: with it in the range, int8 would have no steps for
the scores. Mask sets masked elements to the smallest value that y has. That is far enough below each row's largest that
the Softmax makes them 0.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code

FAR_BELOW = -1000.0  # a constant that is there to leave out; exp of its difference to any score is 0
# Operators between a mask and its Softmax that only move elements, or leave the order of a row's elements as it is.
_ON_THE_WAY = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_SAME_AXES = ("Cast", "Identity")
_EXPONENTIALS = ("Exp", "LogSoftmax", "ReduceLogSumExp")
_MOVES = (*_ON_THE_WAY, "Expand", "Gather", "Slice", "Split", "Tile")


def run(g: Graph) -> Graph:
    changed = False
    axes = _softmax_axes(g)
    for node in list(g.nodes):
        if node.op in ("Add", "Where") and g.value(node.outputs[0]).quant is None:
            axis = axes[node.outputs[0]]
            if axis is not None and _masked(g, node, axis):
                changed = True
    return dead_code.run(g) if changed else g


def _softmax_axes(g: Graph) -> dict[str, int | None]:
    """For each value: None where something else than a Softmax reads it;
    else the axis of its rows, -1 where they lie otherwise by then.

    A masked value may be masked again on the way.
    """
    consumers = g.consumers()
    found: dict[str, int | None] = {}
    for node in reversed(g.nodes):
        for name in filter(None, node.outputs):
            found[name] = _softmax_axis(g, name, consumers.get(name, []), found)
    return found


def _softmax_axis(g: Graph, name: str, readers: Sequence[Node], behind: Mapping[str, int | None]) -> int | None:
    shape = g.value(name).shape
    axes = set()
    for node in readers:
        if node.op == "Softmax" and not node.attrs.get("flatten"):
            axes.add(int(node.attrs.get("axis", -1)) % max(1, len(shape)))
        elif node.op in _EXPONENTIALS:
            axes.add(len(shape) - 1)
        elif (most := _less_the_largest(g, name, node, readers)) is not None:
            below = behind[node.outputs[0]]
            if below is None:
                return None
            axes.add(most)
        elif node.op == "ReduceMax" and any(_less_the_largest(g, name, n, readers) is not None for n in readers):
            continue
        elif node.op in _ON_THE_WAY or (
            node.op in ("Add", "Mask", "Where") and g.value(node.outputs[0]).shape == shape
        ):
            axis = behind[node.outputs[0]]
            if axis is None:
                return None
            axes.add(-1 if node.op in _ON_THE_WAY and node.op not in _SAME_AXES else axis)
        else:
            return None
    if name in g.outputs or not axes:
        return None
    return axes.pop() if len(axes) == 1 else -1


def _less_the_largest(g: Graph, name: str, node: Node, readers: Sequence[Node]) -> int | None:
    """The axis if a node subtracts from a value its largest along one axis, else None."""
    if node.op != "Sub" or node.inputs[0] != name:
        return None
    shape = g.value(name).shape
    most = [n for n in readers if n.op == "ReduceMax" and n.outputs[0] == node.inputs[1]]
    lost = [
        k for k, n in enumerate(shape) if most and n > 1 and g.value(node.inputs[1]).shape[k - len(shape) :][:1] == (1,)
    ]
    return lost[0] if len(lost) == 1 else None


def _masked(g: Graph, node: Node, axis: int) -> bool:
    """Rewrites a node if it is a mask. Returns True if it is."""
    if node.op == "Where":
        condition, a, b = node.inputs
        if g.is_const(a) == g.is_const(b):
            return False
        left_out, x = (a, b) if g.is_const(a) else (b, a)
        data = g.data(left_out)
        assert data is not None
        if data.size == 0 or not np.all(data <= FAR_BELOW):
            return False
        _mask(g, node, x, condition if left_out == a else _not(g, node, condition), axis)
        return True
    for x, m in (node.inputs, node.inputs[::-1]):
        if g.is_const(x):
            continue
        data = g.data(m)
        if data is not None and data.dtype.kind == "f" and np.any(data <= FAR_BELOW) and not np.any(np.isnan(data)):
            _constant(g, node, x, m, data, axis)
            return True
        where = None if data is not None else _left_out(g, node, m)
        if where is not None and g.value(x).shape == g.value(node.outputs[0]).shape:
            _mask(g, node, x, where, axis)
            return True
    return False


def _mask(g: Graph, node: Node, x: str, where: str, axis: int) -> None:
    data = g.data(where)
    if data is not None:
        where = g.new_const(f"{where}.mask", data.astype(np.float32))
    node.op, node.inputs, node.attrs = "Mask", [x, where], {"axis": axis}


def _constant(g: Graph, node: Node, x: str, m: str, data: np.ndarray, axis: int) -> None:
    """A constant may also hold what is to be added elsewhere (a bias by distance)."""
    where = data <= FAR_BELOW
    rest = np.where(where, 0, data)
    if rest.any():
        added = g.new_value(f"{node.outputs[0]}.added", g.value(node.outputs[0]).shape)
        bias = g.new_const(f"{m}.bias", rest.astype(np.float32))
        g.insert_before(node, Node("Add", node.name, [x, bias], [added]))
        x = added
    _mask(g, node, x, g.new_const(f"{m}.where", where.astype(np.float32)), axis)


def _left_out(g: Graph, node: Node, m: str) -> str | None:
    """The name of what is 1 where `m`, an activation, is far below, if it is made to be a mask: else None."""
    producers = g.producers()
    maker = producers.get(m)
    while maker is not None and maker.op in _MOVES:
        maker = producers.get(maker.inputs[0])
    if maker is None or g.value(m).quant is not None:
        return None
    constants = [np.asarray(g.data(i)) for i in maker.inputs if g.is_const(i)]
    made = maker.op in ("Mul", "Where") and any(c.dtype.kind == "f" and np.any(c <= FAR_BELOW) for c in constants)
    if not made:
        return None
    if maker.op == "Where" and len(constants) == 2 and maker.outputs[0] == m:
        condition, a, b = maker.inputs
        low = [bool(np.all(np.asarray(g.data(i)) <= FAR_BELOW)) for i in (a, b)]
        zero = [not np.any(g.data(i)) for i in (a, b)]
        if low[0] and zero[1]:
            return condition
        if zero[0] and low[1]:
            return _not(g, node, condition)
    if maker.op == "Where":  # infinity may stand there, which no integers hold
        maker.inputs = [i if not g.is_const(i) else _finite(g, i) for i in maker.inputs]
    out = g.new_value(f"{m}.left_out", g.value(m).shape, "bool")
    bound = g.new_const(f"{m}.far", np.asarray(FAR_BELOW / 2, np.float32))
    g.insert_before(node, Node("Less", node.name, [m, bound], [out]))
    return out


def _finite(g: Graph, name: str) -> str:
    data = np.asarray(g.data(name))
    if data.dtype.kind != "f" or np.all(data >= 2 * FAR_BELOW):
        return name
    return g.new_const(f"{name}.finite", np.maximum(data, np.float32(2 * FAR_BELOW)).astype(np.float32))


def _not(g: Graph, node: Node, condition: str) -> str:
    data = g.data(condition)
    if data is not None:
        return g.new_const(f"{condition}.not", np.logical_not(data))
    out = g.new_value(f"{condition}.not", g.value(condition).shape, "bool")
    g.insert_before(node, Node("Not", node.name, [condition], [out]))
    return out
