"""Detectors, encoders, classes with names, forecasts: what people brought (../shared/trials),
and their parts made here.

What scikit-learn's exporter makes of whole models is in tests/models/classic (test_classic.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nets import Net
from onnx import TensorProto, helper
from test_classic import of_file

from mica.cli.main import main
from mica.compile import Compiled, compile_file
from mica.compile.quality import measure
from mica.errors import MicaError

TRIALS = Path(__file__).resolve().parents[2].parent / "shared" / "trials"
brought = pytest.mark.skipif(not TRIALS.is_dir(), reason="the folder ../shared/trials is missing")
ML = "ai.onnx.ml"


def float_answers(path: Path, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    runs = [session.run(None, {name: row[None]}) for row in x]
    return [np.concatenate([np.asarray(r[k]).reshape(1, -1) for r in runs]) for k in range(len(runs[0]))]


def kernels(c: Compiled) -> list[str]:
    return [s.kernel for s in c.model.steps]


@brought
def test_one_class_trial() -> None:
    path = TRIALS / "sklearn-detectors" / "oneclass.onnx"
    with np.load(TRIALS / "sklearn-detectors" / "oneclass-calib.npz") as data:
        x = data[data.files[0]]
    found, real = of_file(compile_file(path, {"X": x}).data, x), float_answers(path, x)
    assert set(np.unique(found[0])) <= {-1.0, 1.0}
    far = np.abs(real[1]).reshape(-1) > 0.02  # support vectors lie on the border
    assert far.sum() > len(x) / 2
    np.testing.assert_array_equal(found[0].reshape(-1)[far], real[0].reshape(-1)[far])


@brought
def test_ordinal_trial() -> None:
    path = TRIALS / "sklearn-detectors" / "ordinal.onnx"
    with np.load(TRIALS / "sklearn-detectors" / "ordinal-calib.npz") as data:
        x = data[data.files[0]]
    said: list[str] = []
    compiled = compile_file(path, {"X": x}, warn=said.append)
    assert kernels(compiled) == ["ranks_s8", "forest_s8"]
    assert any("nearest" in s for s in said)
    found, (real,) = of_file(compiled.data, x)[0], float_answers(path, x)
    assert np.abs(found.reshape(-1) - real.reshape(-1)).max() < np.ptp(real) / 100


@brought
def test_texts_trial() -> None:
    with pytest.raises(MicaError, match="input 'site' takes texts"):
        compile_file(TRIALS / "sklearn-detectors" / "strings.onnx")


@brought
def test_vector_trial() -> None:
    """The same bits as in float, but near the thresholds -1.5, -1 ... 1.5."""
    path = TRIALS / "compare-with-vector" / "model.onnx"
    with np.load(TRIALS / "compare-with-vector" / "calib.npz") as data:
        x = data["x"].reshape(-1, 6)
    compiled = compile_file(path, {"x": x[:, None]})
    found, (real,) = of_file(compiled.data, x)[0].reshape(len(x), -1), float_answers(path, x)
    far = np.abs(2 * x - np.rint(2 * x)).min(axis=1) > 0.04
    assert far.sum() > len(x) / 3
    right = np.abs(found - real)[far].max(axis=1) < np.ptp(real) / 100
    assert right.mean() > 0.95, right  # the range of y leaves out the largest


@brought
def test_names_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = TRIALS / "names-of-classes"
    model, calib, labelled = (str(folder / f) for f in ("model.onnx", "calib.npz", "labelled.npz"))
    out = str(tmp_path / "n.mica")
    assert main(["pack", model, "--calib", calib, "--eval", labelled, "-o", out]) == 0
    assert "float 96.30 %, int8 96.30 %" in capsys.readouterr().out
    assert main(["eval", out, labelled, "--float", model]) == 0
    said = capsys.readouterr().out
    assert "top1 96.30 % float" in said
    assert "barolo" in said
    assert main(["compare", out, out, "--data", labelled, "--float", model]) == 0


@brought
def test_forecast_trial() -> None:
    folder = TRIALS / "forecast-quality"
    with np.load(folder / "calib.npz") as data:
        calib = {name: data[name] for name in data.files}
    found = measure(compile_file(folder / "model.onnx", calib))
    assert found is not None
    facts = found.facts()
    assert facts["agreement"] is None
    assert facts["sqnr_db"] > 30
    assert facts["outputs"][0]["kind"] == "numbers"


def stump(feature: int, threshold: float, values: list[float]) -> dict[str, object]:
    """Attributes of a tree x[feature] <= threshold, for a TreeEnsembleRegressor of one or more targets."""
    half = len(values) // 2
    return {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [feature, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [threshold, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "n_targets": half,
        "target_treeids": [0] * len(values), "target_nodeids": [1] * half + [2] * half,
        "target_ids": [*range(half)] * 2, "target_weights": values,
    }  # fmt: skip


def saved(net: Net, folder: Path) -> Path:
    """A network with operators of ONNX-ML, for any number of rows."""
    for node in net.nodes:
        if node.op_type in ("LabelEncoder", "TreeEnsembleRegressor"):
            node.domain = ML
    net.domains[ML] = 3
    return net.save(folder)


def both(net: Net, folder: Path) -> tuple[Compiled, list[np.ndarray], list[np.ndarray], np.ndarray]:
    x = np.random.default_rng(2).uniform(-1, 4, (300, 3)).astype(np.float32)
    x[:, 2] = np.rint(x[:, 2])
    path = saved(net, folder)
    compiled = compile_file(path, {"x": x[:, None]})
    return compiled, of_file(compiled.data, x), float_answers(path, x), x


def test_votes_of_trees(tmp_path: Path) -> None:
    """AdaBoost: each tree's class has its weight; their sum is one forest, exact to a step."""
    net = Net(opset=17)
    x = net.input([1, 3])
    votes = []
    for k, (feature, at) in enumerate(((0, 1.0), (1, 0.3), (0, 2.5))):
        p = net.add("TreeEnsembleRegressor", x, **stump(feature, at, [0.7, 0.2, 0.1, 0.1, 0.3, 0.6]))
        place = net.add("ArgMax", p, axis=1)
        is_it = net.add("Equal", place, net.const(np.arange(3)[None]))
        vote = net.add("Where", is_it, net.const(np.float32([1])), net.const(np.float32([-0.5])))
        votes.append(net.add("Mul", vote, net.const(np.float32(1.5 + k))))
    net.output(net.add("Sum", *votes), [1, 3])
    compiled, (found,), (real,), _ = both(net, tmp_path)
    assert kernels(compiled) == ["ranks_s8", "forest_s8"]
    assert np.abs(found.reshape(real.shape) - real).max() <= np.ptp(real) / 255


