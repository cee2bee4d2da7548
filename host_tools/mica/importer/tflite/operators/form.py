"""A row of the table of operators, and one operator that is being written."""

from collections.abc import Callable
from dataclasses import dataclass

from mica.importer.tflite import schema
from mica.importer.tflite.flatbuffer import Damaged
from mica.importer.tflite.model import Operator
from mica.importer.tflite.net import Net


@dataclass(frozen=True)
class Op:
    """Inputs as numbers of tensors, -1 where absent; options by name."""

    operator: Operator
    options: dict[str, int | float]

    @property
    def kind(self) -> str:
        return self.operator.kind

    @property
    def y(self) -> int:
        return self.operator.outputs[0]

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.operator.outputs

    def i(self, k: int) -> int:
        """Tensor of input k, -1 where it is absent."""
        return self.operator.inputs[k] if k < len(self.operator.inputs) else -1

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.operator.inputs

    def __getitem__(self, option: str) -> int | float:
        return self.options[option]

    def integer(self, option: str) -> int:
        return int(self.options[option])


Write = Callable[[Net, Op], None]


@dataclass(frozen=True)
class Form:
    """write: adds the ONNX nodes of one operator, raises ValueError with a reason. inputs: fewest and most.

    options: the table of schema.OPTIONS. present: so many inputs are never absent; the fewest, where it is None.
    """

    write: Write
    options: str = ""
    inputs: tuple[int, int] = (1, 1)
    outputs: tuple[int, int] = (1, 1)
    present: int | None = None


def read(operator: Operator, form: Form) -> Op:
    """Reads an operator's options. Raises Damaged if the operator differs from its form."""
    for ends, (least, most), what in (
        (operator.inputs, form.inputs, "inputs"),
        (operator.outputs, form.outputs, "outputs"),
    ):
        if not least <= len(ends) <= most:
            raise Damaged(f"{len(ends)} {what}; expected {least}" + (f" to {most}" if most > least else ""))
    present = form.inputs[0] if form.present is None else form.present
    if -1 in operator.inputs[:present]:
        raise Damaged(f"input {operator.inputs.index(-1)} is absent")
    if not form.options:
        return Op(operator, {})
    code, fields = schema.OPTIONS[form.options]
    if operator.options is None:
        return Op(operator, {name: default for name, (_, _, default) in fields.items()})
    if operator.options_type != code:
        raise Damaged(f"options of the kind {operator.options_type}; expected {code}, {form.options}")
    table = operator.options
    return Op(operator, {name: table.number(slot, kind, default) for name, (slot, kind, default) in fields.items()})
