"""The confusion matrix of a top1 score, and each class's figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_CLASSES = 256  # a matrix of more would be a megabyte of JSON


@dataclass(frozen=True)
class Confusion:
    """counts: int64 [classes, classes], samples of class i that were answered with class j."""

    counts: np.ndarray

    def figures(self, names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """For each class: samples, recall (share of its samples with the right answer), precision (share of its answers
        that are right); None where there are no samples, or no answers. names: of the classes; their numbers otherwise."""
        right = np.diag(self.counts)
        samples, answers = self.counts.sum(axis=1), self.counts.sum(axis=0)
        return [
            {
                "class": names[k] if k < len(names) else str(k),
                "samples": int(samples[k]),
                "recall": float(right[k] / samples[k]) if samples[k] else None,
                "precision": float(right[k] / answers[k]) if answers[k] else None,
            }
            for k in range(len(self.counts))
        ]

    def mistakes(self, most: int) -> list[tuple[int, int, int]]:
        """(class, answer, how often) of the most frequent wrong answers."""
        wrong = self.counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = [divmod(int(k), len(wrong)) for k in order]
        return [(i, j, int(wrong[i, j])) for i, j in pairs if wrong[i, j]]


def confusion(labels: np.ndarray, answers: np.ndarray, classes: int = 0) -> Confusion:
    """labels, answers: whole numbers [n] from 0 on. classes: at least so many rows."""
    true, found = labels.reshape(-1).astype(np.int64), np.maximum(answers.reshape(-1), 0).astype(np.int64)
    n = max(classes, int(true.max(initial=0)) + 1, int(found.max(initial=0)) + 1)
    return Confusion(np.bincount(true * n + found, minlength=n * n).reshape(n, n))
