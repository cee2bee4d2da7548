"""Help for kernels of several tensors: constants among their operands, and factors with a common shift."""

from collections.abc import Sequence

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.quantise.histogram import Range
from mica.quantise.kernels.common import emit, quant
from mica.quantise.params import from_range
from mica.reference.functions import ceil_log2

FACTOR_BITS = 21  # |mult| < 2**21: 128 * (a + b) + |offset| then stays below 2**31


def operand(g: Graph, out: Graph, name: str) -> str:
    """An activation, or a constant quantised like one, which the file keeps as a tensor. Its name in `out`."""
    data = g.data(name)
    if data is None:
        return name
    q = g.value(name).quant or from_range(Range(float(data.min()), float(data.max())))
    name = out.new_const(name, q.quantise(data))
    out.value(name).quant = q
    return name


def common_factors(factors: Sequence[float]) -> tuple[list[int], int]:
    """Integers with one shift: factor ~ mult * 2**-shift. Raises ValueError if one is too large."""
    largest = max(abs(f) for f in factors)
    shift = int(np.clip(FACTOR_BITS - 1 - ceil_log2(largest), 0, 30)) if largest > 0 else 0
    mults = [int(np.rint(f * 2.0**shift)) for f in factors]
    if max(abs(m) for m in mults) >= 2**FACTOR_BITS:
        raise ValueError(f"the scales of its operands and its result differ by {largest:.3g}")
    return mults, shift


def temporary(g: Graph, out: Graph, node: Node, like: str, what: str, q: Quant) -> str:
    """A new activation of `out`, with the shape of `like`, between two kernels of one node."""
    name = out.new_value(f"{node.outputs[0]}.{what}", g.value(like).shape, "int8")
    out.value(name).quant = q
    return name


def table(out: Graph, node: Node, x: str, y: str, real: np.ndarray) -> None:
    """y = what `real` gives for each of x's 256 values."""
    emit(out, Node(node.op, node.name, [x], [y]), "lut_s8", [x], [quant(out, y).quantise(real)], {})
