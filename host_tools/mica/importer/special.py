"""ONNX's operators that the importer does not take as they are: those of `REWRITTEN`,
and those that ONNX defines by others."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from mica.importer.expand.attention import by_length
from mica.importer.expand.definitions import expanded_definition
from mica.importer.protos import attributes, elem_type
from mica.importer.state import ImportState
from mica.ir.ops import MOVES


def _shape(state: ImportState, proto: onnx.NodeProto) -> None:
    whole = np.array(state.shape(proto.input[0]), np.int64)
    attrs = attributes(proto)
    part = whole[attrs.get("start", 0) : attrs.get("end", len(whole))]
    state.add_constant(proto.output[0], part if proto.op_type == "Shape" else np.array(whole.prod()))


def _dynamic_quantize(state: ImportState, proto: onnx.NodeProto) -> onnx.NodeProto:
    """Its scale follows the data; ours is fixed. With scale 1 and zero point 0 "integers" that are the real numbers
    themselves give the same products, and the quantiser chooses a scale of its own."""
    state.add_constant(proto.output[1], np.array(1, np.float32))
    state.add_constant(proto.output[2], np.array(0, np.uint8))
    return proto


def _concat(state: ImportState, proto: onnx.NodeProto) -> onnx.NodeProto:
    """Drops the empty inputs of a Concat, which add no elements."""
    full = [i for i in proto.input if 0 not in state.shape(i)]
    if not full or len(full) == len(proto.input):
        return proto
    return helper.make_node("Concat", full, proto.output, proto.name, axis=attributes(proto).get("axis", 1))


def _cast_like(state: ImportState, proto: onnx.NodeProto) -> onnx.NodeProto:
    """The second input is there for its type only."""
    to = elem_type(state.graph.values[proto.input[1]].dtype)
    return helper.make_node("Cast", proto.input[:1], proto.output, proto.name, to=to)


def _never(state: ImportState, proto: onnx.NodeProto) -> onnx.NodeProto | None:
    """False of what is computed: int8 has neither NaN nor infinity. An input may have NaN, for a missing number."""
    makers, name = {y: n for n in state.graph.nodes for y in n.outputs}, proto.input[0]
    while name in makers and makers[name].op in (*MOVES, "Cast"):
        name = makers[name].inputs[0]
    if name not in makers:
        return proto
    state.add_constant(proto.output[0], np.zeros(state.shape(proto.input[0]), np.bool_))
    return None


def _where(state: ImportState, proto: onnx.NodeProto) -> onnx.NodeProto:
    """A condition that is known, and the same everywhere, leaves one operand."""
    condition = state.constant(proto.input[0])
    if condition is None or condition.size == 0 or condition.min() != condition.max():
        return proto
    chosen, shapes = proto.input[1 if condition.any() else 2], [state.shape(i) for i in proto.input]
    if state.shape(chosen) != np.broadcast_shapes(*shapes):
        return proto
    return helper.make_node("Identity", [chosen], proto.output, proto.name)


def _slice(state: ImportState, proto: onnx.NodeProto) -> onnx.NodeProto:
    """Return an Identity for a slice of all that there is: row numbers that it passes on still are an input's."""
    shape, given = state.shape(proto.input[0]), [*proto.input[1:], "", ""]
    parts = [state.constant(i) for i in given[:2]]
    if len(proto.input) < 3 or not shape or any(p is None for p in parts) or state.constant(given[3]) is not None:
        return proto
    at = state.constant(given[2]) if given[2] else np.arange(len(shape))
    whole = at is not None and all(
        first in (0, -shape[axis]) and end >= shape[axis]
        for first, end, axis in zip(*(np.reshape(p, -1).tolist() for p in (*parts, at) if p is not None), strict=False)
    )
    return helper.make_node("Identity", proto.input[:1], proto.output, proto.name) if whole else proto


# The node that is imported instead; None where its outputs are constants of the graph already.
REWRITTEN: Mapping[str, Callable[[ImportState, onnx.NodeProto], onnx.NodeProto | None]] = {
    "CastLike": _cast_like,
    "Concat": _concat,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "IsInf": _never,
    "IsNaN": _never,
    "Shape": _shape,
    "Size": _shape,
    "Slice": _slice,
    "Where": _where,
}


def definition(state: ImportState, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes by which ONNX defines this one, or fewer. Raises ValueError."""
    parts = by_length(state, proto) if proto.op_type == "Attention" else None
    return expanded_definition(state, proto) if parts is None else parts


def node_attributes(state: ImportState, proto: onnx.NodeProto) -> dict[str, Any]:
    """Return those of the node of the graph: before opset 13 a softmax takes all axes from its own on as one."""
    attrs = attributes(proto)
    if proto.op_type in ("LogSoftmax", "Softmax") and state.opset < 13:
        return {"axis": attrs.get("axis", 1), "flatten": 1}
    return attrs
