"""Functions of one variable: a table of 256 results."""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import TRUTH_FUNCTIONS
from mica.quantise.kernels.common import emit, quant
from mica.reference import unary


def _unary(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    qx = quant(out, x)
    real = qx.levels()
    if node.attrs["function"] == "composed" or node.attrs["function"] in TRUTH_FUNCTIONS:
        real = np.asarray(real, np.float32)  # so that it equals a constant of the same integer, which is float32
    values = unary.apply(node.attrs["function"], real, node.attrs["arguments"])
    table = quant(out, y).quantise(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))  # infinity saturates
    emit(out, node, "lut_s8", [x], [table], {})


STEPS = {"Unary": _unary}
