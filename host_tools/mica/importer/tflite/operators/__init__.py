"""The operators of TensorFlow Lite that mica takes, one family a file: each becomes ONNX nodes."""

from importlib import import_module

from mica.importer.tflite.model import Operator
from mica.importer.tflite.net import Net
from mica.importer.tflite.open_shapes import settle
from mica.importer.tflite.operators.form import Form, read
from mica.ir.ops import NOT_SUPPORTED
from mica.printable import printable

FAMILIES = "arithmetic constants control convolution dense movement pointwise pooling recurrent reduce variables"
OPERATORS: dict[str, Form] = {
    kind: form for name in FAMILIES.split() for kind, form in import_module(f"{__name__}.{name}").FORMS.items()
}


def write(net: Net, op: Operator) -> str:
    """Adds one operator. Returns the problem, "" if there is none."""
    where = f"operator {op.index} ({printable(op.kind)})"
    try:
        if op.kind not in OPERATORS:
            raise ValueError(NOT_SUPPORTED)
        shape = OPERATORS[op.kind]
        taken = read(op, shape)
        if op.outputs:
            net.label = net.name(op.outputs[0])
            where = f"operator {op.index} '{net.label}' ({op.kind})"
        net.wide = net.is_wide(op)
        settle(net, op)
        shape.write(net, taken)
    except ValueError as e:
        return f"{where}: {e}"
    return ""
