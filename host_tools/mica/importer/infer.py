"""Output shapes of one node, by ONNX's shape inference."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from mica.importer.protos import attributes, dtype_name, elem_type, first_line
from mica.importer.state import ImportState

# A constant larger than this takes no part in shape inference: it is data, not a shape.
SHAPE_CONSTANT_BYTES = 4096
INITIALIZERS_APART = 4  # from this IR version on, an initializer need not be an input, too.
# ONNX defines these operators by function bodies, and its inference does not get to the end of them.
SAME_SHAPE = frozenset(("GroupNormalization", "MeanVarianceNormalization", "TensorScatter"))


def infer(state: ImportState, proto: onnx.NodeProto) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and types of the outputs, given the shapes of the inputs and small constants.

    Raises ValueError with ONNX's reason, without its prefixes: "... [ShapeInferenceError] Incompatible dimensions".
    """
    try:
        return _infer(state, proto)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as e:
        raise ValueError(first_line(e).rsplit("[ShapeInferenceError] ", 1)[-1]) from None


def _infer(state: ImportState, proto: onnx.NodeProto) -> dict[str, tuple[tuple[int, ...], str]]:
    g = state.graph
    if proto.op_type in SAME_SHAPE:
        like = g.values[proto.input[0]]
        return {proto.output[0]: (like.shape, like.dtype)}
    infos, inits = [], []
    for i in dict.fromkeys(proto.input):
        if not i:
            continue
        v = g.values[i]
        if v.data is not None and v.data.nbytes <= SHAPE_CONSTANT_BYTES:
            inits.append(numpy_helper.from_array(np.asarray(v.data, np.dtype(v.dtype), order="C"), i))
        else:
            infos.append(helper.make_tensor_value_info(i, elem_type(v.dtype), v.shape))
    outs = [helper.make_empty_tensor_value_info(o) for o in proto.output if o]
    one = helper.make_model(
        helper.make_graph([proto], "one", infos, outs, inits),
        opset_imports=[helper.make_opsetid("", state.opset)],
        ir_version=max(state.ir_version, INITIALIZERS_APART),
    )
    inferred = onnx.shape_inference.infer_shapes(one, strict_mode=True, data_prop=True)
    found = {}
    for info in (*inferred.graph.output, *inferred.graph.value_info):
        t = info.type.tensor_type
        if t.HasField("shape") and t.elem_type and all(d.HasField("dim_value") for d in t.shape.dim):
            dims = tuple(d.dim_value for d in t.shape.dim)
            if proto.op_type in ("AveragePool", "MaxPool"):
                dims = _without_idle_windows(dims, g.values[proto.input[0]].shape, attributes(proto))
            found[info.name] = (dims, dtype_name(t.elem_type))
    return found


def _without_idle_windows(y: tuple[int, ...], x: tuple[int, ...], attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of a pool's output without the windows that ceil_mode begins in the padding behind x.

    The operators' text, ONNX Runtime and PyTorch ignore those; ONNX's inference counts them.
    """
    n = len(x) - 2
    if not attrs.get("ceil_mode"):
        return y
    strides = attrs.get("strides", [1] * n)
    pads = attrs.get("pads", [0] * n) if attrs.get("auto_pad", "NOTSET") == "NOTSET" else [0] * n
    idle = [(y[2 + i] - 1) * strides[i] >= x[2 + i] + pads[i] for i in range(n)]
    return (*y[:2], *(d - w for d, w in zip(y[2:], idle, strict=True)))
