"""ConvTranspose: every ONNX attribute for the place of the output; steps that fuse into it; its accuracy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, assert_same, core, ops, session

from mica import engine
from mica.compile import compile_file
from mica.errors import Unsupported
from mica.format.values import dequantise_output, quantise_input


def transposed(
    net: Net, x: str, n_in: int, n_out: int, kernel: tuple[int, ...], bias: bool = True, **attrs: Any
) -> str:
    w = net.random(n_in, n_out // attrs.get("group", 1), *kernel)
    return net.add("ConvTranspose", x, w, *([net.random(n_out)] if bias else []), **attrs)


def net_of(
    shape: tuple[int, ...], n_out: int, kernel: tuple[int, ...], opset: int = 17, bias: bool = True, **attrs: Any
) -> Net:
    net = Net(opset)
    net.output(transposed(net, net.input(shape), shape[1], n_out, kernel, bias, **attrs))
    return net


@pytest.mark.parametrize("opset", [7, 11, 17, 22])
@pytest.mark.parametrize(
    ("shape", "n_out", "kernel", "attrs"),
    [
        ((1, 3, 4, 5), 2, (3, 3), {}),
        ((1, 3, 4, 5), 2, (2, 2), {"strides": [2, 2]}),
        ((1, 3, 4, 5), 4, (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 3, 4, 5), 4, (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((1, 3, 4, 5), 4, (3, 2), {"strides": [3, 2], "pads": [0, 1, 2, 0], "output_padding": [2, 0]}),
        ((1, 2, 4, 4), 3, (3, 3), {"dilations": [2, 3], "strides": [3, 2], "pads": [1, 2, 0, 1]}),
        ((1, 6, 4, 4), 4, (3, 3), {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 6, 4, 4), 6, (4, 4), {"group": 6, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 3, 4, 4), 9, (3, 3), {"group": 3, "strides": [2, 2]}),
        ((1, 3, 9), 5, (4,), {"strides": [2], "pads": [1, 1]}),
        ((1, 3, 9), 5, (3,), {"strides": [3], "pads": [0, 1], "output_padding": [1], "dilations": [2]}),
        ((1, 4, 9), 4, (4,), {"strides": [2], "group": 4}),
        ((1, 3, 4, 4), 2, (3, 3), {"strides": [5, 5]}),
        ((1, 3, 1, 1), 2, (5, 4), {}),
        ((1, 3, 4, 5), 2, (3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
        ((1, 3, 4, 5), 2, (3, 3), {"strides": [3, 2], "output_shape": [12, 9], "auto_pad": "SAME_UPPER"}),
        ((1, 3, 4, 5), 2, (4, 4), {"strides": [2, 2], "output_shape": [7, 9], "auto_pad": "SAME_LOWER"}),
        ((1, 3, 4, 5), 2, (4, 4), {"strides": [2, 2], "output_shape": [7, 9]}),
        ((1, 3, 4, 5), 2, (3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 3, 4, 5), 2, (3, 4), {"strides": [2, 1], "auto_pad": "SAME_LOWER"}),
        ((1, 3, 4, 5), 2, (3, 3), {"strides": [2, 2], "auto_pad": "VALID"}),
    ],
)
def test_equals_onnx_runtime(
    tmp_path: Path, opset: int, shape: tuple[int, ...], n_out: int, kernel: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    for bias in (True, False):
        net = net_of(shape, n_out, kernel, opset, bias, **attrs)
        g = core(net, tmp_path)
        assert [op for op in ops(g) if op != "Transpose"] == ["ConvTranspose2d"]
        assert_same(net, g)


def test_many(tmp_path: Path) -> None:
    """Every small kernel, stride, dilation, pad and output padding, along one axis."""
    every = itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3), (0, 1, 2), (0, 2), (0, 1))
    for k, s, d, pad, crop, more in itertools.islice(every, 0, None, 5):
        if more >= s or (5 - 1) * s + (k - 1) * d + 1 + more - pad - crop < 1:
            continue
        attrs = {"strides": [s], "dilations": [d], "pads": [pad, crop], "output_padding": [more]}
        net = net_of((1, 2, 5), 2, (k,), **attrs)
        assert_same(net, core(net, tmp_path))


def test_affine_and_clip_go_into_it(tmp_path: Path) -> None:
    for groups in (1, 2):
        net = Net()
        x = net.input([1, 4, 5, 5])
        y = transposed(net, x, 4, 6, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1], group=groups)
        r = net.rng
        parts = (r.uniform(0.5, 2, 6), r.standard_normal(6), r.standard_normal(6), r.uniform(0.1, 3, 6))
        y = net.add("BatchNormalization", y, *(net.const(p.astype(np.float32)) for p in parts))
        y = net.add("Mul", y, net.const(-0.5))
        net.output(net.add("Relu", y))
        g = core(net, tmp_path)
        assert ops(g) == ["Transpose", "ConvTranspose2d", "Transpose"]
        assert next(n for n in g.nodes if n.op == "ConvTranspose2d").attrs["clip"] == (0.0, None)
        assert_same(net, g)


def test_no_transposes_between_convolutions(tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.input([1, 3, 6, 6]), 3, 4, pads=[1, 1, 1, 1])
    y = transposed(net, net.add("Relu", y), 4, 4, (2, 2), strides=[2, 2])
    net.output(net.conv(y, 4, 2, pads=[1, 1, 1, 1]))
    g = core(net, tmp_path)
    assert ops(g) == ["Transpose", "Conv2d", "ConvTranspose2d", "Conv2d", "Transpose"]


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs", "text"),
    [
        ((1, 2, 3, 3, 3), (2, 2, 2), {}, "1 and 2 are supported"),
        ((2, 2, 3, 3), (2, 2), {}, "batch of 2"),
    ],
)
def test_refusals(
    tmp_path: Path, shape: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any], text: str
) -> None:
    with pytest.raises(Unsupported, match=text):
        core(net_of(shape, 2, kernel, **attrs), tmp_path)


@pytest.mark.parametrize(
    ("shape", "n_out", "kernel", "attrs"),
    [
        ((1, 8, 6, 6), 5, (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 6, 5, 5), 6, (3, 3), {"strides": [2, 2], "group": 6, "pads": [1, 1, 0, 0]}),
        ((1, 7, 9), 4, (5,), {"strides": [3], "dilations": [2]}),
    ],
)
def test_within_one_and_a_half_steps(
    tmp_path: Path, shape: tuple[int, ...], n_out: int, kernel: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    """Results are within 1.5 steps of ONNX Runtime's float operator, on dequantised inputs and int8 weights."""
    net = net_of(shape, n_out, kernel, **attrs)
    # Weights that int8 holds exactly, so that what is measured is the operator.
    exact = net.rng.integers(-127, 128, net.constants[0].dims)
    exact[..., 0] = 127
    net.constants[0].raw_data = (exact / 64).astype(np.float32).tobytes()
    samples = net.samples(8)
    compiled = compile_file(net.save(tmp_path), {"x": np.concatenate([s["x"] for s in samples])})
    t_in, t_out = (compiled.model.tensors[i[0]] for i in (compiled.model.inputs, compiled.model.outputs))
    ort, loaded = session(net.model()), engine.load(compiled.data)
    for s in samples:
        q = quantise_input(s["x"], t_in)
        loaded.set_input(0, q)
        loaded.run()
        (expected,) = ort.run(None, {"x": dequantise_output(q, t_in)})
        expected = np.clip(expected, (-128 - t_out.zero_point) * t_out.scale, (127 - t_out.zero_point) * t_out.scale)
        assert np.abs(dequantise_output(loaded.output(0), t_out) - expected).max() <= 1.5 * t_out.scale
