"""Layers: gradients equal central differences in float64; networks are written as ONNX and stay what they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

from mica.training import onnx_file
from mica.training.families import Plan, plans
from mica.training.forest import Forest
from mica.training.layers import Network, cross_entropy

LABELS = ("a", "b", "c")
# Small networks of every family and layer: a plan, and the shape of an example.
NETWORKS = {
    "depthwise": (Plan("depthwise", (4, 8, 8), (2, 1, 2)), (7, 9, 2)),
    "spectrum": (Plan("depthwise", (4, 8), (4, 2)), (21, 8)),
    "steps": (Plan("steps", (4, 4, 4), (2, 2, 1), pool=False), (13, 3)),
    "pooled steps": (Plan("steps", (4, 4, 4), (2, 1, 1)), (9, 2)),
    "dense": (Plan("dense", (6, 5)), (4,)),
    "linear": (Plan("dense", ()), (4,)),
}


def _network(plan: Plan, shape: tuple[int, ...], seed: int = 0) -> Network:
    mean, spread = np.full(shape[-1:], 0.25), np.full(shape[-1:], 1.5)
    return plan.build(np.random.default_rng(seed), shape, len(LABELS), mean, spread)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_differences(name: str) -> None:
    plan, shape = NETWORKS[name]
    rng = np.random.default_rng(1)
    net = _network(plan, shape)
    x, y = rng.standard_normal((5, *shape)), rng.integers(0, 3, 5)
    for layer in net.layers:
        for key, value in layer.values.items():  # away from zero, where all biases begin
            layer.values[key] = value.astype(np.float64) + 0.1 * rng.standard_normal(value.shape)

    def loss() -> float:
        return cross_entropy(net.forward(x, np.random.default_rng(2)), y, 0.1)[0]

    net.backward(cross_entropy(net.forward(x, np.random.default_rng(2)), y, 0.1)[1])
    looked = 0
    for layer in net.layers:
        for key, value in layer.values.items():
            gradient = layer.gradients[key]
            assert gradient.shape == value.shape
            for place in rng.choice(value.size, min(12, value.size), replace=False):
                assert _difference(value.reshape(-1), place, loss) == pytest.approx(
                    gradient.reshape(-1)[place], rel=1e-5, abs=1e-8
                )
                looked += 1
    assert looked >= 10


def _difference(values: np.ndarray, place: int, loss: Callable[[], float], step: float = 1e-6) -> float:
    before = values[place]
    values[place] = before + step
    above = loss()
    values[place] = before - step
    below = loss()
    values[place] = before
    return (above - below) / (2 * step)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_onnx_file_gives_the_same(name: str) -> None:
    plan, shape = NETWORKS[name]
    rng = np.random.default_rng(1)
    net = _network(plan, shape)
    x = rng.standard_normal((6, *shape)).astype(np.float32)
    for _ in range(3):
        net.forward(x + 1, rng)  # means and variances that are not those of the beginning
    assert np.allclose(_run(onnx_file.model(net, shape, LABELS), _given(x, net)), net.probabilities(x), atol=1e-5)


def _given(x: np.ndarray, net: Network) -> np.ndarray:
    """Return examples as the file takes them."""
    if x.ndim == 4:
        return x.transpose(0, 3, 1, 2)
    return x[:, None] if len(net.view) == 3 and net.view[1] > 1 else x


def _run(file: bytes, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(file)
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(["probabilities"], {name: row[None]})[0] for row in x])


def test_a_forest_learns_and_is_written() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 5)).astype(np.float32)
    y = (x[:, 1] > 0).astype(int) + (x[:, 1] > 0) * (x[:, 3] > 0.5)
    forest = Forest.grown(x[:200], y[:200], 3, (10, 6), seed=0)
    assert np.mean(forest.probabilities(x[200:]).argmax(1) == y[200:]) > 0.9
    assert np.allclose(_run(onnx_file.model(forest, (5,), LABELS), x), forest.probabilities(x), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "shape"), [("sound", (16000,)), ("motion", (100, 6)), ("picture", (8, 8, 1)), ("picture", (48, 48, 3))]
)
def test_families_go_from_small_to_large(kind: str, shape: tuple[int, ...]) -> None:
    found = plans(kind, shape)
    assert len({p.name for p in found}) == len(found) >= 10
    shape = (49, 20) if kind == "sound" else shape
    sizes = [
        sum(
            v.size
            for layer in _network(p, (20,) if p.family == "dense" else shape).layers
            for v in layer.values.values()
        )
        for p in found
    ]
    assert max(sizes) > 8 * min(sizes)
