"""Rotary embeddings become one step each, in all forms that exporters write; similar graphs do not.

Truth: ONNX Runtime on float.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from mica.compile import compile_file
from mica.format.values import dequantise_output, quantise_input
from mica.run.host import HostRunner

HEADS, PLACES, WIDTH = 3, 5, 8
HALF = WIDTH // 2


def by_hand(signs: tuple[str, str] = ("Sub", "Add"), swapped: bool = False) -> list[onnx.NodeProto]:
    """Halves, products, sums; the angles move along the places."""
    make = helper.make_node
    halves = ["b", "a"] if swapped else ["a", "b"]
    return [
        make("Split", ["x"], ["a", "b"], axis=3, num_outputs=2),
        make("Mul", [halves[0], "cosines"], ["ac"]),
        make("Mul", ["sines", halves[1]], ["bs"]),
        make(signs[0], ["ac", "bs"], ["first"]),
        make("Mul", [halves[0], "sines"], ["as"]),
        make("Mul", [halves[1], "cosines"], ["bc"]),
        make(signs[1], ["bc", "as"], ["second"]),
        make("Concat", ["first", "second"], ["y"], axis=3),
    ]


ONNX = [helper.make_node("RotaryEmbedding", ["x", "cosines", "sines"], ["y"])]


def saved(folder: Path, nodes: list[onnx.NodeProto], angles: tuple[int, ...]) -> Path:
    """The angles are inputs: of constants mica makes other steps."""
    inputs = {"x": (1, HEADS, PLACES, WIDTH), "cosines": angles, "sines": angles}
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, inputs["x"])
    graph = helper.make_graph(nodes, "rotation", infos, [y])
    path = folder / "rotation.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)
    return path


@pytest.mark.parametrize(
    ("nodes", "angles", "kernels"),
    [
        (ONNX, (1, PLACES, HALF), {"rotate_s8"}),
        (by_hand(), (1, 1, PLACES, HALF), {"rotate_s8"}),
        (by_hand(), (HALF,), {"rotate_s8"}),
        (by_hand(), (1, HEADS, 1, HALF), {"rotate_s8"}),
        (by_hand(), (1, HEADS, PLACES, HALF), {"rotate_s8"}),
        (by_hand(("Add", "Sub")), (1, 1, PLACES, HALF), None),
        (by_hand(swapped=True), (1, 1, PLACES, HALF), None),
        (by_hand(), (1, 1, PLACES, 1), None),
    ],
)
def test_forms(nodes: list[onnx.NodeProto], angles: tuple[int, ...], kernels: set[str] | None, tmp_path: Path) -> None:
    path = saved(tmp_path, nodes, angles)
    rng = np.random.default_rng(3)
    turns = rng.uniform(-3, 3, (8, *angles))
    data = {"x": rng.normal(0, 1, (8, 1, HEADS, PLACES, WIDTH)), "cosines": np.cos(turns), "sines": np.sin(turns)}
    data = {n: a.astype(np.float32) for n, a in data.items()}
    compiled = compile_file(path, data, plain=True)
    found = {s.kernel for s in compiled.model.steps} - {"lut_s8"}
    assert "rotate_s8" not in found if kernels is None else found == kernels
    session, runner = onnxruntime.InferenceSession(str(path)), HostRunner(compiled.data)
    inputs = [compiled.model.tensors[i] for i in compiled.model.inputs]
    y = compiled.model.tensors[compiled.model.outputs[0]]
    for k in range(8):
        (expected,) = session.run(None, {n: a[k] for n, a in data.items()})
        (raw,) = next(iter(runner.run([[quantise_input(data[t.name][k], t) for t in inputs]])))
        assert np.abs(dequantise_output(raw, y) - expected).max() < 4 * y.scale
