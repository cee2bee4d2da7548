"""One node in the making: what the spellings of operators write with."""

from typing import Any

import numpy as np
import onnx
from onnx import helper

from mica.importer.state import ImportState
from mica.ir.forest import Forest
from mica.ir.vectors import Machine


class Writer:
    """One node in the making: `i` its inputs, padded with '' to twelve, `attrs` its attributes."""

    def __init__(self, state: ImportState, proto: onnx.NodeProto) -> None:
        self.state = state
        self.proto = proto
        self.i: list[str] = [*proto.input, *[""] * (12 - len(proto.input))]
        self.attrs: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        self.nodes: list[onnx.NodeProto] = []

    def emit(self, op: str, inputs: list[str], output: str | list[str] = "", **attrs: Any) -> str:
        """Appends a node with the origin's name; returns its first output."""
        outputs = output if isinstance(output, list) else [output or self.fresh(op.lower())]
        self.nodes.append(helper.make_node(op, inputs, outputs, self.proto.name, **attrs))
        return outputs[0]

    def constant(self, what: str, value: np.ndarray) -> str:
        """The name of a new constant."""
        return self.state.add_exact(self.fresh(what), value)

    def fresh(self, what: str) -> str:
        return self.state.fresh(f"{self.proto.name or self.proto.output[0]}.{what}")

    def forest(self, forest: Forest) -> str:
        """Adds an ensemble of trees, which ONNX's own operators cannot say, at once; returns its output."""
        attrs = {"forest": forest}
        return self.state.add_rows("TreeEnsemble", self.proto, self.fresh("trees"), len(forest.bias), attrs)

    def machine(self, machine: Machine) -> str:
        """Adds a machine of support vectors at once, as `forest` does; returns its output."""
        attrs = {"vectors": machine}
        return self.state.add_rows("VectorEnsemble", self.proto, self.fresh("machine"), machine.results, attrs)

    def imputer(self, values: np.ndarray, replaced: float) -> None:
        """Adds an operator that puts values into the place of NaNs, or of infinity."""
        op = "Imputer" if np.isnan(replaced) else "InfinityImputer"
        self.state.add_rows(op, self.proto, self.proto.output[0], 0, {"values": values})

    def mean(self, x: str) -> str:
        """Over the last axis, which stays."""
        if self.state.opset < 18:
            return self.emit("ReduceMean", [x], axes=[-1], keepdims=1)
        return self.emit("ReduceMean", [x, self.constant("axes", np.array([-1]))], keepdims=1)

    def output(self, k: int) -> str:
        """The name of the node's output k; '' where it has none."""
        return self.proto.output[k] if k < len(self.proto.output) else ""

    def shape(self, x: str) -> tuple[int, ...]:
        """Return the shape of an input. Raises ValueError where something in front of it is not known."""
        if not (found := self.state.shape(x)):
            raise ValueError(f"'{x}' has no shape that is known")
        return found

    def value(self, x: str) -> np.ndarray | None:
        """Return the value of a constant."""
        return self.state.constant(x)

    def real(self, x: str, scale: str, zero: str = "", axis: int = 0) -> str:
        """DequantizeLinear. `axis` is that of a scale for each channel."""
        s = self.state.constant(scale)
        attrs: dict[str, Any] = {"axis": axis} if s is not None and s.size > 1 else {}
        return self.emit("DequantizeLinear", [x, scale, zero] if zero else [x, scale], **attrs)

    def bias(self, b: str, *scales: str, factor: float = 1.0) -> str:
        """DequantizeLinear of an int32 bias, whose scale is the product of the others."""
        product = np.array(factor)
        for name in scales:
            s = self.state.constant(name)
            if s is None:
                raise ValueError("a scale that is not constant")
            product = product * s.astype(np.float64)
        return self.real(b, self.state.add_exact(self.state.fresh(f"{b}.scale"), product.squeeze()))

    def finish(self, y: str, scale: str, zero: str) -> None:
        """QuantizeLinear into the node's output."""
        self.emit("QuantizeLinear", [y, scale, zero] if zero else [y, scale], self.proto.output[0])

    def rank(self, name: str) -> int:
        """Rank of a constant; 2 for an activation, which only matters for scales along an axis."""
        c = self.state.constant(name)
        return 2 if c is None else c.ndim
