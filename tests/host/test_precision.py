"""Models of float16, bfloat16 and float64: float32 at the door, so the same integers as of a float32 model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from nets import Net
from onnx import TensorProto, helper, numpy_helper

from mica.compile import Compiled, compile_file
from mica.run.float_model import FloatModel

KINDS = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "float64": TensorProto.DOUBLE}


def net(kind: int, raw: bool = True, casts: bool = False) -> onnx.ModelProto:
    """Conv, a constant of a node, a table and a product; weights that all of the types hold exactly.

    casts: inputs and outputs stay float32, with a Cast at either end, as ONNX Runtime's converter writes
    (keep_io_types).
    """
    rng = np.random.default_rng(1)
    n = Net()
    ends = TensorProto.FLOAT if casts else kind
    x = n.input(["N", 2, 6, 6], dtype=ends)
    if casts:
        x = n.add("Cast", x, to=kind)
    w = (rng.integers(-64, 64, (4, 2, 3, 3)) / 64).astype(np.float32)
    c = n.add("Conv", x, n.const(w), pads=[1, 1, 1, 1])
    half = n.add("Constant", value=numpy_helper.from_array(np.float32([0.5, 0.25, 1, 2]).reshape(1, 4, 1, 1), "half"))
    y = n.add("GlobalAveragePool", n.add("Mul", n.add("Sigmoid", c), half))
    n.output(n.add("Cast", y, to=TensorProto.FLOAT) if casts else y, ["N", 4, 1, 1], ends)
    model = n.model()
    for t in model.graph.initializer:
        convert(t, kind, raw)
    for node in model.graph.node:
        for a in node.attribute:
            convert(a.t, kind, raw)
    return model


def convert(t: onnx.TensorProto, kind: int, raw: bool) -> None:
    if t.data_type != TensorProto.FLOAT:
        return
    values = numpy_helper.to_array(t).astype(helper.tensor_dtype_to_np_dtype(kind))
    t.CopyFrom(
        numpy_helper.from_array(values, t.name)
        if raw
        else helper.make_tensor(t.name, kind, values.shape, values.reshape(-1).tolist())
    )


def packed(model: onnx.ModelProto, folder: Path) -> Compiled:
    path = folder / "net.onnx"
    onnx.save(model, str(path))
    x = np.random.default_rng(2).standard_normal((12, 2, 6, 6)).astype(np.float32)
    return compile_file(path, {"x": x}, plain=True)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return packed(net(TensorProto.FLOAT), tmp_path_factory.mktemp("single"))


@pytest.mark.parametrize("casts", (False, True))
@pytest.mark.parametrize("raw", (True, False))
@pytest.mark.parametrize("kind", KINDS)
def test_packs_as_float32_does(tmp_path: Path, expected: Compiled, kind: str, raw: bool, casts: bool) -> None:
    found = packed(net(KINDS[kind], raw, casts), tmp_path)
    assert [s.kernel for s in found.model.steps] == [s.kernel for s in expected.model.steps]
    for a, b in zip(found.model.steps, expected.model.steps, strict=True):
        assert a.params == b.params
        assert all(np.array_equal(a.blobs[name], b.blobs[name]) for name in b.blobs)


def test_the_float_model_is_asked_in_its_own_type(tmp_path: Path) -> None:
    """ONNX Runtime takes a float16 input as float16 only; `mica eval --float` gives it float32 samples."""
    path = tmp_path / "net.onnx"
    onnx.save(net(TensorProto.FLOAT16), str(path))
    x = np.random.default_rng(3).standard_normal((3, 1, 2, 6, 6)).astype(np.float32)
    y = FloatModel(path).predict(x)
    onnx.save(net(TensorProto.FLOAT), str(path))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, FloatModel(path).predict(x), atol=2e-3)
