"""Rounding moves above padding, so that the padding meets the operator in front of or behind it.

    Unary(Pad(x, v), quantise)                 =>   Pad(Unary(x, quantise), v rounded alike); zero is exact anyway
    Unary(Unary(x, quantise q), quantise q)    =>   Unary(x, quantise q)

A quantised model rounds on both sides of a Pad; a convolution could not take the padding over then.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.quantised_values import grid_of, is_quantise, quantise

VALUE = 2  # position of Pad's constant among its inputs


def run(g: Graph) -> Graph:
    for node in list(g.nodes):
        if is_quantise(node):
            _above_pad(g, node)
    for node in list(g.nodes):
        above = g.producers().get(node.inputs[0]) if is_quantise(node) else None
        if above is not None and is_quantise(above) and grid_of(above) == grid_of(node):
            node.inputs = above.inputs[:1]  # the upper one stays for other readers
    return g


def _above_pad(g: Graph, node: Node) -> None:
    pad = g.producers().get(node.inputs[0])
    if pad is None or pad.op != "Pad" or g.sole_consumer(pad.outputs[0], g.consumers()) is not node:
        return
    grid = grid_of(node)
    if len(pad.inputs) > VALUE and pad.inputs[VALUE]:
        value = g.data(pad.inputs[VALUE])
        if value is None:
            return
        rounded = grid.dequantise(grid.quantise(value)).astype(np.float32)
        pad.inputs[VALUE] = g.new_const(f"{pad.inputs[VALUE]}.rounded", rounded)
    elif pad.attrs.get("value"):  # opset < 11
        pad.attrs["value"] = float(grid.dequantise(grid.quantise(np.array(pad.attrs["value"]))))
    x = g.new_value(f"{pad.inputs[0]}.quantised", g.value(pad.inputs[0]).shape)
    g.insert_before(pad, quantise(pad.inputs[0], x, node.name, grid))
    pad.inputs[0] = x
    pad.outputs = node.outputs
    g.remove(node)
