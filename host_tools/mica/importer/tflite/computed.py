"""Integers that a graph computes from constants and fixed shapes alone: pads, places to cut, lengths."""

import contextlib
import math

import numpy as np
import onnx

from mica.importer.fold import fold, is_constant
from mica.importer.protos import array_of
from mica.importer.state import ImportState

LARGEST = 1 << 14  # elements; larger constants are weights


class Computed:
    """Follows the nodes of a network in the making, as far as they were written when a number is asked for."""

    def __init__(self, nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], opset: int) -> None:
        self.nodes, self.constants = nodes, constants
        self.nodes_read = self.constants_read = 0
        self.state = ImportState("computed", opset, 9, (), 0)

    def get(self, name: str) -> np.ndarray | None:
        """The array of a value; None where it is large, or depends on data."""
        for c in self.constants[self.constants_read :]:
            if math.prod(c.dims) <= LARGEST:
                self.state.add_constant(c.name, array_of(c))
        for node in self.nodes[self.nodes_read :]:
            if node.op_type != "DequantizeLinear" and is_constant(self.state, node):
                with contextlib.suppress(ValueError):  # the importer folds it too, and names the reason
                    fold(self.state, node)
        self.nodes_read, self.constants_read = len(self.nodes), len(self.constants)
        return self.state.constant(name)
