"""Kinds of models that are beyond mica as a whole: refused by name, with what to train in their place."""

from collections.abc import Callable

import onnx

from mica.errors import Unsupported


def _operators(model: onnx.ModelProto) -> set[str]:
    return {n.op_type for n in model.graph.node}


_Kind = tuple[Callable[[onnx.ModelProto], bool], str, str]
_KINDS: tuple[_Kind, ...] = (
    (
        lambda model: any(f.name.startswith("knn_imputer") for f in model.functions),
        "a KNNImputer: it looks for rows like this one in its training data, for each feature that is missing",
        "impute with a SimpleImputer, or train a model that knows missing values: XGBoost, LightGBM",
    ),
    (
        lambda model: _operators(model) >= {"ArrayFeatureExtractor", "ArgMin", "CumSum", "GatherElements", "TopK"},
        "an AdaBoostRegressor: it sorts the answers of its trees for their weighted median",
        "train a GradientBoostingRegressor or a RandomForestRegressor, which add them up",
    ),
    (
        lambda model: _operators(model) >= {"ArrayFeatureExtractor", "CumSum", "Less", "Scan", "Where"},
        "neighbours within a radius: how many they are depends on the row",
        "train a KNeighborsClassifier or a KNeighborsRegressor",
    ),
    (
        lambda model: "Solve" in _operators(model),
        "a GaussianProcessClassifier: it solves a system of equations for each row",
        "train an SVC(probability=True), or a GaussianProcessRegressor on the classes' numbers",
    ),
    (
        lambda model: "TfIdfVectorizer" in _operators(model),
        "a TfIdfVectorizer: boards split a text into tokens, and do not count n-grams",
        "for mica.classify train nn.EmbeddingBag on words and pack it with --tokens; or export what follows the "
        "vectoriser, and feed it vectorizer.transform(texts).toarray()",
    ),
)


def check(model: onnx.ModelProto, path: object) -> None:
    """Raise Unsupported where a model is of such a kind."""
    for is_it, what, todo in _KINDS:
        if is_it(model):
            raise Unsupported(f"{path}: cannot be packed: it holds {what}", todo=todo)
