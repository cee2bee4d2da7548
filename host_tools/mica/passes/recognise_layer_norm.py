"""Normalisation that an exporter has written out becomes one operator again.

    m = ReduceMean(x); d = x - m; y = d / sqrt(ReduceMean(d * d) + e)   =>   y = LayerNormalization(x), epsilon e
    likewise d * (1 / sqrt(...)), Pow(d, 2), Pow(..., 0.5), and with a constant g: d * (g / sqrt(...))
    likewise with ReduceMean(x * x) - m * m as the variance
    x * r + (c - m * r), r = g / sqrt(...)                              =>   y = LayerNormalization(x, g, c)
    y = x / sqrt(ReduceMean(x * x) + e)                                 =>   y = RMSNormalization(x)

PyTorch writes the first up to opset 16, Keras the third. In int8 the variance alone would lose most of its bits. What
the pieces compute stays where others read it. A scale and shift behind it is folded by `fold_scale`.
"""

from dataclasses import dataclass

import numpy as np

from mica.ir.graph import Graph, Node


@dataclass
class _Spread:
    """A value that is gamma / sqrt(mean of squares of `base` + epsilon), along the last axes from `axis` on.

    Or gamma / sqrt(variance of `whole` + epsilon), the variance computed as mean of squares less square of mean.
    """

    base: str
    whole: str
    axis: int
    epsilon: float
    gamma: str = ""  # a constant, or absent


def run(g: Graph) -> Graph:
    for node in list(g.nodes):
        if node.op in ("Add", "Div", "Mul"):
            _Matcher(g).rewrite(node)
    return g


