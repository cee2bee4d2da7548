"""One ONNX node on constants, through ONNX's own reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator


def evaluate(node: onnx.NodeProto, inputs: Mapping[str, np.ndarray | None], opset: int) -> list[np.ndarray]:
    """Outputs of `node`, whose inputs are all in `inputs`. Raises whatever the evaluator raises."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in inputs.items()
        if a is not None
    ]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    model = helper.make_model(
        helper.make_graph([node], "one", infos, outputs), opset_imports=[helper.make_opsetid("", opset)]
    )
    results = ReferenceEvaluator(model).run(None, {k: v for k, v in inputs.items() if v is not None})
    return [np.asarray(r) for r in results]
