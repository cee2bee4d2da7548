"""Rows that join categories, bins and features of other units: what ColumnTransformer(remainder="passthrough") exports.

The answers are ONNX Runtime's, whatever reads the row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from onnx import TensorProto
from targets import ALL
from test_classic import of_file
from test_tabular_trials import ML, TRIALS, brought, float_answers

from mica.compile import Compiled, compile_file, quality
from mica.errors import MicaError

ROWS = 400
CATEGORIES = 6
OPSET = 13  # ReduceProd has its axes as an attribute
EDGES = [-80.0, 0.0, 90.0]


def table(encoder: str = "") -> np.ndarray:
    """[ROWS, 4]: a category, a count, a number of hundreds, one of hundredths; of what is imputed some are missing."""
    r = np.random.default_rng(3)
    x = np.stack(
        [r.integers(0, CATEGORIES, ROWS), r.integers(0, 40, ROWS), r.normal(0, 100, ROWS), r.gamma(2, 0.02, ROWS)]
    )
    if encoder.endswith("imputed"):
        x[1 : 3 if encoder == "partly imputed" else 4, r.random(ROWS) < 0.1] = np.nan
    return x.T.astype(np.float32)


def picked(net: Net, x: str, *places: int) -> str:
    return net.add("Gather", x, net.const(np.array(places)), axis=1)


def row(net: Net, x: str, encoder: str) -> tuple[str, int]:
    """The joined row, and how many numbers it has."""
    one = net.add("OneHotEncoder", net.add("Cast", picked(net, x, 0), to=7), cats_int64s=[*range(CATEGORIES)], zeros=1)
    parts, n = [net.add("Reshape", one, net.const(np.array([-1, CATEGORIES])))], CATEGORIES
    rest = picked(net, x, 1, 2, 3)
    if encoder == "bins":
        less = net.add("Less", picked(net, x, 2), net.const(np.float32([EDGES])))
        parts, n = [*parts, net.add("Cast", less, to=1)], n + len(EDGES)
    elif encoder == "scaled":
        rest = net.add("Scaler", rest, offset=[20.0, 0.0, 0.04], scale=[0.1, 0.01, 25.0])
    elif encoder == "imputed":
        rest = net.add("Imputer", rest, imputed_value_floats=[19.0, 3.0, 0.03], replaced_value_float=float("nan"))
    elif encoder == "partly imputed":
        some = {"imputed_value_floats": [19.0, 3.0], "replaced_value_float": float("nan")}
        rest = net.add("Concat", net.add("Imputer", picked(net, x, 1, 2), **some), picked(net, x, 3), axis=1)
    elif encoder == "reduced":
        rest = net.add("Gemm", rest, net.const(np.eye(3, 2, dtype=np.float32)), net.const(np.zeros(2, np.float32)))
        n -= 1
    elif encoder.endswith("products"):  # as PolynomialFeatures writes them
        parts, n = (parts, n) if encoder == "products" else ([net.const(np.ones((1, 1), np.float32))], 1)
        kinds = [[1], [2], [3], [1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]]
        made = [net.add("ReduceProd", picked(net, x, *k), axes=[1], keepdims=1) for k in kinds]
        rest, n = net.add("Concat", *made, axis=1), n + len(kinds) - 3
    elif encoder == "many parts":  # more than a step reads
        parts += [net.add("Mul", picked(net, x, k), net.const(np.float32([1.0]))) for k in (3, 1, 2)]
        n += 3
    y = net.add("Concat", *parts, rest, axis=1)
    if encoder == "scaled behind":
        by = net.const(np.float32([[1.0] * CATEGORIES + [0.1, 0.01, 25.0]]))
        y = net.add("Mul", net.add("Sub", y, net.const(np.full((1, n + 3), 0.5, np.float32))), by)
    return y, n + 3


def trees(net: Net, y: str, n: int, x: np.ndarray) -> str:
    """Twenty trees of three questions about numbers of the row; thresholds that values meet are among them."""
    r = np.random.default_rng(8)
    node: dict[str, list[float | int | str]] = {
        k: [] for k in ("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids", "modes")
    }
    for tree in range(20):
        for k in range(7):
            column = int(r.integers(0, n))
            inner = k < 3
            for key, value in (
                ("treeids", tree),
                ("nodeids", k),
                ("featureids", column if inner else 0),
                ("values", float(np.float32(r.choice(x[:, column]))) if inner else 0.0),
                ("truenodeids", 2 * k + 1 if inner else 0),
                ("falsenodeids", 2 * k + 2 if inner else 0),
                ("modes", "BRANCH_LEQ" if inner else "LEAF"),
            ):
                node[key].append(value)
    leaves = [(t, k) for t in range(20) for k in range(3, 7)]
    return net.add(
        "TreeEnsembleRegressor", y, **{f"nodes_{k}": v for k, v in node.items()}, n_targets=1,
        target_treeids=[t for t, _ in leaves], target_nodeids=[k for _, k in leaves], target_ids=[0] * len(leaves),
        target_weights=r.normal(0, 1, len(leaves)).tolist(),
    )  # fmt: skip


def fitted(made: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Weights [numbers of made, 3] of three classes that category, count and hundreds decide, by least squares."""
    told = np.nan_to_num(x, nan=3.0)
    score = told[:, 0] % 3 - 1 + (told[:, 1] - 20) / 12 + told[:, 2] / 100
    wanted = 3 * np.stack([-score, np.full(len(x), 0.5), score], axis=1)
    a = made.T @ made + 1e-3 * np.trace(made.T @ made) / len(made.T) * np.eye(made.shape[1])
    return np.asarray(np.linalg.solve(a, made.T @ wanted), np.float32)


