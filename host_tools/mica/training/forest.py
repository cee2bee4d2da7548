"""A forest of decision trees, grown on samples with repetition; Breiman's, with Gini's index."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mica.training.layers import Array, Rng

LEAST = 2  # examples of a leaf


@dataclass
class Tree:
    """Nodes by number, the first is the root. column: -1 for a leaf. share: of each label among its examples."""

    column: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    yes: list[int] = field(default_factory=list)
    no: list[int] = field(default_factory=list)
    share: list[Array] = field(default_factory=list)

    def grow(self, x: Array, y: Array, labels: int, depth: int, rng: Rng) -> int:
        """Add a node for these examples, with all below it; returns its number."""
        here = len(self.column)
        counts = np.bincount(y, minlength=labels)
        self.column.append(-1)
        self.threshold.append(0.0)
        self.yes.append(0)
        self.no.append(0)
        self.share.append(counts / len(y))
        if depth == 0 or len(y) < 2 * LEAST or counts.max() == len(y):
            return here
        columns = rng.permutation(x.shape[1])
        tried = max(1, round(np.sqrt(len(columns))))
        found = [s for s in (_split(x[:, c], y, labels, int(c)) for c in columns[:tried]) if s]
        found = found or [s for s in (_split(x[:, c], y, labels, int(c)) for c in columns[tried:]) if s]
        if found:
            _, self.column[here], self.threshold[here] = min(found)
            low = x[:, self.column[here]] <= self.threshold[here]
            self.yes[here] = self.grow(x[low], y[low], labels, depth - 1, rng)
            self.no[here] = self.grow(x[~low], y[~low], labels, depth - 1, rng)
        return here


def _split(values: Array, y: Array, labels: int, column: int) -> tuple[float, int, float] | None:
    """Return the best question of a column: (impurity behind it, column, threshold); None where there is none."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    low = np.cumsum(np.eye(labels)[y[order]], axis=0)[:-1]
    n = np.arange(1, len(v))
    high = low[-1] + np.eye(labels)[y[order[-1]]] - low
    impurity = n - (low**2).sum(axis=1) / n + (len(v) - n) - (high**2).sum(axis=1) / (len(v) - n)
    impurity[(v[1:] <= v[:-1]) | (n < LEAST) | (len(v) - n < LEAST)] = np.inf
    k = int(np.argmin(impurity))
    if not np.isfinite(impurity[k]):
        return None
    middle = np.float32((v[k] + v[k + 1]) / 2)
    return float(impurity[k]), column, float(middle if v[k] <= middle < v[k + 1] else v[k])


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
    column, threshold = np.array(tree.column), np.array(tree.threshold, np.float32)
    yes, no, share = np.array(tree.yes), np.array(tree.no), np.array(tree.share)
    at = np.zeros(len(x), int)
    while (inner := column[at] >= 0).any():
        low = x[np.arange(len(x)), np.maximum(column[at], 0)] <= threshold[at]
        at = np.where(inner, np.where(low, yes[at], no[at]), at)
    return share[at]
