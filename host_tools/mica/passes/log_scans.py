"""Linear recurrences that were written with running sums of logarithms become products and sums again.

c = CumSum(a)
y = Exp(c + Log(CumSum(Exp(b - c - m))) + m)     =>   y[t] = Exp(a[t]) * y[t - 1] + Exp(b[t])      (minGRU, minLSTM)
y = Exp(c + p) * CumSum(Exp(q - c) * u)          =>   y = Exp(p) * h, h[t] = Exp(a[t]) * h[t - 1] + Exp(q[t]) * u[t]

Sums of logarithms grow with time, and 256 integers for all of them leave whole factors between two steps. Their
differences, which are what counts, stay below 1. The recurrence is spelled out in log2(T) rounds, each of which adds to
every row the one `d` rows before, times all factors between them: h += f * shift(h, d); f *= shift(f, d); d *= 2.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code
from mica.passes.fold_pad import pad_amounts, pad_value

MOST = 256  # rows, as a running sum has
Terms = Counter[str]  # how often a value is added, or subtracted


def run(g: Graph) -> Graph:
    if not any(n.op == "CumSum" for n in g.nodes):
        return g
    for node in list(g.nodes):
        if node.op in ("Exp", "Mul", "Div") and len(g.value(node.outputs[0]).shape) > 1:
            _Scan(g, node).rewrite()
    return dead_code.run(g)


class _Scan:
    """One node that may be the result of a recurrence, and the nodes that take its place."""

    def __init__(self, g: Graph, node: Node) -> None:
        self.g, self.node, self.made = g, node, g.producers()
        self.shape = g.value(node.outputs[0]).shape
        self.nodes: list[Node] = []

    def rewrite(self) -> None:
        """Replaces the node where it is a recurrence."""
        outer, factors = self.factors(self.node.outputs[0])
        for name in factors:
            total = self.sum(name)
            if total is None:
                continue
            x, axis = total
            inner, values = self.factors(x)
            steps = self.steps(outer, inner, axis)
            if steps is None or not 1 < self.shape[axis] <= MOST:
                continue
            y = self.rounds(steps, self.product([*values, *self.exponential(inner)]), axis)
            y = self.product([y, *(f for f in factors if f != name), *self.exponential(outer)])
            self.nodes.append(Node("Identity", self.node.name, [y], self.node.outputs))
            at = self.g.index(self.node)
            self.g.nodes[at : at + 1] = self.nodes
            return

    # ---- reading

    def maker(self, name: str, *ops: str) -> Node | None:
        node = self.made.get(name)
        while node is not None and node.op in ("Cast", "Identity"):
            node = self.made.get(node.inputs[0])
        return node if node is not None and node.op in ops else None

    def sum(self, name: str) -> tuple[str, int] | None:
        """(x, axis) of a running sum of x from the first row on, in the shape of the result."""
        node = self.maker(name, "CumSum")
        if node is None or node.attrs.get("reverse", 0) or node.attrs.get("exclusive", 0):
            return None
        axis = int(np.asarray(self.g.data(node.inputs[1])).reshape(-1)[0]) % len(self.shape)
        return (node.inputs[0], axis) if len(self.g.value(name).shape) == len(self.shape) else None

    def factors(self, name: str) -> tuple[Terms, list[str]]:
        """A value as Exp(sum of terms) times factors: through products, Exp, Exp of a Log, and quotients by Exp."""
        node = self.maker(name, "Exp", "Mul", "Div")
        if node is None:
            return Terms(), [name]
        if node.op != "Exp":
            (terms, factors), (more, others) = (self.factors(i) for i in node.inputs)
            if node.op == "Div" and others:
                return Terms(), [name]
            (terms.update if node.op == "Mul" else terms.subtract)(more)
            return terms, factors + others
        terms, factors = self.terms(node.inputs[0]), []
        for term in [t for t, n in terms.items() if n == 1]:
            if (log := self.maker(term, "Log")) is not None:
                more, inside = self.factors(log.inputs[0])
                del terms[term]
                terms.update(more)
                factors += inside
        return terms, factors

    def terms(self, name: str) -> Terms:
        """A value as a sum."""
        node = self.maker(name, "Add", "Sub", "Neg")
        if node is None:
            return Terms({name: 1})
        result = Terms()
        for k, i in enumerate(node.inputs):
            (result.subtract if node.op == "Neg" or (node.op == "Sub" and k) else result.update)(self.terms(i))
        return result

    def steps(self, outer: Terms, inner: Terms, axis: int) -> str | None:
        """Exp(a), where the outer terms have a running sum c of a, and the inner ones have -c: both lose it.

        What is the same in all rows goes from in front of the sum into it, where it is taken off, too.
        """
        for c in [name for name, n in outer.items() if n == 1 and inner[name] == -1]:
            first = self.begun(c, axis)
            total = self.sum(first[1] if first else c)
            if total is None or total[1] != axis or self.g.value(c).shape != self.shape:
                continue
            for name in list(outer):
                shape = self.g.value(name).shape
                if name == c or len(shape) < len(self.shape) - axis or shape[axis - len(self.shape)] == 1:
                    inner[name] += outer.pop(name)
            a = self.product(self.exponential(Terms({total[0]: 1})))
            return self.shifted(a, axis, first[0], 0) if first else a
        return None

    def begun(self, name: str, axis: int) -> tuple[int, str] | None:
        """(rows of zeros, what is behind them) of a value that begins with such."""
        node, rank = self.maker(name, "Pad", "Concat"), len(self.shape)
        if node is not None and node.op == "Pad":
            amounts = pad_amounts(self.g, node)
            alone = sum(amounts) == amounts[axis] > 0 and pad_value(self.g, node) == 0.0
            return (amounts[axis], node.inputs[0]) if alone else None
        zero = self.g.data(node.inputs[0]) if node is not None and len(node.inputs) == 2 else None
        if node is None or zero is None or np.any(zero) or node.attrs["axis"] % rank != axis:
            return None
        return zero.shape[axis], node.inputs[1]

    # ---- writing

    def emit(self, op: str, inputs: Sequence[str], shape: Sequence[int], **attrs: object) -> str:
        y = self.g.new_value(f"{self.node.outputs[0]}.{op.lower()}", shape)
        self.nodes.append(Node(op, self.node.name, list(inputs), [y], attrs))
        return y

    def product(self, factors: Sequence[str]) -> str:
        y = factors[0]
        for x in factors[1:]:
            y = self.emit("Mul", [y, x], np.broadcast_shapes(self.g.value(y).shape, self.g.value(x).shape))
        return y

    def exponential(self, terms: Terms) -> list[str]:
        """Factors whose product is Exp of a sum: of logarithms, what they are the logarithms of."""
        return [self.exp(name, n) for name, n in terms.items() if n]

    def exp(self, x: str, n: int = 1) -> str:
        """Exp of n times a value; in front of a Pad or Concat of sums."""
        shape = self.g.value(x).shape
        node = self.maker(x, "Pad", "Concat") if n == 1 else None
        if node is not None and (node.op == "Concat" or pad_value(self.g, node) is not None):
            parts = node.inputs if node.op == "Concat" else node.inputs[:1]
            made = [self.constant(i) or self.product(self.exponential(self.terms(i))) for i in parts]
            if node.op == "Concat":
                return self.emit("Concat", made, shape, axis=node.attrs["axis"])
            return self.pad(made[0], pad_amounts(self.g, node), float(np.exp(pad_value(self.g, node) or 0.0)))
        if n != 1:
            x = self.emit("Mul", [x, self.g.new_const(f"{x}.times", np.array(n, np.float32))], shape)
        return self.emit("Exp", [x], shape)

    def constant(self, name: str) -> str:
        """The name of Exp of a constant; "" of an activation."""
        data = self.g.data(name)
        return "" if data is None else self.g.new_const(f"{name}.exp", np.exp(data))

    def rounds(self, factors: str, values: str, axis: int) -> str:
        """h[t] = factors[t] * h[t - 1] + values[t] along an axis."""
        d, rows = 1, self.shape[axis]
        while d < rows:
            before = self.shifted(values, axis, d, -d)
            values = self.emit("Add", [values, self.product([factors, before])], self.shape)
            factors = self.product([factors, self.shifted(factors, axis, d, -d)])
            d *= 2
        return values

    def shifted(self, x: str, axis: int, first: int, last: int) -> str:
        """Rows of zeros in front of a value's, and fewer or more behind them."""
        rank = len(self.shape)
        return self.pad(x, [first if k == axis else last if k == rank + axis else 0 for k in range(2 * rank)], 0.0)

    def pad(self, x: str, pads: Sequence[int], value: float) -> str:
        amounts = self.g.new_const(f"{x}.pads", np.array(pads, np.int64))
        fill = self.g.new_const(f"{x}.fill", np.array(value, np.float32))
        shape = self.g.value(x).shape
        wide = [n + pads[k] + pads[len(shape) + k] for k, n in enumerate(shape)]
        return self.emit("Pad", [x, amounts, fill], wide)
