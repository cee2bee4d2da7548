"""Networks of one number become one table, where nothing else reads what is in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nets import Net

from mica.compile import compile_file
from mica.format.values import dequantise_output, quantise_input
from mica.run.host import HostRunner

HIDDEN = 16


def _net(shape: list[int], look_inside: bool = False) -> Net:
    net = Net(seed=3)
    x = net.input(shape)
    h = net.add("Relu", net.add("Gemm", x, net.random(shape[-1], HIDDEN, scale=2.0), net.random(HIDDEN)))
    y = net.add("Tanh", net.add("Gemm", h, net.random(HIDDEN, HIDDEN), net.random(HIDDEN)))
    net.output(net.add("Gemm", y, net.random(HIDDEN, 1), net.random(1)))
    if look_inside:
        net.output(h)
    return net


def test_one_table(tmp_path: Path) -> None:
    """Within the rounding of input and output: its steepest slope times half a step, and half a step of the output."""
    path = _net([1, 1]).save(tmp_path)
    xs = np.linspace(-1.5, 2.0, 300, dtype=np.float32).reshape(-1, 1)
    compiled = compile_file(path, {"x": xs})
    assert [s.kernel for s in compiled.model.steps] == ["lut_s8"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = np.array([session.run(None, {"x": x[None]})[0][0, 0] for x in xs])
    with HostRunner(compiled.data) as runner:
        given, made = (runner.model.tensors[t[0]] for t in (runner.model.inputs, runner.model.outputs))
        found = [dequantise_output(r[0], made).item() for r in runner.run([[quantise_input(x, given)] for x in xs])]
    slope = np.abs(np.diff(expected)).max() / np.diff(xs[:, 0]).max()
    assert np.abs(found - expected).max() <= 0.51 * (slope * given.scale + made.scale)


@pytest.mark.parametrize(("shape", "look_inside"), (([1, 2], False), ([1, 1], True)))
def test_layers_stay(tmp_path: Path, shape: list[int], look_inside: bool) -> None:
    """Layers stay if there are two numbers, or if the layers in between are outputs."""
    samples = np.random.default_rng(1).standard_normal((40, *shape[1:])).astype(np.float32)
    model = compile_file(_net(shape, look_inside).save(tmp_path), {"x": samples}).model
    assert sum(s.kernel == "fully_connected_s8" for s in model.steps) == 3
