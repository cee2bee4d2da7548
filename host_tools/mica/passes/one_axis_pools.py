"""Pools over three and more dimensions whose windows lie along one of them are pools of an image.

y = AveragePool(x [N, C, D, H, W], window [k, 1, 1])    =>   y = AveragePool(x as [1, H * W, N * C, D], window [1, k])

What lies behind the window's dimension becomes channels, in the order in which it is in memory. Likewise MaxPool.
"""

import math

import numpy as np

from mica.ir.graph import Graph, Node

MOST_DIMENSIONS = 2  # of a window that kernels have


def run(g: Graph) -> Graph:
    for node in list(g.nodes):
        if node.op in ("AveragePool", "MaxPool") and len(node.outputs) == 1:
            axis = _only_axis(g, node)
            if axis is not None:
                _as_image(g, node, axis)
    return g


def _only_axis(g: Graph, node: Node) -> int | None:
    """The dimension of the windows, counted from the first one of the space; None where there are several, or few."""
    n = len(g.value(node.inputs[0]).shape) - 2
    if n <= MOST_DIMENSIONS:
        return None
    a = node.attrs
    kernel, strides = list(a["kernel_shape"]), list(a.get("strides", [1] * n))
    pads = list(a.get("pads", [0] * 2 * n))
    taken = [k for k in range(n) if (kernel[k], strides[k], pads[k], pads[n + k]) != (1, 1, 0, 0)]
    return taken[0] if len(taken) == 1 else None


def _as_image(g: Graph, node: Node, axis: int) -> None:
    x, y, a = node.inputs[0], node.outputs[0], node.attrs
    shape, made = g.value(x).shape, g.value(y).shape
    n, at = len(shape) - 2, axis + 2
    before, behind = math.prod(shape[:at]), math.prod(shape[at + 1 :])

    def add(op: str, inputs: list[str], result: tuple[int, ...], **attrs: object) -> str:
        v = g.new_value(f"{node.name}.{op}", result)
        g.insert_before(node, Node(op, node.name, inputs, [v], attrs))
        return v

    def shape_of(*dims: int) -> str:
        return g.new_const(f"{node.name}.shape", np.array(dims, np.int64))

    rows, out = (1, before, shape[at], behind), (1, before, made[at], behind)
    v = add("Reshape", [x, shape_of(*rows)], rows)
    v = add("Transpose", [v], (1, behind, before, shape[at]), perm=[0, 3, 1, 2])
    window = {**a, "kernel_shape": [1, a["kernel_shape"][axis]]}
    for name, other in (("strides", 1), ("dilations", 1)):
        if name in a:
            window[name] = [other, a[name][axis]]
    if "pads" in a:
        window["pads"] = [0, a["pads"][axis], 0, a["pads"][n + axis]]
    v = add(node.op, [v], (1, behind, before, made[at]), **window)
    v = add("Transpose", [v], out, perm=[0, 2, 3, 1])
    node.op, node.inputs, node.attrs = "Reshape", [v, shape_of(*made)], {}
