"""Trees whose leaves are given other numbers, and several forests as one."""

from collections.abc import Sequence

import numpy as np

from mica.ir.forest import Forest


def before(t: np.ndarray) -> np.ndarray:
    """The largest float32 below each number, as float64."""
    return np.nextafter(t.astype(np.float32), np.float32(-np.inf)).astype(np.float64)


def of_steps(column: int, steps: np.ndarray) -> Forest:
    """The tree that asks which interval a feature is in: x <= steps[0], x <= steps[1] .. [K]. K + 1 leaves, in order, that add nothing."""
    k = len(steps)
    inner = np.arange(k)
    leaf = np.zeros(k + 1, np.int64)
    return Forest(
        column=np.concatenate([np.full(k, column), leaf - 1]).astype(np.int64),
        threshold=np.concatenate([steps, leaf]).astype(np.float64),
        yes=np.concatenate([k + inner, leaf]),
        no=np.concatenate([np.where(inner + 1 < k, inner + 1, 2 * k), leaf]),
        missing=np.zeros(2 * k + 1, bool),
        entry=np.zeros(2 * k + 2, np.int64),
        target=np.zeros(0, np.int64),
        value=np.zeros(0),
        roots=np.zeros(1, np.int64),
        bias=np.zeros(1),
    )


def leaf_values(f: Forest) -> np.ndarray:
    """What a tree answers in each of its leaves, in the order of its nodes: float64 [leaves, N]."""
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
    nodes = np.cumsum([0, *(len(f.column) for f in forests)])[:-1]
    entries = np.cumsum([0, *(len(f.value) for f in forests)])

    def all_of(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(parts))

    return Forest(
        column=all_of([f.column for f in forests]),
        threshold=all_of([f.threshold for f in forests]),
        yes=all_of([f.yes + n for f, n in zip(forests, nodes, strict=True)]),
        no=all_of([f.no + n for f, n in zip(forests, nodes, strict=True)]),
        missing=all_of([f.missing for f in forests]),
        entry=all_of([*(f.entry[:-1] + e for f, e in zip(forests, entries, strict=False)), entries[-1:]]),
        target=all_of([f.target + t for f, t in zip(forests, first, strict=True)]),
        value=all_of([f.value for f in forests]),
        roots=all_of([f.roots + n for f, n in zip(forests, nodes, strict=True)]),
        bias=bias,
        equal=any(f.equal for f in forests),
    )


def summed(forests: Sequence[Forest]) -> Forest:
    return _together(forests, [0] * len(forests), np.sum([f.bias for f in forests], axis=0))


def joined(forests: Sequence[Forest]) -> Forest:
    """Their answers one behind the other."""
    first = np.cumsum([0, *(len(f.bias) for f in forests)])[:-1]
    return _together(forests, first.tolist(), np.concatenate([f.bias for f in forests]))