def layers(net: Net, y: str, rows: np.ndarray, x: np.ndarray) -> str:
    """Two layers on columns that nobody scaled: large terms cancel, as in what MLPClassifier learns of them."""
    w = np.random.default_rng(2).uniform(-0.4, 0.4, (rows.shape[1], 24)).astype(np.float32)
    hidden = net.add("Relu", net.add("Gemm", y, net.const(w), net.const(np.zeros(24, np.float32))))
    by = net.const(fitted(np.maximum(rows @ w, 0), x))
    return net.add("Softmax", net.add("Gemm", hidden, by, net.const(np.zeros(3, np.float32))), axis=1)


def machine(net: Net, y: str, rows: np.ndarray, x: np.ndarray) -> str:
    """Sums of exp(-distance ** 2) to a hundred rows, with SVC's own gamma."""
    points, gamma = rows[:100], float(1 / (rows.shape[1] * rows.var()))
    apart = ((rows[:, None] - points[None]) ** 2).sum(axis=2)
    by = fitted(np.exp(-gamma * apart), x)
    kernel = {"kernel_type": "RBF", "kernel_params": [gamma, 0.0, 3.0], "support_vectors": points.ravel().tolist()}
    parts = [
        net.add("SVMRegressor", y, coefficients=k.tolist(), n_supports=len(points), rho=[0.0], **kernel) for k in by.T
    ]
    return net.add("Softmax", net.add("Concat", *parts, axis=1), axis=1)


@pytest.mark.parametrize(
    ("encoder", "reader"),
    [("one-hot", machine), ("partly imputed", layers)]
    + [("one-hot", layers), ("partly imputed", machine), ("bins", layers), ("bins", machine)] * ALL,
)
def test_layers_and_machines(encoder: str, reader: Callable[..., str], tmp_path: Path) -> None:
    """97 % of the labels are ONNX Runtime's, and the quality line tells the loss of other rows."""
    x, found = table(encoder), list[tuple[Net, str, int]]()
    for _ in range(2):
        net = Net(seed=5, opset=OPSET)
        found.append((net, *row(net, net.input([1, 4]), encoder)))
    (probe, y_probe, n), (net, y, _) = found
    probe.output(y_probe, [1, n])
    rows = float_answers(save(probe, tmp_path), x[::2])[0]
    p = reader(net, y, rows, x[::2])
    net.output(p, [1, 3])
    net.output(net.add("ArgMax", p, axis=1, keepdims=0), [1], TensorProto.INT64)
    path = save(net, tmp_path)
    compiled = compile_file(path, {"x": x[::2]})
    (scores, labels), (real, real_labels) = of_file(compiled.data, x[1::2]), float_answers(path, x[1::2])
    assert (labels.reshape(-1) == real_labels.reshape(-1)).mean() >= 0.97
    error = scores.reshape(real.shape) - real
    said = quality.measure(compiled)
    assert said is not None
    assert abs(said.facts()["sqnr_db"] - 10 * np.log10(real.var(axis=0).sum() / (error**2).mean(axis=0).sum())) < 6


