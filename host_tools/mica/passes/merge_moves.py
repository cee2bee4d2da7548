"""Copies in a row become one.

Transpose(StridedCopy(Transpose(x)))      =>   StridedCopy(x); likewise Remap, with Reshapes between,
                                               and for all of several readers
StridedCopy(x) that changes nothing       =>   Reshape(x)
"""

from mica.ir import strided_copy
from mica.ir.graph import Graph, Node


def run(g: Graph) -> Graph:
    while _step(g):
        pass
    return g


def _step(g: Graph) -> bool:
    producers, consumers = g.producers(), g.consumers()
    for node in g.nodes:
        if node.op not in strided_copy.OPS:
            continue
        before = copied_by(g, node.inputs[0], producers, consumers)
        if before is not None:
            move = strided_copy.compose(strided_copy.read(g, before), strided_copy.read(g, node))
            if move is not None and move.fits:
                node.op, node.inputs = "StridedCopy", before.inputs[:1]
                node.attrs = {"begin": move.begin, "places": move.places or ((1, 0),)}
                return True
        if node.op == "StridedCopy" and _is_nothing(g, node):
            node.op, node.attrs = "Reshape", {}
            return True
    return False


def copied_by(g: Graph, x: str, producers: dict[str, Node], consumers: dict[str, list[Node]]) -> Node | None:
    """The copy that makes x, itself or under another name, where nobody wants its result but other copies."""
    while x in producers and x not in g.outputs:
        before = producers[x]
        readers = consumers.get(x, [])
        if before.op in strided_copy.OPS:
            alone = len(readers) == 1 or all(n.op in strided_copy.OPS for n in readers)
            return before if alone else None
        if before.op != "Reshape" or len(readers) != 1:
            return None
        x = before.inputs[0]
    return None


def _is_nothing(g: Graph, node: Node) -> bool:
    size = g.value(node.inputs[0]).size
    return strided_copy.read(g, node) == strided_copy.simplify(strided_copy.StridedCopy(0, ((size, 1),)))
