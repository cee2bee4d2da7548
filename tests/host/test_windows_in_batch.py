"""Convolutions over several windows of one picture, as Swin and EfficientViT put them into the batch axis.

ONNX Runtime gives the expected values; LiteRT those of SPACE_TO_BATCH_ND.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, assert_same, core, ops
from test_tflite_graphs import eights, kernels, same_as_litert
from tflite_files import Tflite
from tflite_nets import CONV

from mica.compile import compile_file
from mica.errors import MicaError
from mica.run.host import HostRunner

TRIAL = Path(__file__).resolve().parents[2].parent / "shared" / "trials" / "windows-in-the-batch"


def windows(
    kernel: list[int], function: str = "", whole: bool = True, inputs: int = 1, op: str = "Conv", **attrs: Any
) -> Net:
    """[1, 4, 12, 10] cut into 2 x 2 windows of 6 x 5; a Conv of each; whole: put together again.
    One-dimensional: 4 of 10."""
    net, flat = Net(), len(kernel) == 1
    x = net.input([inputs, 4, 40] if flat else [inputs, 4, 12, 10])
    n = 4 * inputs
    if flat:
        y = net.add("Transpose", net.add("Reshape", x, net.const(np.array([inputs, 4, 4, 10]))), perm=[0, 2, 1, 3])
        y = net.add("Reshape", y, net.const(np.array([n, 4, 10])))
    else:
        y = net.add("Reshape", x, net.const(np.array([inputs, 4, 2, 6, 2, 5])))
        y = net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 4, 1, 3, 5]), net.const(np.array([n, 4, 6, 5])))
    groups = attrs.get("group", 1)
    weights = net.random(4, 6 // groups, *kernel) if op == "ConvTranspose" else net.random(6, 4 // groups, *kernel)
    y = net.add(op, y, weights, net.random(6), **attrs)
    y = net.add(function, y) if function else y
    if whole:
        y = net.add("Add", net.add("Transpose", y, perm=[1, 0, *range(2, len(kernel) + 2)]), net.const(np.float32(1)))
    net.output(y)
    return net


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    (
        ([3, 3], {"pads": [1, 1, 1, 1]}),
        ([1, 1], {}),
        ([1, 1], {"strides": [2, 2]}),
        ([3, 2], {"pads": [2, 0, 0, 1], "strides": [2, 1]}),
        ([3, 3], {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
        ([5, 3], {"strides": [3, 2]}),
        ([2, 2], {"strides": [4, 1], "pads": [1, 0, 0, 0]}),
        ([6, 5], {}),
        ([3, 3], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ([4, 4], {"auto_pad": "SAME_LOWER"}),
        ([3, 3], {"auto_pad": "VALID"}),
        ([3, 3], {"pads": [1, 1, 1, 1], "group": 2}),
        ([3], {"pads": [1, 1]}),
        ([4], {"strides": [3], "pads": [2, 0]}),
        ([1], {}),
    ),
    ids=str,
)
def test_equals_onnx_runtime(tmp_path: Path, kernel: list[int], attrs: dict[str, Any]) -> None:
    for function, whole in (("", True), ("Relu", False)):
        net = windows(kernel, function, whole, **attrs)
        g = core(net, tmp_path)
        assert_same(net, g)
        assert ops(g).count("Conv2d") + ops(g).count("DepthwiseConv2d") == 1
        assert function not in ops(g)  # a Relu is in the convolution's clamp


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    (
        ([3, 3], {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
        ([2, 2], {"strides": [3, 2], "output_padding": [2, 1]}),
        ([1, 1], {"strides": [3, 1]}),
        ([4, 3], {"dilations": [2, 1], "group": 2, "strides": [3, 1]}),
        ([4, 3], {"output_shape": [11, 9], "strides": [2, 2]}),
        ([5, 3], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ([16], {"strides": [8], "pads": [3, 2]}),
    ),
    ids=str,
)
def test_transposed(tmp_path: Path, kernel: list[int], attrs: dict[str, Any]) -> None:
    for function, whole in (("", True), ("Relu", False)):
        net = windows(kernel, function, whole, op="ConvTranspose", **attrs)
        g = core(net, tmp_path)
        assert_same(net, g)
        assert ops(g).count("ConvTranspose2d") == 1 and function not in ops(g)


@pytest.mark.parametrize("function", ("LeakyRelu", "Sigmoid", "HardSwish", "Softplus"))
def test_functions_behind_it(tmp_path: Path, function: str) -> None:
    net = windows([3, 3], function, pads=[1, 1, 1, 1])
    assert_same(net, core(net, tmp_path))


def test_a_batch_of_the_callers_is_refused(tmp_path: Path) -> None:
    path = windows([3, 3], inputs=2).save(tmp_path)
    with pytest.raises(MicaError, match="batch of 8; export the model with batch 1 or a dynamic batch"):
        compile_file(path)


@pytest.mark.parametrize("depthwise", (False, True))
def test_dilated_by_space_to_batch(tmp_path: Path, depthwise: bool) -> None:
    """SPACE_TO_BATCH_ND, a convolution, BATCH_TO_SPACE_ND, as TensorFlow writes a dilation: within one step of
    LiteRT."""
    rng, net = np.random.default_rng(0), Tflite()
    grid, out = {"scale": 0.05, "zero": 3}, {"scale": 0.1, "zero": -7}
    x, s = net.tensor([1, 8, 7, 2], **grid), net.tensor([4, 6, 6, 2], **grid)
    c, y = net.tensor([4, 4, 4, 2], **out), net.tensor([1, 8, 7, 2], **out)
    block = net.constant(np.array([2, 2], np.int32))
    net.operator("SPACE_TO_BATCH_ND", [x, block, net.constant(np.array([[2, 2], [2, 3]], np.int32))], [s])
    w = net.constant(rng.integers(-127, 128, (1 if depthwise else 2, 3, 3, 2)).astype(np.int8), 0.01)
    kind, options = ("DEPTHWISE_CONV_2D", {"depth_multiplier": 1}) if depthwise else ("CONV_2D", {})
    inputs = [s, w, net.constant(np.array([100, -90], np.int32), 0.0005)]
    table = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    net.operator(kind, inputs, [c], table, {**CONV, **options, "padding": 1})
    net.operator("BATCH_TO_SPACE_ND", [c, block, net.constant(np.array([[0, 0], [0, 1]], np.int32))], [y])
    compiled = same_as_litert(net.bytes([x], [y]), tmp_path, eights(1, 8, 7, 2))
    assert kernels(compiled).count("depthwise_conv2d_s8" if depthwise else "conv2d_s8") == 1


@pytest.mark.skipif(not TRIAL.is_dir(), reason="the folder ../shared/trials is missing")
def test_the_trial(tmp_path: Path) -> None:
    """Within 35 dB of ONNX Runtime on samples that calibration has not seen."""
    x = next(iter(np.load(TRIAL / "calib.npz").values()))
    onnx = TRIAL / "model.onnx"
    with HostRunner(compile_file(onnx, {"x": x[: len(x) // 2]}, warn=lambda text: None).data) as runner:
        out = runner.model.tensors[runner.model.outputs[0]]
        found = [
            (runner.run([runner.quantise([one])])[0][0].astype(float) - out.zero_point) * out.scale
            for one in x[len(x) // 2 :]
        ]
    import onnxruntime

    made = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    expected = [made.run(None, {"x": one.reshape(1, 3, 32, 32)})[0] for one in x[len(x) // 2 :]]
    y, z = np.concatenate([f.reshape(-1) for f in found]), np.concatenate([e.reshape(-1) for e in expected])
    assert 10 * np.log10(np.sum(z**2) / np.sum((y - z) ** 2)) > 35
