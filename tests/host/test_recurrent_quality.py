"""Recurrent exports beside ONNX Runtime's quantisation of them, in which the recurrence itself stays in float.

Inside the kernel a hidden state has 16 bits and a cell state 16; only what leaves a layer is int8.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from exports import FOLDER, answers, compiled
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

NAMES = ("torchscript_lstm", "torchscript_gru", "torchscript_rnn", "torchscript_rnn_relu", "keras_lstm")
SAMPLES = 64
BEHIND = 3.0  # dB that mica may be


class _Reader(CalibrationDataReader):  # type: ignore[misc] - onnxruntime has no types
    def __init__(self, feeds: Iterator[dict[str, np.ndarray]]) -> None:
        self.feeds = feeds

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def qdq(path: Path, folder: Path) -> float:
    """SQNR of the first output of ONNX Runtime's QDQ model, in dB, over the test inputs of the export."""
    model = onnx.load(path)
    (name,) = [i.name for i in model.graph.input]
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_value = 1 if not dims[0].dim_value else dims[0].dim_value
    onnx.save(model, folder / "float.onnx")
    with np.load(path.with_suffix(".npz")) as data:
        arrays = {k: data[k] for k in data.files}
    shape = [d.dim_value for d in dims]
    feeds = iter([{name: x.reshape(shape).astype(np.float32)} for x in arrays[name][:SAMPLES]])
    quantize_static(
        folder / "float.onnx",
        folder / "qdq.onnx",
        _Reader(feeds),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    session = onnxruntime.InferenceSession(folder / "qdq.onnx", providers=["CPUExecutionProvider"])
    out = session.get_outputs()[0].name
    expected = arrays[f"test/{out}"].astype(np.float64)
    found = [session.run([out], {name: x.reshape(shape).astype(np.float32)})[0] for x in arrays[f"test/{name}"]]
    noise = np.mean((expected - np.stack(found).reshape(expected.shape)) ** 2)
    return float(10 * np.log10(np.mean(expected**2) / noise))


@pytest.mark.parametrize("name", NAMES)
def test_near_float_recurrence(tmp_path: Path, name: str) -> None:
    path = FOLDER / f"{name}.onnx"
    theirs, ours = qdq(path, tmp_path), answers(path, compiled(path))[0].sqnr
    print(name, f"mica {ours:.2f} dB, ONNX Runtime's QDQ {theirs:.2f}")
    assert ours > theirs - BEHIND