@pytest.mark.parametrize("texts", (False, True))
def test_encoder(texts: bool, tmp_path: Path) -> None:
    """Numbers for numbers, in any order, with a default for others; texts are refused."""
    net = Net()
    x = net.add("Gather", net.input([1, 3]), net.const(np.array([2])), axis=1)
    values = {"values_strings": ["a", "b", "c"]} if texts else {"values_floats": [3.0, -1.0, 0.5], "default_float": 2.0}
    y = net.add("LabelEncoder", x, keys_floats=[0.0, 1.0, 3.0], **values)
    net.output(y, [1, 1], TensorProto.STRING if texts else TensorProto.FLOAT)
    if texts:
        with pytest.raises(MicaError, match="it encodes texts"):
            compile_file(saved(net, tmp_path))
        return
    _, (found,), (real,), x_values = both(net, tmp_path)
    assert set(np.unique(x_values[:, 2])) > {0.0, 1.0, 2.0, 3.0}
    assert np.abs(found.reshape(real.shape) - real).max() <= 4 / 255


def test_bins_of_a_feature(tmp_path: Path) -> None:
    """KBinsDiscretizer: the first bin whose end is above x, as a number; two features, one forest."""
    net = Net()
    x = net.input([1, 3])
    places = []
    for k, ends in enumerate(([0.0, 1.0, 3.0], [-0.5, 0.25])):
        one = net.add("Gather", x, net.const(np.array([k])), axis=1)
        less = net.add("Cast", net.add("Less", one, net.const(np.array(ends, np.float32))), to=1)
        last = net.add("Add", net.add("Mul", one, net.const(np.float32([0]))), net.const(np.float32([1])))
        place = net.add("ArgMax", net.add("Concat", less, last, axis=1), axis=1)
        places.append(net.add("Cast", place, to=1))
    net.output(net.add("Concat", *places, axis=1), [1, 2])
    compiled, (found,), (real,), _ = both(net, tmp_path)
    assert kernels(compiled) == ["ranks_s8", "forest_s8"]
    assert np.abs(found.reshape(real.shape) - real).max() <= 3 / 255


