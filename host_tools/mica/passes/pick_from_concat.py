"""A node that reads only one piece of a Concat reads that piece directly.

Remap(Concat(a, b, c)), inside b along the axis    =>   Remap(b), nothing where that is the whole of b
x = Reshape(Concat(a, b)); Remap(x), Remap(x)      =>   Reshape(a), Reshape(b), where all who read x pick pieces of it

Exporters write the last states of a recurrent network's layers as one tensor and pick the last. Detectors join boxes
and classes of each level, then the levels, and split them again (Ultralytics' Detect); apart, each keeps its scale.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import axis_indices
from mica.passes import dead_code
from mica.passes.builder import Builder
from mica.passes.pieces import Finder, Join, Piece, together


def run(g: Graph) -> Graph:
    while _step(g):
        pass
    g = dead_code.run(g)
    while _apart(g):
        g = dead_code.run(g)
    return g


def _apart(g: Graph) -> bool:
    """Finds a value that all its readers take apart into whole pieces; gives them the pieces."""
    producers, finder = g.producers(), Finder(g)
    for name, readers in g.consumers().items():
        if name in g.outputs or name not in producers or any(n.op != "Remap" for n in readers):
            continue
        cuts = [_cut(g, n) for n in readers]
        for join in finder.joins(name):
            chosen = [_chosen(join, cut) for cut in cuts]
            varies = [any(not g.is_const(s) for p in pieces for s in p.sources) for pieces in chosen]
            if len(join.pieces) > 1 and all(varies):
                for node, pieces in zip(readers, chosen, strict=True):
                    _take(g, node, together(pieces, join.axis))
                return True
    return False


def _cut(g: Graph, node: Node) -> tuple[int, int, int] | None:
    """(axis, first, behind the last) of a Remap that cuts one axis; None of any other."""
    shape, cut = g.value(node.inputs[0]).shape, None
    for axis, (n, pattern) in enumerate(zip(shape, node.attrs["axes"], strict=True)):
        indices = axis_indices(pattern)
        if np.array_equal(indices, np.arange(n)):
            continue
        if cut is not None or not np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
            return None
        cut = (axis, int(indices[0]), int(indices[0]) + len(indices))
    return cut


def _chosen(join: Join, cut: tuple[int, int, int] | None) -> list[Piece]:
    """The pieces that a cut takes whole; none where it is not so."""
    if cut is None or cut[0] != join.axis:
        return []
    at, pieces = 0, []
    for piece in join.pieces:
        end = at + piece.shape[join.axis]
        if at < cut[2] and cut[1] < end:
            if at < cut[1] or end > cut[2]:
                return []
            pieces.append(piece)
        at = end
    return pieces


def _take(g: Graph, node: Node, piece: Piece) -> None:
    nodes: list[Node] = []
    made = piece.emit(Builder(g, nodes, node.name))
    at = g.index(node)
    g.nodes[at:at] = nodes
    node.op, node.inputs, node.attrs = "Reshape", [made], {}


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
