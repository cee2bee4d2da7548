"""Trees whose leaves are given other numbers, and several forests as one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mica.ir.forest import Forest


def before(t: np.ndarray) -> np.ndarray:
    """The largest float32 below each number, as float64."""
    return np.nextafter(t.astype(np.float32), np.float32(-np.inf)).astype(np.float64)


def step_forest(column: int, steps: np.ndarray) -> Forest:
    """The tree that asks which interval a feature is in: x <= steps[0], x <= steps[1] .. [K].
    K + 1 leaves, in order, that add nothing."""
    k = len(steps)
    yes, no = (np.zeros(2 * k + 1, np.int64) for _ in range(2))
    todo = [(0, k)] * (k > 0)
    while todo:  # the question in the middle of its steps; leaves stand behind all questions
        low, high = todo.pop()
        at = (low + high) // 2
        for table, first, end in ((yes, low, at), (no, at + 1, high)):
            table[at] = k + first if first == end else (first + end) // 2
            todo += [(first, end)] * (first < end)
    columns = np.where(np.arange(2 * k + 1) < k, column, -1)
    threshold, nothing = np.concatenate([steps, np.zeros(k + 1)]), np.zeros(0)
    return Forest(
        columns, threshold, yes, no, np.zeros(2 * k + 1, bool), np.zeros(2 * k + 2, np.int64), nothing.astype(np.int64),
        nothing,
        np.array([k // 2]), np.zeros(1),
    )  # fmt: skip


def leaf_values(f: Forest) -> np.ndarray:
    """The answers of a tree, float64 [leaves, N], its leaves in the order of its nodes."""
    leaves = np.flatnonzero(f.column < 0)
    values = np.repeat(f.bias[None], len(leaves), 0)
    for row, at in zip(values, leaves, strict=True):
        part = slice(int(f.entry[at]), int(f.entry[at + 1]))
        np.add.at(row, f.target[part], f.value[part])
    return values


def with_values(f: Forest, values: np.ndarray) -> Forest:
    """The same tree with other answers: values [leaves, ...], in the order of its nodes."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    leaves = np.flatnonzero(f.column < 0)
    counts = np.zeros(len(f.column), np.int64)
    counts[leaves] = (rows != 0).sum(axis=1)
    return Forest(
        f.column, f.threshold, f.yes, f.no, f.missing, np.concatenate([[0], np.cumsum(counts)]), np.nonzero(rows)[1],
        rows[rows != 0], f.roots, np.zeros(rows.shape[1]), f.equal,
    )  # fmt: skip


def _together(forests: Sequence[Forest], first: Sequence[int], bias: np.ndarray) -> Forest:
    """All trees; first: where the numbers of each forest begin in the result."""
    nodes = np.cumsum([0, *(len(f.column) for f in forests)])
    moved = [
        replace(f, yes=f.yes + n, no=f.no + n, roots=f.roots + n, target=f.target + t)
        for f, n, t in zip(forests, nodes[:-1], first, strict=True)
    ]
    names = ("column", "threshold", "yes", "no", "missing", "target", "value", "roots")
    parts = {name: np.concatenate([getattr(f, name) for f in moved]) for name in names}
    entry = np.cumsum(np.concatenate([[0], *(np.diff(f.entry) for f in forests)])).astype(np.int64)
    return Forest(**parts, entry=entry, bias=bias, equal=any(f.equal for f in forests))


def summed(forests: Sequence[Forest]) -> Forest:
    return _together(forests, [0] * len(forests), np.sum([f.bias for f in forests], axis=0))


def joined(forests: Sequence[Forest]) -> Forest:
    """Their answers one behind the other."""
    first = np.cumsum([0, *(len(f.bias) for f in forests)])[:-1]
    return _together(forests, first.tolist(), np.concatenate([f.bias for f in forests]))


def bounds(f: Forest) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest of each number that trees can give; of several trees at most that far out."""
    if len(f.roots) == 1:
        values = leaf_values(f)
        return values.min(axis=0), values.max(axis=0)
    low, high = (np.bincount(f.target, bound(f.value, 0.0), len(f.bias)) for bound in (np.minimum, np.maximum))
    return f.bias + low, f.bias + high
