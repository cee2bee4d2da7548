"""Functions as tables: 256 results of one variable; for softmax the exponential as 256 integers."""

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import TRUTH_FUNCTIONS
from mica.quantise.kernels.common import emit, quant
from mica.quantise.params import SOFTMAX_QUANT
from mica.reference import functions, unary
from mica.reference.functions import ceil_log2

NUMERATOR_BITS = 31  # a numerator plus half a sum stays below 2**32


def softmax_table(scale: float, length: int, out: Quant = SOFTMAX_QUANT) -> np.ndarray:
    """uint32 [256]: 2**q * exp(-d * scale), q as large as a row of `length` entries allows.

    For outputs that do not count in 1/256 from -128, 256 numerators follow: the same divided by the output's scale.
    """
    q = min(23, 31 - int(length - 1).bit_length())
    falling = functions.exp(-np.arange(256) * scale)
    if out == SOFTMAX_QUANT:
        return np.rint(2.0**q * falling).astype(np.uint32)
    q = min(q, NUMERATOR_BITS - ceil_log2(1.0 / out.scale))
    if q < 8:
        raise ValueError(f"a softmax whose output has the scale {out.scale:.3g}; expected 2**-23 or more")
    both = np.concatenate([falling, falling / out.scale])
    return np.rint(2.0**q * both).astype(np.uint32)


def _softmax(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    table = softmax_table(quant(out, x).scale, g.value(x).shape[-1], quant(out, y))
    emit(out, node, "softmax_s8", [x], [table], {})


def _unary(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    qx = quant(out, x)
    real = qx.levels()
    if node.attrs["function"] == "composed" or node.attrs["function"] in TRUTH_FUNCTIONS:
        real = np.asarray(real, np.float32)  # so that it equals a constant of the same integer, which is float32
    values = unary.apply(node.attrs["function"], real, node.attrs["arguments"])
    table = quant(out, y).quantise(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))  # infinity saturates
    emit(out, node, "lut_s8", [x], [table], {})


STEPS = {"Softmax": _softmax, "Unary": _unary}
