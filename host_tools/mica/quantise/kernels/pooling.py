"""Pools."""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.quantise.kernels.common import act, emit, quant, window_params
from mica.quantise.params import quantise_multiplier
from mica.reference.float_ops import pool_counts

# Smaller than half a count of the largest window that 16 bits hold, larger than what a multiplier rounds.
TIE = 2.0**-28


def _max_pool(g: Graph, out: Graph, node: Node) -> None:
    qy = quant(out, node.outputs[0])
    params = {**window_params(node, node.attrs["kernel"]), **act(qy, node.attrs["clip"])}
    emit(out, node, "max_pool2d_s8", node.inputs[:1], [], params)


def divisors(g: Graph, node: Node) -> np.ndarray:
    """Divisors of an average pool: its window's size, or each number of values that a window at an edge may hold."""
    counts = np.unique(pool_counts(node, g.value(node.inputs[0]).shape, g.value(node.outputs[0]).shape))
    if counts[0] < 1:
        raise ValueError("a window that lies wholly in the padding")
    taps = node.attrs["kernel"][0] * node.attrs["kernel"][1]
    return counts if len(counts) == 1 and counts[0] == taps else np.arange(1, taps + 1)


def _average_pool(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    qx, qy = quant(out, x), quant(out, y)
    factors = qx.scale / (qy.scale * divisors(g, node))
    if node.attrs.get("ties_down", 0):  # a mean half-way between two integers becomes the lower one; no other moves
        factors = factors * (1 - TIE)
    mult, shift = quantise_multiplier(factors)
    params = {
        **window_params(node, node.attrs["kernel"]),
        "pad_bottom": node.attrs["pads"][2],
        "pad_right": node.attrs["pads"][3],
        "count_include_pad": node.attrs["count_include_pad"],
        **act(qy, node.attrs["clip"]),
    }
    emit(out, node, "average_pool2d_s8", [x], [mult, shift], params)


STEPS = {"AveragePool2d": _average_pool, "MaxPool2d": _max_pool}