def test_a_tree_of_classes_stays_as_it_is(tmp_path: Path) -> None:
    """The place of a tree's largest answer is an ArgMax, as it was: nobody computes with it."""
    net = Net()
    p = net.add("TreeEnsembleRegressor", net.input([1, 3]), **stump(0, 1.0, [0.7, 0.3, 0.4, 0.6]))
    net.output(net.add("ArgMax", p, axis=1), [1, 1], TensorProto.INT64)
    compiled = both(net, tmp_path)[0]
    assert kernels(compiled) == ["ranks_s8", "forest_s8", "argmax_s8"]


def test_label_of_a_score(tmp_path: Path) -> None:
    """2 * (score < 0) - 1 in int64, as IsolationForest has it, and integers that int8 cannot hold."""

    def label(by: int, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        net = Net(seed=4)
        score = net.add("Gemm", net.input([1, 3]), net.random(3, 1), net.random(1))
        less = net.add("Cast", net.add("Less", score, net.const(np.float32([0.1]))), to=TensorProto.INT64)
        net.output(
            net.add("Add", net.add("Mul", less, net.const(np.array([by]))), net.const(np.array([-1]))), [1, 1], 7
        )
        _, (found,), (real,), _ = both(net, folder)
        return found.reshape(-1), real.reshape(-1)

    found, real = label(2, tmp_path)
    assert set(np.unique(found)) == {-1.0, 1.0}
    assert (found == real).mean() > 0.98
    with pytest.raises(MicaError, match="computes with int64"):
        label(1000, tmp_path)


@pytest.mark.parametrize("bias", (False, True))
def test_products(bias: bool, tmp_path: Path) -> None:
    """PolynomialFeatures: a constant, x0, x1 x1, x0 x1 x2."""
    net = Net(opset=13)
    x = net.input([1, 3])
    parts = [
        net.add("ReduceProd", net.add("Gather", x, net.const(np.array(p)), axis=1), axes=[1], keepdims=1)
        for p in ([0], [1, 1], [0, 1, 2])
    ]
    parts[:0] = [net.const(np.ones((1, 1), np.float32))] * bias
    net.output(net.add("Concat", *parts, axis=1), [1, 3 + bias])
    compiled, parts_found, (real,), _ = both(net, tmp_path)  # x0, a product by itself, is an output of its own
    assert kernels(compiled).count("mul_s8") == 2
    error = np.concatenate([f.reshape(len(real), -1) for f in parts_found], axis=1) - real
    assert 10 * np.log10((real**2).sum() / (error**2).sum()) > 18  # of products up to 60 one step is 0.3


def test_a_product_alone(tmp_path: Path) -> None:
    net = Net(opset=13)
    net.output(net.add("ReduceProd", net.input([1, 3]), axes=[1], keepdims=0), [1])
    _, (found,), (real,), _ = both(net, tmp_path)
    error = found.reshape(-1) - real.reshape(-1)
    assert 10 * np.log10((real**2).sum() / (error**2).sum()) > 30
    net = Net(opset=13)
    net.output(net.add("ReduceProd", net.input([1, 100, 4]), axes=[1], keepdims=0), [1, 4])
    with pytest.raises(MicaError, match="ReduceProd"):
        compile_file(net.save(tmp_path))


def test_a_feature_that_is_not_there(tmp_path: Path) -> None:
    net = Net()
    x = net.add("Gather", net.input([1, 3]), net.const(np.array([7])), axis=1)
    net.output(net.add("Cast", net.add("Less", x, net.const(np.array([0, 1], np.float32))), to=1), [1, 2])
    with pytest.raises(MicaError, match="Gather"):
        compile_file(net.save(tmp_path))


def agreement(folder: str) -> tuple[list[float], float | None]:
    """Return the shares of a trial's labels that equal ONNX Runtime's, a column each, and what pack tells."""
    path = TRIALS / folder / "model.onnx"
    with np.load(path.with_name("calib.npz")) as calib, np.load(path.with_name("test.npz")) as test:
        name = calib.files[0]
        x, rows = calib[name], test[name]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    compiled = compile_file(path, {name: x})
    found, told = of_file(compiled.data, rows), measure(compiled)
    real = session.run([session.get_outputs()[0].name], {name: rows})[0].reshape(len(rows), -1)
    labels = np.concatenate([a.reshape(len(rows), -1) for a in found], axis=1)[:, : real.shape[1]]
    assert told is not None
    return [float(v) for v in (np.rint(labels) == real).mean(axis=0)], told.facts()["agreement"]


@brought
@pytest.mark.parametrize(
    ("folder", "least"),
    (
        ("isotonic-calibration", 0.95),
        ("lightgbm-categories", 0.99),
        ("multi-output-labels", 0.97),
        ("one-vs-one", 0.97),
        ("quantile-transformer", 0.98),
    ),
)
def test_labels_of_a_trial(folder: str, least: float) -> None:
    found, told = agreement(folder)
    assert found and min(found) >= least, found
    assert told is None or told > min(found) - 0.03  # the float network it is measured on is ONNX Runtime's


@brought
def test_a_kind_that_is_beyond() -> None:
    """One line with its name and a remedy, not one for each operator of its own."""
    with pytest.raises(MicaError, match="a KNNImputer") as caught:
        compile_file(TRIALS / "missing-values-by-neighbours" / "model.onnx")
    assert "SimpleImputer" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ops", "kind"),
    (
        (("TopK", "CumSum", "ArgMin", "GatherElements"), "AdaBoost"),
        (("Scan", "CumSum", "Less", "Where"), "radius"),
        (("Solve",), "Gauss"),
        (("TfIdfVectorizer",), "EmbeddingBag"),
    ),
)
def test_kinds_by_their_operators(ops: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 3])
    row = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("in", "out")]
    counts = {"mode": "TF", "max_gram_length": 1, "min_gram_length": 1, "max_skip_count": 0}
    counts |= {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [1, 2]}
    body = helper.make_graph([helper.make_node("Neg", ["in"], ["out"])], "body", row[:1], row[1:])
    made = {
        "ArgMin": lambda: net.add("ArgMin", x, axis=1),
        "CumSum": lambda: net.add("CumSum", x, net.const(np.array(1))),
        "GatherElements": lambda: net.add("GatherElements", x, net.const(np.array([[0]])), axis=1),
        "Less": lambda: net.add("Less", x, x),
        "Scan": lambda: net.add("Scan", x, num_scan_inputs=1, body=body),
        "Where": lambda: net.add("Where", net.const(np.array(True)), x, x),
        "Solve": lambda: net.add("Solve", x, x, domain="com.microsoft"),
        "TfIdfVectorizer": lambda: net.add("TfIdfVectorizer", x, **counts),
        "TopK": lambda: net.add("TopK", x, net.const(np.array([1])), outputs=["v", "i"]),
    }
    for op in ops:
        made[op]()
    net.add("ArrayFeatureExtractor", x, net.const(np.array([0])), domain=ML)
    net.domains |= {ML: 3, "com.microsoft": 1}
    net.output(net.add("Relu", x), [1, 3])
    with pytest.raises(MicaError, match=kind):
        compile_file(net.save(tmp_path))


