"""A constant behind the reshape of a matrix product, or the transpose of a convolution,
goes before it: these can take it up.

Add(Reshape(FullyConnected(x)), c)    =>   Reshape(Add(FullyConnected(x), c as a row)); also Sub, Mul and Div
Add(Transpose(Conv(x)), c)            =>   Transpose(Add(Conv(x), c along the channels)); likewise

Keras writes dense layers of several axes like this: the product, its rows cut into heads, then the bias of each; and
convolutions, of which it wants the channels last.
"""

import math
from collections.abc import Sequence

import numpy as np

from mica.ir.graph import Graph, Node

_BELOW = {"Reshape": ("FullyConnected",), "Transpose": ("Conv", "ConvTranspose")}


def run(g: Graph) -> Graph:
    producers, consumers = g.producers(), g.consumers()
    for node in list(g.nodes):
        if node.op not in ("Add", "Sub", "Mul", "Div") or g.is_const(node.inputs[0]) == g.is_const(node.inputs[1]):
            continue
        k = 1 if g.is_const(node.inputs[0]) else 0  # which operand is data
        reshape = producers.get(node.inputs[k])
        if reshape is None or reshape.op not in _BELOW or g.sole_consumer(node.inputs[k], consumers) is not node:
            continue
        product = producers.get(reshape.inputs[0])
        if product is None or product.op not in _BELOW[reshape.op]:
            continue
        if g.sole_consumer(reshape.inputs[0], consumers) is None or g.value(node.inputs[k]).quant is not None:
            continue
        if reshape.op == "Reshape":
            row = _as_row(g, node, k, g.value(product.outputs[0]).shape)
        else:
            row = _as_channels(g, node, k, reshape.attrs["perm"])
        if row is not None:
            _swap(g, node, k, reshape, row)
            producers, consumers = g.producers(), g.consumers()
    return g


def _as_channels(g: Graph, node: Node, k: int, perm: Sequence[int]) -> np.ndarray | None:
    """The constant as [1, C, 1, ...] in front of the transpose; None if it does not vary along the channels alone."""
    c, out = np.asarray(g.data(node.inputs[1 - k])), g.value(node.outputs[0]).shape
    if g.value(node.inputs[k]).shape != out or c.ndim > len(out):
        return None
    before = c.reshape((1,) * (len(out) - c.ndim) + c.shape).transpose(np.argsort(perm))
    return np.ascontiguousarray(before) if before.size == before.shape[1] else None


def _as_row(g: Graph, node: Node, k: int, rows: tuple[int, ...]) -> np.ndarray | None:
    """The constant as [N], for a product [..., N]; None where it does not repeat along the rows."""
    c, out = g.data(node.inputs[1 - k]), g.value(node.outputs[0]).shape
    assert c is not None
    if g.value(node.inputs[k]).shape != out:  # the constant widens the data
        return None
    n = rows[-1]
    for first in range(len(out)):
        tail = out[first:]
        lead = c.shape[: max(0, c.ndim - len(tail))]
        if math.prod(tail) == n and math.prod(lead) == 1:
            wide = np.broadcast_to(c.reshape(c.shape[len(lead) :]), tail)
            return np.ascontiguousarray(wide.reshape(n))
    return None


def _swap(g: Graph, node: Node, k: int, reshape: Node, row: np.ndarray) -> None:
    y = reshape.inputs[0]
    name = g.new_const(f"{node.inputs[1 - k]}.row", row)
    value = g.value(node.inputs[1 - k])
    g.value(name).quant = value.quant
    inner = g.new_value(f"{node.outputs[0]}.row", g.value(y).shape)
    inputs = [y, name] if k == 0 else [name, y]
    g.insert_before(node, Node(node.op, node.name, inputs, [inner], dict(node.attrs)))
    node.op, node.inputs, node.attrs = reshape.op, [inner, *reshape.inputs[1:]], dict(reshape.attrs)
    g.remove(reshape)
