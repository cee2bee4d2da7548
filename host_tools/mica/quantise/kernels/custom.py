"""Operators of the user's own: what they are goes into the file as it is."""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.kernels import CUSTOM
from mica.quantise.kernels.common import emit


def _custom(g: Graph, out: Graph, node: Node) -> None:
    definition = np.frombuffer(node.attrs["definition"].encode(), np.uint8)
    emit(out, node, CUSTOM.name, node.inputs, [definition], {})


STEPS = {"Custom": _custom}
