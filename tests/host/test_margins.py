"""Scores keep their known range, and their logits a margin: a detector is not lost where calibration held nothing to
detect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import detectors
import numpy as np
import pytest
from nets import Net, truth

from mica.compile import compile_file
from mica.format.values import dequantise_output
from mica.importer import import_onnx
from mica.passes import pipeline
from mica.quantise.margins import heads
from mica.run.host import HostRunner

Build = Callable[[Net, str], str]


def logit(net: Net, x: str) -> str:
    """6 times the mean of eight numbers, less 5: a sigmoid of it finds inputs around 1.5, and nothing around 0.3."""
    return net.add("Gemm", x, net.const(np.full((8, 1), 0.75, np.float32)), net.const(np.array([-5], np.float32)))


def two(net: Net, x: str) -> str:
    w = np.outer(np.full(8, 1 / 8), [-1.0, 3.0]).astype(np.float32)
    return net.add("Gemm", x, net.const(w), net.const(np.array([1, -2], np.float32)))


def sigmoid(net: Net, x: str) -> str:
    return net.add("Sigmoid", logit(net, x))


HEADS: dict[str, Build] = {
    "sigmoid": sigmoid,
    "in per cent": lambda net, x: net.add("Mul", sigmoid(net, x), net.const(np.float32(100))),
    "by a tanh": lambda net, x: net.add(
        "Mul",
        net.add("Add", net.add("Tanh", net.add("Mul", logit(net, x), net.const(np.float32(0.5)))),
                net.const(np.float32(1))),
        net.const(np.float32(0.5)),
    ),
    "by an exponential": lambda net, x: net.add(
        "Div", net.const(np.float32(1)), net.add("Add", net.add("Exp", net.add("Neg", logit(net, x))),
                                                 net.const(np.float32(1)))
    ),
    "not to 0 and 1": lambda net, x: net.add("Clip", sigmoid(net, x), net.const(np.float32(1e-6)),
                                             net.const(np.float32(1 - 1e-6))),
    "hard": lambda net, x: net.add("HardSigmoid", logit(net, x)),
    "reshaped": lambda net, x: net.add("Reshape", sigmoid(net, x), net.const(np.array([1, 1, 1]))),
    "object times class": lambda net, x: net.add("Mul", sigmoid(net, x), net.add("Sigmoid", two(net, x))),
    "largest of two": lambda net, x: net.add(
        "ReduceMax", net.add("Concat", sigmoid(net, x), net.add("Sigmoid", two(net, x)), axis=1), axes=[1], keepdims=0
    ),
    "softmax": lambda net, x: net.add("Softmax", two(net, x), axis=-1),
}  # fmt: skip


def answers(
    build: Build, folder: Path, calibration: np.ndarray, x: np.ndarray, said: list[str] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the float model and of the packed file for some inputs."""
    net = Net()
    net.output(build(net, net.input([1, 8])))
    # The input's own range is not what is asked: one sample holds large numbers that cancel out.
    compiled = compile_file(net.save(folder), {"x": calibration}, warn=(said if said is not None else []).append)
    with HostRunner(compiled.data) as runner:
        t = runner.model.tensors[runner.model.outputs[0]]
        found = [dequantise_output(runner.run([runner.quantise([row[None]])])[0][0], t) for row in x]
    return np.array([truth(net, {"x": row[None]})[net.outputs[0].name] for row in x]), np.array(found)


def nothing(n: int = 64) -> np.ndarray:
    """Inputs whose mean is around 0.3, of 1.9 at most, so that their range holds those that are to be found."""
    x = np.random.default_rng(2).uniform(-1.3, 1.9, (n, 8)).astype(np.float32)
    return x - x.mean(axis=1, keepdims=True) + np.random.default_rng(3).uniform(0.1, 0.4, (n, 1)).astype(np.float32)


@pytest.mark.parametrize("name", HEADS)
def test_a_detector_calibrated_without_what_it_detects(name: str, tmp_path: Path) -> None:
    x = np.full((3, 8), 1.0, np.float32) * np.array([[1.3], [1.5], [1.7]], np.float32)
    exact, found = answers(HEADS[name], tmp_path, nothing(), x)
    whole = 100.0 if name == "in per cent" else 1.0
    assert exact.max() > 0.75 * whole
    assert np.abs(exact - found).max() < 0.05 * whole, (exact.reshape(-1), found.reshape(-1))


def test_a_detector_calibrated_with_nothing_else(tmp_path: Path) -> None:
    """It still can say no."""
    exact, found = answers(sigmoid, tmp_path, nothing() + 1.2, np.zeros((1, 8), np.float32))
    assert exact.max() < 0.01 and found.max() < 0.05


def test_a_score_map_spends_its_steps_where_a_score_is(tmp_path: Path) -> None:
    """Logits down to -540: in 256 steps for all, those around 0 are 2 apart, and a score is 0.5, 0.88 or 0.12."""
    net = Net()
    w = np.array([40.0, 1.0], np.float32).reshape(1, 2, 1, 1)
    net.output(
        net.add("Sigmoid", net.add("Conv", net.input([1, 2, 8, 8]), net.const(w), net.const(np.zeros(1, np.float32))))
    )
    rng = np.random.default_rng(0)
    x = np.stack(
        [
            np.where(rng.random((40, 8, 8)) < 0.8, -rng.uniform(0, 13, (40, 8, 8)), 0),
            rng.uniform(-3.5, 3.5, (40, 8, 8)),
        ],
        axis=1,
    )
    compiled = compile_file(net.save(tmp_path), {"x": x.astype(np.float32)})
    (logits,) = [t for t in compiled.model.tensors if t.name.endswith("conv2d")]
    assert logits.scale < 0.05
    assert (logits.zero_point + 128) * logits.scale < 7


def test_gates_and_boxes_keep_what_was_seen(tmp_path: Path) -> None:
    """A sigmoid inside of a network, a SiLU, and the softmax of an attention are no scores; those of detectors are."""
    net = Net()
    x = net.input([1, 8])
    gate = net.add("Sigmoid", net.add("Gemm", x, net.random(8, 8)))
    net.output(net.add("Mul", net.add("Gemm", x, net.random(8, 8)), gate))
    assert heads(pipeline.run(import_onnx(net.save(tmp_path)))) == []
    for version in (8, 11):
        ends = heads(pipeline.run(import_onnx(detectors.ultralytics(version).save(tmp_path))))
        assert [n.attrs["function"] for n in ends] == ["sigmoid"]


@pytest.mark.parametrize(
    ("build", "calibration", "warned"),
    [
        (sigmoid, nothing(), "(a sigmoid) is 0.066 at most in calibration; give samples of what it is to find"),
        (sigmoid, nothing() + 1.2, "at least in calibration; give samples without, too"),
        (sigmoid, np.concatenate([nothing(), nothing() + 1.2]), ""),
        (sigmoid, nothing(4), ""),  # too few to say so
        (HEADS["softmax"], nothing(), "(a softmax) never answers 1 in calibration; give samples of all classes"),
        (HEADS["softmax"], np.concatenate([nothing(), nothing() + 1.2]), ""),
        (lambda net, x: net.add("Tanh", logit(net, x)), nothing(), ""),
    ],
)
def test_what_calibration_never_saw_is_said(build: Build, calibration: np.ndarray, warned: str, tmp_path: Path) -> None:
    said: list[str] = []
    answers(build, tmp_path, calibration, np.zeros((1, 8), np.float32), said)
    said = [line for line in said if "calibration samples are" not in line]
    assert (warned in "; ".join(said)) if warned else not said, said
