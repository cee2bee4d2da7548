"""TopK: of one, as the largest and its place; of more, refused with what does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nets import Net, truth
from onnx import TensorProto

from mica.compiler import compile_model
from mica.errors import Unsupported
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
    ("axis", "largest", "outputs", "opset"),
    [(-1, 1, "vi", 17), (1, 1, "vi", 17), (0, 0, "vi", 17), (2, 1, "v", 17), (2, 0, "i", 17), (-1, 1, "vi", 9)],
)
def test_the_largest(tmp_path: Path, axis: int, largest: int, outputs: str, opset: int) -> None:
    """Inputs that int8 holds exactly, ties among them: the first of equal ones, as ONNX says."""
    net = net_of(1, axis, largest, outputs, opset)
    rng = np.random.default_rng(4)
    x = rng.integers(-100, 100, (8, 2, 5, 3)).astype(np.float32)
    x[0].flat[0], x[0].flat[1] = -128, 127
    x[1] = x[1, :, :1, :1]
    with HostRunner(compile_model(net.save(tmp_path), {"x": x}, plain=True).data) as runner:
        tensors = [runner.model.tensors[t] for t in runner.model.outputs]
        for one in x:
            expected = list(truth(net, {"x": one}).values())
            for q, t, w in zip(runner.run([runner.quantise([one])])[0], tensors, expected, strict=True):
                found = q if t.dtype == "int32" else dequantise_output(q, t)
                np.testing.assert_array_equal(found.reshape(w.shape), w)


def test_more_than_one(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as e:
        compile_model(net_of(3).save(tmp_path))
    assert "node 'best' (TopK): the 3 largest; mica computes the one" in str(e.value)
    assert "m.top(3)" in str(e.value)
    assert "\n" not in str(e.value)