def test_a_file_of_other_coefficients(tmp_path: Path) -> None:
    net = Net()
    y = net.add("LinearRegressor", net.input([1, 3]), coefficients=[1.0] * 6, intercepts=[0.0], targets=1, domain=ML)
    net.domains[ML] = 3
    net.output(y, [1, 1])
    with pytest.raises(MicaError, match="6 coefficients for 3 features"):
        compile_file(net.save(tmp_path))


@pytest.mark.parametrize("shared", (True, False))
def test_categories_of_a_tree(shared: bool, tmp_path: Path) -> None:
    """x2 in {0, 1, 3}: a chain of questions whose answers are one node, and its like with a node each;
    also numbers between."""
    net = Net(opset=17)
    yes = [4, 4, 4] if shared else [4, 5, 6]
    leaves = 1 if shared else 3
    nodes = 4 + leaves
    y = net.add(
        "TreeEnsembleRegressor", net.input([1, 3]), n_targets=1,
        nodes_treeids=[0] * nodes, nodes_nodeids=[*range(nodes)], nodes_featureids=[2, 2, 2, *[0] * (nodes - 3)],
        nodes_modes=["BRANCH_EQ"] * 3 + ["LEAF"] * (nodes - 3), nodes_values=[1.0, 3.0, 0.0, *[0.0] * (nodes - 3)],
        nodes_truenodeids=[*yes, *[0] * (nodes - 3)], nodes_falsenodeids=[1, 2, 3, *[0] * (nodes - 3)],
        target_treeids=[0] * (1 + leaves), target_nodeids=[3, *range(4, nodes)], target_ids=[0] * (1 + leaves),
        target_weights=[-1.0, *[2.0] * leaves],
    )  # fmt: skip
    net.output(y, [1, 1])
    compiled, (found,), (real,), _ = both(net, tmp_path)
    assert set(np.unique(real)) == {-1.0, 2.0}
    assert np.abs(found.reshape(real.shape) - real).max() <= 3 / 255
    words = len(next(s for s in compiled.model.steps if s.kernel == "forest_s8").blobs["nodes"])
    assert words <= (20 if shared else 32)


