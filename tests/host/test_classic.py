"""Trees, linear models, support vector machines ... as scikit-learn's, XGBoost's and LightGBM's exporters write them.

Each was trained on a data set that scikit-learn ships (tests/models/make_classic.py).
Accuracy on samples that nobody saw is held against ONNX Runtime's on the same file: within half a point or one answer,
R2 within 0.005.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from nets import Net, truth, varies

from mica.compile import Compiled, compile_file
from mica.cost.table import Table
from mica.format.values import dequantise_output, quantise_input
from mica.kernels import tabular
from mica.quantise.kernels import tabular as quantise_tabular
from mica.run.host import HostRunner

FOLDER = Path(__file__).resolve().parent.parent / "models" / "classic"
NAMES = sorted(p.stem for p in FOLDER.glob("*.onnx"))
POINTS, R2 = 0.005, 0.005


@cache
def compiled(name: str) -> Compiled:
    with np.load(FOLDER / f"{name}.npz") as data:
        return compile_file(FOLDER / f"{name}.onnx", {"x": data["x"]})


def answers(name: str, x: np.ndarray) -> list[np.ndarray]:
    """The outputs for samples [n, F], real numbers [n, ...] each."""
    return of_file(compiled(name).data, x)


def of_file(data: bytes, x: np.ndarray) -> list[np.ndarray]:
    with HostRunner(data) as runner:
        tensors = runner.model.tensors
        t = tensors[runner.model.inputs[0]]
        results = runner.run([[quantise_input(v, t)] for v in x])
        outputs = [tensors[i] for i in runner.model.outputs]
        return [
            np.stack([dequantise_output(r[i], t).reshape(t.dims)[0] for r in results]) for i, t in enumerate(outputs)
        ]


def score(found: np.ndarray, y: np.ndarray) -> float:
    """R2."""
    return 1 - float(np.sum((found.reshape(-1) - y) ** 2) / np.sum((y - y.mean()) ** 2))


@pytest.mark.parametrize("name", NAMES)
def test_as_good_as_float(name: str) -> None:
    with np.load(FOLDER / f"{name}.npz") as data:
        x, y = data["test/x"], data["test/y"]
    session = onnxruntime.InferenceSession(FOLDER / f"{name}.onnx", providers=["CPUExecutionProvider"])
    real = np.asarray(session.run(None, {"x": x})[0]).reshape(-1)
    found = answers(name, x)[0]
    if y.dtype.kind == "f":
        expected, got = score(real, y), score(found, y)
        print(f"{name}: R2 float {expected:.4f}, mica {got:.4f}")
        assert got > expected - R2
        return
    labels = compiled(name).model.metadata.get("labels")
    answer = found.reshape(-1).astype(int)
    picked = np.array(labels.split("\n"))[answer] if labels else answer
    expected, got = float((real == y).mean()), float((picked == y).mean())
    print(f"{name}: float {expected:.4f}, mica {got:.4f}, {int((picked != real).sum())} of {len(y)} answers differ")
    assert got >= expected - max(POINTS, 1.001 / len(y))


def test_forest_takes_little_room() -> None:
    """A forest takes at most 8 bytes for each inner node and leaf, and the names and records that every file has."""
    data = compiled("forest")
    step = next(s for s in data.model.steps if s.kernel == "forest_s8")
    nodes = step.blobs["nodes"][: -tabular.SPARE]
    leaves = int(((nodes & tabular.LEAF_NODE) != 0).sum())
    inner = len(nodes) - leaves
    assert inner == leaves - len(step.blobs["roots"])
    assert len(data.data) <= 1024 + 8 * (inner + leaves), (len(data.data), inner, leaves)


@pytest.mark.parametrize("name", ("forest", "forest_regressor", "xgboost", "tree"))
def test_both_kernels_of_trees_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """trees_s8, which takes rows of more columns and larger trees, and forest_s8."""
    small = compiled(name)
    with np.load(FOLDER / f"{name}.npz") as data:
        monkeypatch.setattr(quantise_tabular, "_small_nodes", lambda *_: None)
        large = compile_file(FOLDER / f"{name}.onnx", {"x": data["x"]})
        x = data["test/x"]
    kinds = [{s.kernel for s in c.model.steps} & {"forest_s8", "trees_s8"} for c in (small, large)]
    assert kinds == [{"forest_s8"}, {"trees_s8"}]
    found = []
    for c in (small, large):
        with HostRunner(c.data) as runner:
            t = runner.model.tensors[runner.model.inputs[0]]
            found.append(
                [[np.asarray(y).tobytes() for y in r] for r in runner.run([[quantise_input(v, t)] for v in x])]
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ("forest", "neighbours", "neighbours_regressor", "svm_regressor"))
def test_its_time_is_predicted(name: str) -> None:
    """On every core that was measured."""
    model, table = compiled(name).model, Table.read()
    for core in table.content["cores"]:
        missing = [s.kernel for s in model.steps if table.step(core, model, s, 2048) is None]
        assert not missing, core


def test_probabilities_of_three_classes(tmp_path: Path) -> None:
    """A closed form replaces libsvm's iteration. It stays within the stated error, and labels come from votes, with
    probabilities and without."""
    model = onnx.load(FOLDER / "svm.onnx")
    (node,) = (n for n in model.graph.node if n.op_type == "SVMClassifier")
    node.attribute.extend(onnx.helper.make_attribute(name, [-1.5, -2.0, -1.0]) for name in ("prob_a", "prob_b"))
    onnx.save(model, tmp_path / "svm.onnx")
    with np.load(FOLDER / "svm.npz") as data:
        x, test = data["x"], data["test/x"]
    session = onnxruntime.InferenceSession(tmp_path / "svm.onnx", providers=["CPUExecutionProvider"])
    labels, real = session.run(None, {"x": test})[:2]
    said: list[str] = []
    found = of_file(compile_file(tmp_path / "svm.onnx", {"x": x}, warn=said.append).data, test)
    assert any("3 classes" in s and "closed form" in s for s in said)
    assert np.count_nonzero(found[0].reshape(-1) != labels) <= 1
    off = np.abs(found[1] - real)
    assert off.max() < 0.04 and off.mean() < 0.01, (off.max(), off.mean())


@pytest.mark.parametrize("shift", (0, 120, 800))
def test_integers_are_read_as_they_are(shift: int, tmp_path: Path) -> None:
    """Trees that read an input of integers need no ranks where int8 tells all thresholds apart,
    and answer as ONNX Runtime."""
    model = onnx.load(FOLDER / "forest.onnx")
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    (node,) = model.graph.node
    (split,) = (a for a in node.attribute if a.name == "nodes_values")
    wide = 20 if shift > 255 else 1  # then int8 does not tell all thresholds apart
    split.floats[:] = [v * wide + shift for v in split.floats]
    onnx.save(model, tmp_path / "m.onnx")
    with np.load(FOLDER / "forest.npz") as data:
        x, test = data["x"] * wide + shift, data["test/x"][:60] * wide + shift
    test[-3:, ::2], test[-2:, 1::2] = 5000, -5000
    compiled = compile_file(tmp_path / "m.onnx", {"x": x})
    assert (compiled.model.steps[0].kernel == "ranks_s8") == (shift > 255)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    labels, real = session.run(None, {"x": test.astype(np.int64)})
    found = of_file(compiled.data, test)
    np.testing.assert_array_equal(found[0].reshape(-1), labels)
    assert np.abs(found[1] - real).max() <= 1 / 128


def test_a_power_transformer_is_ranks() -> None:
    """Its features are within half a step of float, however skewed they are;
    also below 0, and at its limits beyond 4.5 deviations."""
    data = compiled("power")
    k, step = next((k, s) for k, s in enumerate(data.model.steps) if s.kernel == "ranks_s8")
    model = onnx.load(FOLDER / "power.onnx")
    name = next(i for n in model.graph.node if n.op_type == "Concat" for i in n.input)
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y = data.model.tensors[step.outputs[0]]
    x = np.tile(np.float32([-2, -0.3, -0.05, -0.001, 0, 1e-4, 0.02, 0.1, 0.4])[:, None], (1, y.dims[-1]))
    with HostRunner(data.data) as runner:
        found = np.stack([runner.layer_output([v[None]], k) for v in x]) * y.scale
    (real,) = session.run(None, {"x": x})
    assert np.ptp(real) > 9 and (real < 0).any()
    assert np.abs(np.clip(real, -128 * y.scale, 127 * y.scale) - found).max() <= y.scale * 0.51


@pytest.mark.parametrize("scaler", (True, False))
def test_a_quadratic_discriminant_is_layers(scaler: bool, tmp_path: Path) -> None:
    """Packs what scikit-learn's exporter writes: squares of products with as many rows as features, for each class."""
    net, r = Net(), np.random.default_rng(4)
    x = net.input([1, 4])
    if scaler:
        x = net.add("Sub", x, net.const(np.float32([5, 0, 1000, -3])))
        x = net.add("Div", x, net.const(np.float32([1, 2, 40, 1])))
    sums = []
    for _ in range(3):
        moved = net.add("Sub", x, net.const(r.normal(size=4).astype(np.float32)))
        squares = net.add("Pow", net.add("MatMul", moved, net.random(4, 4)), net.const(np.float32(2)))
        sums.append(net.add("ReduceSum", squares, net.const(np.array([1])), keepdims=1))
    net.output(net.add("Concat", *sums, axis=1))
    rows = r.normal(size=(200, 4)) * ([1, 2, 40, 1] if scaler else 1) + ([5, 0, 1000, -3] if scaler else 0)
    rows = rows.astype(np.float32)
    parts = of_file(compile_file(net.save(tmp_path), {"x": rows[:128]}).data, rows[128:])
    found = np.concatenate([part.reshape(72, -1) for part in parts], axis=1)
    real = np.stack([truth(net, {"x": row[None]})[net.outputs[0].name].reshape(-1) for row in rows[128:]])
    assert np.mean(found.argmin(axis=1) == real.argmin(axis=1)) > 0.95
    assert 10 * np.log10(varies(list(real)) / np.sum((real - found) ** 2)) > 25


@pytest.mark.parametrize(
    ("name", "kernels"),
    (
        ("kernel_pca", ["distances_s8", "machine_s8", "argmax_s8"]),
        ("kernel_pca_polynomial", ["distances_s8", "machine_s8", "argmax_s8"]),
        ("gauss_regressor", ["distances_s8", "machine_s8"]),
        ("outliers", ["distances_s8", "nearest_s8", "nearest_s8", "mul_s8"]),
    ),
)
def test_rows_of_training_data_are_one_table(name: str, kernels: list[str]) -> None:
    """A kernel method of a hundred rows is a step or two, whatever its curve, and so is a local outlier factor."""
    found = [s.kernel for s in compiled(name).model.steps]
    assert found[: len(kernels)] == kernels
