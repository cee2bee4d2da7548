"""Operators of com.microsoft that ONNX Runtime's optimisers write: its own float answers, ours within int8's noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mica.compile import Compiled, compile_file
from mica.errors import MicaError
from mica.format.values import dequantise_output
from mica.run.host import HostRunner

MICROSOFT = "com.microsoft"
Arrays = dict[str, np.ndarray]


def model_of(
    nodes: list[onnx.NodeProto], inputs: Arrays, outputs: dict[str, list[int]], constants: Arrays, opset: int = 17
) -> bytes:
    kinds = {
        np.dtype(np.float32): TensorProto.FLOAT,
        np.dtype(np.int32): TensorProto.INT32,
        np.dtype(np.int64): TensorProto.INT64,
    }
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, kinds[a.dtype], a.shape) for name, a in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def node(op: str, inputs: list[str], outputs: list[str], domain: str = MICROSOFT, **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=op.lower(), domain=domain, **attrs)


def session(content: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def noise_db(expected: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10((expected**2).mean() / ((expected - found.reshape(expected.shape)) ** 2).mean()))


X = normal(1, 6, 16)
FORMS: dict[str, Callable[[], bytes]] = {
    "Gelu": lambda: model_of([node("Gelu", ["x"], ["y"])], {"x": X}, {"y": [1, 6, 16]}, {}),
    "BiasGelu": lambda: model_of(
        [node("BiasGelu", ["x", "b"], ["y"])], {"x": X}, {"y": [1, 6, 16]}, {"b": normal(16, seed=2)}
    ),
    "FastGelu": lambda: model_of(
        [node("FastGelu", ["x", "b"], ["y"])], {"x": X}, {"y": [1, 6, 16]}, {"b": normal(16, seed=2)}
    ),
    "FastGelu without a bias": lambda: model_of([node("FastGelu", ["x"], ["y"])], {"x": X}, {"y": [1, 6, 16]}, {}),
    "QuickGelu": lambda: model_of([node("QuickGelu", ["x"], ["y"], alpha=1.5)], {"x": X}, {"y": [1, 6, 16]}, {}),
    "FusedMatMul": lambda: model_of(
        [node("FusedMatMul", ["x", "w"], ["y"], transB=1, alpha=0.5)],
        {"x": X},
        {"y": [1, 6, 9]},
        {"w": normal(9, 16, seed=3)},
    ),
    "FusedMatMul, both turned": lambda: model_of(
        [node("FusedMatMul", ["x", "w"], ["y"], transA=1, transB=1)],
        {"x": X},
        {"y": [1, 16, 9]},
        {"w": normal(9, 6, seed=3)},
    ),
    "FusedMatMul, rows before the batch": lambda: model_of(
        [
            node("Reshape", ["x", "heads"], ["h"], ""),
            node("FusedMatMul", ["h", "h"], ["y"], transBatchA=1, transBatchB=1, transB=1, alpha=0.3),
        ],
        {"x": X},
        {"y": [2, 4, 6, 6]},
        {"heads": np.array([6, 2, 4, 2])},
    ),
    "FusedConv": lambda: model_of(
        [node("FusedConv", ["x", "w", "b"], ["y"], activation="LeakyRelu", activation_params=[0.2], pads=[1, 1])],
        {"x": X},
        {"y": [1, 5, 16]},
        {"w": normal(5, 6, 3, seed=3), "b": normal(5, seed=4)},
    ),
    "FusedConv and a sum": lambda: model_of(
        [
            node("Conv", ["x", "w"], ["z"], ""),
            node("FusedConv", ["x", "w", "", "z"], ["y"], activation="Clip", activation_params=[-1.0, 2.0]),
        ],
        {"x": X},
        {"y": [1, 5, 14]},
        {"w": normal(5, 6, 3, seed=3)},
    ),
    "FusedGemm": lambda: model_of(
        [
            node(
                "FusedGemm", ["x", "w", "b"], ["y"], activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.4
            )
        ],
        {"x": X[0]},
        {"y": [6, 5]},
        {"w": normal(16, 5, seed=3) / 4, "b": normal(5, seed=4)},
    ),
    "LayerNormalization before opset 17": lambda: model_of(
        [node("LayerNormalization", ["x", "g", "b"], ["y"], "", axis=-1, epsilon=1e-5)],
        {"x": X},
        {"y": [1, 6, 16]},
        {"g": normal(16, seed=4), "b": normal(16, seed=5)},
        opset=16,
    ),
    "DynamicQuantizeLSTM": lambda: model_of(
        [
            node("Transpose", ["x"], ["t"], "", perm=[1, 0, 2]),
            node("DynamicQuantizeLSTM", ["t", "w", "r", "b", *[""] * 4, "s", "z", "s", "z"], ["y"], hidden_size=4),
        ],
        {"x": X},
        {"y": [6, 1, 1, 4]},
        {
            "w": np.random.default_rng(6).integers(-100, 100, (1, 16, 16)).astype(np.int8),
            "r": np.random.default_rng(7).integers(-100, 100, (1, 4, 16)).astype(np.int8),
            "b": normal(1, 32, seed=8),
            "s": np.array([0.004], np.float32),
            "z": np.zeros(1, np.int8),
        },
    ),
    "SkipLayerNormalization": lambda: model_of(
        [
            node("SkipLayerNormalization", ["x", "skip", "g", "b", "c"], ["n", "", "", "s"], epsilon=1e-5),
            node("Add", ["n", "s"], ["y"], ""),
        ],
        {"x": X, "skip": 2 * X[:, ::-1].copy()},
        {"y": [1, 6, 16]},
        {"g": normal(16, seed=4), "b": normal(16, seed=5), "c": normal(16, seed=6)},
    ),
    "SkipSimplifiedLayerNormalization": lambda: model_of(
        [node("SkipSimplifiedLayerNormalization", ["x", "skip", "g"], ["y", "", "", "s"], epsilon=1e-5)],
        {"x": X, "skip": 2 * X[:, ::-1].copy()},
        {"y": [1, 6, 16], "s": [1, 6, 16]},
        {"g": normal(16, seed=4)},
    ),
    "SimplifiedLayerNormalization": lambda: model_of(
        [node("SimplifiedLayerNormalization", ["x", "g"], ["y"], "", axis=-1, epsilon=1e-5)],
        {"x": X},
        {"y": [1, 6, 16]},
        {"g": normal(16, seed=4)},
    ),
}


def tables(rows: int, half: int) -> Arrays:
    angles = np.arange(rows)[:, None] / 100 ** (np.arange(half) / half)
    return {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


ROTATIONS: dict[str, tuple[list[int], int, dict[str, int], np.ndarray]] = {
    "three dimensions": ([1, 6, 16], 4, {}, np.arange(6)[None]),
    "interleaved": ([1, 6, 16], 4, {"interleaved": 1}, np.arange(6)[None] + 3),
    "from a place on": ([1, 6, 16], 4, {}, np.array([2])),
    "four dimensions": ([1, 2, 6, 8], 4, {}, np.arange(6)[None]),
    "a part of each head": ([1, 6, 16], 2, {"num_heads": 2, "rotary_embedding_dim": 4}, np.arange(6)[None]),
}
for _name, (_shape, _half, _attrs, _positions) in ROTATIONS.items():
    FORMS[f"RotaryEmbedding, {_name}"] = lambda s=_shape, h=_half, a=_attrs, p=_positions: model_of(
        [node("RotaryEmbedding", ["x", "p", "cos", "sin"], ["y"], **a)],
        {"x": normal(*s)},
        {"y": s},
        {"p": p.astype(np.int64), **tables(10, h)},
    )


@pytest.mark.parametrize("name", FORMS)
def test_as_onnx_runtime(name: str, tmp_path: Path) -> None:
    content = FORMS[name]()
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    made = session(content)
    feeds = {i.name: normal(40, *i.shape, seed=k) for k, i in enumerate(made.get_inputs())}
    with HostRunner(compile_file(path, feeds, plain=True).data) as runner:
        tensors = [runner.model.tensors[t] for t in runner.model.outputs]
        samples = [{name: a[k] for name, a in feeds.items()} for k in range(40)]
        found = [runner.run([runner.quantise(list(one.values()))])[0] for one in samples]
        expected = [made.run(None, one) for one in samples]
        for k, t in enumerate(tensors):
            reals = np.stack(
                [dequantise_output(f[k], t).reshape(e[k].shape) for f, e in zip(found, expected, strict=True)]
            )
            assert noise_db(np.stack([e[k] for e in expected]), reals) > 27


def decoder(**attrs: object) -> bytes:
    """One layer of a decoder: 4 heads of 16 that share 2 of keys, caches of 20 rows, all in one projection."""
    heads = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1} | attrs
    inputs = {
        "x": normal(1, 1, 16),
        "k0": normal(1, 2, 20, 16),
        "v0": normal(1, 2, 20, 16),
        "place": np.zeros(1, np.int32),
    }
    return model_of(
        [
            node("MatMul", ["x", "w"], ["qkv"], ""),
            node(
                "GroupQueryAttention",
                ["qkv", "", "", "k0", "v0", "place", "total", "cos", "sin"],
                ["y", "k1", "v1"],
                **heads,
            ),
        ],
        inputs,
        {"y": [1, 1, 64], "k1": [1, 2, 20, 16], "v1": [1, 2, 20, 16]},
        {"w": normal(16, 128, seed=8) / 4, "total": np.array(20, np.int32), **tables(20, 8)},
    )


def run_decoder(content: bytes, x: np.ndarray) -> tuple[np.ndarray, Arrays]:
    """ONNX Runtime's answers to the rows of x, one after the other, and its inputs, for calibration."""
    made, caches = session(content), [np.zeros((1, 2, 20, 16), np.float32)] * 2
    answers, read = [], {name: [] for name in ("x", "k0", "v0", "place")}
    for place, row in enumerate(x):
        feeds = {"x": row[None, None], "k0": caches[0], "v0": caches[1], "place": np.array([place], np.int32)}
        for name, a in feeds.items():
            read[name].append(a)
        y, *caches = made.run(None, feeds)
        answers.append(y.reshape(-1))
    return np.stack(answers), {name: np.stack(a) for name, a in read.items()}