def test_branches_that_are_shared_too_often(tmp_path: Path) -> None:
    """A tree whose nodes all share their branches has 2 ** depth paths: refused, and soon."""
    net, depth = Net(opset=17), 40
    y = net.add(
        "TreeEnsembleRegressor", net.input([1, 3]), n_targets=1,
        nodes_treeids=[0] * (depth + 1), nodes_nodeids=[*range(depth + 1)],
        nodes_featureids=[k % 3 for k in range(depth)] + [0],
        nodes_modes=["BRANCH_EQ"] * depth + ["LEAF"], nodes_values=[0.5] * (depth + 1),
        nodes_truenodeids=[*range(1, depth + 1), 0], nodes_falsenodeids=[*range(1, depth + 1), 0],
        target_treeids=[0], target_nodeids=[depth], target_ids=[0], target_weights=[1.0],
    )  # fmt: skip
    net.output(y, [1, 1])
    with pytest.raises(MicaError, match="share branches"):
        compile_file(saved(net, tmp_path))


def test_outputs_that_are_a_sequence(tmp_path: Path) -> None:
    """Labels in a row, and a sequence of probabilities: an output each."""
    net = Net(seed=3)
    x = net.input([1, 3])
    scores = [net.add("Gemm", x, net.random(3, n), net.random(n)) for n in (3, 2)]
    places = [net.add("Reshape", net.add("ArgMax", s, axis=1, keepdims=0), net.const(np.array([1, 1]))) for s in scores]
    net.output(net.add("Concat", *places, axis=1), [1, 2], TensorProto.INT64)
    parts = [net.add("Softmax", s, axis=1) for s in scores]
    sequence = net.add("SequenceConstruct", *parts)
    net.outputs.append(helper.make_tensor_sequence_value_info(sequence, TensorProto.FLOAT, None))
    rows = np.random.default_rng(5).normal(size=(300, 3)).astype(np.float32)
    path = net.save(tmp_path)
    found = of_file(compile_file(path, {"x": rows}).data, rows)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    real = [session.run(None, {"x": row[None]}) for row in rows]
    labels = np.concatenate([a.reshape(len(rows), -1) for a in found], axis=1)[:, :2]
    assert (np.rint(labels) == np.concatenate([r[0] for r in real])).mean() > 0.98
    for k in (0, 1):
        off = np.abs(found[k - 2] - np.concatenate([r[1][k] for r in real]))
        assert off.max() < 0.03
