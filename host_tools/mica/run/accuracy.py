"""Accuracy of a model on labelled data, with its confusion matrix, and the float model beside it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mica.file import scores
from mica.run import evaluation, given, pictures
from mica.run.confusion import MOST_CLASSES, confusion
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
    """The keys of `mica eval --json`. warn: is called for data far outside of the input's range. seen: where the data is bytes of pictures."""

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