def compiled_row(encoder: str, reader: str, folder: Path) -> tuple[Compiled, np.ndarray, np.ndarray]:
    """(compiled of half of the table, its answers for the other half, ONNX Runtime's)."""
    x = table(encoder)
    net = Net(seed=5, opset=OPSET)
    y, n = row(net, net.input([1, 4]), encoder)
    if reader == "product":
        sizes = [0.5] * 3 if encoder.startswith("scaled") else [0.05, 0.005, 20.0][: 2 + (encoder != "reduced")]
        by = np.array([0.5] * (n - len(sizes)) + sizes, np.float32)[:, None]
        if encoder.endswith("products"):
            of_each = np.array([0.05, 0.005, 20.0], np.float32)
            by = np.append(np.float32([0.5] * (n - 9)), [*of_each, *np.outer(of_each, of_each)[np.triu_indices(3)]])
            by = by[:, None]
        net.output(
            net.add("Gemm", y, net.const(np.float32(np.random.default_rng(1).normal(0, 1, (n, 3)) * by)), net.random(3))
        )
    else:
        probe = Net(seed=5, opset=OPSET)
        y_probe, _ = row(probe, probe.input([1, 4]), encoder)
        probe.output(y_probe, [1, n])
        net.output(trees(net, y, n, float_answers(save(probe, folder), x[::2])[0]), [1, 1])
    path = save(net, folder)
    compiled = compile_file(path, {"x": x[::2]})
    return compiled, of_file(compiled.data, x[1::2])[0].reshape(ROWS // 2, -1), float_answers(path, x[1::2])[0]


def save(net: Net, folder: Path) -> Path:
    for node in net.nodes:
        if node.op_type in ("OneHotEncoder", "Scaler", "Imputer", "TreeEnsembleRegressor", "SVMRegressor"):
            node.domain = ML
    net.domains[ML] = 3
    return net.save(folder)


@pytest.mark.parametrize("reader", ("product", "trees"))
@pytest.mark.parametrize(
    "encoder",
    ("one-hot", "bins", "scaled", "scaled behind", "imputed", "reduced", "many parts", "products", "only products"),
)
def test_answers_are_those_of_float(encoder: str, reader: str, tmp_path: Path) -> None:
    _, found, real = compiled_row(encoder, reader, tmp_path)
    error, products = np.abs(found - real), encoder.endswith("products")
    inside = np.abs(real - real.mean()) < 2.2 * real.std()  # the range of the output is calibration's
    if reader == "trees":  # all questions are answered as in float, but of what is computed in int8
        least = 0.65 if products else 0.9 if encoder == "reduced" else 0.99
        assert (error[inside] <= np.ptp(real) / 100).mean() > least
    least_db = 18 if products or encoder == "reduced" else 28
    if not (products and reader == "trees"):  # a question about a product may be answered otherwise
        assert 10 * np.log10(real.var() / np.mean(error[inside] ** 2)) > least_db


def test_numbers_beyond_calibration(tmp_path: Path) -> None:
    """Sums of trees have room for columns of several samples together: in no sample x0 and x1 are alike."""
    net, x = Net(seed=5, opset=OPSET), np.random.default_rng(4).normal(size=(60, 3)).astype(np.float32)
    x[:, 1] = -x[:, 0]
    node = {"nodes_treeids": [0, 0, 0, 1, 1, 1, 2, 2, 2], "nodes_nodeids": [0, 1, 2] * 3, "nodes_values": [0.0] * 9}
    node |= {"nodes_featureids": [0, 0, 0, 1, 0, 0, 2, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 3}
    node |= {"nodes_truenodeids": [1, 0, 0] * 3, "nodes_falsenodeids": [2, 0, 0] * 3, "target_nodeids": [1, 2] * 3}
    node |= {"target_treeids": [0, 0, 1, 1, 2, 2], "target_weights": [-1.0, 1.0] * 3, "target_ids": [0] * 6}
    net.output(net.add("TreeEnsembleRegressor", net.input([1, 3]), n_targets=1, **node), [1, 1])
    model = compile_file(save(net, tmp_path), {"x": x}).model
    y = model.tensors[model.outputs[0]]
    assert np.ptp(x[:, 0]) > 0 and 255 * y.scale > 3  # samples: -1 to 1


def test_a_missing_feature_that_nobody_imputes_is_refused(tmp_path: Path) -> None:
    net = Net(seed=5)
    y, n = row(net, net.input([1, 4]), "one-hot")
    net.output(net.add("Gemm", y, net.random(n, 3), net.random(3)))
    with pytest.raises(MicaError, match="holds NaN"):
        compile_file(save(net, tmp_path), {"x": table("imputed")})


@brought
def test_one_hot_trial() -> None:
    folder = TRIALS / "one-hot-beside-columns"
    with np.load(folder / "calib.npz") as calib, np.load(folder / "test.npz") as test:
        compiled = compile_file(folder / "model.onnx", {"X": calib["X"]})
        labels = of_file(compiled.data, test["X"])[0].reshape(-1)
        assert (labels == float_answers(folder / "model.onnx", test["X"])[0].reshape(-1)).mean() > 0.99
    said = quality.measure(compiled)
    assert said is not None
    assert said.errors.agreement == 1.0
