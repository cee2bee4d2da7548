"""The type of a lowering: writes core nodes for one ONNX node, or raises ValueError with the reason why not."""

from collections.abc import Callable

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder

Lowering = Callable[[Graph, Node, Builder], None]
