"""Many parts that are computed alike and then joined are joined first, and computed as one.

s1 .. s120 = Split(x); y = Concat(s1 * 0.5, s2 * 1.5 ..)     =>   y = x * [0.5, 1.5 ..]
y = Concat(Relu(a), Tanh(b), Relu(c) ..)                     =>   y = Gather(Concat(Relu(Concat(a, c ..)), Tanh(b ..)),
                                                                  order)

A step costs some hundred bytes of a file, which are more than a part's numbers.
Few parts stay as they are: each has its own scale.
"""

from collections.abc import Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code

LEAST = 16  # parts
MOST_KINDS = 4  # of computing them
_OF_ONE = "Abs Clip Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log Neg Reciprocal Relu Sigmoid Softplus Sqrt Tanh"
_OF_TWO = "Add Div Max Min Mul Pow Sub"
POINTWISE = frozenset((_OF_ONE + " " + _OF_TWO).split())


def run(g: Graph) -> Graph:
    found = [n for n in g.nodes if n.op == "Concat" and len(n.inputs) >= LEAST]
    for node in found:
        _Join(g, node).rewrite()
    return dead_code.run(g) if found else g


class _Join:
    """One Concat of many parts, and the nodes that take its place."""

    def __init__(self, g: Graph, node: Node) -> None:
        self.g, self.node = g, node
        self.rank = len(g.value(node.outputs[0]).shape)
        self.axis = int(node.attrs.get("axis", 0)) % self.rank
        self.made, self.readers = g.producers(), g.consumers()
        self.nodes: list[Node] = []

    def rewrite(self) -> None:
        y = self.joined(list(self.node.inputs))
        if len(self.nodes) != 1 or self.nodes[0].op != "Concat":
            at = self.g.index(self.node)
            self.g.nodes[at : at + 1] = [*self.nodes, Node("Identity", self.node.name, [y], self.node.outputs)]

    def emit(self, op: str, inputs: list[str], axis_size: int, like: str, attrs: dict[str, object]) -> str:
        shape = list(self.g.value(like).shape)
        shape[self.axis] = axis_size
        y = self.g.new_value(f"{self.node.outputs[0]}.{op.lower()}", shape)
        self.nodes.append(Node(op, self.node.name, inputs, [y], dict(attrs)))
        return y

    def size(self, name: str) -> int:
        return self.g.value(name).shape[self.axis]

    def joined(self, names: list[str]) -> str:
        """The name of some values, one behind the other along the axis."""
        if len(names) == 1:
            return names[0]
        total = sum(self.size(name) for name in names)
        slices = [found for name in names if (found := self.slice(name)) is not None]
        if len(slices) == len(names) and len({x for x, _ in slices}) == 1:
            x, places = slices[0][0], np.concatenate([s[1] for s in slices])
            if np.array_equal(places, np.arange(self.size(x))):
                return x
            return self.emit("Gather", [x, self.constant("places", places)], total, x, {"axis": self.axis})
        kinds: dict[object, list[int]] = {}
        for k, name in enumerate(names):
            kinds.setdefault(self.kind(name), []).append(k)
        if len(kinds) > MOST_KINDS or None in kinds:
            return self.emit("Concat", names, total, names[0], {"axis": self.axis})
        parts = [self.computed([names[k] for k in members]) for members in kinds.values()]
        if len(parts) == 1:
            return parts[0]
        y = self.emit("Concat", parts, total, names[0], {"axis": self.axis})
        ends = np.cumsum([self.size(name) for name in names])
        spans = [np.arange(end - self.size(name), end) for name, end in zip(names, ends, strict=True)]
        order = np.argsort(np.concatenate([spans[k] for members in kinds.values() for k in members]))
        return self.emit("Gather", [y, self.constant("places", order)], total, y, {"axis": self.axis})

    def constant(self, what: str, data: np.ndarray) -> str:
        return self.g.new_const(f"{self.node.outputs[0]}.{what}", data)

    def slice(self, name: str) -> tuple[str, np.ndarray] | None:
        """(x, places along the axis) of a part that a Split or a Gather takes out of x."""
        node = self.made.get(name)
        if node is None or node.op not in ("Split", "Gather"):
            return None
        x, axis = node.inputs[0], int(node.attrs.get("axis", 0))
        constants = [self.g.data(i) for i in node.inputs[1:] if i]
        if self.g.is_const(x) or any(c is None for c in constants) or len(self.g.value(x).shape) != self.rank:
            return None
        every = np.arange(self.g.value(x).shape[self.axis])
        if axis % self.rank != self.axis:
            return None
        if node.op == "Gather":
            index = np.asarray(constants[0])
            return (x, every[index]) if index.ndim == 1 else None
        before = sum(self.size(o) for o in node.outputs[: node.outputs.index(name)])
        return x, every[before : before + self.size(name)]

    def kind(self, name: str) -> object:
        """Return a key that parts share if they are computed alike; None if one is not computed element by element."""
        node = self.made.get(name)
        if node is None or node.op not in POINTWISE or len(self.readers.get(name, ())) != 1 or name in self.g.outputs:
            return None
        shape = self.g.value(name).shape
        for i in filter(None, node.inputs):
            own = self.g.value(i)
            if own.quant is not None or (own.data is None and own.shape != shape):
                return None
        constant = tuple(self.g.is_const(i) for i in node.inputs)
        return node.op, constant, repr(sorted(node.attrs.items()))

    def computed(self, names: list[str]) -> str:
        """The values of one kind: their operands joined, and computed once."""
        nodes = [self.made[name] for name in names]
        operands = []
        for column in zip(*(node.inputs for node in nodes), strict=True):
            same = len(set(column)) == 1 and self.g.value(column[0]).size == 1
            operands.append(column[0] if same or not column[0] else self.column(names, column))
        return self.emit(nodes[0].op, operands, sum(self.size(n) for n in names), names[0], nodes[0].attrs)

    def column(self, names: Sequence[str], column: Sequence[str]) -> str:
        """One operand of all parts."""
        if not self.g.is_const(column[0]):
            return self.joined(list(column))
        rows = []
        for name, i in zip(names, column, strict=True):
            data = np.asarray(self.g.data(i))
            data = data.reshape((1,) * (self.rank - data.ndim) + data.shape)
            shape = [self.size(name) if k == self.axis else n for k, n in enumerate(data.shape)]
            rows.append(np.broadcast_to(data, shape))
        wide = np.broadcast_shapes(*([n if k != self.axis else 1 for k, n in enumerate(r.shape)] for r in rows))
        rows = [np.broadcast_to(r, [n if k != self.axis else r.shape[k] for k, n in enumerate(wide)]) for r in rows]
        return self.constant("operand", np.ascontiguousarray(np.concatenate(rows, self.axis)))
