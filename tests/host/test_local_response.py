"""LRN, and as PyTorch's exporter writes it: an average pool over a volume whose windows lie along the channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from mica.compile import Compiled, compile_file
from mica.compile.layer_errors import sqnr_db
from mica.errors import MicaError
from mica.reference import float_ops
from mica.run.host import HostRunner

SHAPE, SIZE, ALPHA, BETA, K = (1, 10, 6, 5), 5, 0.8, 0.75, 1.5


def model(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], *shapes: tuple[int, ...]) -> bytes:
    """shapes: of the input and, where it has another, of the output."""
    x, y = shapes[0], shapes[-1]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", y))]
    arrays = [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def plain(size: int = SIZE, shape: tuple[int, ...] = SHAPE) -> bytes:
    node = helper.make_node("LRN", ["x"], ["y"], name="lrn", size=size, alpha=ALPHA, beta=BETA, bias=K)
    return model([node], {}, shape)


def as_torch(size: int = SIZE) -> bytes:
    """torch.nn.functional.local_response_norm of [N, C, H, W], without the arithmetic of its shapes."""
    n, c, h, w = SHAPE
    pads = [0, 0, size // 2, 0, 0, 0, 0, (size - 1) // 2, 0, 0]
    constants = {
        "volume": np.array([n, 1, c, h, w], np.int64),
        "pads": np.array(pads, np.int64),
        "back": np.array(SHAPE, np.int64),
        **{k: np.array(v, np.float32) for k, v in (("alpha", ALPHA), ("k", K), ("beta", BETA))},
    }
    window = {"kernel_shape": [size, 1, 1], "strides": [1, 1, 1], "pads": [0] * 6, "count_include_pad": 1}
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("Reshape", ["squares", "volume"], ["in_depth"]),
        helper.make_node("Pad", ["in_depth", "pads", ""], ["padded"]),
        helper.make_node("AveragePool", ["padded"], ["means"], **window),
        helper.make_node("Squeeze", ["means", "one"], ["of_channels"]),
        helper.make_node("Reshape", ["of_channels", "back"], ["beside"]),
        helper.make_node("Mul", ["beside", "alpha"], ["scaled"]),
        helper.make_node("Add", ["scaled", "k"], ["sum"]),
        helper.make_node("Pow", ["sum", "beta"], ["power"]),
        helper.make_node("Div", ["x", "power"], ["y"]),
    ]
    return model(nodes, {**constants, "one": np.array([1], np.int64)}, SHAPE)


def pool(kind: str, axis: int, length: int, **more: object) -> bytes:
    """Windows of 3, 2 apart, along one of three dimensions, which give so many."""
    shape = (1, 2, 7, 8, 9)
    made = (*shape[: axis + 2], length, *shape[axis + 3 :])
    kernel, strides = ([v if k == axis else 1 for k in range(3)] for v in (3, 2))
    node = helper.make_node(kind, ["x"], ["y"], name="pool", kernel_shape=kernel, strides=strides, **more)
    return model([node], {}, shape, made)


def by_numpy(x: np.ndarray, size: int) -> np.ndarray:
    """LRN by ONNX's definition."""
    before, behind = (size - 1) // 2, size // 2
    sums = [np.square(x[:, max(0, c - before) : c + behind + 1]).sum(axis=1) for c in range(x.shape[1])]
    return x / (K + ALPHA / size * np.stack(sums, axis=1)) ** BETA


# name: the file, the size of an LRN or 0, where ONNX Runtime says what is right
FILES = {
    "LRN": (plain(), SIZE),
    "LRN of an even size": (plain(4), 4),
    "LRN of a row": (plain(3, (1, 6, 11)), 3),
    "as PyTorch writes it": (as_torch(), 0),
    "as PyTorch writes it, an even size": (as_torch(4), 0),
    "the first dimension": (pool("AveragePool", 0, 3), 0),
    "the second one, padded": (pool("AveragePool", 1, 4, pads=[0, 1, 0, 0, 1, 0]), 0),
    "rounded up": (pool("AveragePool", 1, 4, ceil_mode=1), 0),
    "the last one": (pool("AveragePool", 2, 4), 0),
    "the largest": (pool("MaxPool", 1, 4, auto_pad="SAME_UPPER"), 0),
}


def compiled(name: str, folder: Path) -> tuple[Compiled, np.ndarray, np.ndarray]:
    """The model, samples, and the right answer to each."""
    (content, size), path = FILES[name], folder / "net.onnx"
    path.write_bytes(content)
    info = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    xs = np.random.default_rng(4).standard_normal((8, *(d.dim_value for d in info[1:]))).astype(np.float32)
    if size:
        ys = by_numpy(xs, size)
    else:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        ys = np.concatenate([session.run(None, {"x": x[None]})[0] for x in xs])
    return compile_file(path, {"x": xs}, plain=True), xs, ys


@pytest.mark.parametrize("name", FILES)
def test_beside_onnx_runtime(name: str, tmp_path: Path) -> None:
    """The network before it is quantised is the same; in int8 it is as close as a division of int8 is."""
    c, xs, ys = compiled(name, tmp_path)
    for x, y in zip(xs, ys, strict=True):
        (found,) = (float_ops.run(c.core, {"x": x[None]})[o] for o in c.core.outputs)
        np.testing.assert_allclose(found.reshape(y.shape), y, atol=1e-5)
    found = HostRunner(c.data).predict(xs).reshape(ys.shape)
    assert sqnr_db(ys, found) > 30


def test_its_padding_is_the_pools_own(tmp_path: Path) -> None:
    c, _, _ = compiled("as PyTorch writes it", tmp_path)
    kernels = [s.kernel for s in c.model.steps]
    assert kernels.count("average_pool2d_s8") == 1 and "pad_s8" not in kernels


def test_a_window_of_two_dimensions_of_three(tmp_path: Path) -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], name="pool", kernel_shape=[1, 2, 2])
    (tmp_path / "net.onnx").write_bytes(model([node], {}, (1, 2, 3, 4, 4), (1, 2, 3, 3, 3)))
    with pytest.raises(MicaError, match=r"'pool' \(AveragePool\): input of 3 spatial dimensions"):
        compile_file(tmp_path / "net.onnx", plain=True)
