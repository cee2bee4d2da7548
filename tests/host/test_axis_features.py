"""`pack --frontend features:...`: windows of several axes beside numpy's definition of their features and the float network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mica import engine, front_ends
from mica.compiler import Compiled, compile_model
from mica.kernels.axes import STATS
from mica.passes.front_end import SAMPLES
from mica.reference import axes

ROWS, AXES, RATE, FFT = 100, 3, 100, 128
LABELS = ("rest", "sway", "shake", "tremble", "tap")
G = 8192  # counts
WORDS = f"rows={ROWS},axes={AXES},rate={RATE},unit=1/{G}"
BANDS = ((2, 4), (6, 10), (16, 23), (39, 26))  # first line and number of lines


def gesture(rng: np.random.Generator, label: str) -> np.ndarray:
    """int16 [rows, 3]: a movement of acceleration, held in some way, with noise that hides the smallest of them."""
    t = np.arange(ROWS) / RATE
    down, along = rng.standard_normal((2, AXES))
    x = np.outer(np.ones(ROWS), down / np.linalg.norm(down)) + 0.02 * rng.standard_normal((ROWS, AXES))
    along /= np.linalg.norm(along)
    size = 10.0 ** rng.uniform(-1, 0)
    if label in ("sway", "shake", "tremble"):
        low, high = {"sway": (1.0, 4.0), "shake": (4.5, 11.5), "tremble": (12.5, 30.0)}[label]
        x += np.outer(size * np.sin(2 * np.pi * (rng.uniform(low, high) * t + rng.uniform())), along)
    if label == "tap":
        for _ in range(rng.integers(1, 4)):
            x += np.outer(2 * size * np.exp(-((t - rng.uniform(0.1, 0.9)) ** 2) / 2e-4), along)
    return np.clip(np.rint(x * G), -32768, 32767).astype(np.int16)


def gestures(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """int16 [5 n, rows, 3] and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(5 * n) % 5
    return np.stack([gesture(rng, LABELS[k]) for k in y]), y


def by_the_book(x: np.ndarray) -> np.ndarray:
    """The features as somebody writes them who trains a network with numpy: float64 [axes, 12]."""
    u = x / G
    c = u - u.mean(axis=0)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(ROWS) / ROWS)
    power = np.abs(np.fft.rfft(c * hann[:, None], FFT, axis=0)) ** 2
    energies = [np.log(np.maximum(power[k : k + n].sum(axis=0), 1e-3)) for k, n in BANDS]
    crossings = [
        (np.diff(v >= 0, axis=0) != 0).sum(axis=0) for v in (ROWS * x.astype(int) - x.sum(axis=0, dtype=int), x)
    ]
    stats = [
        u.mean(axis=0),
        u.std(axis=0),
        np.sqrt((u**2).mean(axis=0)),
        u.min(axis=0),
        u.max(axis=0),
        np.ptp(u, axis=0),
    ]
    return np.stack([*stats, *crossings, *energies], axis=1)


