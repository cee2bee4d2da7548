"""A trained network as an ONNX model: what the ordinary compile packs, and the way out to other frameworks.

Inputs: "features" [1, 1, frames, bands] of sound; "x" [1, steps, axes] of motion, [1, channels, height, width] of
pictures, [1, columns] of tables and statistics. The output holds the probabilities of the labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mica.training.families import Model
from mica.training.forest import Forest
from mica.training.layers import Array, Conv, Dense, Depthwise, Flat, Network, Norm, Pool, pads

OPSET, IR_VERSION = 17, 9


class _Graph:
    """Nodes in their order, and constants. at: the name of the latest result."""

    def __init__(self, at: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.at = at

    def add(self, op: str, *constants: Array, **attributes: Any) -> None:
        """Add a node that takes the latest result, then constants."""
        k = len(self.nodes)
        names = [f"{op.lower()}{k}.{i}" for i in range(len(constants))]
        self.constants += [
            numpy_helper.from_array(np.ascontiguousarray(c), n) for c, n in zip(constants, names, strict=True)
        ]
        self.nodes.append(
            helper.make_node(op, [self.at, *names], [f"{op.lower()}{k}"], f"{op.lower()}{k}", **attributes)
        )
        self.at = self.nodes[-1].output[0]


def model(trained: Model, shape: tuple[int, ...], labels: tuple[str, ...]) -> bytes:
    """Return the bytes of an .onnx file. shape: of an example."""
    if isinstance(trained, Forest):
        return _forest(trained, shape[0], labels)
    assert isinstance(trained, Network)
    pictured = len(trained.view) == 3
    motion = pictured and len(shape) == 2 and trained.view[1] == 1
    sound = pictured and len(shape) == 2 and not motion
    g = _Graph("features" if sound else "x")
    given = [1, *shape]
    if pictured and not motion:
        given = [1, trained.view[2], *trained.view[:2]]
    inputs = [helper.make_tensor_value_info(g.at, TensorProto.FLOAT, given)]
    _normalise(g, trained, len(shape) == 3)
    if motion:
        g.add("Transpose", perm=[0, 2, 1])
        g.add("Reshape", np.array([1, trained.view[2], trained.view[0], 1], np.int64))
    size = trained.view
    for k, layer in enumerate(trained.layers):
        if isinstance(layer, Conv | Depthwise):
            size = _convolution(g, trained, k, size)
        elif isinstance(layer, Pool):
            g.add("GlobalAveragePool")
            g.add("Flatten")
        elif isinstance(layer, Flat):
            g.add("Flatten")
        elif isinstance(layer, Dense):
            w = layer.values["w"]
            if any(isinstance(before, Flat) for before in trained.layers[:k]):  # its rows are places, then channels
                w = w.reshape(size[0] * size[1], size[2], -1).transpose(1, 0, 2).reshape(w.shape)
            g.add("Gemm", w, layer.values["b"])
            if layer.relu:
                g.add("Relu")
    g.add("Softmax", axis=1)
    g.nodes[-1].output[0] = "probabilities"
    outputs = [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, len(labels)])]
    return _file(g, inputs, outputs, [helper.make_opsetid("", OPSET)], labels)


def _normalise(g: _Graph, network: Network, picture: bool) -> None:
    mean, spread = network.mean, network.spread
    if picture:  # one number a channel, which is the second axis here
        mean, spread = (np.broadcast_to(a, (network.view[2],)).reshape(1, -1, 1, 1) for a in (mean, spread))
    if mean.any():
        g.add("Sub", mean)
    if (spread != 1).any():
        g.add("Mul", (1 / spread).astype(np.float32))


def _convolution(g: _Graph, network: Network, k: int, size: tuple[int, ...]) -> tuple[int, ...]:
    """Add layer k with the norm behind it; returns the size of its output: height, width, channels."""
    layer, norm = network.layers[k], network.layers[k + 1]
    assert isinstance(layer, Conv | Depthwise) and isinstance(norm, Norm)
    factor, offset = norm.folded()
    w = layer.values["w"] * factor
    if isinstance(layer, Conv):
        w = w.reshape(*layer.kernel, layer.channels, -1).transpose(3, 2, 0, 1)
    else:
        w = w.transpose(2, 0, 1)[:, None]
    (height, top, bottom), (width, left, right) = (
        pads(*a) for a in zip(size, layer.kernel, layer.stride, strict=False)
    )
    group = 1 if isinstance(layer, Conv) else size[2]
    at = {"kernel_shape": layer.kernel, "strides": layer.stride, "pads": [top, left, bottom, right], "group": group}
    g.add("Conv", w.astype(np.float32), offset.astype(np.float32), **at)
    g.add("Relu")
    return height, width, len(w)


def _forest(forest: Forest, columns: int, labels: tuple[str, ...]) -> bytes:
    g = _Graph("x")
    nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[Any, ...]] = []
    for tree, grown in enumerate(forest.trees):
        for k, ((c, t, low, high), share) in enumerate(zip(grown.nodes, grown.share, strict=True)):
            nodes.append((tree, k, max(c, 0), "LEAF" if c < 0 else "BRANCH_LEQ", float(t), low, high, 0))
            leaves += [(tree, k, label, v / len(forest.trees)) for label, v in enumerate(share) if v and c < 0]
    attributes: dict[str, Any] = {"classlabels_int64s": list(range(len(labels))), "post_transform": "NONE"}
    for names, rows in ((_NODES, nodes), (_LEAVES, leaves)):
        attributes |= {name: list(column) for name, column in zip(names.split(), zip(*rows, strict=True), strict=True)}
    outputs = ["label", "probabilities"]
    g.nodes.append(
        helper.make_node("TreeEnsembleClassifier", ["x"], outputs, "forest", domain="ai.onnx.ml", **attributes)
    )
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, columns])]
    made = [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, len(labels)])]
    return _file(g, given, made, [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)], labels)


_NODES = (
    "nodes_treeids nodes_nodeids nodes_featureids nodes_modes nodes_values nodes_truenodeids nodes_falsenodeids "
    "nodes_missing_value_tracks_true"
)
_LEAVES = "class_treeids class_nodeids class_ids class_weights"


def _file(g: _Graph, inputs: list[Any], outputs: list[Any], opsets: list[Any], labels: tuple[str, ...]) -> bytes:
    graph = helper.make_graph(g.nodes, "trained", inputs, outputs, g.constants)
    made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="mica train")
    helper.set_model_props(made, {"labels": "\n".join(labels)})
    return bytes(made.SerializeToString())
