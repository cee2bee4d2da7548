"""Operators that ONNX defines as a function of others are spelled out by that definition.

    y = SwiGLU(a, b)      =>   y = Mul(Swish(a), b)
    y = Attention(q, ..)  =>   Transpose, MatMul, Softmax, MatMul ...

Only those of `ir.ops.DEFINED_BY_ONNX`: what a pass or a kernel takes whole is better off without its definition.
"""

from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper

from mica.importer.protos import elem_type, first_line
from mica.importer.state import ImportState


def expanded_definition(state: ImportState, node: NodeProto) -> list[NodeProto]:
    """The nodes that `node` stands for. Raises ValueError where ONNX has no definition of it."""
    try:
        return _expanded(state, node)
    except (ValueError, RuntimeError, onnx.onnx_cpp2py_export.defs.SchemaError) as e:
        raise ValueError(first_line(e)) from None


def _expanded(state: ImportState, node: NodeProto) -> list[NodeProto]:
    schema: Any = onnx.defs.get_schema(node.op_type, state.opset, node.domain)  # onnx's type stubs know half of it
    full = NodeProto()
    full.CopyFrom(node)
    named = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in named and attribute.default_value.name:
            full.attribute.append(attribute.default_value)
    return _body(state, full, _definition(state, schema, full))


def _definition(state: ImportState, schema: Any, node: NodeProto) -> FunctionProto:
    """The newest definition that a model of this opset may use."""
    opset = state.opset
    plain = [v for v in schema.function_opset_versions if v <= opset]
    by_context = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    function = FunctionProto()
    if plain:
        function.ParseFromString(schema.get_function_with_opset_version(max(plain)))
    elif by_context:
        values = [state.graph.values.get(i) for i in node.input]
        types = [helper.make_tensor_type_proto(elem_type(v.dtype), v.shape) if v else TypeProto() for v in values]
        text = schema.get_context_dependent_function_with_opset_version(
            max(by_context), node.SerializeToString(), [t.SerializeToString() for t in types]
        )
        function.ParseFromString(text)
    if not function.node:
        raise ValueError("ONNX does not define it by other operators in this form")
    return function


def _body(state: ImportState, node: NodeProto, function: FunctionProto) -> list[NodeProto]:
    attributes: dict[str, AttributeProto] = {a.name: a for a in node.attribute}
    names = {"": ""}
    names |= {inner: node.input[k] if k < len(node.input) else "" for k, inner in enumerate(function.input)}
    names |= {inner: outer for inner, outer in zip(function.output, node.output, strict=False) if outer}
    result = []
    for inner in function.node:
        part = NodeProto()
        part.CopyFrom(inner)
        part.name = node.name  # what people know of it
        del part.attribute[:]
        for a in inner.attribute:
            if not a.ref_attr_name:
                part.attribute.append(a)
            elif a.ref_attr_name in attributes:
                part.attribute.append(attributes[a.ref_attr_name])
                part.attribute[-1].name = a.name
        for ends in (part.input, part.output):
            for k, name in enumerate(ends):
                if name not in names:
                    names[name] = state.fresh(f"{node.name or node.output[0]}.{name}")
                ends[k] = names[name]
        result.append(part)
    return result