class _Matcher:
    """Looks upwards from one node."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.made = g.producers()

    def rewrite(self, node: Node) -> None:
        found = self._keras(node) if node.op == "Add" else self._plain(node)
        if found is None:
            return
        x, spread, beta, centred = found
        shape = self.g.value(x).shape[spread.axis :]
        gamma = spread.gamma or self.g.new_const(f"{node.name}.ones", np.ones(shape, np.float32))
        node.inputs = [x, gamma, beta] if beta else [x, gamma]
        node.op = "LayerNormalization" if centred else "RMSNormalization"
        node.attrs = {"axis": spread.axis, "epsilon": spread.epsilon}

    def _plain(self, node: Node) -> tuple[str, _Spread, str, bool] | None:
        """d / sqrt(...) or d * (1 / sqrt(...))."""
        sides = [node.inputs] if node.op == "Div" else [node.inputs, node.inputs[::-1]]
        for d, other in sides:
            spread = self._root(other, -1) if node.op == "Div" else self._inverse(other)
            if spread is None:
                continue
            x = self._centred(d, spread.axis)
            if spread.base != d and (x is None or spread.whole != x):
                continue
            return (x, spread, "", True) if x is not None else (d, spread, "", False)
        return None

    def _keras(self, node: Node) -> tuple[str, _Spread, str, bool] | None:
        """x * r + (beta - mean * r)."""
        for first, second in (node.inputs, node.inputs[::-1]):
            product, rest = self.made.get(first), self.made.get(second)
            if product is None or product.op != "Mul" or rest is None:
                continue
            for x, r in (product.inputs, product.inputs[::-1]):
                spread = self._inverse(r)
                if spread is None or not spread.base or self._centred(spread.base, spread.axis) != x:
                    continue
                beta = self._without_mean(rest, self.made[spread.base].inputs[1], r)
                if beta:
                    return x, spread, beta, True
        return None

    def _without_mean(self, node: Node, mean: str, r: str) -> str:
        """The constant beta of beta - mean * r, or ''."""
        if node.op == "Sub" and self.g.is_const(node.inputs[0]) and self._is_product(node.inputs[1], mean, r):
            return node.inputs[0]
        if node.op == "Add":
            for beta, other in (node.inputs, node.inputs[::-1]):
                made = self.made.get(other)
                if not self.g.is_const(beta) or made is None:
                    continue
                if made.op == "Neg" and self._is_product(made.inputs[0], mean, r):
                    return beta
                for a, b in (made.inputs, made.inputs[::-1]) if made.op == "Mul" else ():
                    negative = self.made.get(a)
                    if b == r and negative is not None and negative.op == "Neg" and negative.inputs[0] == mean:
                        return beta
        return ""

    def _is_product(self, name: str, a: str, b: str) -> bool:
        made = self.made.get(name)
        return made is not None and made.op == "Mul" and sorted(made.inputs) == sorted((a, b))

    def _centred(self, d: str, axis: int) -> str | None:
        """x where d = x - mean of x along the last axes."""
        made = self.made.get(d)
        if made is None or made.op != "Sub":
            return None
        x, mean = made.inputs
        of = self._mean(mean)
        return x if of is not None and of == (x, axis) else None

    def _mean(self, name: str) -> tuple[str, int] | None:
        """(x, first axis) where a value is the mean of x over all its last axes, which are kept with length 1."""
        made = self.made.get(name)
        if made is not None and made.op == "GlobalAveragePool" and len(self.g.value(name).shape) > 2:
            return made.inputs[0], 2  # Keras' way, where two axes come before
        if made is None or made.op != "ReduceMean" or not made.attrs.get("keepdims", 1):
            return None
        axes = made.attrs.get("axes")
        if axes is None and len(made.inputs) > 1 and made.inputs[1]:
            data = self.g.data(made.inputs[1])
            axes = None if data is None else data.reshape(-1).tolist()
        rank = len(self.g.value(made.inputs[0]).shape)
        if not axes:
            return None
        found = sorted(int(a) % rank for a in axes)
        return (made.inputs[0], found[0]) if found == list(range(found[0], rank)) else None

    def _inverse(self, name: str, scaled: bool = True) -> _Spread | None:
        """1 / sqrt(...), times a constant or not; without one where scaled is False."""
        made = self.made.get(name)
        if made is None:
            return None
        if made.op == "Mul":
            for a, b in (made.inputs, made.inputs[::-1]):
                spread = self._inverse(a, scaled=False) if scaled and self.g.is_const(b) else None
                if spread is not None and not spread.gamma:
                    spread.gamma = b
                    return spread
            return None
        if made.op == "Reciprocal":
            return self._root(made.inputs[0], -1)
        if made.op == "Div" and self.g.is_const(made.inputs[0]):
            spread = self._root(made.inputs[1], -1)
            if spread is not None:
                spread.gamma = made.inputs[0]
            return spread
        return self._root(name, 1)

    def _root(self, name: str, sign: int) -> _Spread | None:
        """sqrt(mean of squares + e) for sign -1, which the reader divides by; for sign 1 the power -0.5 of it."""
        made = self.made.get(name)
        if made is None:
            return None
        if made.op == "Pow" and self._number(made.inputs[1]) == 0.5 * -sign:
            return self._sum(made.inputs[0])
        return self._sum(made.inputs[0]) if made.op == "Sqrt" and sign < 0 else None

    def _sum(self, name: str) -> _Spread | None:
        made, epsilon = self.made.get(name), 0.0
        if made is not None and made.op == "Add":
            for a, b in (made.inputs, made.inputs[::-1]):
                number = self._number(b)
                if number is not None:
                    name, epsilon = a, number
        whole, axis = self._variance(name)
        if not whole:
            base, axis = self._mean_of_squares(name)
            return _Spread(base, "", axis, epsilon) if base and epsilon >= 0 else None
        return _Spread("", whole, axis, epsilon) if epsilon >= 0 else None

    def _mean_of_squares(self, name: str) -> tuple[str, int]:
        """(x, first axis), x '' where it is none."""
        of = self._mean(name)
        return ("", 0) if of is None else (self._square_of(of[0]), of[1])

    def _variance(self, name: str) -> tuple[str, int]:
        """(x, first axis) where a value is mean(x * x) - mean(x) * mean(x)."""
        made = self.made.get(name)
        if made is None or made.op != "Sub":
            return "", 0
        x, axis = self._mean_of_squares(made.inputs[0])
        mean = self._square_of(made.inputs[1])
        return (x, axis) if x and mean and self._mean(mean) == (x, axis) else ("", 0)

    def _square_of(self, name: str) -> str:
        made = self.made.get(name)
        if made is not None and made.op == "Mul" and made.inputs[0] == made.inputs[1]:
            return made.inputs[0]
        if made is not None and made.op == "Pow" and self._number(made.inputs[1]) == 2.0:
            return made.inputs[0]
        return ""

    def _number(self, name: str) -> float | None:
        data = self.g.data(name)
        return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None
