"""Accuracy of a model on labelled data, with its confusion matrix, and the float model beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.file import scores
from mica.run import evaluation, given, pictures
from mica.run.evaluation import Dataset, Score
from mica.run.float_model import FloatModel
from mica.run.runner import Runner

Progress = Callable[[str, int, int], None]  # (what, done, of)


def compare(
    data: Dataset,
    runner: Runner,
    float_model: FloatModel | None,
    progress: Progress,
    warn: Callable[[str], None],
    seen: pictures.PictureInput | None = None,
) -> dict[str, Any]:
    """The keys of `mica eval --json`. warn: is called for data far outside of the input's range.
    seen: where the data is bytes of pictures."""

    data = evaluation.for_model(data, runner.model)
    place, threshold = evaluation.decision(runner.model, data)
    shape = runner.model.tensors[runner.model.inputs[0]].dims

    def score_of(predict: evaluation.Predict, what: str) -> Score:
        return evaluation.evaluate(data, shape, predict, lambda done, of: progress(what, done, of), threshold)

    def predict(x: np.ndarray) -> np.ndarray:
        return runner.predict(seen.quantised(x) if seen else x, place)

    def predict_float(x: np.ndarray) -> np.ndarray:
        assert float_model is not None
        return float_model.predict(seen.real(x) if seen else x, place)

    if seen is None:
        for line in given.saturating(runner.model, [data.x]):
            warn(line)
    score = score_of(predict, f"evaluating on {runner.target}")
    result: dict[str, Any] = {
        "target": runner.target,
        "metric": score.metric,
        "value": score.value,
        "samples": len(data),
        "inferences": score.inferences,
        "float_value": None,
        "agreement": None,
        "confusion": None,
        "classes": None,
    }
    if score.metric == "top1":
        found = confusion(data.y, score.decisions, evaluation.class_count(runner.model))
        names = scores.labels(runner.model)
        result["classes"] = found.figures(names if len(names) == len(found.counts) else ())
        if len(found.counts) <= MOST_CLASSES:
            result["confusion"] = found.counts.tolist()
    if float_model is not None:
        reference = score_of(predict_float, "evaluating the float model")
        result["float_value"] = reference.value
        result["agreement"] = evaluation.agreement(score, reference)
    return result


MOST_CLASSES = 256  # a matrix of more would be a megabyte of JSON


@dataclass(frozen=True)
class Confusion:
    """counts: int64 [classes, classes], samples of class i that were answered with class j."""

    counts: np.ndarray

    def figures(self, names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """For each class: samples, recall (share of its samples with the right answer), precision (share of its answers
        that are right); None if there are no samples, or no answers. names: of the classes; their numbers otherwise."""
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
