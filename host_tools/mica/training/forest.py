"""A forest of decision trees, grown on samples with repetition; Breiman's, with Gini's index."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mica.training.layers import Array, Rng

LEAST = 2  # examples of a leaf


@dataclass
class Tree:
    """Nodes by number, the first is the root: a column (-1 for a leaf), a threshold, and the next nodes for at most it
    and for more. share: of each label among a node's examples."""

    nodes: list[tuple[float, ...]] = field(default_factory=list)
    share: list[Array] = field(default_factory=list)

    def grow(self, x: Array, y: Array, labels: int, depth: int, rng: Rng) -> int:
        """Add a node for these examples, with all below it; returns its number."""
        here = len(self.nodes)
        counts = np.bincount(y, minlength=labels)
        self.nodes.append((-1, 0, 0, 0))
        self.share.append(counts / len(y))
        if depth == 0 or len(y) < 2 * LEAST or counts.max() == len(y):
            return here
        columns = rng.permutation(x.shape[1])
        tried = max(1, round(np.sqrt(len(columns))))
        for some in (columns[:tried], columns[tried:]):  # all others where the first have no question
            if len(some) and (found := _question(x[:, some], y, labels)):
                low = x[:, some[found[0]]] <= found[1]
                below = [self.grow(x[rows], y[rows], labels, depth - 1, rng) for rows in (low, ~low)]
                self.nodes[here] = (int(some[found[0]]), found[1], *below)
                break
        return here


def _question(x: Array, y: Array, labels: int) -> tuple[int, float] | None:
    """Return the column of the best question, and its threshold; None where there is none."""
    order = np.argsort(x, axis=0, kind="stable")
    v = np.take_along_axis(x, order, axis=0)
    low = np.cumsum(np.eye(labels)[y[order]], axis=0)
    low, high, n = low[:-1], (low[-1] - low)[:-1], np.arange(1, len(v))[:, None]
    impurity = len(v) - (low**2).sum(axis=2) / n - (high**2).sum(axis=2) / (len(v) - n)
    impurity[(v[1:] <= v[:-1]) | (n < LEAST) | (len(v) - n < LEAST)] = np.inf
    k, c = np.unravel_index(np.argmin(impurity), impurity.shape)
    if not np.isfinite(impurity[k, c]):
        return None
    middle = np.float32((v[k, c] + v[k + 1, c]) / 2)
    return int(c), float(middle if v[k, c] <= middle < v[k + 1, c] else v[k, c])


class Forest:
    """Trees whose shares are averaged."""

    def __init__(self, trees: list[Tree]) -> None:
        self.trees = trees

    @classmethod
    def grown(cls, x: Array, y: Array, labels: int, size: tuple[int, ...], seed: int) -> Forest:
        """Grow a forest on examples [n, columns], each label with the same weight in every sample. size: trees, and
        their depth."""
        trees, depth = size
        counts = np.bincount(y, minlength=labels)
        weight = 1 / counts[y]
        found = []
        for k in range(trees):
            rng = np.random.default_rng((seed, k))
            rows = rng.choice(len(y), len(y), p=weight / weight.sum())
            tree = Tree()
            tree.grow(x[rows], y[rows], labels, depth, rng)
            found.append(tree)
        return cls(found)

    def probabilities(self, x: Array) -> Array:
        """Return float32 [n, labels]."""
        return np.asarray(np.mean([_answers(tree, x) for tree in self.trees], axis=0), np.float32)


def _answers(tree: Tree, x: Array) -> Array:
    nodes = np.array(tree.nodes)
    column, low, high = nodes[:, (0, 2, 3)].T.astype(int)
    at = np.zeros(len(x), int)
    while (inner := column[at] >= 0).any():
        fewer = x[np.arange(len(x)), np.maximum(column[at], 0)] <= nodes[at, 1]
        at = np.where(inner, np.where(fewer, low[at], high[at]), at)
    return np.array(tree.share)[at]
