"""Attention over a cache of which only `length` rows are filled, by fewer nodes than ONNX's own definition has.

    y = Attention(q, k, v, , , , length)   =>   y = Softmax(Where(places >= length, -inf, q k^T * scale)) v

Heads that share keys and values are rows of one product, so that nothing is repeated.
A length is an input of the model, and is the same for all queries.
With length 0 the result is the mean of all values, where ONNX says 0; no decoder asks for it.
"""

from typing import Any

import numpy as np
import onnx
from onnx import helper

from mica.importer.expand.writer import Writer
from mica.importer.state import ImportState

_DEFAULTS: dict[str, Any] = {"is_causal": 0, "softcap": 0.0, "left_window_size": -1, "right_window_size": -1}


def by_length(state: ImportState, proto: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The nodes; None where the node has another form, as where its length is constant."""
    if len(proto.input) < 7 or any(i not in state.graph.values for i in (*proto.input[:3], proto.input[6])):
        return None
    length = state.graph.values[proto.input[6]]
    if length.data is not None or length.size != 1:
        return None
    attrs: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    shapes = [state.shape(i) for i in proto.input[:3]]
    if any(proto.input[3:6]) or any(proto.output[1:]) or any(len(s) != 4 or s[0] != 1 for s in shapes):
        return None
    (_, heads, queries, width), (_, groups, rows, _), (_, _, _, value_width) = shapes
    if heads % groups or (queries > 1 and attrs.get("is_causal", 0)):
        return None
    if any(attrs.get(name, value) != value for name, value in _DEFAULTS.items() if name != "is_causal"):
        return None
    n = Writer(state, proto)
    emit, constant = n.emit, n.constant
    q, k, v = proto.input[:3]
    scale = attrs.get("scale", 0.0) or 1 / np.sqrt(width)
    q = emit("Reshape", [q, constant("grouped", np.array([1, groups, heads // groups * queries, width]))])
    scores = emit("MatMul", [q, emit("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = emit("Mul", [scores, constant("scale", np.array(scale, np.float32))])
    unseen = emit("GreaterOrEqual", [constant("places", np.arange(rows)), proto.input[6]])
    scores = emit("Where", [unseen, constant("lowest", np.array(-np.inf, np.float32)), scores])
    y = emit("MatMul", [emit("Softmax", [scores], axis=-1), v])
    emit("Reshape", [y, constant("shape", np.array([1, heads, queries, value_width]))], proto.output[0])
    return n.nodes
