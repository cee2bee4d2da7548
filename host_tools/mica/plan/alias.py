"""Steps that need not run, because the bytes can be where they are needed.

    y = move_s8(x), one run of x's bytes   =>   y = View(x, offset): y is a part of x
    y = concat_s8(a, b), one behind the other in memory
                                           =>   y = Join(a, b): what makes a and b writes straight into y
    y = Reshape(x)                               was an alias from the start

A part begins on a multiple of 4, as the format requires of every tensor. Aliasing does not
always pay, as a joined tensor takes all its bytes from its first part on: `plan.best_plan` tries both.
"""

import math
from collections.abc import Callable

from mica.format.schema import BLOB_ALIGN
from mica.ir.graph import Graph, Node

ALIASES = ("Reshape", "View", "Join")


class Places:
    """For each value the value whose bytes it shares: (name, offset in bytes). Filled node by node, in order."""

    def __init__(self, g: Graph, nodes: list[Node] | None = None) -> None:
        self.g = g
        self._inside: dict[str, tuple[str, int]] = {}
        for node in nodes or []:
            self.add(node)

    def find(self, name: str) -> tuple[str, int]:
        offset = 0
        while name in self._inside:
            name, more = self._inside[name]
            offset += more
        return name, offset

    def held(self, name: str) -> bool:
        """True if a value's bytes are a state's, which is in no plan."""
        return self.g.value(self.find(name)[0]).held >= 0

    def add(self, node: Node) -> None:
        """Takes note of an alias; any other node makes a value of its own."""
        if node.op in ("Reshape", "View"):
            self._inside[node.outputs[0]] = (node.inputs[0], node.attrs.get("offset", 0))
        elif node.op == "Join":
            at = 0
            for i in node.inputs:
                self._inside[self.find(i)[0]] = (node.outputs[0], at)
                at += self.g.value(i).bytes

    def can_join(self, node: Node) -> bool:
        """True if the inputs of a concat_s8 may be parts of its output.

        Nothing lies before the axis, no input is constant, comes twice, or is itself a part of something, and each
        begins where a tensor may.
        """
        if math.prod(self.g.value(node.outputs[0]).shape[: node.attrs["axis"]]) != 1:
            return False
        roots, at = set(), 0
        for i in node.inputs:
            if self.g.is_const(i) or at % BLOB_ALIGN:
                return False
            root, offset = self.find(i)
            if (
                self.g.is_const(root)
                or self.g.value(root).held >= 0
                or offset
                or self.g.value(root).bytes != self.g.value(i).bytes
            ):
                return False
            roots.add(root)
            at += self.g.value(i).bytes
        return len(roots) == len(node.inputs)


def run_of_bytes(g: Graph, node: Node) -> int | None:
    """The offset at which a move_s8 finds its whole output in its input, or None."""
    if g.is_const(node.inputs[0]):
        return None
    places = g.data(node.inputs[1])
    assert places is not None
    begin = int(node.attrs["begin"])
    alone = len(places) == 1 and (places[0][1] == 1 or places[0][0] == 1)
    return begin if alone and begin % BLOB_ALIGN == 0 else None


def alias(g: Graph, chosen: Callable[[Node], bool] = lambda node: True) -> tuple[Graph, list[Node]]:
    """A copy of g with aliases for all steps that can be one and are `chosen`; and the steps that it replaced."""
    out = Graph(g.name, g.inputs, g.outputs)
    out.values = dict(g.values)
    places = Places(g)
    replaced = []
    for node in g.nodes:
        new = node
        if node.op == "move_s8" and chosen(node):
            offset = run_of_bytes(g, node)
            if offset is not None:
                new = Node("View", node.name, node.inputs[:1], node.outputs, {"offset": offset})
        elif node.op == "concat_s8" and chosen(node) and places.can_join(node):
            new = Node("Join", node.name, node.inputs, node.outputs)
        if new is not node:
            replaced.append(node)
        places.add(new)
        out.nodes.append(new)
    return out, replaced
