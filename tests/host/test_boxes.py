"""Detectors' heads: boxes beside ONNX Runtime's NonMaxSuppression, and objects found by spreading numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import pytest
from detectors import CLASSES, SIZE, fomo, ultralytics, yolo5
from nets import Net
from onnx import TensorProto, helper

from mica.compile import compile_file
from mica.errors import MicaError
from mica.file.codec import ModelFile, TensorRecord, decode
from mica.plan import schedule
from mica.run import boxes as host
from mica.run.host import HostRunner


def head(parts: list[tuple[np.ndarray, float, int]], axis: int, labels: str = "") -> tuple[ModelFile, list[np.ndarray]]:
    """A model that is its outputs: int8 arrays with scale and zero point, parts of one array along the axis."""
    tensors = [TensorRecord(f"y{k}", "int8", y.shape, scale=s, zero_point=z) for k, (y, s, z) in enumerate(parts)]
    metadata = {"labels": labels} if labels else {}
    if len(parts) > 1:
        metadata["joins"] = f"{len(parts)} {axis} y"
    return ModelFile(tensors, [], [], list(range(len(parts))), metadata), [y for y, _, _ in parts]


def boxes(kind: str, model: ModelFile, outputs: list[np.ndarray], **limits: Any) -> list[host.Box]:
    """Return what one of the decoders finds."""
    return cast(list[host.Box], getattr(host, kind)(model, outputs, **limits))


def nms(middles: np.ndarray, scores: np.ndarray, threshold: float, overlap: float) -> set[tuple[int, int]]:
    """(class, box) that ONNX Runtime keeps: middles float [boxes, 4], scores [classes, boxes]."""
    names = ("boxes", "scores", "most", "overlap", "threshold")
    types = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT)
    node = helper.make_node("NonMaxSuppression", names, ["kept"], center_point_box=1)
    ends = [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, types, strict=True)]
    graph = helper.make_graph([node], "nms", ends, [helper.make_tensor_value_info("kept", TensorProto.INT64, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = (middles[None], scores[None], np.array([1000]), np.array([overlap]), np.array([threshold]))
    kinds = (np.float32, np.float32, np.int64, np.float32, np.float32)
    given = {n: v.astype(k) for n, v, k in zip(names, values, kinds, strict=True)}
    return {(int(c), int(k)) for _, c, k in session.run(None, given)[0]}


def kept(found: list[host.Box], middles: np.ndarray, scores: np.ndarray) -> set[tuple[int, int]]:
    """Return (class, box) of the candidates that became these boxes."""
    out = set()
    for b in found:
        place = np.array([b.x + b.width / 2, b.y + b.height / 2, b.width, b.height])
        near = (np.abs(middles - place).max(axis=1) < 0.1 * middles.max() / 96) & (
            np.abs(scores[b.label] - b.score) < 1e-4
        )
        assert near.sum() == 1
        out.add((int(b.label), int(np.flatnonzero(near)[0])))
    return out


def candidates(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 [4, n] of some objects many times over, and classes' scores int8 [3, n], no two of them equal."""
    centres = rng.integers(-100, 100, (n // 10, 4)).repeat(10, axis=0)[:n]
    middles = np.clip(centres + rng.integers(-6, 7, (n, 4)), -128, 127)
    middles[:, 2:] = np.maximum(middles[:, 2:], -110)
    scores = np.full((3, n), -128)
    scores[rng.integers(0, 3, n), np.arange(n)] = rng.permutation(np.arange(-128, 128))[:n]
    return middles.T.astype(np.int8), scores.astype(np.int8)


def real(y: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (y.astype(np.float64) - zero) * scale


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("overlap", [0.3, 0.45, 0.7])
def test_yolo8(seed: int, overlap: float) -> None:
    """Boxes and scores of two scales, as parts of one array."""
    middles, scores = candidates(np.random.default_rng(seed), 200)
    parts = [(middles[None], float(np.float32(0.374)), -125), (scores[None], 1 / 256, -128)]
    found = boxes("yolo8", *head(parts, 1), threshold=0.4, overlap=overlap, most=1000)
    floats, sure = real(*parts[0])[0].T, real(*parts[1])[0]
    assert kept(found, floats, sure) == nms(floats, sure, 0.4 - 1e-6, overlap)
    assert 3 < len(found) < 100 and [b.score for b in found] == sorted((b.score for b in found), reverse=True)
    assert boxes("yolo8", *head(parts, 1), threshold=0.4, overlap=overlap, most=3) == found[:3]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("split", [False, True])
def test_yolo5(seed: int, split: bool) -> None:
    """Boxes last; sure of an object times the class. In one array of one scale, or three parts."""
    middles, scores = candidates(np.random.default_rng(seed), 200)
    objects = np.random.default_rng(seed).integers(60, 127, (1, 200)).astype(np.int8)
    scale = 1 / 256
    parts = [(middles[:2].T[None], 0.3, -128), (middles[2:].T[None], 0.25, -128)]
    parts.append((np.concatenate([objects, scores]).T[None], scale, -128))
    if not split:
        parts = [(np.concatenate([p[0] for p in parts], axis=2), scale, -128)]
    found = boxes("yolo5", *head(parts, 2, "cat\ndog\nbird"), threshold=0.3, overlap=0.5)
    flat = np.concatenate([real(*p)[0] for p in parts], axis=1)
    total = np.floor(flat[:, 4:5] * flat[:, 5:] * 32768) / 32768
    numbered = [
        host.Box(("cat", "dog", "bird").index(str(b.label)), b.score, b.x, b.y, b.width, b.height) for b in found
    ]
    expected = nms(flat[:, :4], total.T, 0.3 - 1e-6, 0.5)
    assert kept(numbered, flat[:, :4], total.T) == expected
    assert len(found) > 3


def connected(cells: np.ndarray) -> list[np.ndarray]:
    """Masks of the groups of cells that touch: each cell takes the largest number around it until none changes."""
    numbers, before = np.arange(1, cells.size + 1).reshape(cells.shape) * cells, None
    while before is None or (numbers != before).any():
        before = numbers
        around = np.lib.stride_tricks.sliding_window_view(np.pad(numbers, 1), (3, 3))
        numbers = around.max(axis=(2, 3)) * cells
    return [numbers == k for k in np.unique(numbers[cells])]


@pytest.mark.parametrize("seed", range(4))
def test_fomo(seed: int) -> None:
    """Objects are connected cells, corners included."""
    grid = np.random.default_rng(seed).integers(-128, 128, (1, 12, 9, 3)).astype(np.int8)
    found = boxes("fomo", *head([(grid, 1 / 256, -128)], 0, "cup\nball"), threshold=0.7, cell=8)
    expected = set()
    for c, name in ((1, "cup"), (2, "ball")):
        p = real(grid, 1 / 256, -128)[0, :, :, c]
        for inside in connected(p >= 0.7):
            best, (ys, xs) = p[inside].max(), np.nonzero(inside)
            sides = (8 * xs.min(), 8 * ys.min(), 8 * (np.ptp(xs) + 1), 8 * (np.ptp(ys) + 1))
            expected.add((name, best, *map(float, sides)))
    assert len(found) > 5 and {(b.label, b.score, b.x, b.y, b.width, b.height) for b in found} == expected


@pytest.mark.parametrize(("kind", "make"), [("yolo8", ultralytics), ("yolo5", yolo5), ("fomo", fomo)])
def test_packed_heads(kind: str, make: Callable[[], Net], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads as exporters write them, packed, with parts where they have them: beside the floats that predict()
    gives."""
    monkeypatch.setattr(schedule, "SEARCH_STATES", 300)
    net, x = make(), np.random.default_rng(0).uniform(0, 1, (5, 1, 3, SIZE, SIZE)).astype(np.float32)
    compiled = compile_file(net.save(tmp_path), {"images": x[:, 0]}, plain=True)
    with HostRunner(compiled.data) as runner:
        outputs, floats = runner.run([runner.quantise([x[0]])])[0], runner.predict(x[:1])[0]
    assert (len(outputs) > 1) == (kind != "fomo")
    y = {"yolo8": lambda: floats[0].T, "yolo5": lambda: floats[0], "fomo": lambda: floats[0].reshape(-1, 4)}[kind]()
    scores = {"yolo8": y[:, 4:], "yolo5": y[:, 5:] * y[:, 4:5], "fomo": y[:, 1:]}[kind].T
    threshold = float(np.quantile(scores, 0.8))
    found = boxes(kind, decode(compiled.data), outputs, threshold=threshold)
    assert found and abs(found[0].score - scores.max()) < 1e-4
    if kind != "fomo":
        assert kept(found, y[:, :4], scores) <= {(c, k) for c in range(CLASSES) for k in range(len(y))}


def test_nothing_found() -> None:
    y = np.full((1, 7, 20), -128, np.int8)
    assert boxes("yolo8", *head([(y, 1 / 256, -128)], 1)) == []
    assert boxes("yolo5", *head([(y.transpose(0, 2, 1), 1 / 256, -128)], 1)) == []
    assert boxes("fomo", *head([(y[:, None], 1 / 256, -128)], 1)) == []


@pytest.mark.parametrize(
    ("kind", "shape", "said"),
    [
        ("yolo8", (1, 4, 20), "has 4 numbers"),
        ("yolo8", (2, 7, 20), "boxes"),
        ("yolo5", (1, 20, 5), "has 5 numbers"),
        ("yolo5", (20, 7), "boxes"),
        ("fomo", (1, 8, 8, 1), "1 \\+ classes"),
        ("fomo", (1, 7, 20), "1 \\+ classes"),
    ],
)
def test_refused(kind: str, shape: tuple[int, ...], said: str) -> None:
    model, outputs = head([(np.zeros(shape, np.int8), 1 / 256, 0)], 0)
    with pytest.raises(MicaError, match=said):
        boxes(kind, model, outputs)
    for limits in ({"threshold": 0}, {"threshold": 1.5}):
        with pytest.raises(MicaError, match="threshold"):
            boxes(kind, model, outputs, **limits)
