"""Integers that follow from tokens and from places of largest elements: text models, detectors, key points.
ONNX Runtime and LiteRT give the expected values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from litert import interpreter
from nets import Net, core, float_outputs, ops, refusal_of, truth
from onnx import TensorProto

from mica.compile import compile_file
from mica.importer.tflite import import_tflite
from mica.run.host import HostRunner
from mica.run.model import Model

TRIALS = Path(__file__).resolve().parents[2].parent / "shared" / "trials"
with_trials = pytest.mark.skipif(not TRIALS.is_dir(), reason="the folder ../shared/trials is missing")
TOKENS = 20
RNG = np.random.default_rng(3)


def number(net: Net, value: int | list[int]) -> str:
    return net.const(np.array(value, np.int64))


def text_net() -> tuple[Net, str, str]:
    """A network, its eight tokens, and a constant table for them."""
    net = Net(18)
    return net, net.input([1, 8], "t", TensorProto.INT64), net.random(TOKENS, 6)


def same(net: Net, tmp_path: Path) -> list[str]:
    """Compare with ONNX Runtime for tokens in and at the ends of their range. Returns the core operators."""
    g = core(net, tmp_path)
    for _ in range(3):
        t = RNG.integers(0, TOKENS, (1, 8))
        t[0, :3] = 0, 1, TOKENS - 1
        expected = truth(net, {"t": t})
        for name, found in float_outputs(g, {"t": t.astype(np.int32)}).items():
            np.testing.assert_allclose(found, expected[name], atol=2e-5)
    return ops(g)


def wrapped(net: Net, t: str) -> str:
    """Row numbers as Keras computes them, below zero from the end."""
    below = net.add("Less", t, number(net, 0))
    return net.add("Where", below, net.add("Add", t, number(net, TOKENS)), t)


def halves(net: Net, t: str) -> str:
    """Rows of a smaller table: t // 2 + 3 as torch writes it, in another shape."""
    wide = net.add("Unsqueeze", t, number(net, [1]))
    return net.add("Squeeze", net.add("Add", net.add("Div", wide, number(net, 2)), number(net, 3)), number(net, [1]))


def modulo(net: Net, t: str) -> str:
    return net.add("Mod", net.add("Mul", net.add("Sub", t, number(net, 7)), number(net, 3)), number(net, TOKENS))


@pytest.mark.parametrize(("rows", "steps"), [(wrapped, 2), (halves, 2), (modulo, 2)])
def test_rows_that_are_computed(rows: Callable[[Net, str], str], steps: int, tmp_path: Path) -> None:
    """They cost nothing: the table is in their order."""
    net, t, table = text_net()
    net.output(net.add("Relu", net.add("Gather", table, rows(net, t))))
    assert same(net, tmp_path) == ["Embedding", "Unary"][:steps]


def test_a_token_is_read_in_several_ways(tmp_path: Path) -> None:
    """Embedding, padding mask in front of a Softmax, kind of the token as a number, and the count of some."""
    net, t, table = text_net()
    x = net.add("Gather", table, t)
    padding = net.add("Unsqueeze", net.add("Equal", t, number(net, 0)), number(net, [1]))
    scores = net.add("MatMul", x, net.add("Transpose", x, perm=[0, 2, 1]))
    scores = net.add("Where", padding, net.const(np.float32(-1e9)), scores)
    y = net.add("MatMul", net.add("Softmax", scores), x)
    kind = net.add("Cast", net.add("Mod", t, number(net, 3)), to=TensorProto.FLOAT)
    y = net.add("Mul", y, net.add("Unsqueeze", kind, number(net, [2])))
    special = net.add("And", net.add("Greater", t, number(net, 4)), net.add("Not", net.add("Equal", t, number(net, 9))))
    count = net.add("ReduceSum", net.add("Cast", special, to=TensorProto.FLOAT), number(net, [1]), keepdims=1)
    net.output(net.add("Add", y, net.add("Unsqueeze", count, number(net, [2]))))
    assert same(net, tmp_path).count("Embedding") == 4


