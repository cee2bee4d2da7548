"""Normalisations of rows in 32 bits: which layers become norm_s8, and how near it is to the rounded truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net

from mica.compile import compile_file
from mica.file.codec import ModelFile, StepRecord
from mica.ir.graph import Quant
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.integers import Output
from mica.kernels.norm import ROOT_SQUARE, reciprocal_root
from mica.quantise.kernels import reduce

RNG = np.random.default_rng(5)


def packed(folder: Path, op: str, n: int, gamma: np.ndarray, beta: np.ndarray | None, x: np.ndarray) -> ModelFile:
    """One layer over rows of n, with the ranges of x [rows, n]."""
    net = Net(23)
    constants = [net.const(v.astype(np.float32)) for v in (gamma, *([] if beta is None else [beta]))]
    net.output(net.add(op, net.input((1, n)), *constants, axis=-1))
    return compile_file(net.save(folder), {"x": x.astype(np.float32)}, plain=True).model


def test_reciprocal_roots() -> None:
    """All of them: within 2, and in 16 bits."""
    m = np.arange(2**14, 2**16 + 1)
    r = reciprocal_root(m)
    assert np.abs(r - np.sqrt(ROOT_SQUARE * 2.0**16 / m)).max() < 2 and r.max() < 2**16


@pytest.mark.parametrize("n", [8, 64, 256, 400])
@pytest.mark.parametrize(
    ("op", "beta"), [("RMSNormalization", False), ("LayerNormalization", False), ("LayerNormalization", True)]
)
def test_near_the_truth(op: str, beta: bool, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step at most beside the float result of the same int8 input, rounded; 99 of 100 are that."""
    monkeypatch.setattr(reduce, "SHORT", ("deviation", "squares"))
    x = RNG.normal(0.3, 1, (300, n)) * RNG.choice((1.0, 0.05), (300, 1))
    gamma, shift = RNG.uniform(-1.5, 1.5, n), RNG.normal(0, 0.5, n)
    model = packed(tmp_path, op, n, gamma, shift if beta else None, x)
    (step,) = model.steps
    assert step.kernel == "norm_s8" and step.params["each"] == beta
    qx, qy = model.tensors[step.inputs[0]], model.tensors[step.outputs[0]]
    ints = np.clip(np.rint(x / qx.scale + qx.zero_point), -128, 127).astype(np.int8)
    got = step_counts(step, ints, qx.zero_point, qy.zero_point)
    d = (ints.astype(np.float64) - qx.zero_point) * qx.scale
    d -= d.mean(axis=1, keepdims=True) * (op == "LayerNormalization")
    y = d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * gamma.astype(np.float32)
    y += shift.astype(np.float32) * beta
    far = np.abs(got - np.clip(np.floor(y / qy.scale + qy.zero_point + 0.5), -128, 127))
    assert far.max() <= 1 and np.mean(far > 0) < 0.01


def step_counts(step: StepRecord, x: np.ndarray, x_zero: int, y_zero: int) -> np.ndarray:
    """The oracle's rows."""
    params = step.params | {"axis": 1}
    return KERNEL_BY_NAME[step.kernel].oracle([x], step.blobs, params, Output(x.shape, x_zero, y_zero))


def test_what_does_not_fit_is_the_kernel_of_64_bits(tmp_path: Path) -> None:
    """Rows that are too long, rows without a mean, channels in planes, and a gamma of which a step of the element is
    too much."""
    x, ones = RNG.normal(0, 1, (20, 600)), np.ones(600)
    for op, n, kernel in (
        ("LayerNormalization", 600, "layer_norm_s8"),
        ("LayerNormalization", 64, "norm_s8"),
        ("RMSNormalization", 64, "layer_norm_s8"),
    ):
        assert packed(tmp_path, op, n, ones[:n], None, x[:, :n]).steps[0].kernel == kernel
    net = Net(23)
    net.output(net.add("InstanceNormalization", net.input((1, 4, 3, 3)), net.random(4), net.random(4)))
    model = compile_file(net.save(tmp_path), plain=True).model
    assert [s.kernel for s in model.steps if "norm" in s.kernel] == ["layer_norm_s8"]
    q = Quant(0.05, 0)
    assert reduce._norm(0, 64, q, 1e-5, np.full(64, 100.0), np.zeros(64)) is not None
    assert reduce._norm(0, 64, q, 1e-5, np.full(64, 200.0), np.zeros(64)) is None
    assert reduce._norm(0, 64, q, 1e-5, ones[:64], np.full(64, 2000.0)) is None
    assert reduce._norm(0, 64, q, 1e9, ones[:64], np.zeros(64)) is None
