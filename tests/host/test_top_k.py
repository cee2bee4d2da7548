"""TopK: of one, as the largest and its place; of more, as places in order and the values there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, truth
from onnx import TensorProto

from mica.compile import compile_file
from mica.errors import MicaError
from mica.format.values import dequantise_output
from mica.run.host import HostRunner


def net_of(k: int, axis: int = -1, largest: int = 1, outputs: str = "vi", opset: int = 17) -> Net:
    net = Net(opset)
    x = net.input([2, 5, 3])
    names = list("vi")
    more = {"k": k} if opset < 10 else {"largest": largest}
    inputs = [] if opset < 10 else [net.const(np.array([k]))]
    net.add("TopK", x, *inputs, outputs=names, name="best", axis=axis, **more)
    shape = [2, 5, 3]
    shape[axis] = k
    for name, kind in (("v", TensorProto.FLOAT), ("i", TensorProto.INT64)):
        if name in outputs:
            net.output(name, shape, kind)
    return net


@pytest.mark.parametrize(
    ("k", "axis", "largest", "outputs", "opset"),
    [
        (1, -1, 1, "vi", 17),
        (1, 1, 1, "vi", 17),
        (1, 0, 0, "vi", 17),
        (1, 2, 1, "v", 17),
        (1, 2, 0, "i", 17),
        (1, -1, 1, "vi", 9),
        (3, -1, 1, "vi", 17),
        (2, -1, 1, "vi", 9),
        (5, 1, 0, "vi", 17),
        (2, 0, 1, "v", 17),
        (4, 1, 1, "i", 17),
    ],
)
def test_the_largest(tmp_path: Path, k: int, axis: int, largest: int, outputs: str, opset: int) -> None:
    """Inputs that int8 holds exactly, ties among them: the first of equal ones, as ONNX says."""
    net = net_of(k, axis, largest, outputs, opset)
    rng = np.random.default_rng(4)
    x = rng.integers(-100, 100, (8, 2, 5, 3)).astype(np.float32)
    x[0].flat[0], x[0].flat[1] = -128, 127
    x[1] = x[1, :, :1, :1]
    with HostRunner(compile_file(net.save(tmp_path), {"x": x}, plain=True).data) as runner:
        tensors = [runner.model.tensors[t] for t in runner.model.outputs]
        for one in x:
            expected = list(truth(net, {"x": one}).values())
            for q, t, w in zip(runner.run([runner.quantise([one])])[0], tensors, expected, strict=True):
                found = q if t.dtype == "int32" else dequantise_output(q, t)
                np.testing.assert_array_equal(found.reshape(w.shape), w)


def test_what_a_shape_does_not_hold(tmp_path: Path) -> None:
    net = Net()
    net.add("TopK", net.input([2, 5, 3]), net.const(np.array([6])), outputs=["v", "i"], name="best", axis=1)
    net.output("v", [2, 6, 3])
    with pytest.raises(MicaError) as e:
        compile_file(net.save(tmp_path))
    assert "\n" not in str(e.value)


def test_other_numbers_at_the_places(tmp_path: Path) -> None:
    """As in detectors: one tensor gives the places of the best, another one the numbers at these places."""
    net = Net()
    scores, sizes = net.input([1, 40], "scores"), net.input([1, 40], "sizes")
    net.add("TopK", scores, net.const(np.array([4])), outputs=["v", "i"], name="best")
    net.add("GatherElements", sizes, "i", outputs=["chosen"], name="chosen", axis=1)
    net.output("chosen", [1, 4])
    rng = np.random.default_rng(2)
    feeds = {name: rng.integers(-128, 128, (8, 1, 40)).astype(np.float32) for name in ("scores", "sizes")}
    for values in feeds.values():
        values[0].flat[0], values[0].flat[1] = -128, 127
    with HostRunner(compile_file(net.save(tmp_path), feeds, plain=True).data) as runner:
        tensor = runner.model.tensors[runner.model.outputs[0]]
        for i in range(8):
            one = {name: values[i] for name, values in feeds.items()}
            found = dequantise_output(runner.run([runner.quantise(list(one.values()))])[0][0], tensor)
            np.testing.assert_array_equal(found.reshape(1, 4), truth(net, one)["chosen"])


def test_a_detector_of_too_many_pairs_is_told_where_to_end(tmp_path: Path) -> None:
    """42 classes of 1,600 boxes are more than a place can number."""
    net = Net()
    x = net.input([1, 3, 40, 40])
    scores = net.add("Conv", x, net.random(42, 3, 1, 1), outputs=["scores"])
    boxes = net.add("Reshape", net.add("Conv", x, net.random(4, 3, 1, 1)), net.const(np.array([1, 4, 1600])))
    pairs = net.add("Reshape", scores, net.const(np.array([1, 67200])))
    net.output(net.add("TopK", pairs, net.const(np.array([10])), outputs=["best", "place"]))
    box = net.add("Reshape", net.add("Mod", "place", net.const(np.array(1600))), net.const(np.array([10])))
    net.output(net.add("Gather", boxes, box, axis=2))
    with pytest.raises(MicaError, match=rf"67200\].*end the model at 'scores', '{boxes}' and compute"):
        compile_file(net.save(tmp_path))
