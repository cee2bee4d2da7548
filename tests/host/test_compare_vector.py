"""A comparison with a constant that varies: exact on the integers of x,
and in trees where x is a feature of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net, assert_runs, truth

from mica.compile import compile_file
from mica.format.values import dequantise_output, quantise_input
from mica.run.host import HostRunner

COMPARE: dict[str, Callable[..., np.ndarray]] = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
}
# Below all that x can be, its least, between two integers, on one, and above all: -1 to 1 in steps of 2/255.
THRESHOLDS = {
    "all": np.array([-3.0, -0.999, -0.5, 0.0, 0.1, 0.75, 3.0], np.float32),
    "above": np.array([-0.5, 0.0, 3.0], np.float32),
    "below": np.array([-3.0, -0.5, 0.0], np.float32),
    "infinite": np.array([-np.inf, 0.25, np.inf], np.float32),
}


def answers(path: Path, calib: np.ndarray, samples: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(first outputs, the samples as the model sees them)."""
    compiled = compile_file(path, {"x": calib}, plain=True)
    with HostRunner(compiled.data) as runner:
        tensors = runner.model.tensors
        x, y = tensors[runner.model.inputs[0]], tensors[runner.model.outputs[0]]
        q = [quantise_input(v, x) for v in samples]
        found = [dequantise_output(r[0], y) for r in runner.run([[v] for v in q])]
        return found, [dequantise_output(v, x) for v in q]


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("kind", THRESHOLDS)
@pytest.mark.parametrize("op", COMPARE)
def test_each_integer(op: str, kind: str, side: str, tmp_path: Path) -> None:
    t = THRESHOLDS[kind]
    net = Net()
    x = net.add("Relu", net.add("Add", net.input([1, 32, 8, 1]), net.const(np.float32(1))))
    x = net.add("Sub", x, net.const(np.float32(1)))  # not the input itself
    a, c = (x, net.const(t)) if side == "left" else (net.const(t), x)
    net.output(net.add("Cast", net.add(op, a, c), to=1), [1, 32, 8, len(t)])
    grid = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 32, 8, 1)
    path = net.save(tmp_path)
    (found,), (seen,) = answers(path, np.repeat(grid, 8, 0), grid)
    exact = COMPARE[op](seen, t) if side == "left" else COMPARE[op](t, seen)
    found = found.reshape(exact.shape)
    assert set(np.unique(found)) <= {0.0, 1.0}
    if op == "Equal":  # equal to the integer, which is a number beside the constant
        assert not found[exact == 0].any()
        return
    wrong = found != exact
    near = np.abs(seen - t) < 2e-5  # the layers in front of it are rounded once more
    assert not (wrong & ~near).any(), (seen[wrong.any(axis=-1)], t)


def test_binning(tmp_path: Path) -> None:
    """x < [t0, t1, ...] in front of a dense layer, as splines and spiking networks have it."""
    net = Net(seed=3)
    x = net.add("Unsqueeze", net.input([1, 6]), net.const(np.array([2])))
    less = net.add(
        "Cast", net.add("Less", x, net.const(np.linspace(-1.5, 1.5, 7).astype(np.float32)[None, None])), to=1
    )
    net.output(net.add("Gemm", net.add("Flatten", less), net.random(42, 4), net.random(4)), [1, 4])
    samples = np.random.default_rng(0).standard_normal((200, 6)).astype(np.float32)
    found, seen = answers(net.save(tmp_path), samples[:, None], samples[:, None])
    for y, v in zip(found, seen, strict=True):  # the answers for what the model saw, but for its last layer
        exact = truth(net, {"x": v.reshape(1, 6)})
        np.testing.assert_allclose(y.reshape(-1), next(iter(exact.values())).reshape(-1), atol=0.08)
    assert_runs(net)


def test_not_a_number(tmp_path: Path) -> None:
    net = Net()
    net.output(
        net.add("Cast", net.add("Less", net.input([1, 3]), net.const(np.array([0, np.nan, 1], np.float32))), to=1)
    )
    with pytest.raises(Exception, match=r"NaN|not a number"):
        compile_file(net.save(tmp_path))
