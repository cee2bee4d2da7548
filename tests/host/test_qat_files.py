"""Files of quantisation-aware training, of brevitas, torchao and Keras (by tf2onnx)
and built as they write them: their own scales, a channel, stay.

ONNX Runtime gives the expected values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from test_qdq import QNet, assert_agrees, differences

from mica.compile import compile_file
from mica.file.codec import StepRecord


def brevitas(net: QNet) -> None:
    """Float weights in the file, quantised by nodes; narrow ranges by Clip;
    a bias of 32 bits with a scale a channel."""

    def narrow(x: str, scale: Any, zero: Any, **attrs: int) -> str:
        low, high = (net.const(np.int8(v)) for v in (-127, 127))
        return net.dequantise(net.add("Clip", net.quantise(x, scale, zero, **attrs), low, high), scale, zero, **attrs)

    w = net.rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32)
    steps = np.abs(w).max(axis=(1, 2, 3)) / 115
    x = narrow(net.input([1, 3, 12, 12]), 0.03, 0)
    bias = net.const(net.rng.integers(-900, 900, 8).astype(np.int32))
    b = net.dequantise(bias, steps * 0.03, np.zeros(8, int), np.int32, axis=0)
    y = net.add("Relu", net.add("Conv", x, narrow(net.const(w), steps, [0] * 8, axis=0), b, pads=[1] * 4))
    net.output(net.rounded(y, 0.02, 0, np.uint8))


def torchao(net: QNet) -> None:
    """int8 weights a channel, biases of real numbers, products with a transposed constant."""
    x = net.rounded(net.input([1, 3, 12, 12]), 0.03, -5)
    w = [net.const(net.weights(*shape, low=-127, high=127)) for shape in ((8, 3, 3, 3), (5, 1152))]
    w = [net.dequantise(v, net.rng.uniform(0.001, 0.004, n), [0] * n, axis=0) for v, n in zip(w, (8, 5), strict=True)]
    y = net.rounded(net.add("Relu", net.add("Conv", x, w[0], net.random(8), pads=[1] * 4)), 0.02, -128)
    y = net.add("MatMul", net.add("Flatten", y), net.add("Transpose", w[1], perm=[1, 0]))
    net.output(net.rounded(net.add("Add", y, net.random(5)), 0.1, 3))


def keras(net: QNet) -> None:
    """Channels last: weights are quantised along their last axis and transposed; the bias comes behind a transpose."""
    x = net.add("Transpose", net.rounded(net.input([1, 12, 12, 3]), 0.03, -3), perm=[0, 3, 1, 2])
    w = net.rng.normal(0, 0.3, (3, 3, 3, 8)).astype(np.float32)
    scale = np.abs(w).max(axis=(0, 1, 2)) / 127
    q = net.dequantise(net.quantise(net.const(w), scale, [0] * 8, axis=3), scale, [0] * 8, axis=3)
    y = net.add("Conv", x, net.add("Transpose", q, perm=[3, 2, 0, 1]), auto_pad="SAME_UPPER")
    y = net.add("Add", net.add("Transpose", y, perm=[0, 2, 3, 1]), net.random(8))
    net.output(net.rounded(net.add("Clip", y, *(net.const(np.float32(v)) for v in (0, 6))), 6 / 255, -128))


@pytest.mark.parametrize("form", [brevitas, torchao, keras])
def test_as_trained(form: Callable[[QNet], None], tmp_path: Path) -> None:
    """No calibration, one layer for each of the network's, and its integers but for rounding."""
    net = QNet()
    form(net)
    compiled = assert_agrees(net.save(tmp_path), net.samples(4), 0.99)
    linear = [s for s in compiled.model.steps if "mult" in s.blobs]
    assert [s.kernel for s in linear] == ["conv2d_s8", "fully_connected_s8"][: 1 + (form is torchao)]
    assert all(_several(s) for s in linear), "a scale a channel"


def _several(s: StepRecord) -> bool:
    scales = s.blobs["mult"] * 2.0 ** s.blobs["shift"].astype(float)
    return len(set(scales.tolist())) > 1


FILES = Path(__file__).resolve().parents[1] / "models" / "qat"  # of make_qat.py
CHANNELS = {"brevitas": [8, 8, 8, 4], "torchao": [8, 8, 8, 4], "keras": [8, 8, 8, 4]}


@pytest.mark.parametrize("name", CHANNELS)
def test_of_its_exporter(name: str) -> None:
    """Steps of the weights are the file's, channel by channel, and answers are ONNX Runtime's.
    48 samples give torchao's range of the output, which it leaves open; the others compare."""
    path, x = FILES / f"{name}.onnx", np.load(FILES / "x.npz")["x"]
    x = x.transpose(0, 2, 3, 1) if name == "keras" else x
    compiled = compile_file(path, {"x": x[:48]}, plain=True)
    d = differences(path, compiled, [{"x": one[None]} for one in x[48:]])
    assert np.mean(np.abs(d) <= 1) >= 0.99
    linear = [s for s in compiled.model.steps if "mult" in s.blobs]
    assert [len(s.blobs["mult"]) for s in linear] == CHANNELS[name]
    if name == "torchao":  # integers in the file; brevitas and Keras have real numbers there
        own = {np.sort(w.reshape(-1)).tobytes() for w in _constants(path) if w.dtype == np.int8 and w.ndim > 1}
        assert {np.sort(s.blobs["weights"].reshape(-1)).tobytes() for s in linear} == own
    for s in linear:
        ratios = _scales(s, compiled.model.tensors)
        assert len(set(ratios.tolist())) > 1, "a scale a channel"
        if name != "keras":  # which folded its scales into the weights
            near = [w for w in _constants(path) if w.shape == ratios.shape and w.dtype == np.float32 and np.all(w > 0)]
            assert any(np.allclose(ratios, w, rtol=1e-5) for w in near), s.name


def _constants(path: Path) -> list[np.ndarray]:
    graph = onnx.load(path).graph
    of_nodes = [a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
    return [numpy_helper.to_array(t) for t in (*graph.initializer, *of_nodes)]


def _scales(s: StepRecord, tensors: Any) -> np.ndarray:
    """Real numbers of one step of the weights [Cout]."""
    x, y = tensors[s.inputs[0]], tensors[s.outputs[0]]
    factors = s.blobs["mult"].astype(np.float64) * 2.0 ** -(31.0 + s.blobs["shift"])
    return np.asarray(factors * y.scale / x.scale)
