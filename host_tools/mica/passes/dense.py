"""Matrix products with a constant matrix become FullyConnected, weights [N, K], one bias each.

MatMul(x, B)                 =>   FullyConnected(x, B^T, 0)
Gemm(x, B, C, alpha, beta)   =>   FullyConnected(x, alpha * B^T, beta * C)

A product that it cannot take it leaves to `lower`.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import prequantised_weights


def run(g: Graph) -> Graph:
    for node in g.nodes:
        if node.op in ("MatMul", "Gemm") and _fits(g, node):
            _rewrite(g, node)
    return g


def _fits(g: Graph, node: Node) -> bool:
    """True if a product can become a FullyConnected: data times a constant matrix, plus a constant row."""
    x, b = node.inputs[:2]
    if g.is_const(x) or not g.is_const(b) or len(g.value(b).shape) != 2 or len(g.value(x).shape) < 2:
        return False
    if node.attrs.get("transA", 0):
        return False
    c = node.inputs[2] if len(node.inputs) > 2 else ""
    return not c or (g.is_const(c) and (len(g.value(c).shape) < 2 or g.value(c).shape[0] == 1))


def _rewrite(g: Graph, node: Node) -> None:
    x, b_name = node.inputs[:2]
    b = np.asarray(g.data(b_name))
    if node.attrs.get("transB", 0):
        b = b.T
    b = b * np.float32(node.attrs.get("alpha", 1.0))
    bias = np.zeros(b.shape[1], np.float32)
    if len(node.inputs) > 2 and node.inputs[2]:
        c = np.asarray(g.data(node.inputs[2]))
        bias = np.broadcast_to(c.reshape(-1) * np.float32(node.attrs.get("beta", 1.0)), (b.shape[1],))
    node.op = "FullyConnected"
    node.inputs = [
        x,
        g.new_const(f"{b_name}.dense", np.ascontiguousarray(b.T, np.float32)),
        g.new_const(f"{node.name}.bias", np.array(bias)),
    ]
    node.attrs = {"clip": (None, None), **prequantised_weights.attributes(node, node.attrs.get("alpha", 1.0))}
