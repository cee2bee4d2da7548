"""Rows that join categories, bins and features of other units: what ColumnTransformer(remainder="passthrough") exports.

The answers are ONNX Runtime's, whatever reads the row.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net
from test_classic import of_file
from test_tabular_trials import ML, TRIALS, brought, float_answers

from mica.compile import Compiled, compile_file, quality
from mica.errors import MicaError

ROWS = 400
CATEGORIES = 6
OPSET = 13  # ReduceProd has its axes as an attribute
EDGES = [-80.0, 0.0, 90.0]


def table(missing: bool = False) -> np.ndarray:
    """[ROWS, 4]: a category, a count, a number of hundreds, one of hundredths."""
    r = np.random.default_rng(3)
    x = np.stack(
        [r.integers(0, CATEGORIES, ROWS), r.integers(0, 40, ROWS), r.normal(0, 100, ROWS), r.gamma(2, 0.02, ROWS)]
    )
    if missing:
        x[1:, r.random(ROWS) < 0.1] = np.nan
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


def compiled_row(encoder: str, reader: str, folder: Path) -> tuple[Compiled, np.ndarray, np.ndarray]:
    """(compiled of half of the table, its answers for the other half, ONNX Runtime's)."""
    x = table(encoder == "imputed")
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
        if node.op_type in ("OneHotEncoder", "Scaler", "Imputer", "TreeEnsembleRegressor"):
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


def test_a_missing_feature_that_nobody_imputes_is_refused(tmp_path: Path) -> None:
    net = Net(seed=5)
    y, n = row(net, net.input([1, 4]), "one-hot")
    net.output(net.add("Gemm", y, net.random(n, 3), net.random(3)))
    with pytest.raises(MicaError, match="holds NaN"):
        compile_file(save(net, tmp_path), {"x": table(missing=True)})


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
