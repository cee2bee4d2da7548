"""An ensemble of decision trees: what ONNX-ML's TreeEnsemble operators mean, with one kind of question."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)  # equal to itself alone: two forests are not looked through
class Forest:
    """Nodes of all trees in one table; node i asks whether x[column[i]] <= threshold[i],
    or is a leaf where column[i] < 0.

    column int64 [n]; threshold float64 [n]; yes, no int64 [n]: the nodes that follow;
    missing bool [n]: whether a NaN counts as yes. A leaf has the entries entry[i] to entry[i + 1] - 1 (entry int64 [n +
    1]) of target int64 [e] and value float64 [e]: what it adds to which number of the result. roots int64 [trees];
    bias float64 [N]: what the numbers begin with.
    equal: some nodes stand for the question whether a feature is one of some values, of which a NaN is none.
    """

    column: np.ndarray
    threshold: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    missing: np.ndarray
    entry: np.ndarray
    target: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    bias: np.ndarray
    equal: bool = False

    @property
    def learnt(self) -> bool:
        """The trees know which way a missing feature goes."""
        return self.equal or bool(self.missing.any())

    @property
    def columns(self) -> int:
        """Least length of a row."""
        return int(self.column.max(initial=0)) + 1

    def reached(self, row: np.ndarray) -> np.ndarray:
        """The leaf of each tree, int64 [trees], for one row of features."""
        at = self.roots.copy()
        while len(inner := np.flatnonzero(self.column[at] >= 0)):
            here = at[inner]
            x = row[self.column[here]]
            yes = np.where(np.isnan(x), self.missing[here], x <= self.threshold[here])
            at[inner] = np.where(yes, self.yes[here], self.no[here])
        return at

    def run(self, x: np.ndarray) -> np.ndarray:
        """[..., C] -> float64 [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        y = np.repeat(self.bias[None], len(rows), 0)
        for row, sums in zip(rows, y, strict=True):
            leaves = self.reached(row)
            counts = self.entry[leaves + 1] - self.entry[leaves]
            inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            which = np.repeat(self.entry[leaves], counts) + inside
            np.add.at(sums, self.target[which], self.value[which])
        return y.reshape(*x.shape[:-1], len(self.bias))
