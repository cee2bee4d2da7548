"""One ONNX node on constants, or some nodes, through ONNX's own reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

# Sums, and functions that are not of IEEE 754: in float32 their last bit depends on the processor. So they are computed
# in float64 and rounded once.
ROUNDED_ONCE = {
    *("Conv", "ConvTranspose", "CumSum", "Einsum", "Gemm", "MatMul"),
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "ReduceSumSquare"),
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan", "Tanh"),
    *("Elu", "Erf", "Exp", "Log", "LogSoftmax", "Pow", "Sigmoid", "Softmax", "Softplus"),
}


def evaluate(node: onnx.NodeProto, inputs: Mapping[str, np.ndarray | None], opset: int) -> list[np.ndarray]:
    """Outputs of `node`, whose inputs are all in `inputs`. Raises any exception of the evaluator."""
    given = {name: a for name, a in inputs.items() if a is not None}
    if node.op_type in ROUNDED_ONCE and {a.dtype for a in given.values() if a.dtype.kind == "f"} == {np.dtype("f4")}:
        wide = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in given.items()}
        return [a.astype(np.float32) if a.dtype == np.float64 else a for a in _evaluate(node, wide, opset)]
    return _evaluate(node, given, opset)


def _evaluate(node: onnx.NodeProto, inputs: Mapping[str, np.ndarray], opset: int) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator  # here: it takes a while, and few models need it

    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    model = helper.make_model(
        helper.make_graph([node], "one", infos, outputs), opset_imports=[helper.make_opsetid("", opset)]
    )
    results = ReferenceEvaluator(model).run(None, dict(inputs))
    return [np.asarray(r) for r in results]


_EACH = {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mul", "Or", "Sub"}
_PRODUCTS = {"Gemm", "MatMul"}
_MOVES = {"Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
_OTHERS = {"Cast", "Constant", "DequantizeLinear", "Neg", "Not", "QuantizeLinear", "Relu", "Sigmoid", "Tanh"}
MOST = 1 << 24  # elements


def guarded(nodes: Sequence[onnx.NodeProto], values: dict[str, np.ndarray], opset: int) -> None:
    """Adds the results of simple nodes, one after the other, to the values.
    Raises ValueError where one is not simple or large."""
    for node in nodes:
        arrays = [values[i] for i in node.input if i]
        op, size = node.op_type, sum(a.size for a in arrays)
        if op in _EACH:
            size = int(np.prod(np.broadcast_shapes(*(a.shape for a in arrays)), dtype=np.int64))
        elif op in _PRODUCTS:
            size = arrays[0].size * arrays[1].size // max(min(arrays[1].shape), 1)
        elif op not in _MOVES and op not in _OTHERS:
            raise ValueError(f"{op} is not simple")
        if size > MOST:
            raise ValueError(f"{op} is too large")
        made = evaluate(node, {i: values[i] for i in node.input if i}, opset)
        values.update(zip((o for o in node.output if o), made, strict=True))


def evaluator(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
    opset: int,
) -> ReferenceEvaluator:
    """Return a model of several nodes, to be run many times."""
    from onnx.reference import ReferenceEvaluator

    ins = [helper.make_tensor_value_info(i, onnx.TensorProto.UNDEFINED, None) for i in inputs]
    outs = [helper.make_empty_tensor_value_info(o) for o in outputs]
    known = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(list(nodes), "some", ins, outs, known)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
