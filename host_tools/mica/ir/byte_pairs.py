"""int16 tensors as bytes, for kernels of int8 that only move elements: which shapes, and which moves they can do."""

import math

from mica.format.schema import MAX_DIM, MAX_RANK
from mica.ir import strided_copy
from mica.ir.graph import Graph, Node

Shape = tuple[int, ...]


def joined(shape: Shape) -> Shape:
    """Both bytes of an element beside those of the next one, where a dimension may be so long."""
    return (*shape[:-1], 2 * shape[-1]) if shape and 2 * shape[-1] <= MAX_DIM else apart(shape)


def apart(shape: Shape) -> Shape:
    """The bytes of an element as a dimension."""
    return (*shape, 2)


def pads_last(node: Node) -> bool:
    """True if a Pad copies elements of the innermost dimension, whose bytes have to stay together."""
    a = node.attrs
    return a["mode"] != "constant" and bool(a["begins"]) and bool(a["begins"][-1] or a["ends"][-1])


def fits(g: Graph, node: Node) -> bool:
    """True if the int8 kernels can move the bytes: they limit the number of dimensions and their lengths."""
    x, y = (g.value(i).shape for i in (node.inputs[0], node.outputs[0]))
    last = len(x) - 1
    if node.op in strided_copy.OPS:
        whole = node.op == "Transpose" and bool(x) and node.attrs["perm"][last] == last
        in_two = node.op == "Remap" and len(x) < MAX_RANK
        if not (whole or in_two or len(strided_copy.read(g, node).places) < MAX_RANK):
            return False
    if node.op == "Gather" and node.attrs["axis"] == last:
        return math.prod(x[:-1]) <= MAX_DIM
    if node.op == "Pad" and pads_last(node):
        return len(x) < MAX_RANK
    return all(len(bytes_) <= MAX_RANK for bytes_ in (joined(x), joined(y)))
