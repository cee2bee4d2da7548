"""ONNX's nodes and types as plain Python values, and how errors call them."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mica.format.names import clean
from mica.importer.tidy_names import MOST


def node_name(proto: onnx.NodeProto) -> str:
    return clean(proto.name or next((o for o in proto.output if o), proto.op_type), MOST)


def place_of(proto: onnx.NodeProto) -> str:
    return f"node '{node_name(proto)}' ({proto.op_type})"


def first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return lines[0] if lines else type(e).__name__


def attributes(proto: onnx.NodeProto) -> dict[str, Any]:
    """ONNX attributes as plain Python values: bytes become str, tensors become arrays."""
    attrs: dict[str, Any] = {}
    for a in proto.attribute:
        v = helper.get_attribute_value(a)
        if isinstance(v, bytes):
            v = v.decode("utf-8", "replace")
        elif isinstance(v, onnx.TensorProto):
            v = numpy_helper.to_array(v)
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
