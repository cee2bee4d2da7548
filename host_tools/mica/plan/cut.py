"""A graph cut into pieces, each a graph of its own, that run one after the other on different boards.

    a = f(x)   b = g(a)   c = h(a, b)   =>   a = f(x)  |  takes a: b = g(a)  |  takes a, b: c = h(a, b)

A piece is a run of neighbouring steps. It takes the tensors that it reads from earlier pieces. It gives the tensors
that later pieces read, and outputs of the graph. A tensor that is read much later goes there directly, not through the
pieces between. Reshapes, parts and concatenations without a copy (plan/alias.py) take no time and cross no boundary:
each piece has those that it needs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from mica.ir.graph import Graph, Node
from mica.plan.alias import ALIASES

Stage = Callable[[int, int], float]  # what steps [first, end) cost as one piece; math.inf where they cannot be one


@dataclass(frozen=True)
class Piece:
    """Steps [first, end) of the graph. Names of values: `takes` in the order of inputs, `gives` of outputs."""

    first: int
    end: int
    takes: list[str]
    gives: list[str]


class Cutter:
    """Tensors that pieces of an integer graph take and give."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.steps = [n for n in g.nodes if n.op not in ALIASES]
        self._alias = {n.outputs[0]: n for n in g.nodes if n.op in ALIASES}
        self._made = {o: k for k, n in enumerate(self.steps) for o in n.outputs}  # step that makes a root
        self._last: dict[str, int] = {}  # the last step that reads a root, through any alias
        for k, node in enumerate(self.steps):
            for name in node.inputs:
                for root in self._roots(name):
                    self._last[root] = k
        # The piece that makes the last part of an output gives it.
        self._outputs: dict[int, list[str]] = {}
        for o in dict.fromkeys(g.outputs):
            roots = self._roots(o)
            at = max((self._made.get(r, -1) for r in roots), default=-1)
            if at >= 0:
                self._outputs.setdefault(at, []).append(o)
                for root in roots:
                    self._last[root] = max(self._last.get(root, 0), at)

    def __len__(self) -> int:
        return len(self.steps)

    def _roots(self, name: str) -> list[str]:
        """The values that steps or the caller make, of which this one's bytes are."""
        roots, todo = [], [name]
        while todo:
            if self.g.is_const(name := todo.pop()):
                continue
            if (alias := self._alias.get(name)) is None:
                roots.append(name)
            else:
                todo += reversed(alias.inputs)
        return roots

    @cached_property
    def _reads(self) -> list[list[str]]:
        return [[r for i in n.inputs for r in self._roots(i)] for n in self.steps]

    def piece(self, first: int, end: int) -> Piece:
        takes: dict[str, None] = {}
        gives: dict[str, None] = {}
        for k in range(first, end):
            outputs = self._outputs.get(k, [])
            for root in (*self._reads[k], *(r for o in outputs for r in self._roots(o))):
                if self._made.get(root, -1) < first:
                    takes[root] = None
            for o in self.steps[k].outputs:
                if self._last.get(o, -1) >= end:
                    gives[o] = None
            gives |= dict.fromkeys(outputs)
        if first == 0:  # the first piece takes the inputs that no step reads
            takes |= dict.fromkeys(i for i in self.g.inputs if i not in self._last)
        inputs = [i for i in self.g.inputs if i in takes]
        return Piece(first, end, inputs + [t for t in takes if t not in inputs], list(gives))

    def graph(self, piece: Piece) -> Graph:
        """The piece as a graph."""
        out = Graph(self.g.name, piece.takes, piece.gives)
        there = set(piece.takes)

        def need(name: str) -> None:
            """The aliases that make it, each behind those that it reads."""
            todo: list[str | Node] = [name]
            while todo:
                if isinstance(one := todo.pop(), Node):
                    out.nodes.append(_copy(one))
                elif one and one not in there:
                    there.add(one)
                    if (alias := self._alias.get(one)) is not None:
                        todo += [alias, *reversed(alias.inputs)]

        for k in range(piece.first, piece.end):
            node = self.steps[k]
            for i in node.inputs:
                need(i)
            out.nodes.append(_copy(node))
            there |= set(node.outputs)
        for o in piece.gives:
            need(o)
        out.values = {name: value for name, value in self.g.values.items() if name in there}
        return out

    def bytes(self, names: list[str]) -> int:
        return sum(self.g.value(n).bytes for n in names)


def _copy(node: Node) -> Node:
    return Node(node.op, node.name, list(node.inputs), list(node.outputs), dict(node.attrs))


def best_cuts(n: int, parts: int, stage: Stage) -> list[int] | None:
    """First step of each piece but the first, for the best cut of n steps into `parts` pieces; None if there is none.

    The best cut has the least cost of its dearest piece; of equal ones, the least sum of costs.
    """
    # best[j]: (dearest, sum, cuts) of the first j steps in so many pieces
    best: list[tuple[float, float, list[int]] | None] = [None] * (n + 1)
    best[0] = (0.0, 0.0, [])
    for p in range(1, parts + 1):
        following: list[tuple[float, float, list[int]] | None] = [None] * (n + 1)
        for j in range(p, n - (parts - p) + 1):
            for i in range(p - 1, j):
                before = best[i]
                if before is None or (following[j] is not None and before[0] > following[j][0]):  # type: ignore[index]
                    continue
                cost = stage(i, j)
                if math.isinf(cost):
                    continue
                found = (max(before[0], cost), before[1] + cost, [*before[2], i])
                if following[j] is None or found[:2] < following[j][:2]:  # type: ignore[index]
                    following[j] = found
        best = following
    end = best[n]
    return None if end is None else end[2][1:]