def detector(net: Net, form: str) -> str:
    """The head of detectors without suppression, 12 places of 3 classes."""
    scores = net.add("Reshape", net.conv("x", 2, 3, 1), number(net, [1, 3, 12]))
    scores = net.add("Transpose", net.add("Sigmoid", scores), perm=[0, 2, 1])
    boxes = net.add("Transpose", net.add("Reshape", net.conv("x", 2, 4, 1), number(net, [1, 4, 12])), perm=[0, 2, 1])
    k = number(net, [5])
    net.add("TopK", net.add("ReduceMax", scores, number(net, [2]), keepdims=0), k, outputs=["best", "at"])
    rows = net.add("Unsqueeze", "at", number(net, [2]))
    wide = [net.add("Tile", rows, number(net, [1, 1, n])) for n in (4, 3)]
    boxes = net.add("GatherElements", boxes, wide[0], axis=1)
    scores = net.add("GatherElements", scores, wide[1], axis=1)
    net.add("TopK", net.add("Reshape", scores, number(net, [1, -1])), k, outputs=["score", "i"])
    row = net.add("Div", "i", number(net, 3))
    if form == "GatherND":  # boxes[i, index // nc]
        parts = [number(net, np.zeros((1, 5, 1), int).tolist()), net.add("Unsqueeze", row, number(net, [2]))]
        boxes = net.add("GatherND", boxes, net.add("Concat", *parts, axis=2))
    elif form == "Gather":
        boxes = net.add("Gather", boxes, net.add("Squeeze", row, number(net, [0])), axis=1)
    else:
        row = net.add("Expand", net.add("Unsqueeze", row, number(net, [2])), number(net, [1, 5, 4]))
        boxes = net.add("GatherElements", boxes, row, axis=1)
    kind = net.add("Cast", net.add("Mod", "i", number(net, 3)), to=TensorProto.FLOAT)
    return net.add("Concat", boxes, *(net.add("Unsqueeze", v, number(net, [2])) for v in ("score", kind)), axis=2)


def key_points(net: Net, form: str) -> str:
    """Three heat maps of 5 x 7: places of the largest, and an offset that is read there."""
    maps = net.add("Reshape", net.conv("x", 2, 3, 1), number(net, [1, 3, 12]))
    at = net.add("ArgMax", maps, axis=2, keepdims=0)
    row, column = net.add("Div", at, number(net, 4)), net.add("Mod", at, number(net, 4))
    offsets = net.add("Transpose", net.conv("x", 2, 3, 1), perm=[0, 2, 3, 1])
    parts = [number(net, [[0, 0, 0]]), row, column, number(net, [[0, 1, 2]])]
    parts = [net.add("Unsqueeze", p, number(net, [2])) for p in parts]
    offset = net.add("GatherND", offsets, net.add("Concat", *parts, axis=2))
    return net.add("Concat", offset, *(net.add("Cast", p, to=TensorProto.FLOAT) for p in (row, column)), axis=1)


@pytest.mark.parametrize("form", ["GatherElements", "GatherND", "Gather", "key points"])
def test_heads(form: str, tmp_path: Path) -> None:
    net = Net(18)
    net.input([1, 2, 3, 4])
    net.output((key_points if form == "key points" else detector)(net, form))
    g = core(net, tmp_path)
    for feeds in net.samples(4):
        (found,), (expected,) = float_outputs(g, feeds).values(), truth(net, feeds).values()
        np.testing.assert_allclose(found, expected, atol=2e-5)
    compiled = compile_file(net.save(tmp_path), {"x": np.concatenate([s["x"] for s in net.samples(30)])}, plain=True)
    runner = HostRunner(compiled.data)
    for feeds in net.samples(4):
        (found,), (expected,) = runner.predict([feeds["x"]]), truth(net, feeds).values()
        if form == "key points":
            np.testing.assert_allclose(found.reshape(expected.shape)[:, 3:], expected[:, 3:], atol=0.01)
        else:  # another element may be among the best where scores are near each other
            found = found.reshape(expected.shape)
            np.testing.assert_allclose(found[0, :, 4], expected[0, :, 4], atol=0.02)
            assert np.array_equal(found[..., 5], np.rint(found[..., 5])), "a class is a whole number"
            assert np.mean(found[..., 5] == expected[..., 5]) >= 0.6


