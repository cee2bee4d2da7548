#!/usr/bin/env python3
"""scikit-learn pipelines of a scaler and a multilayer perceptron, exported by skl2onnx: exports/sklearn_*.onnx.

The results are committed; neither mica nor its tests need this script or scikit-learn. To run it again (seconds):

    python3.11 -m venv /tmp/sklearn
    /tmp/sklearn/bin/pip install scikit-learn==1.9.1 skl2onnx==1.20.0 onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6
    /tmp/sklearn/bin/python tests/models/make_sklearn.py

Same machine and same versions give the same bytes. The data sets (wine, breast cancer, diabetes) come with
scikit-learn; the test samples are not among the training samples.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import exporting
import numpy as np
import onnx
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

SEED = 3
PACKAGES = ("scikit-learn", "skl2onnx", "onnx", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Case:
    """options go to convert_sklearn, by the name of the estimator's step."""

    name: str
    load: Callable[..., tuple[np.ndarray, np.ndarray]]
    scaler: BaseEstimator
    estimator: BaseEstimator
    opset: int
    options: dict[str, object] = field(default_factory=dict)
    target_scale: float = 1.0
    note: str = ""


def classifier(hidden: tuple[int, ...], activation: str) -> MLPClassifier:
    return MLPClassifier(hidden, activation=activation, max_iter=300, random_state=SEED)


CASES = (
    Case(
        "classifier",
        load_wine,
        StandardScaler(),
        classifier((16, 8), "relu"),
        17,
        {"zipmap": False},
        note="three classes, `zipmap=False`",
    ),
    Case(
        "classifier_zipmap",
        load_wine,
        MinMaxScaler(),
        classifier((12,), "tanh"),
        15,
        note="as exported by default: the probabilities leave as a list of {class: value}",
    ),
    Case(
        "classifier_binary",
        load_breast_cancer,
        StandardScaler(),
        classifier((10,), "logistic"),
        18,
        {"zipmap": False},
        note="two classes",
    ),
    Case(
        "regressor",
        load_diabetes,
        MinMaxScaler((-1, 1)),
        MLPRegressor(hidden_layer_sizes=(16, 8), activation="relu", alpha=1.0, max_iter=400, random_state=SEED),
        17,
        target_scale=1 / 100,
    ),
    Case(
        "regressor_tanh",
        load_diabetes,
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(12,), activation="tanh", alpha=3.0, max_iter=400, random_state=SEED),
        13,
        target_scale=1 / 100,
    ),
)


def make(case: Case, out: Path) -> None:
    x, y = case.load(return_X_y=True)
    if case.target_scale != 1:
        y = y * case.target_scale
    x = x.astype(np.float32)
    shuffled = np.random.default_rng(SEED).permutation(len(x))
    test, fit = shuffled[: exporting.TEST_SAMPLES], shuffled[exporting.TEST_SAMPLES :]
    calibration = fit[: exporting.CALIBRATION_SAMPLES]
    pipeline = make_pipeline(case.scaler, case.estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not trained to the end
        pipeline.fit(x[fit], y[fit])
    answers = [pipeline.predict(x[test])]
    if isinstance(case.estimator, MLPClassifier):
        answers = [answers[0].astype(np.int64), pipeline.predict_proba(x[test]).astype(np.float32)]
        quality = f"{int((answers[0] == y[test]).sum())} of {len(test)} right"
    else:
        answers = [answers[0].astype(np.float32)[:, None]]
        quality = f"R2 {pipeline.score(x[test], y[test]):.2f}"
    print(f"{case.name}: {quality}", flush=True)

    model = convert_sklearn(
        pipeline,
        name=case.name,
        initial_types=[("x", FloatTensorType([None, x.shape[1]]))],
        options={id(case.estimator): case.options} if case.options else None,
        target_opset={"": case.opset, "ai.onnx.ml": 3},
    )
    path = out / f"sklearn_{case.name}.onnx"
    onnx.save(model, path)
    about = {
        "exporter": f"scikit-learn {version('scikit-learn')}, skl2onnx {version('skl2onnx')}",
        "versions": {package: version(package) for package in PACKAGES},
        "note": ", ".join(t for t in (type(case.scaler).__name__, type(case.estimator).__name__, case.note) if t),
    }
    truth = dict(zip((o.name for o in model.graph.output), answers, strict=True))
    exporting.finish(path, {"x": x[calibration]}, {"x": x[test]}, truth, about)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train and export the scikit-learn pipelines.")
    parser.add_argument("--out", type=Path, default=exporting.OUT, help="folder for the files (default: %(default)s)")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        make(case, out)
    exporting.write_readme(out)


if __name__ == "__main__":
    main()
