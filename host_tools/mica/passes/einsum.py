"""Sums of products by labels become matrix products.

Einsum(a, "ij->ji")                =>   Transpose(a)
Einsum(a, "ij->i")                 =>   ReduceSum(a)
Einsum(a, b, "bij,bj->bi")         =>   Reshape(MatMul(a as [b, i, j], b as [b, j, 1]))
Einsum(a, b, "bi,bi->bi")          =>   Mul(a, b)
Einsum(a, b, c, "bi,ij,bj->b")     =>   of the first two, "bi,ij->bj", and so on

Labels of both operands that the output keeps are batches, those that it drops are summed over, those of one operand
are rows (of a) or columns (of b); a label of one operand that the output drops is summed first.
"""

from collections.abc import Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.refusal import Refusals

DOTS = "012345"


def run(g: Graph) -> Graph:
    refusals = Refusals()
    nodes: list[Node] = []
    for node in g.nodes:
        if node.op != "Einsum":
            nodes.append(node)
            continue
        with refusals.at(node):
            nodes += _Writer(g, node).write()
    refusals.stop()
    g.nodes = nodes
    return g


def labels(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Labels of each operand and of the output. Raises ValueError."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    # "..." stands for as many labels as its operand has dimensions beyond its letters: those of DOTS, from the right.
    rest = [DOTS[len(DOTS) + len(o) - 3 - r :] if "..." in o else "" for o, r in zip(operands, ranks, strict=False)]
    operands = [o.replace("...", dots) for o, dots in zip(operands, rest, strict=False)]
    dots = max(rest, key=len, default="")
    out = out.replace("...", dots)
    if len(operands) != len(ranks) or any(len(o) != r for o, r in zip(operands, ranks, strict=True)):
        raise ValueError(f"equation '{equation}' for operands of {', '.join(map(str, ranks))} dimensions")
    if any(len(set(part)) < len(part) for part in (*operands, out)):
        raise ValueError(f"equation '{equation}': a label that comes twice in one operand")
    if not arrow:
        once = "".join(operands)
        out = dots + "".join(sorted(c for c in set(once) - set(DOTS) if once.count(c) == 1))
    return operands, out


class _Writer:
    """Spells one Einsum out; a value comes with its labels."""

    def __init__(self, g: Graph, node: Node) -> None:
        self.g, self.node = g, node
        self.nodes: list[Node] = []

    def write(self) -> list[Node]:
        g, node = self.g, self.node
        operands, out = labels(node.attrs["equation"], [len(g.value(i).shape) for i in node.inputs])
        values = list(zip(node.inputs, operands, strict=True))
        for k, (x, own) in enumerate(values):
            others = "".join(o for j, o in enumerate(operands) if j != k) + out
            values[k] = self.summed(x, own, "".join(c for c in own if c not in others))
        while len(values) > 2:
            values[:2] = [self.product(values[:2], "".join(own for _, own in values[2:]) + out)]
        y, order = values[0] if len(values) == 1 else self.product(values, out)
        self.finish(y, order, out)
        return self.nodes

    def product(self, values: list[tuple[str, str]], out: str) -> tuple[str, str]:
        if self.g.is_const(values[0][0]):
            values = values[::-1]  # constants are weights, on the right
        (a, left), (b, right) = values
        sizes = {c: n for x, own in values for c, n in zip(own, self.g.value(x).shape, strict=True)}
        if any(sizes[c] != n for x, own in values for c, n in zip(own, self.g.value(x).shape, strict=True)):
            raise ValueError("a label of two sizes; repeat the smaller operand with Expand")
        shared = [c for c in left if c in right]
        batch, summed = ("".join(c for c in shared if (c in out) == kept) for kept in (True, False))
        rows, columns = ("".join(c for c in own if c not in shared) for own in (left, right))

        def size(part: str) -> int:
            return int(np.prod([sizes[c] for c in part], dtype=np.int64))

        if left == right == batch or (not rows and not columns and not summed):
            return self.emit("Mul", [a, self.transposed(b, right, left)], [sizes[c] for c in left]), left
        lead = [size(batch)] if batch else []
        wide_a = self.reshaped(self.transposed(a, left, batch + rows + summed), [*lead, size(rows), size(summed)])
        turned_b = self.transposed(b, right, batch + summed + columns)
        wide_b = self.reshaped(turned_b, [*lead, size(summed), size(columns)])
        y = self.emit("MatMul", [wide_a, wide_b], [*lead, size(rows), size(columns)])
        order = batch + rows + columns
        return self.reshaped(y, [sizes[c] for c in order]), order

    def finish(self, y: str, order: str, out: str) -> None:
        """The node's output from y."""
        last = self.transposed(y, order, out)
        self.nodes.append(Node("Identity", self.node.name, [last], self.node.outputs))

    def emit(self, op: str, inputs: list[str], shape: Sequence[int], **attrs: object) -> str:
        y = self.g.new_value(f"{self.node.name or self.node.outputs[0]}.{op.lower()}", shape)
        self.nodes.append(Node(op, self.node.name, inputs, [y], attrs))
        return y

    def transposed(self, x: str, order: str, expected: str) -> str:
        if order == expected:
            return x
        perm = [order.index(c) for c in expected]
        data = self.g.data(x)
        if data is not None:
            return self.g.new_const(f"{x}.transposed", np.ascontiguousarray(data.transpose(perm)))
        return self.emit("Transpose", [x], [self.g.value(x).shape[p] for p in perm], perm=perm)

    def reshaped(self, x: str, shape: Sequence[int]) -> str:
        if self.g.value(x).shape == tuple(shape):
            return x
        data = self.g.data(x)
        if data is not None:
            return self.g.new_const(f"{x}.reshaped", data.reshape(tuple(shape)))
        return self.emit("Reshape", [x, self.g.new_const(f"{x}.shape", np.array(shape, np.int64))], shape)

    def summed(self, x: str, own: str, away: str) -> tuple[str, str]:
        if not away:
            return x, own
        kept = "".join(c for c in own if c not in away)
        axes = [own.index(c) for c in away]
        data = self.g.data(x)
        if data is not None:
            return self.g.new_const(f"{x}.summed", np.asarray(data.sum(axis=tuple(axes)))), kept
        shape = [self.g.value(x).shape[own.index(c)] for c in kept]
        constant = self.g.new_const(f"{x}.axes", np.array(axes, np.int64))
        return self.emit("ReduceSum", [x, constant], shape, keepdims=0), kept