def trained(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Mean and deviation of features [n, F], and weights of two layers, by gradient descent from a fixed start."""
    rng = np.random.default_rng(1)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    x = (x - mean) / deviation
    w, b = rng.standard_normal((x.shape[1], 16)) / 6, np.zeros(16)
    v, c = rng.standard_normal((16, 5)) / 4, np.zeros(5)
    target = np.eye(5)[y]
    for _ in range(800):
        h = np.maximum(x @ w + b, 0)
        p = np.exp(h @ v + c)
        p /= p.sum(axis=1, keepdims=True)
        d = (p - target) / len(x)
        w, v = w * 0.998, v * 0.998
        e = (d @ v.T) * (h > 0)
        v, c, w, b = v - 0.5 * h.T @ d, c - 0.5 * d.sum(axis=0), w - 0.5 * x.T @ e, b - 0.5 * e.sum(axis=0)
    return [mean, deviation, w, b, v, c]


def save_net(path: Path, weights: list[np.ndarray], scaler: bool) -> Path:
    """With the scaler as it is trained with, or in its first layer. Features lie as by_the_book has them."""
    mean, deviation, w, b, v, c = weights
    if not scaler:
        w, b = w / deviation[:, None], b - (mean / deviation) @ w
    names = {"m": mean, "d": deviation, "w": w, "b": b, "v": v, "c": c}
    nodes = [helper.make_node("Flatten", ["x"], ["f"])]
    if scaler:
        nodes += [helper.make_node("Sub", ["f", "m"], ["s"]), helper.make_node("Div", ["s", "d"], ["n"])]
    nodes += [
        helper.make_node("Gemm", ["n" if scaler else "f", "w", "b"], ["g"]),
        helper.make_node("Relu", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "v", "c"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, AXES, 12]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5]),
    ]
    constants = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in names.items()]
    graph = helper.make_graph(nodes, "gestures", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def weights() -> list[np.ndarray]:
    x, y = gestures(10, 240)
    return trained(np.stack([by_the_book(w).reshape(-1) for w in x]), y)


def steps_from(compiled: Compiled, exact: np.ndarray) -> np.ndarray:
    """The int8 that float features, [axes, features], become, in float64."""
    node = next(n for n in compiled.tuned.graph.nodes if n.op == "AxisFeatures")
    factor, shift = (np.asarray(compiled.tuned.graph.data(i), np.float64) for i in node.inputs[1:])
    t = compiled.model.tensors[compiled.model.steps[0].outputs[0]]
    real = (exact.reshape(-1) * factor + shift) / t.scale + t.zero_point
    return np.clip(np.rint(real), -128, 127).astype(int)


TEXT = f"features:{WORDS},stats={'+'.join(STATS)},edges=1+4.3+12+30+50,energy=ln,least=1e-3"


@pytest.mark.parametrize("scaler", [False, True], ids=["folded", "scaler"])
def test_gestures(scaler: bool, weights: list[np.ndarray], tmp_path: Path) -> None:
    """1,000 windows that neither training nor calibration has seen."""
    net = save_net(tmp_path / "net.onnx", weights, scaler)
    front_end, _ = front_ends.of_input(TEXT, (1, AXES, 12), "input 'x'")
    calibration = {SAMPLES: gestures(11, 30)[0].astype(np.float32)}
    compiled = compile_model(net, calibration, front_end=("x", front_end, TEXT))
    assert compiled.model.steps[0].kernel == "axes_s8"
    loaded = engine.load(compiled.data)
    network = onnxruntime.InferenceSession(str(net), providers=["CPUExecutionProvider"])
    x, y = gestures(12, 200)
    right = float_right = agree = 0
    steps = []
    for window in x[:50]:
        np.testing.assert_allclose(axes.features(front_end, window), by_the_book(window), rtol=1e-5, atol=1e-6)
    for window, label in zip(x, y, strict=True):
        exact = by_the_book(window)
        loaded.set_input(0, window[None])
        features, *_ = loaded.layers()
        answer = int(np.argmax(loaded.output(0)))
        expected = int(np.argmax(network.run(None, {"x": exact[None].astype(np.float32)})[0]))
        right, float_right, agree = (
            right + (answer == label),
            float_right + (expected == label),
            agree + (answer == expected),
        )
        steps.append(np.abs(features.reshape(-1).astype(int) - steps_from(compiled, exact)))
    found = np.stack(steps)
    print(
        f"top-1 {right / len(x):.4f}, float {float_right / len(x):.4f}, the same {agree / len(x):.4f}; {(found == 0).mean():.4%} of feature "
        f"bytes equal, {(found <= 1).mean():.4%} within 1, worst {found.max()}"
    )
    assert float_right / len(x) > 0.85, "the network has not learned anything to compare"
    assert abs(right - float_right) <= max(1, 0.005 * len(x))
    assert (found <= 1).mean() >= 0.99
