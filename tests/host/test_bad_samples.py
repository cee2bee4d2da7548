"""Calibration samples that hold NaN or infinity: refused, but for missing values that the model has learnt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net
from onnx import helper, numpy_helper

from mica.compile import Compiled, compile_file
from mica.errors import MicaError
from mica.format.values import dequantise_output, quantise_input
from mica.importer import trees
from mica.run.host import HostRunner

CLASSIC = Path(__file__).parent.parent / "models" / "classic"
REFUSED = r"calibration sample 4: input 'x' holds NaN or infinity"


def rows(n: int = 4) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((40, n)).astype(np.float32)


def with_one(x: np.ndarray, value: float, column: int = 1) -> np.ndarray:
    x = x.copy()
    x[4, column] = value
    return x


def table(imputed: tuple[float, ...] = (), columns: int = 4) -> Net:
    """A scaler and a dense layer; before them an Imputer that has values for missing features."""
    net = Net()
    x = net.input([1, columns])
    if imputed:
        net.nodes.append(
            helper.make_node("Imputer", [x], ["whole"], domain="ai.onnx.ml", imputed_value_floats=list(imputed),
                             replaced_value_float=float("nan"))
        )  # fmt: skip
        net.domains["ai.onnx.ml"] = 3
        x = "whole"
    scale = net.const(np.linspace(0.1, 2.0, columns, dtype=np.float32))
    net.output(net.add("Gemm", net.add("Mul", x, scale), net.random(columns, 3)))
    return net


def packed(net: Net, folder: Path, x: np.ndarray) -> Compiled:
    return compile_file(net.save(folder), {"x": x}, plain=True)


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
def test_a_table_of_features(value: float, tmp_path: Path) -> None:
    """It stays float32 in the file, so that its NaN reached the kernel, which took it for 0."""
    with pytest.raises(MicaError, match=REFUSED):
        packed(table(), tmp_path, with_one(rows(), value))


def test_an_imputer_says_what_a_missing_feature_is(tmp_path: Path) -> None:
    """A model with an imputer takes NaN, also with a fill value of 0, as of a scaler. It refuses infinity."""
    for values in ((0.0,), (0.5, 1.0, -1.0, 0.0)):
        packed(table(values), tmp_path, with_one(rows(), np.nan))
    with pytest.raises(MicaError, match=REFUSED):
        packed(table((0.0,)), tmp_path, with_one(rows(), np.inf))


def samples(name: str) -> np.ndarray:
    x = np.array(np.load(CLASSIC / f"{name}.npz")["x"][:40], np.float32)
    return np.where(np.isnan(x), np.float32(0.5), x)


@pytest.mark.parametrize("name", ("xgboost_missing", "lightgbm_missing", "forest_imputed", "logistic_imputed"))
def test_models_that_learnt_missing_values(name: str) -> None:
    x = samples(name)
    assert compile_file(CLASSIC / f"{name}.onnx", {"x": with_one(x, np.nan)}, plain=True).data
    with pytest.raises(MicaError, match=REFUSED):
        compile_file(CLASSIC / f"{name}.onnx", {"x": with_one(x, np.inf)}, plain=True)


@pytest.mark.parametrize("name", ("forest", "logistic", "neighbours", "svm", "bayes_raw"))
def test_models_that_did_not(name: str) -> None:
    """Each reads its features as float32. One column of each that it uses."""
    x = samples(name)
    column = int(np.argmax(x.std(axis=0)))
    with pytest.raises(MicaError, match=REFUSED):
        compile_file(CLASSIC / f"{name}.onnx", {"x": with_one(x, np.nan, column)}, plain=True)


@pytest.mark.parametrize("mode", ("BRANCH_EQ", "BRANCH_MEMBER", "BRANCH_LEQ"))
def test_trees_that_ask_for_equal_values(mode: str, tmp_path: Path) -> None:
    """A NaN equals nothing, so that it goes where another category goes; trees of x <= t alone have not learnt it."""
    x = np.tile(np.array([[1.0], [2.0]], np.float32), (20, 1))
    path = categories(mode).save(tmp_path)
    if mode == "BRANCH_LEQ":
        with pytest.raises(MicaError, match=REFUSED):
            compile_file(path, {"x": with_one(x, np.nan, 0)}, plain=True)
        return
    found = compile_file(path, {"x": with_one(x, np.nan, 0)}, plain=True)
    with HostRunner(found.data) as runner:
        t = runner.model.tensors[runner.model.inputs[0]]
        (out,) = (runner.model.tensors[i] for i in runner.model.outputs)
        rows = [[quantise_input(np.array([[v]], np.float32), t)] for v in (1.0, 3.0, np.nan)]
        y = [float(dequantise_output(r[0], out).reshape(-1)[0]) for r in runner.run(rows)]
    assert y == pytest.approx([5.0, -5.0, -5.0], abs=0.1)
    with pytest.raises(MicaError, match=REFUSED):
        compile_file(path, {"x": with_one(x, np.inf, 0)}, plain=True)


def categories(mode: str) -> Net:
    """A tree: 5 where x is 1, else -5."""
    net = Net()
    tensors = {
        "nodes_splits": np.array([1.0], np.float32),
        "nodes_modes": np.array([trees.MODES.index(mode)], np.uint8),
        "leaf_weights": np.array([5.0, -5.0], np.float32),
    }
    if mode == "BRANCH_MEMBER":
        tensors["membership_values"] = np.array([1.0, np.nan], np.float32)
    net.nodes.append(
        helper.make_node("TreeEnsemble", [net.input([1, 1])], ["y"], domain="ai.onnx.ml", n_targets=1, tree_roots=[0],
                         nodes_featureids=[0], nodes_truenodeids=[0], nodes_falsenodeids=[1], nodes_trueleafs=[1],
                         nodes_falseleafs=[1],
                         leaf_targetids=[0, 0], **{k: numpy_helper.from_array(v, k) for k, v in tensors.items()})
    )  # fmt: skip
    net.domains["ai.onnx.ml"] = 5
    net.output("y", [1, 1])
    return net


def test_a_model_that_came_quantised(tmp_path: Path) -> None:
    """Its scales need no calibration; its quality is measured with it all the same."""
    net = Net()
    x, scale, zero = net.input([1, 4]), net.const(np.float32(0.05)), net.const(np.int8(0))
    x = net.add("DequantizeLinear", net.add("QuantizeLinear", x, scale, zero), scale, zero)
    y = net.add("Relu", x)
    net.output(net.add("DequantizeLinear", net.add("QuantizeLinear", y, scale, zero), scale, zero))
    with pytest.raises(MicaError, match=REFUSED):
        packed(net, tmp_path, with_one(rows(), np.nan))
