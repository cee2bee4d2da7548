"""ONNX's nodes and types as plain Python values, and how errors call them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mica.errors import MicaError
from mica.format.names import clean
from mica.importer.tidy_names import MOST


def node_name(proto: onnx.NodeProto) -> str:
    return clean(proto.name or next((o for o in proto.output if o), proto.op_type), MOST)


def place_of(proto: onnx.NodeProto) -> str:
    return f"node '{node_name(proto)}' ({proto.op_type})"


def first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return lines[0] if lines else type(e).__name__


def array_of(t: onnx.TensorProto) -> np.ndarray:
    """Return a tensor's numbers. Raises MicaError where its data is not what its type and dimensions say."""
    try:
        if min(t.dims, default=1) < 0:
            raise ValueError
        return np.asarray(numpy_helper.to_array(t))
    except (ValueError, TypeError, KeyError) as e:
        raise MicaError(
            f"tensor '{clean(t.name, MOST)}': its data is not what its type and its dimensions {list(t.dims)} say",
            todo="export the model again",
        ) from e


def tensors_of(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors of a graph and of those inside it."""
    if isinstance(graph, onnx.GraphProto):
        yield from graph.initializer
        yield from (t for sparse in graph.sparse_initializer for t in (sparse.values, sparse.indices))
    for a in (a for n in graph.node for a in n.attribute):
        yield from (a.t, *a.tensors)
        for inner in (a.g, *a.graphs):
            yield from tensors_of(inner) if inner.node or inner.initializer else ()


def attributes(proto: onnx.NodeProto) -> dict[str, Any]:
    """ONNX attributes as plain Python values: bytes become str, tensors become arrays."""
    attrs: dict[str, Any] = {}
    for a in proto.attribute:
        v = helper.get_attribute_value(a)
        if isinstance(v, bytes):
            v = v.decode("utf-8", "replace")
        elif isinstance(v, onnx.TensorProto):
            v = array_of(v)
        elif isinstance(v, (list, tuple)) or hasattr(v, "_values"):
            v = [s.decode("utf-8", "replace") if isinstance(s, bytes) else s for s in v]
        attrs[a.name] = v
    return attrs


def dtype_name(elem_type: int) -> str:
    try:
        return str(helper.tensor_dtype_to_np_dtype(elem_type))
    except KeyError:
        return f"type {elem_type}"


def elem_type(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
