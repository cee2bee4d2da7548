"""What only looks at one part of a Concat takes it from there.

Remap(Concat(a, b, c)), inside b along the axis    =>   Remap(b), nothing where that is the whole of b

Exporters write the last states of all layers and directions of a recurrent network as one tensor and pick the last.
"""

from __future__ import annotations

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import axis_indices
from mica.passes import dead_code


def run(g: Graph) -> Graph:
    while _step(g):
        pass
    return dead_code.run(g)


def _step(g: Graph) -> bool:
    producers = g.producers()
    for node in g.nodes:
        joined = producers.get(node.inputs[0]) if node.op == "Remap" else None
        if joined is not None and joined.op == "Concat" and _from_part(g, node, joined):
            return True
    return False


def _from_part(g: Graph, node: Node, joined: Node) -> bool:
    axis, axes = joined.attrs["axis"], list(node.attrs["axes"])
    expected = axis_indices(axes[axis])
    start = 0
    for part in joined.inputs:
        size = g.value(part).shape[axis]
        if start <= expected.min() and expected.max() < start + size:
            break
        start += size
    else:
        return False
    if g.is_const(part) or g.value(joined.outputs[0]).quant != g.value(part).quant:
        return False
    axes[axis] = (axes[axis][0] - start, axes[axis][1])
    node.inputs, node.attrs = [part], {"axes": tuple(axes)}
    if all(np.array_equal(axis_indices(a), np.arange(n)) for a, n in zip(axes, g.value(part).shape, strict=True)):
        node.op, node.attrs = "Reshape", {}
    return True