@pytest.mark.parametrize("attrs", [{}, {"rotary_interleaved": 1}, {"do_rotary": 0, "scale": 0.2}])
def test_a_step_of_a_decoder(attrs: dict[str, object], tmp_path: Path) -> None:
    content = decoder(**attrs)
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    _, calibration = run_decoder(content, normal(20, 16, seed=9))
    x = normal(20, 16, seed=10)
    expected, _ = run_decoder(content, x)
    compiled: Compiled = compile_file(path, calibration, states=[("k0", "k1"), ("v0", "v1")], plain=True)
    assert [s.kernel for s in compiled.model.steps].count("attend_s8") == 1
    assert not any(s.kernel == "softmax_s8" for s in compiled.model.steps)
    with HostRunner(compiled.data) as runner:
        tensor = runner.model.tensors[runner.model.outputs[0]]
        samples = [runner.quantise([row[None, None], np.array([k], np.int32)]) for k, row in enumerate(x)]
        found = np.stack([dequantise_output(y[0], tensor).reshape(-1) for y in runner.run(samples)])
    assert noise_db(expected, found) > 27


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        ({"local_window_size": 8}, "local_window_size 8; attention over all rows so far is supported"),
        ({"softcap": 30.0}, "softcap 30.0; attention over all rows so far is supported"),
    ],
)
def test_refused(attrs: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(decoder(**attrs))
    with pytest.raises(MicaError) as e:
        compile_file(path)
    assert said in str(e.value)
