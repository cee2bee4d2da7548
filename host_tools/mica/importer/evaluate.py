"""One ONNX node on constants, through ONNX's own reference evaluator."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

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