def test_a_class_as_an_output(tmp_path: Path) -> None:
    """CenterNet's heads give the class as an integer, place // places of a map,
    and read all maps at place mod places."""
    net = Net(18)
    rows = net.add("Reshape", net.input([1, 3, 2, 4]), number(net, [1, 3, 8]))
    maps = net.add("Reshape", rows, number(net, [1, 24]))
    net.add("TopK", maps, number(net, [3]), outputs=["best", "at"])
    for name, op in (("kind", "Div"), ("place", "Mod")):
        net.output(net.add(op, "at", number(net, 8), outputs=[name]), [1, 3], TensorProto.INT64)
    wide = net.add("Expand", net.add("Unsqueeze", "place", number(net, [1])), number(net, [1, 3, 3]))
    net.output(net.add("GatherElements", rows, wide, axis=2), [1, 3, 3])
    x = RNG.normal(size=(30, 3, 2, 4)).astype(np.float32)
    model = Model(compile_file(net.save(tmp_path), {"x": x}, plain=True).data)
    for one, kind, place, sizes in zip(x, *model.predict(x), strict=True):
        order = np.argsort(-one.reshape(-1))
        if np.min(-np.diff(one.reshape(-1)[order[:4]])) > 0.05:
            assert kind.reshape(-1).tolist() == (order[:3] // 8).tolist()
            assert place.reshape(-1).tolist() == (order[:3] % 8).tolist()
            np.testing.assert_allclose(sizes, one.reshape(3, 8)[:, order[:3] % 8], atol=0.05)


def test_refusals() -> None:
    """Integer arithmetic that is no function of one token, and the remainder of real numbers."""
    net, t, table = text_net()
    net.output(net.add("Gather", table, net.add("Add", t, number(net, [[0, 1, 2, 3, 4, 5, 6, 7]]))))
    with pytest.raises(AssertionError, match=r"\(Add\): computes with int64 numbers; mica reads float32 models"):
        refusal_of(net)
    net = Net(18)
    net.output(net.add("Mod", net.input([1, 4]), net.const(np.float32(2)), fmod=1))
    with pytest.raises(AssertionError, match="operator not supported"):
        refusal_of(net)
    net = Net(18)
    net.add(
        "TopK", net.add("Reshape", net.input([1, 300, 200]), number(net, [1, -1])), number(net, [9]), outputs=["v", "i"]
    )
    rows = net.add("Squeeze", net.add("Mod", "i", number(net, 300)), number(net, [0]))
    net.output(net.add("Gather", "x", rows, axis=1))
    with pytest.raises(AssertionError, match="cut the model before it"):
        refusal_of(net)


@with_trials
def test_tokens_and_mask() -> None:
    folder = TRIALS / "tokens-and-mask"
    x = np.load(folder / "calib.npz")["t"]
    session, n = onnxruntime.InferenceSession(folder / "model.onnx"), len(x) * 2 // 3
    runner = HostRunner(compile_file(folder / "model.onnx", {"t": x[:n]}).data)
    found = np.array([runner.predict([s[None].astype(np.int32)])[0].reshape(-1) for s in x[n:]])
    expected = np.array([session.run(None, {"t": s[None]})[0].reshape(-1) for s in x[n:]])
    assert 10 * np.log10(np.sum(expected**2) / np.sum((found - expected) ** 2)) > 30


@with_trials
def test_detector_end_to_end() -> None:
    """Boxes, scores and classes have scales of their own."""
    folder = TRIALS / "detector-end-to-end"
    x = np.load(folder / "calib.npz")["x"]
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    runner = HostRunner(compile_file(folder / "model.onnx", {"x": x}, plain=True).data)
    scales = [runner.model.tensors[t].scale for t in runner.model.outputs]
    assert scales[1] < 0.01 and scales[2] == 1.0
    found = np.array([runner.predict([s[None]])[0].reshape(10, 6) for s in x[:16]])
    expected = np.array([session.run(None, {"x": s[None]})[0][0] for s in x[:16]])
    assert np.abs(found[..., 4] - expected[..., 4]).max() < 0.02
    assert np.mean(found[:, 0, 5] == expected[:, 0, 5]) > 0.8
    assert np.median(np.abs(found[:, 0, :4] - expected[:, 0, :4])) < 0.2


@with_trials
def test_keras_embedding() -> None:
    """LiteRT's answers, calibrated with tokens as they may come."""
    file = TRIALS / "keras-embedding-tflite" / "model.tflite"
    litert = interpreter(file.read_bytes())
    (given,), (made,) = litert.get_input_details(), litert.get_output_details()
    x = RNG.integers(0, 50, (64, *given["shape"][1:])).astype(np.int32)
    runner = HostRunner(compile_file(file, {import_tflite(file).inputs[0]: x[:48]}).data)
    for t in x[48:]:
        litert.set_tensor(given["index"], t[None])
        litert.invoke()
        expected = litert.get_tensor(made["index"])
        np.testing.assert_allclose(runner.predict([t[None]])[0].reshape(expected.shape), expected, atol=0.03)
