"""Operators of ONNX-ML, as scikit-learn's exporter and others write them, in ONNX's own operators and `TreeEnsemble`.

y = Scaler(x, offset, scale)              =>   y = Mul(Sub(x, offset), scale)
y = ArrayFeatureExtractor(labels, k)      =>   y = Reshape(k): the number of the class;
                                               its name goes to the labels of the model
y = ArrayFeatureExtractor(x, k)           =>   y = Gather(x, k); likewise of real numbers x by a computed k
y = ZipMap(p)                             =>   y = Identity(p): the probabilities as a tensor, in the classes' order
y = LinearRegressor(x)                    =>   y = Gemm(x, coefficients, intercepts)
k, y = LinearClassifier(x)                =>   s = Gemm(x); k = ArgMax(s); y = Softmax(s) | Sigmoid(s) | s
k, y = TreeEnsembleClassifier(x)          =>   s = TreeEnsemble(x); likewise
y = SVMRegressor(x)                       =>   y = Gemm(Exp(..) | Pow(..) | .. of Gemm(x, support vectors),
                                               coefficients)
k, y = SVMClassifier(x)                   =>   y = Gemm of these, one number for each pair of classes;
                                               k = ArgMax of their votes; with
                                               probabilities y = LpNormalization(the diagonal of Softmax(Gemm(y)))
y = Normalizer(x)                         =>   y = LpNormalization(x) | Div(x, ReduceMax(x))
y = Binarizer(x)                          =>   y = Cast(Greater(x, threshold))
y = FeatureVectorizer(a, b)               =>   y = Concat(a, b)
y = OneHotEncoder(x), of one feature      =>   y = Reshape(TreeEnsemble(x))
y = LabelEncoder(k), k a class's number   =>   y = Identity(k), the names that it gives go to the labels
y = Imputer(x)                            =>   y = Imputer(x), which a pass puts into what reads x

A LabelEncoder of other numbers stays, for a pass that puts it into trees.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mica.importer import trees
from mica.importer.expand.writer import Writer
from mica.ir.vectors import machine, unary
from mica.kernels.vectors import PRODUCTS, SQUARES
from mica.passes.leaf_values import given_scaled

DOMAIN = "ai.onnx.ml"
Form = Callable[[Any], None]
# Kernels of support vector machines that a table holds: the curve of slope * distance + origin, and its arguments.
CURVES: Mapping[str, tuple[str, Callable[[float], tuple[float, ...]]]] = {
    "RBF": ("exp", lambda degree: ()),
    "POLY": ("power", lambda degree: (degree,)),
    "SIGMOID": ("tanh", lambda degree: ()),
}
SURE = 7.0  # logits of a pair's probability: 0.999; in more, int8 would have coarser steps for all


def _scaler(n: Writer) -> None:
    parts = {
        name: np.asarray(n.attrs.get(name, default), np.float32) for name, default in (("offset", 0), ("scale", 1))
    }
    offset, scale = (n.constant(name, value) for name, value in parts.items())
    n.emit("Mul", [n.emit("Sub", [n.i[0], offset]), scale], n.proto.output[0])


def _array_feature_extractor(n: Writer) -> None:
    labels = n.state.constant(n.i[0])
    numbers = labels is not None and (labels.dtype.kind == "f" or len(set(labels.reshape(-1).tolist())) < labels.size)
    if labels is not None and numbers and n.state.constant(n.i[1]) is None:
        picked = n.emit("Gather", [n.constant("numbers", labels.reshape(-1)), n.i[1]])
        n.emit("Reshape", [picked, n.constant("shape", np.array([1, -1]))], n.proto.output[0])
        return
    if labels is not None:
        _name_classes(n, labels.reshape(-1).tolist())
        n.emit("Reshape", [n.i[1], n.constant("shape", np.array([1, -1]))], n.proto.output[0])
        return
    places = n.state.constant(n.i[1])
    if places is None:
        raise ValueError("it picks by places that are computed")
    n.emit("Gather", [n.i[0], n.constant("places", places.reshape(-1))], n.proto.output[0], axis=-1)


def _name_classes(n: Writer, labels: Sequence[Any]) -> None:
    """Keeps the names of classes if these are not 0, 1, 2 ..."""
    if list(labels) != list(range(len(labels))):
        n.state.graph.labels = n.state.graph.labels or [_text(v) for v in labels]


def _text(v: Any) -> str:
    return v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v)


def _classes(n: Writer) -> list[Any]:
    for name in ("classlabels_int64s", "classlabels_ints", "classlabels_strings"):
        if found := list(n.attrs.get(name, ())):
            return found
    raise ValueError("it has no class labels")


def _post(n: Writer, scores: str, kind: str, output: str) -> None:
    """The second output of a classifier, or the output of a regressor."""
    if kind == "SOFTMAX":
        n.emit("Softmax", [scores], output, axis=1)
    elif kind == "LOGISTIC":
        n.emit("Sigmoid", [scores], output)
    else:
        n.emit("Identity", [scores], output)


def _answer(n: Writer, scores: str, kind: str) -> None:
    """Label and scores of a classifier."""
    label, output = (*n.proto.output, "")[:2]
    if label:
        n.emit("ArgMax", [scores], label, axis=1, keepdims=0)
    if output:
        _post(n, scores, kind, output)


def _both(n: Writer, score: str, first: str) -> str:
    """[1, 1] -> [1, 2]: the score of the second class, and in front of it that of the first, first: "-s" or "1-s"."""
    sign = n.emit("Mul", [score, n.constant("signs", np.array([[-1, 1]], np.float32))])
    if first == "-s":
        return sign
    return n.emit("Add", [sign, n.constant("ones", np.array([[1, 0]], np.float32))])


def _linear(n: Writer, results: int) -> str:
    weights = np.asarray(n.attrs["coefficients"], np.float32)
    if results < 1 or weights.size % results:
        raise ValueError(f"{weights.size} coefficients for {results} results")
    given = (n.state.shape(n.i[0]) or (weights.size // results,))[-1]
    if weights.size != given * results:
        raise ValueError(
            f"{weights.size // results} coefficients for {given} features; the exporter left some out "
            "(SimpleImputer: export with add_indicator=False)"
        )
    bias = np.asarray(n.attrs.get("intercepts", ()), np.float32)
    if bias.size not in (0, results):
        raise ValueError(f"{bias.size} intercepts for {results} results")
    bias = bias if bias.size else np.zeros(results, np.float32)
    return n.emit(
        "Gemm", [n.i[0], n.constant("weights", weights.reshape(results, -1)), n.constant("bias", bias)], transB=1
    )


def _regressor(scores: Callable[[Writer], str]) -> Form:
    """Return what writes a regressor that has such scores."""
    return lambda n: _post(n, scores(n), trees.post_transform(n.attrs), n.proto.output[0])


def _linear_classifier(n: Writer) -> None:
    labels = _classes(n)
    results = len(n.attrs.get("intercepts", ())) or len(labels)
    scores = _linear(n, results)
    if results == 1 and len(labels) == 2:
        scores = _both(n, scores, "-s")
    elif results != len(labels):
        raise ValueError(f"{results} scores for {len(labels)} classes")
    _name_classes(n, labels)
    _answer(n, scores, trees.post_transform(n.attrs))


def _trees_classifier(n: Writer) -> None:
    labels = _classes(n)
    kind = trees.post_transform(n.attrs)
    ids, weights = (trees.array(n.attrs, f"class_{name}") for name in ("ids", "weights"))
    single = len(labels) == 2 and len(set(ids.tolist())) == 1
    if single:  # one score, for the second class
        n.attrs["class_ids"] = [0] * len(ids)
        base = trees.array(n.attrs, "base_values")
        n.attrs["base_values"] = base[-1:].tolist()
        n.attrs.pop("base_values_as_tensor", None)
    forest = trees.node_list_forest(n.attrs, "class", 1 if single else len(labels))
    scores = n.forest(forest)
    if single and len(weights) and weights.min() >= 0:  # probabilities already
        scores, kind = _both(n, scores, "1-s"), "NONE"
    elif single:
        scores = _both(n, scores, "-s")
    _name_classes(n, labels)
    _answer(n, scores, kind)


def _kernel(n: Writer, vectors: np.ndarray) -> str:
    """[1, F] -> [1, S]: the kernel of x with each of the support vectors [S, F]."""
    gamma, zero, degree = (*(float(v) for v in n.attrs.get("kernel_params", ())), 0.0, 0.0, 0.0)[:3]
    kind = _text(n.attrs.get("kernel_type", "LINEAR"))
    x, v = n.i[0], vectors.astype(np.float64)

    def product(factor: float, bias: np.ndarray | float) -> str:
        w = (factor * v).astype(np.float32)
        b = np.broadcast_to(np.asarray(bias, np.float32), (len(v),)).copy()
        return n.emit("Gemm", [x, n.constant("vectors", w), n.constant("bias", b)], transB=1)

    if kind == "POLY":
        return n.emit("Pow", [product(gamma, zero), n.constant("degree", np.array(degree, np.float32))])
    if kind == "SIGMOID":
        return n.emit("Tanh", [product(gamma, zero)])
    if kind != "RBF":
        raise ValueError(f"kernel {kind}; LINEAR, POLY, RBF and SIGMOID are supported")
    near = product(2 * gamma, -gamma * (v * v).sum(axis=1))
    square = n.emit("Mul", [x, x])
    ones = n.constant("ones", np.full((1, v.shape[1]), -gamma, np.float32))
    size = n.emit("Gemm", [square, ones], transB=1)
    return n.emit("Exp", [n.emit("Add", [near, size])])


def _vectors(n: Writer, count: int) -> np.ndarray:
    found = np.asarray(n.attrs.get("support_vectors", ()), np.float32)
    if count < 1 or found.size % count or not found.size:
        raise ValueError(f"{found.size} numbers of {count} support vectors")
    return found.reshape(count, -1)


def _scores(n: Writer, vectors: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> str:
    """[1, F] -> [1, N]: bias [N] + weights [N, S] times the kernel of x with the support vectors [S, F]."""
    kind = _text(n.attrs.get("kernel_type", "LINEAR"))
    gamma, zero, degree = (*(float(v) for v in n.attrs.get("kernel_params", ())), 0.0, 0.0, 0.0)[:3]
    whole = kind != "POLY" or (degree == int(degree) and 1 <= degree <= 16)
    if kind in CURVES and given_scaled(n.state.graph, n.i[0]) and whole and gamma:
        measure, slope, origin = (SQUARES, -gamma, 0.0) if kind == "RBF" else (PRODUCTS, gamma, zero)
        function, arguments = CURVES[kind]
        program = unary("affine", 0, slope, origin), unary(function, 1, *arguments(degree))
        return n.machine(machine(vectors, measure, program, weights.T, bias))
    if kind == "LINEAR":  # one product in the place of two
        normals = np.stack([np.sum(w[:, None] * vectors, axis=0) for w in weights.astype(np.float64)])
        constants = [n.constant("weights", normals.astype(np.float32)), n.constant("rho", bias.astype(np.float32))]
        return n.emit("Gemm", [n.i[0], *constants], transB=1)
    constants = [n.constant("weights", weights.astype(np.float32)), n.constant("rho", bias.astype(np.float32))]
    return n.emit("Gemm", [_kernel(n, vectors), *constants], transB=1)


def _svm_regressor(n: Writer) -> None:
    count = int(n.attrs.get("n_supports", 0))
    weights = np.asarray(n.attrs.get("coefficients", ()), np.float32).reshape(1, -1)
    if count and weights.size != count:
        raise ValueError(f"{weights.size} coefficients for {count} support vectors")
    rho = np.asarray(n.attrs.get("rho", [0.0]), np.float32)[:1]
    if n.attrs.get("one_class", 0):
        raise ValueError("a one-class machine; export its decision function")
    if count:
        y = _scores(n, _vectors(n, count), weights, rho)
    else:
        y = n.emit("Gemm", [n.i[0], n.constant("weights", weights), n.constant("rho", rho)], transB=1)
    _post(n, y, trees.post_transform(n.attrs), n.proto.output[0])


def _svm_classifier(n: Writer) -> None:
    labels = _classes(n)
    classes, counts = len(labels), [int(c) for c in n.attrs.get("vectors_per_class", ())]
    coefficients = np.asarray(n.attrs.get("coefficients", ()), np.float64)
    rho = np.asarray(n.attrs.get("rho", ()), np.float64)
    if len(counts) != classes or coefficients.size != (classes - 1) * sum(counts):
        raise ValueError("its support vectors are not those of its classes")
    pairs = [(a, b) for a in range(classes) for b in range(a + 1, classes)]
    if rho.size != len(pairs):
        raise ValueError(f"{rho.size} offsets for {len(pairs)} pairs of classes")
    coefficients = coefficients.reshape(classes - 1, -1)
    ends = np.cumsum([0, *counts])
    weights = np.zeros((len(pairs), sum(counts)))
    for k, (a, b) in enumerate(pairs):
        for mine, other in ((a, b - 1), (b, a)):
            part = slice(int(ends[mine]), int(ends[mine + 1]))
            weights[k, part] = coefficients[other, part]
    scores = _scores(n, _vectors(n, sum(counts)), weights, rho)
    _name_classes(n, labels)
    label, output = (*n.proto.output, "")[:2]
    probabilities = [np.asarray(n.attrs.get(name, ()), np.float64) for name in ("prob_a", "prob_b")]
    if probabilities[0].size not in (0, len(pairs)) or probabilities[0].size != probabilities[1].size:
        raise ValueError(
            f"{probabilities[0].size} and {probabilities[1].size} numbers of {len(pairs)} pairs' probabilities"
        )
    if probabilities[0].size and classes == 2:  # of the first class, by Platt
        slope, offset = (float(p[0]) for p in probabilities)
        lines = np.array([[-slope], [slope]], np.float32), np.array([-offset, offset], np.float32)
        both = n.emit("Gemm", [scores, n.constant("slopes", lines[0]), n.constant("platt", lines[1])], transB=1)
        _answer(n, both, "LOGISTIC")
        return
    if label:  # one vote for each pair: +1 for the first or -1; a class's votes are those of its pairs
        table = np.zeros((classes, len(pairs)), np.float32)
        for k, (a, b) in enumerate(pairs):
            table[a, k], table[b, k] = 1, -1
        votes = n.emit("Cast", [n.emit("Greater", [scores, n.constant("zero", np.zeros(1, np.float32))])], to=1)
        bias = -table.sum(axis=1) / 2
        counted = n.emit("Gemm", [votes, n.constant("votes", table), n.constant("half", bias)], transB=1)
        n.emit("ArgMax", [counted], label, axis=1, keepdims=0)
    if output and probabilities[0].size:
        _coupled(n, scores, classes, pairs, *probabilities)
    elif output and classes == 2:
        n.emit("Gemm", [scores, n.constant("signs", np.array([[-1, 1]], np.float32))], output)
    elif output:
        n.emit("Identity", [scores], output)


def _coupled(
    n: Writer, scores: str, classes: int, pairs: Sequence[tuple[int, int]], slopes: np.ndarray, offsets: np.ndarray
) -> None:
    """Probabilities of classes from scores [1, P] of their pairs, in the closed form of Price and others (NIPS 1994).

    r(a, b) = 1 / (1 + exp(slope * score + offset)) is the probability of a where it is a or b. Where these agree with
    each other, p(a) = 1 / (sum over b of 1 / r(a, b) - (classes - 2)), and so does libsvm's iteration. That is a
    softmax over 0 and the pairs' logits, of which a's own place is read: a row for each class.
    """
    table, bias = np.zeros((classes, classes, len(pairs))), np.zeros((classes, classes))
    for k, (a, b) in enumerate(pairs):
        for mine, other, sign in ((a, b, 1), (b, a, -1)):
            table[mine, other, k], bias[mine, other] = sign * slopes[k], sign * offsets[k]
    weights = n.constant("slopes", table.reshape(-1, len(pairs)).astype(np.float32))
    logits = n.emit("Gemm", [scores, weights, n.constant("platt", bias.reshape(-1).astype(np.float32))], transB=1)
    ends = (n.constant("end", np.array(v, np.float32)) for v in (-SURE, SURE))
    rows = n.emit("Reshape", [n.emit("Clip", [logits, *ends]), n.constant("rows", np.array([1, classes, classes]))])
    flat = n.emit("Reshape", [n.emit("Softmax", [rows], axis=2), n.constant("flat", np.array([1, classes**2]))])
    own = n.emit("Gather", [flat, n.constant("own", np.arange(classes) * (classes + 1))], axis=1)
    n.emit("LpNormalization", [own], n.proto.output[1], axis=1, p=1)
    n.state.graph.warnings.append(
        f"'{n.proto.output[1]}': probabilities of {classes} classes are computed in a closed form, and not by libsvm's "
        "iteration: on data of 3 classes they are within 0.02 of it, of 10 within 0.1; labels are the same"
    )


def _normalizer(n: Writer) -> None:
    kind = _text(n.attrs.get("norm", "MAX"))
    if kind == "MAX":
        if n.state.opset < 18:
            most = n.emit("ReduceMax", [n.i[0]], axes=[1], keepdims=1)
        else:
            most = n.emit("ReduceMax", [n.i[0], n.constant("axes", np.array([1]))], keepdims=1)
        n.emit("Div", [n.i[0], most], n.proto.output[0])
    elif kind in ("L1", "L2"):
        n.emit("LpNormalization", [n.i[0]], n.proto.output[0], axis=1, p=int(kind[1]))
    else:
        raise ValueError(f"norm {kind}; MAX, L1 and L2 are supported")


def _binarizer(n: Writer) -> None:
    threshold = n.constant("threshold", np.array([n.attrs.get("threshold", 0.0)], np.float32))
    n.emit("Cast", [n.emit("Greater", [n.i[0], threshold])], n.proto.output[0], to=1)


def _one_hot_encoder(n: Writer) -> None:
    """A tree for each category, which asks x <= c and then x <= c - 1: such a question loses nothing of a feature."""
    categories = [int(c) for c in n.attrs.get("cats_int64s", ())]
    if not categories:
        raise ValueError("categories that are strings; encode them as numbers before the model (OrdinalEncoder)")
    if (width := (n.state.shape(n.i[0]) or (1,))[-1]) != 1:
        raise ValueError(f"a row of {width} features; give each an encoder of its own")
    count, c = len(categories), np.array(categories, np.float64)
    every = np.arange(count)
    column, yes, no = (np.full(4 * count, -1 if k == 0 else 0, np.int64) for k in range(3))
    threshold, entry = np.zeros(4 * count), np.zeros(4 * count + 1, np.int64)
    for node, steps, at in ((0, (1, 2), c), (1, (2, 3), c - 1)):  # 2: a leaf that adds nothing, 3: one that adds 1
        column[4 * every + node], threshold[4 * every + node] = 0, at
        yes[4 * every + node], no[4 * every + node] = (4 * every + k for k in steps)
    entry[4 * every + 4] = 1
    forest = trees.Forest(
        column, threshold, yes, no, np.zeros(4 * count, bool), np.cumsum(entry), every, np.ones(count), 4 * every,
        np.zeros(count)
    )  # fmt: skip
    rows = n.constant("shape", np.array([1, 1, count]))
    n.emit("Reshape", [n.forest(forest), rows], n.proto.output[0])


def _label_encoder(n: Writer) -> None:
    keys = list(n.attrs.get("keys_int64s", ()))
    values = next((list(n.attrs[v]) for v in ("values_strings", "values_int64s") if v in n.attrs), [])
    if not keys or len(keys) != len(values) or sorted(keys) != list(range(len(keys))):
        _encode_numbers(n)
        return
    names = dict(zip(keys, values, strict=True))
    _name_classes(n, [names[k] for k in range(len(keys))])
    n.emit("Identity", [n.i[0]], n.proto.output[0])


def _encode_numbers(n: Writer) -> None:
    """Numbers in the place of numbers, which `passes/leaf_functions.py` puts into trees."""
    found = []
    for what in ("keys", "values"):
        parts = (trees.array(n.attrs, f"{what}_{kind}") for kind in ("floats", "int64s", "tensor"))
        found.append(next((a for a in parts if a.size), np.zeros(0)))
    keys, values = found
    if (
        not keys.size
        or keys.size != values.size
        or not all(a.dtype.kind in "fiu" and np.isfinite(a).all() for a in found)
    ):
        raise ValueError("it encodes texts, or what is no number; do that outside of the model")
    default = -1 if values.dtype.kind != "f" else 0.0
    default = next((n.attrs[d] for d in ("default_float", "default_int64") if d in n.attrs), default)
    n.state.add_rows(
        "LabelEncoder", n.proto, n.proto.output[0], 0, {"keys": keys, "values": values, "default": default}
    )


def _imputer(n: Writer) -> None:
    values = next((n.attrs[v] for v in ("imputed_value_floats", "imputed_value_int64s") if v in n.attrs), None)
    replaced = float(n.attrs.get("replaced_value_float", n.attrs.get("replaced_value_int64", 0)))
    if values is None:
        raise ValueError("it has no values to put in the place of missing ones")
    if not np.isnan(replaced) and replaced != np.inf:
        raise ValueError(f"it replaces {replaced:g}; only NaN counts as missing")
    n.imputer(np.asarray(values, np.float64).reshape(-1), replaced)


FORMS: dict[str, Form] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": lambda n: n.emit("Concat", list(n.proto.input), n.proto.output[0], axis=1),
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _regressor(lambda n: _linear(n, int(n.attrs.get("targets", 1)))),
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot_encoder,
    "SVMClassifier": _svm_classifier,
    "SVMRegressor": _svm_regressor,
    "Scaler": _scaler,
    "TreeEnsemble": _regressor(lambda n: n.forest(trees.tree_ensemble_forest(n.attrs))),
    "TreeEnsembleClassifier": _trees_classifier,
    "TreeEnsembleRegressor": _regressor(
        lambda n: n.forest(trees.node_list_forest(n.attrs, "target", int(n.attrs.get("n_targets", 1))))
    ),
    "ZipMap": lambda n: n.emit("Identity", [n.i[0]], n.proto.output[0]),
}
