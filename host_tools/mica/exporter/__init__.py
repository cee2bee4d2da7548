"""A packed model as an ONNX model with QuantizeLinear and DequantizeLinear: the way back.

Each step becomes float operators between its tensors' scales, one function a kernel, one file a family;
Netron shows it and ONNX Runtime runs it. A step with no such form becomes a node of the domain `mica` with the kernel's
name, its parameters and constants as attributes, which no other program runs.
Inputs and outputs are float32 as of the model that was packed; a state is an input and an output more, of integers.
What a caller knows of a step's cost goes into its node's metadata.
"""

from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from mica import __version__
from mica.exporter import conv, elementwise, movement, norm, pool, reduce
from mica.exporter import exact as exact_forms
from mica.exporter.builder import Builder
from mica.exporter.step import OPSET, Form, NoForm, Step
from mica.exporter.values import Values
from mica.file.codec import ModelFile
from mica.ir import exact_round
from mica.kernels import KERNEL_BY_NAME

IR_VERSION = 10  # nodes have metadata from here on
DOMAIN = "mica"
_TYPES = {"i8": TensorProto.INT8, "u8": TensorProto.UINT8, "i16": TensorProto.INT16, "u16": TensorProto.UINT16}
_TYPES |= {"i32": TensorProto.INT32, "u32": TensorProto.UINT32}

FAMILIES = (conv, pool, elementwise, movement, reduce, norm)
FORMS: dict[str, Form] = {kernel: form for family in FAMILIES for kernel, form in family.FORMS.items()}
# What is not what a step does: its cost is noted at another node, where it has one.
_AROUND = {"DequantizeLinear", "QuantizeLinear", "Transpose", "Reshape", "Clip", "Relu", "Slice", "Identity", "Cast"}
_AROUND |= {exact_round.NAME}


def export(
    model: ModelFile,
    notes: Sequence[Mapping[str, str]] = (),
    facts: Mapping[str, str] | None = None,
    exact: bool = False,
) -> onnx.ModelProto:
    """The model as ONNX. notes: of each step, what its node's metadata shall hold; facts: of the whole model.

    exact: convolutions and products in integers, to the bit, where their scales are not said any more (`exact.py`).
    """
    forms = {**FORMS, **exact_forms.FORMS} if exact else FORMS
    b = Builder()
    values = Values(b, model)
    for k, step in enumerate(model.steps):
        begun = len(b.nodes)
        s = Step(b, values, model, step)
        try:
            form = forms.get(step.kernel)
            if form is None:
                raise NoForm
            form(s)
        except NoForm:
            b.forget(begun)
            values.forget(begun)
            _own(s)
        _note(b.nodes[begun:], s, notes[k] if k < len(notes) else {})
    inputs, outputs = values.inputs(), values.outputs()
    graph = helper.make_graph(b.nodes, model.metadata.get("name") or "model", inputs, outputs, b.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    if any(n.domain == DOMAIN for n in b.nodes):
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    functions = []
    if any(n.domain == exact_round.DOMAIN for n in b.nodes):
        opsets.append(helper.make_opsetid(exact_round.DOMAIN, 1))
        functions.append(exact_round.function(OPSET))
    result = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, functions=functions)
    result.producer_name, result.producer_version = "mica", __version__
    helper.set_model_props(result, {**model.metadata, **(facts or {})})
    return result


def _own(s: Step) -> None:
    """A node of the domain `mica`: integers in, integers out."""
    kernel = KERNEL_BY_NAME[s.record.kernel]
    attributes = [helper.make_attribute(name, int(s.record.params.get(name, 0))) for name in kernel.params]
    for name, kind in kernel.blobs:
        if (blob := s.record.blobs.get(name)) is not None and blob.size:
            tensor = helper.make_tensor(name, _TYPES[kind], blob.shape, blob.tobytes(), raw=True)
            attributes.append(helper.make_attribute(name, tensor))
    y = s.node(s.record.kernel, *(s.integers(i) for i in range(len(s.x))), domain=DOMAIN)
    s.b.nodes[-1].attribute.extend(attributes)
    s.put_integers(y)


def _note(nodes: Sequence[onnx.NodeProto], s: Step, notes: Mapping[str, str]) -> None:
    """Name and metadata of the node that stands for a step."""
    main = next((n for n in nodes if n.op_type not in _AROUND), nodes[-1] if nodes else None)
    if main is None:
        return
    main.name = s.b.fresh_node(s.record.name)
    known = {"kernel": s.record.kernel, "macs": str(s.record.macs), **notes}
    main.doc_string = ", ".join(f"{key} {value}" for key, value in known.items())
    for key, value in known.items():
        main.metadata_props.add(key=key, value=value)
