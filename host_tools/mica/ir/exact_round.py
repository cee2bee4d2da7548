"""The one function of ours in an ONNX model that mica writes: sums of integers that float32 came near to,
made exact again.

    y = ExactRound(x, unit, rest, factor, step)   =>   y = step * floor((round(x / unit) + rest) * factor + 1/2),
                                                       in double precision

x is a sum as real numbers, unit what one is worth in it, factor how many steps of the output, step the output's scale;
rest is a hundredth of a step at most. So y is x but for the rounding that QuantizeLinear is going to do anyway,
and the importer reads it as `Identity`.
"""

import onnx
from onnx import TensorProto, helper

DOMAIN, NAME = "mica.function", "ExactRound"


def function(opset: int) -> onnx.FunctionProto:
    """Its definition in ONNX's operators, which the model brings along."""
    half = helper.make_tensor("half", TensorProto.DOUBLE, (), [0.5])
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Div", ["wide", "unit"], ["near"]),
        helper.make_node("Round", ["near"], ["sum"]),
        helper.make_node("Add", ["sum", "rest"], ["all"]),
        helper.make_node("Mul", ["all", "factor"], ["steps"]),
        helper.make_node("Constant", [], ["half"], value=half),
        helper.make_node("Add", ["steps", "half"], ["moved"]),
        helper.make_node("Floor", ["moved"], ["whole"]),
        helper.make_node("Mul", ["whole", "step"], ["y"]),
    ]
    sets = [helper.make_opsetid("", opset)]
    return helper.make_function(DOMAIN, NAME, ["x", "unit", "rest", "factor", "step"], ["y"], nodes, sets)


def without(model: onnx.ModelProto) -> None:
    """Its calls become Identity."""
    if any(f.domain == DOMAIN for f in model.functions):
        for node in model.graph.node:
            if (node.domain, node.op_type) == (DOMAIN, NAME) and node.input:
                node.domain, node.op_type = "", "Identity"
                del node.input[1:]
