#!/usr/bin/env python3
"""Trees and other classic models of scikit-learn, XGBoost and LightGBM, as their exporters write them: classic/*.onnx.

Beside each file lies an .npz: `x`, calibration samples (of the training data);
`test/x` and `test/y`, samples that neither training nor calibration saw, and what is true of them (labels,
or the target of a regressor). The data sets come with scikit-learn.

The results are committed; neither mica nor its tests need this script or these packages. To run it again (a minute):

    python3.11 -m venv /tmp/classic
    /tmp/classic/bin/pip install scikit-learn==1.9.1 skl2onnx==1.20.0 xgboost==3.2.0 lightgbm==4.7.0 onnxmltools==1.16.0
    /tmp/classic/bin/python tests/models/make_classic.py
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from lightgbm import LGBMClassifier, LGBMRegressor
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as RowType
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.multiclass import OneVsOneClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, LocalOutlierFactor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

OUT = Path(__file__).resolve().parent / "classic"
CALIBRATION = 64
MOST_TESTS = 200
SEED = 1


@dataclass(frozen=True)
class Case:
    """missing: the share of features that are NaN. names: names of the classes, in place of numbers.

    detector: it is trained on class 1 alone, and tells it (1) from all others (-1).
    """

    name: str
    data: str
    model: Any
    convert: str = "sklearn"
    missing: float = 0.0
    names: Sequence[str] = ()
    zipmap: bool = False
    detector: bool = False


ISOTONIC = make_pipeline(StandardScaler(), LogisticRegression())
RANKED = ColumnTransformer([("kinds", OrdinalEncoder(), [1])], remainder="passthrough")
COLUMNS = ColumnTransformer(
    [
        ("scaled", StandardScaler(), [0, 6, 9, 12]),
        ("kinds", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [4]),
    ]
)
CASES = (
    Case("tree", "iris", DecisionTreeClassifier(random_state=SEED), names=("setosa", "versicolor", "virginica")),
    Case("forest", "digits", RandomForestClassifier(8, max_depth=8, random_state=SEED)),
    Case("forest_binary", "breast_cancer", RandomForestClassifier(20, max_depth=6, random_state=SEED)),
    Case("forest_zipmap", "wine", ExtraTreesClassifier(20, max_depth=6, random_state=SEED), zipmap=True),
    Case("forest_regressor", "diabetes", RandomForestRegressor(20, max_depth=6, random_state=SEED)),
    Case(
        "forest_scaled",
        "wine",
        make_pipeline(StandardScaler(), RandomForestClassifier(12, max_depth=5, random_state=SEED)),
    ),
    Case(
        "forest_imputed",
        "breast_cancer",
        make_pipeline(SimpleImputer(), RandomForestClassifier(12, max_depth=5, random_state=SEED)),
        missing=0.1,
    ),
    Case("boosting", "wine", GradientBoostingClassifier(n_estimators=12, random_state=SEED)),
    Case("boosting_binary", "breast_cancer", GradientBoostingClassifier(n_estimators=30, random_state=SEED)),
    Case("boosting_regressor", "diabetes", GradientBoostingRegressor(n_estimators=40, random_state=SEED)),
    Case("xgboost", "wine", XGBClassifier(n_estimators=12, max_depth=4), "xgboost"),
    Case("xgboost_missing", "breast_cancer", XGBClassifier(n_estimators=20, max_depth=4), "xgboost", missing=0.1),
    Case("xgboost_regressor", "diabetes", XGBRegressor(n_estimators=20, max_depth=4), "xgboost"),
    Case("lightgbm", "wine", LGBMClassifier(n_estimators=12, verbose=-1), "lightgbm"),
    Case("lightgbm_missing", "breast_cancer", LGBMClassifier(n_estimators=20, verbose=-1), "lightgbm", missing=0.1),
    Case("lightgbm_regressor", "diabetes", LGBMRegressor(n_estimators=20, verbose=-1), "lightgbm"),
    Case("logistic", "wine", make_pipeline(StandardScaler(), LogisticRegression())),
    Case("logistic_raw", "wine", LogisticRegression(max_iter=5000)),
    Case("logistic_binary", "breast_cancer", make_pipeline(StandardScaler(), LogisticRegression())),
    Case("logistic_imputed", "wine", make_pipeline(SimpleImputer(), LogisticRegression(max_iter=5000)), missing=0.05),
    Case("logistic_normalised", "iris", make_pipeline(Normalizer(), LogisticRegression(C=50))),
    Case("linear_regressor", "diabetes", LinearRegression()),
    Case("picked", "wine", make_pipeline(SelectKBest(k=6), StandardScaler(), LogisticRegression())),
    Case("columns", "wine", make_pipeline(COLUMNS, LogisticRegression())),
    Case("ridge", "iris", RidgeClassifier()),
    Case("svm", "wine", make_pipeline(StandardScaler(), SVC())),
    Case("bayes", "iris", GaussianNB()),
    Case("bayes_raw", "wine", GaussianNB()),
    Case("bayes_counts", "digits", MultinomialNB()),
    Case("neighbours", "wine", make_pipeline(StandardScaler(), KNeighborsClassifier())),
    Case("neighbours_manhattan", "breast_cancer", KNeighborsClassifier(7, metric="manhattan")),
    Case("neighbours_regressor", "diabetes", KNeighborsRegressor(10)),
    Case("neighbours_weighted", "diabetes", KNeighborsRegressor(10, weights="distance")),
    Case("svm_polynomial", "breast_cancer", make_pipeline(StandardScaler(), SVC(kernel="poly", coef0=1))),
    Case(
        "svm_probabilities", "breast_cancer", make_pipeline(StandardScaler(), SVC(probability=True, random_state=SEED))
    ),
    Case("kernel_pca", "wine", make_pipeline(StandardScaler(), KernelPCA(4, kernel="rbf"), LogisticRegression())),
    Case(
        "kernel_pca_polynomial",
        "wine",
        make_pipeline(StandardScaler(), KernelPCA(4, kernel="poly", degree=2), LogisticRegression()),
    ),
    Case("gauss_regressor", "diabetes", GaussianProcessRegressor(1.0 * Matern(0.1), alpha=0.3, normalize_y=True)),
    Case("outliers", "wine", make_pipeline(StandardScaler(), LocalOutlierFactor(10, novelty=True)), detector=True),
    Case("svm_regressor", "diabetes", make_pipeline(StandardScaler(), SVR(C=50))),
    Case("isotonic", "breast_cancer", CalibratedClassifierCV(ISOTONIC, method="isotonic", cv=2)),
    Case("one_vs_one", "wine", make_pipeline(StandardScaler(), OneVsOneClassifier(LogisticRegression()))),
    Case("quantile", "wine", make_pipeline(QuantileTransformer(n_quantiles=20), LogisticRegression())),
    Case(
        "quantile_imputed",
        "wine",
        make_pipeline(SimpleImputer(), QuantileTransformer(n_quantiles=20), LogisticRegression()),
        missing=0.1,
    ),
    Case("adaboost", "wine", AdaBoostClassifier(n_estimators=10, random_state=SEED)),
    Case("bins", "wine", make_pipeline(KBinsDiscretizer(5, encode="onehot-dense"), LogisticRegression())),
    Case("bins_ordinal", "wine", make_pipeline(KBinsDiscretizer(5, encode="ordinal"), LogisticRegression())),
    Case(
        "isolation", "breast_cancer", IsolationForest(n_estimators=10, max_samples=64, random_state=SEED), detector=True
    ),
    Case("one_class", "breast_cancer", make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)), detector=True),
    Case("ordinal", "diabetes", make_pipeline(RANKED, GradientBoostingRegressor(n_estimators=20, random_state=SEED))),
    Case("ordinal_ridge", "diabetes", make_pipeline(RANKED, StandardScaler(), Ridge())),
    Case("polynomial", "diabetes", make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge(alpha=50))),
    Case("power", "diabetes", make_pipeline(make_union(PowerTransformer(), StandardScaler()), Ridge(alpha=10))),
    Case(
        "columns_passed",
        "wine",
        make_pipeline(
            ColumnTransformer(
                [("bins", KBinsDiscretizer(4, encode="ordinal"), [1, 4, 9]), ("scaled", StandardScaler(), [0, 2])],
                remainder="passthrough",
            ),
            StandardScaler(),
            LogisticRegression(),
        ),
    ),
    Case("power_positive", "wine", make_pipeline(PowerTransformer("box-cox"), LogisticRegression())),
)


def samples(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """All of the data set in an order of our own, float32 [n, F] and labels or targets [n]."""
    load: Callable[..., tuple[np.ndarray, np.ndarray]] = getattr(datasets, f"load_{case.data}")
    x, y = load(return_X_y=True)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(x))
    x, y = x[order].astype(np.float32), y[order]
    x[rng.random(x.shape) < case.missing] = np.nan
    return x, np.array([case.names[k] for k in y]) if case.names else y


def make(case: Case, out: Path) -> None:
    x, y = samples(case)
    tests = min(len(x) // 3, MOST_TESTS)
    y = np.where(y == 1, 1, -1) if case.detector else y
    kept = np.arange(tests, len(x))[y[tests:] == 1] if case.detector else np.arange(tests, len(x))
    train, labels = x[kept], y[kept]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.model.fit(train, labels)
    classifies = hasattr(case.model, "classes_")
    shape = [None, x.shape[1]]
    if case.convert == "sklearn":
        options = {"zipmap": case.zipmap} if classifies else {}
        model = convert_sklearn(
            case.model,
            name=case.name,
            initial_types=[("x", FloatTensorType(shape))],
            options={id(case.model): options} if options else None,
            target_opset={"": 17, "ai.onnx.ml": 3},
        )
    elif case.convert == "xgboost":
        model = convert_xgboost(case.model, name=case.name, initial_types=[("x", RowType(shape))], target_opset=15)
    else:
        more = {"zipmap": False} if classifies else {}
        model = convert_lightgbm(
            case.model, name=case.name, initial_types=[("x", RowType(shape))], target_opset=15, **more
        )
    onnx.save(model, out / f"{case.name}.onnx")
    arrays = {"x": train[:CALIBRATION], "test/x": x[:tests], "test/y": y[:tests]}
    np.savez_compressed(out / f"{case.name}.npz", **arrays)
    right = (
        (case.model.predict(x[:tests]) == y[:tests]).mean() if case.detector else case.model.score(x[:tests], y[:tests])
    )
    print(f"{case.name}: {right:.4f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train and export trees and other classic models.")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the files (default: %(default)s)")
    parser.add_argument("names", nargs="*", help="only these (default: all)")
    a = parser.parse_args(arguments)
    a.out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if not a.names or case.name in a.names:
            make(case, a.out)


if __name__ == "__main__":
    main()
