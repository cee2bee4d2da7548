"""Copies with strides: what Transpose, Remap and StridedCopy are alike, as numbers that can be composed.

The output of each, in its row-major order, is y[i] = x[begin + sum(digit_j(i) * stride_j)], where the digits of i
count in the bases n_j, the last one fastest. Two of them in a row are one again, unless the second cuts across the
first's digits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mica.format.schema import MAX_RANK
from mica.ir.graph import Graph, Node

# (begin, ((n, step), ...)): index i of an axis of y reads index begin + sum(digit_j(i) * step_j) of the same axis of x.
AxisMap = tuple[int, tuple[tuple[int, int], ...]]

OPS = ("Transpose", "Remap", "StridedCopy")


@dataclass(frozen=True)
class StridedCopy:
    """`places` are (n, stride), outermost first; strides count elements of x."""

    begin: int
    places: tuple[tuple[int, int], ...]

    @property
    def fits(self) -> bool:
        """True if move_s8 can do it in one step."""
        return len(self.places) <= MAX_RANK


def same(n: int) -> AxisMap:
    """An axis as it is."""
    return 0, ((n, 1),)


def length(axis: AxisMap) -> int:
    """Elements of y along an axis."""
    return math.prod(n for n, _ in axis[1])


def axis_indices(axis: AxisMap) -> np.ndarray:
    """Index of x for each index of y."""
    at = np.array(axis[0], np.int64)
    for n, step in axis[1]:
        at = np.add.outer(at, np.arange(n) * step)
    return at.reshape(-1)


def as_axis_map(indices: Sequence[int] | np.ndarray) -> AxisMap | None:
    """The digits that make these indices: runs of constant step, which repeat in runs of constant step, and so on."""
    i = np.asarray(indices, np.int64)
    if len(i) == 1:
        return int(i[0]), ((1, 0),)
    steps = np.diff(i)
    other = np.flatnonzero(steps != steps[0])
    run = int(other[0]) + 1 if len(other) else len(i)
    if len(i) % run:
        return None
    rows = i.reshape(-1, run)
    if not np.array_equal(rows, rows[:, :1] + np.arange(run) * steps[0]):
        return None
    inner = (run, int(steps[0]))
    if len(rows) == 1:
        return int(i[0]), (inner,)
    outer = as_axis_map(rows[:, 0])
    return None if outer is None else (outer[0], (*outer[1], inner))


def simplify(m: StridedCopy) -> StridedCopy:
    """Without digits of one value, neighbours that run on merged."""
    places: list[tuple[int, int]] = []
    for n, stride in m.places:
        if n == 1:
            continue
        if places and places[-1][1] == n * stride:
            places[-1] = (places[-1][0] * n, stride)
        else:
            places.append((n, stride))
    return StridedCopy(m.begin, tuple(places))


def read(g: Graph, node: Node) -> StridedCopy:
    """A Transpose, Remap, StridedCopy or Reshape as a strided copy."""
    shape = g.value(node.inputs[0]).shape
    weights = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    if node.op == "Transpose":
        return simplify(StridedCopy(0, tuple((shape[p], weights[p]) for p in node.attrs["perm"])))
    if node.op == "Remap":
        axes: Sequence[AxisMap] = node.attrs["axes"]
        begin = sum(axis[0] * w for axis, w in zip(axes, weights, strict=True))
        places = tuple((n, step * w) for axis, w in zip(axes, weights, strict=True) for n, step in axis[1])
        return simplify(StridedCopy(begin, places))
    if node.op == "StridedCopy":
        return simplify(StridedCopy(node.attrs["begin"], node.attrs["places"]))
    return simplify(StridedCopy(0, ((math.prod(shape), 1),)))


def compose(first: StridedCopy, second: StridedCopy) -> StridedCopy | None:
    """One move for `second` of the output of `first`; None if it cuts across the digits of `first`."""
    sizes = [n for n, _ in first.places]
    weights = [math.prod(sizes[j + 1 :]) for j in range(len(sizes))]
    low = [second.begin // w % n for w, n in zip(weights, sizes, strict=True)]
    high = list(low)
    begin = first.begin + sum(d * s for d, (_, s) in zip(low, first.places, strict=True))
    places: list[tuple[int, int]] = []
    pending = list(reversed(second.places))
    while pending:
        n, stride = pending.pop()
        if stride == 0 or n == 1:
            places.append((n, 0))
            continue
        j = next((j for j, w in enumerate(weights) if stride % w == 0), None)
        if j is None:
            return None
        step = stride // weights[j]
        room, over = divmod(sizes[j], abs(step))
        if (n - 1) * abs(step) >= sizes[j] and room > 1 and not over and n % room == 0:
            pending += [(room, stride), (n // room, stride * room)]  # it runs over into the next digit: two digits
            continue
        if step > 0:
            high[j] += (n - 1) * step
        else:
            low[j] += (n - 1) * step
        places.append((n, step * first.places[j][1]))
    if any(lo < 0 or hi >= n for lo, hi, n in zip(low, high, sizes, strict=True)):
        return None
    return simplify(StridedCopy(begin, tuple(places)))
