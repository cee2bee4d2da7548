"""The demo's model and data are those that host_tools/mica/demo/README.md describes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import mica.demo

DEMO = Path(mica.demo.__file__).parent


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(DEMO / "digits.onnx", load_external_data=False)


def test_accuracy_is_the_one_in_the_readme() -> None:
    found = re.search(r"\*\*([\d.]+) %\*\* \((\d+) of (\d+)\)", (DEMO / "README.md").read_text(encoding="utf-8"))
    assert found, "README.md has no line with `**accuracy %** (right of samples)`"
    percent, right, samples = float(found[1]), int(found[2]), int(found[3])
    test = np.load(DEMO / "digits_test.npz")
    x = test["x"].astype(np.float32) * test["scale"] + test["offset"]
    session = onnxruntime.InferenceSession(str(DEMO / "digits.onnx"), providers=["CPUExecutionProvider"])
    probabilities = np.asarray(session.run(["probabilities"], {"image": x})[0])
    assert probabilities.shape == (len(x), 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert samples == len(x)
    assert int((probabilities.argmax(axis=1) == test["y"]).sum()) == right
    assert percent == round(100 * right / samples, 2) >= 97.5


def test_samples() -> None:
    calib, test = np.load(DEMO / "digits_calib.npz"), np.load(DEMO / "digits_test.npz")
    assert sorted(calib) == ["x"]
    assert sorted(test) == ["offset", "scale", "x", "y"]
    assert (calib["x"].dtype, calib["x"].shape) == (np.float32, (150, 1, 8, 8))
    assert (test["x"].dtype, test["x"].shape) == (np.uint8, (360, 1, 8, 8))
    assert (test["x"].min(), test["x"].max()) == (0, 16)
    assert test["scale"].shape == test["offset"].shape == ()
    assert (calib["x"].min(), calib["x"].max()) == (0.0, 1.0)
    digits, counts = np.unique(test["y"], return_counts=True)
    assert digits.tolist() == list(range(10))
    assert counts.min() >= 35, "every digit, about equally often"


def test_no_picture_is_both_in_calibration_and_test() -> None:
    test = np.load(DEMO / "digits_test.npz")
    pictures = [picture.tobytes() for picture in test["x"].astype(np.float32) * test["scale"] + test["offset"]]
    calibration = [picture.tobytes() for picture in np.load(DEMO / "digits_calib.npz")["x"]]
    assert len(set(pictures)) == len(pictures)
    assert len(set(calibration)) == len(calibration)
    assert not set(pictures) & set(calibration)


def test_model_is_valid_and_whole(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    assert all(tensor.data_location == onnx.TensorProto.DEFAULT for tensor in model.graph.initializer)
    (image,), (probabilities,) = model.graph.input, model.graph.output
    assert (image.name, probabilities.name) == ("image", "probabilities")
    assert [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim] == ["N", 1, 8, 8]
    assert [d.dim_param or d.dim_value for d in probabilities.type.tensor_type.shape.dim] == ["N", 10]


def test_model_has_the_operators_the_demo_promises(model: onnx.ModelProto) -> None:
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    kinds = {node.op_type for node in model.graph.node}
    for node in model.graph.node:
        if node.op_type == "Conv":
            group = next(attribute.i for attribute in node.attribute if attribute.name == "group")
            channels = weights[node.input[1]][1] * group
            if group == 1:
                kinds.add("full Conv")
            elif group == channels:
                kinds.add("depthwise Conv")
    expected = {"full Conv", "depthwise Conv", "BatchNormalization", "Relu", "MaxPool", "Flatten", "Gemm", "Softmax"}
    assert expected <= kinds


def test_labels() -> None:
    assert (DEMO / "labels.txt").read_text(encoding="ascii").splitlines() == list("0123456789")


def test_small_enough_to_travel_in_the_package() -> None:
    assert (
        sum((DEMO / name).stat().st_size for name in ("digits.onnx", "digits_calib.npz", "digits_test.npz")) < 200_000
    )
