"""Taps of a window that lie outside the image for every output go, and a pool over one element with them.

y = Conv2d(x [1, 1, 1, C], weights [O, 3, 3, C], pads 1)   =>   y = Conv2d(x, weights [O, 1, 1, C], pads 0)
y = AveragePool2d(x, kernel 1x1, strides 1, no clip)        =>   readers of y read x

Likewise DepthwiseConv2d. Small maps at the end of a network have such windows. Weights and a scale for each channel of
them are those that are left, so they are quantised no coarser.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.drop_identity import bypass


def run(g: Graph) -> Graph:
    for node in list(g.nodes):
        if node.op in ("Conv2d", "DepthwiseConv2d"):
            _crop(g, node)
        elif node.op == "AveragePool2d" and _does_nothing(g, node):
            bypass(g, node)
    return g


def _does_nothing(g: Graph, node: Node) -> bool:
    window = (node.attrs["kernel"], node.attrs["strides"], tuple(node.attrs["pads"]), node.attrs["clip"])
    free = all(g.value(v).quant is None for v in (node.inputs[0], node.outputs[0]))
    return window == ((1, 1), (1, 1), (0, 0, 0, 0), (None, None)) and free


def _crop(g: Graph, node: Node) -> None:
    weights = g.value(node.inputs[1])
    if weights.data is None or weights.quant is not None or weights.weight_scale is not None:
        return
    pads, kept = list(node.attrs["pads"]), []
    for axis in (0, 1):
        first, end = 0, weights.shape[1 + axis]
        size, made = g.value(node.inputs[0]).shape[1 + axis], g.value(node.outputs[0]).shape[1 + axis]
        apart = node.attrs["dilations"][axis]
        begins = np.arange(made) * node.attrs["strides"][axis] - pads[axis]  # of the windows

        def outside(tap: int, begins: np.ndarray = begins, size: int = size, apart: int = apart) -> bool:
            at = begins + tap * apart
            return bool(np.all((at < 0) | (at >= size)))

        while end - first > 1 and pads[axis] >= apart and outside(first):
            first, pads[axis] = first + 1, pads[axis] - apart
        while end - first > 1 and pads[2 + axis] >= apart and outside(end - 1):
            end, pads[2 + axis] = end - 1, pads[2 + axis] - apart
        kept.append(slice(first, end))
    cropped = weights.data[:, kept[0], kept[1]]
    if cropped.shape != weights.shape:
        node.attrs["pads"] = tuple(pads)
        node.inputs[1] = g.new_const(node.inputs[1], np.ascontiguousarray(cropped))
