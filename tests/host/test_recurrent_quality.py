"""Recurrent exports beside ONNX Runtime's quantisation of them, in which the recurrence itself stays in float.

Inside the kernel a hidden state has 16 bits and a cell state 16; only what leaves a layer is int8.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from exports import FOLDER, Answer, compiled
from nets import Net
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from mica.format.values import dequantise_output, quantise_input
from mica.quantise import lstm_effect
from mica.reference.recurrent import Activation
from mica.run.host import HostRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import exporting

NAMES = ("dynamo_lstm_2layer", "torchscript_lstm", "torchscript_gru", "torchscript_rnn", "torchscript_rnn_relu")
NAMES += ("keras_lstm", "keras_gru")
SAMPLES = 64
FRESH = 256  # inputs that no file has; a single one may hold half of the error
BEHIND = 3.0  # dB that mica may be


class _Reader(CalibrationDataReader):  # type: ignore[misc] - onnxruntime has no types
    def __init__(self, feeds: Iterator[dict[str, np.ndarray]]) -> None:
        self.feeds = feeds

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def sqnr(expected: np.ndarray, found: np.ndarray) -> float:
    return Answer("y", expected, found.reshape(expected.shape)).sqnr


def qdq(path: Path, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(fresh inputs, first output of the float model, the same of ONNX Runtime's QDQ model)."""
    model = onnx.load(path)
    (name,) = [i.name for i in model.graph.input]
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value = 1 if not dims[0].dim_value else dims[0].dim_value
    onnx.save(model, folder / "float.onnx")
    shape = [d.dim_value for d in dims]
    with np.load(path.with_suffix(".npz")) as data:
        feeds = iter([{name: x.reshape(shape).astype(np.float32)} for x in data[name][:SAMPLES]])
    quantize_static(
        folder / "float.onnx",
        folder / "qdq.onnx",
        _Reader(feeds),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    xs = np.ascontiguousarray(exporting.series(FRESH, shape[2], shape[1], 977)[0].transpose(0, 2, 1))

    def run(file: str) -> np.ndarray:
        session = onnxruntime.InferenceSession(folder / file, providers=["CPUExecutionProvider"])
        return np.stack([session.run(None, {name: x[None]})[0] for x in xs]).astype(np.float64)

    return xs, run("float.onnx"), run("qdq.onnx")


@pytest.mark.parametrize("name", NAMES)
def test_near_float_recurrence(tmp_path: Path, name: str) -> None:
    path = FOLDER / f"{name}.onnx"
    xs, expected, found = qdq(path, tmp_path)
    with HostRunner(compiled(path).data) as runner:
        x, y = (runner.model.tensors[ids[0]] for ids in (runner.model.inputs, runner.model.outputs))
        results = [dequantise_output(r[0], y) for r in runner.run([[quantise_input(v[None], x)] for v in xs])]
    ours, theirs = sqnr(expected, np.stack(results)), sqnr(expected, found)
    print(name, f"mica {ours:.2f} dB, ONNX Runtime's QDQ {theirs:.2f}")
    assert ours > theirs - BEHIND


@pytest.mark.parametrize("reverse", [False, True])
def test_effects(reverse: bool) -> None:
    """Effects of all arguments of one unit on its last state, beside differences of ONNX Runtime's LSTM."""
    time, rng = 5, np.random.default_rng(3)
    w, r = (
        np.eye(4, dtype=np.float32),
        rng.normal(0, 1, (4, 1)).astype(np.float32),
    )  # an input for each gate: i, o, f, c
    net = Net(17)
    direction = "reverse" if reverse else "forward"
    constants = [net.const(w[None]), net.const(r[None])]
    net.add("LSTM", net.input([time, 1, 4]), *constants, outputs=["", "h"], hidden_size=1, direction=direction)
    net.output("h", [1, 1, 1])
    x = rng.normal(0, 1, (time, 1, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(net.model().SerializeToString(), providers=["CPUExecutionProvider"])
    moved = x.reshape(-1) + np.concatenate([d := 0.02 * np.eye(4 * time), -d]).astype(np.float32)
    ends = np.array([session.run(None, {net.inputs[0].name: v.reshape(x.shape)})[0].item() for v in moved])
    slopes = ((ends[: 4 * time] - ends[4 * time :]) / 0.04).reshape(time, 4)[:: -1 if reverse else 1]
    none, sigmoid, tanh = np.zeros(4, np.float32), Activation("sigmoid"), Activation("tanh")
    attrs = {"cell": "lstm", "reverse": reverse, "coupled": False, "gate": sigmoid, "candidate": tanh, "output": tanh}
    _, _, effects = lstm_effect.measure(attrs, x[None], [], [w, r, none, none, np.zeros((3, 1), np.float32)], False)
    np.testing.assert_allclose(effects, np.concatenate([slopes**2] * lstm_effect.PROBES), atol=2e-4)
    assert effects.max() > 0.01
