"""Neighbours and local outlier factors: what follows from the nearest of constant points is one step, or two.

d = VectorEnsemble(x), a distance for each point [1, S]; v, i = TopK(Sqrt(d), k, largest=0)
ReduceMean(Gather(values, i))                              =>   VectorEnsemble(x): the mean of the k nearest
Concat(ReduceSum(Equal(Gather(labels, i), c)), ...)        =>   VectorEnsemble(x): the share of each class c
likewise of terms times Reciprocal(Max(v, least))          =>   weighted by distance; of -v all are the least
ReduceMean(Max(v, Gather(reach, i)))                       =>   the mean of distances, or a point's reach
ReduceMean(Gather(density, i) / (1 / (m + nearly 0)))      =>   Mul(VectorEnsemble(x), m)

A class's sum, and what divides it by the sum of all, become its share: only their ratio and the largest are ever read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.vectors import Machine, Neighbours
from mica.kernels.vectors import BY_ROOT, BY_VALUE, REACH, SQUARES, UNIFORM
from mica.passes.leaf_values import RENAMES

OP = "VectorEnsemble"
MOVES = (*RENAMES, "Transpose")


@dataclass(frozen=True, eq=False)
class _Term:
    """A number for each neighbour: table [S, ...] at its place. factor: factors, of the kind `weights`, multiply it."""

    table: np.ndarray
    weights: int = UNIFORM
    factor: bool = False


@dataclass
class Nearest:
    """A TopK of the distances that `vectors` measures. rooted: they are roots."""

    g: Graph
    x: str
    vectors: Machine
    top: Node
    rooted: bool
    k: int
    distances: dict[str, float] = field(default_factory=dict)  # name -> what they are multiplied by
    least: dict[str, float] = field(default_factory=dict)  # those of them that are not below a constant
    places: dict[str, bool] = field(default_factory=dict)
    factors: dict[str, int] = field(default_factory=dict)
    terms: dict[str, _Term] = field(default_factory=dict)
    sums: dict[str, _Term] = field(default_factory=dict)

    def run(self) -> None:
        self.distances[self.top.outputs[0]], self.places[self.top.outputs[1]] = 1.0, True
        forms: dict[str, Callable[[Node], None]] = {
            "Concat": self._shares, "Div": self._quotient, "Equal": self._equal, "Gather": self._gather,
            "Max": self._max, "Mul": self._mul, "Reciprocal": self._reciprocal,
            **dict.fromkeys(("ReduceMean", "ReduceSum"), self._reduced),
        }  # fmt: skip
        for node in list(self.g.nodes):
            if node.op in MOVES and node.inputs:
                for known in (self.distances, self.least, self.places, self.factors, self.terms, self.sums):
                    if node.inputs[0] in known:
                        known[node.outputs[0]] = known[node.inputs[0]]  # type: ignore[assignment]
            elif node.op in forms:
                forms[node.op](node)

    def _constant(self, node: Node) -> np.ndarray | None:
        return next((a for i in node.inputs if (a := self.g.data(i)) is not None), None)

    def _gather(self, node: Node) -> None:
        data, axis = self.g.data(node.inputs[0]), int(node.attrs.get("axis", 0))
        if data is not None and node.inputs[1] in self.places and axis == 0 and len(data) == len(self.vectors.points):
            self.terms[node.outputs[0]] = _Term(np.asarray(data, np.float64))
        elif (term := self.terms.get(node.inputs[0])) is not None and axis > 1:
            at = np.asarray(self.g.data(node.inputs[1])).reshape(-1).astype(np.int64)
            self.terms[node.outputs[0]] = replace(term, table=np.take(term.table, at, axis=axis - 1))

    def _equal(self, node: Node) -> None:
        term, c = next((self.terms[i] for i in node.inputs if i in self.terms), None), self._constant(node)
        if term is not None and c is not None and c.size == 1:
            self.terms[node.outputs[0]] = _Term((term.table == float(c.reshape(-1)[0])).astype(np.float64))

    def _mul(self, node: Node) -> None:
        c, y = self._constant(node), node.outputs[0]
        v = next((self.distances[i] for i in node.inputs if i in self.distances), None)
        term = next((self.terms[i] for i in node.inputs if i in self.terms), None)
        kind = next((self.factors[i] for i in node.inputs if i in self.factors), None)
        if v is not None and c is not None and c.size == 1:
            self.distances[y] = v * float(c.reshape(-1)[0])
        elif term is not None and kind is not None:
            self.terms[y] = _Term(term.table, kind, True)

    def _max(self, node: Node) -> None:
        v, c = next((self.distances[i] for i in node.inputs if i in self.distances), None), self._constant(node)
        term = next((self.terms[i] for i in node.inputs if i in self.terms), None)
        if v is not None and c is not None and c.size == 1:
            self.least[node.outputs[0]] = v
        elif v == 1.0 and term is not None and self.rooted and self.vectors.measure == SQUARES:
            self.terms[node.outputs[0]] = replace(term, weights=REACH)

    def _reciprocal(self, node: Node) -> None:
        sign, squares = self.least.get(node.inputs[0]), self.vectors.measure == SQUARES
        if sign is not None and (sign <= 0 or self.rooted == squares):
            self.factors[node.outputs[0]] = UNIFORM if sign <= 0 else BY_ROOT if squares else BY_VALUE

    def _reduced(self, node: Node) -> None:
        x, one = node.inputs[0], self.g.value(node.outputs[0]).size == 1
        maker = self.g.producers().get(x)
        if one and x in self.terms and node.op == "ReduceSum":
            self.sums[node.outputs[0]] = self.terms[x]
        elif one and x in self.terms and not self.terms[x].factor:
            self._become(node, self.terms[x].table.reshape(-1), self.terms[x].weights)
        elif one and maker is not None and maker.op == "Div" and maker.inputs[0] in self.terms:
            by, term = maker.inputs[1], self.terms[maker.inputs[0]]
            inverse = self.g.producers().get(by)
            if (
                self.g.value(by).size == 1
                and inverse is not None
                and inverse.op == "Div"
                and self._constant(inverse) == 1
            ):
                mean = self._emit(node, term.table.reshape(-1), UNIFORM)
                node.op, node.inputs, node.attrs = "Mul", [self._nearly(inverse.inputs[1]), mean], {}

    def _nearly(self, name: str) -> str:
        """Return the value that was kept from being 0 by adding nearly nothing; others as they are."""
        maker = self.g.producers().get(name)
        if maker is None or maker.op != "Add" or (c := self._constant(maker)) is None or np.abs(c).max() > 1e-6:
            return name
        return next(i for i in maker.inputs if not self.g.is_const(i))

    def _quotient(self, node: Node) -> None:
        term = self.sums.get(node.inputs[0])
        if term is not None and term.factor and self.g.value(node.outputs[0]).size == 1:
            self._become(node, term.table.reshape(-1), term.weights)

    def _shares(self, node: Node) -> None:
        found = [self.sums[i] for i in node.inputs if i in self.sums]
        kinds, y = {(t.weights, t.factor) for t in found}, node.outputs[0]
        if not found or len(found) < len(node.inputs) or len(kinds) > 1 or found[0].weights == REACH:
            return
        table = np.stack([t.table.reshape(-1) for t in found])
        if not (np.isin(table, (0, 1)).all() and (table.sum(axis=0) == 1).all()):
            return
        self._become(node, np.ones(table.shape[1]), found[0].weights, table.argmax(axis=0), len(found))
        for n in self.g.consumers().get(y, []):
            if n.op == "Div" and n.inputs[0] == y:
                n.op, n.inputs, n.attrs = "Identity", [y], {}

    def _emit(self, node: Node, value: np.ndarray, kind: int, target: np.ndarray | None = None, n: int = 1) -> str:
        v = self.vectors
        places = np.zeros(len(value), np.int64) if target is None else target
        near = Neighbours(
            v.points, v.measure, v.factor, v.shift, v.missing,
            weights=kind, k=self.k, target=places, value=value, numbers=n,
        )  # fmt: skip
        return emit(self.g, node, self.x, near, n)

    def _become(self, node: Node, *args: Any) -> None:
        made = self._emit(node, *args)
        reshape(self.g, node, made)


def emit(g: Graph, node: Node, x: str, vectors: Machine | Neighbours, n: int) -> str:
    """Add an ensemble of n results in front of a node; returns its output [1, n]."""
    made = g.new_value(f"{node.outputs[0]}.of_rows", (1, n))
    g.insert_before(node, Node(OP, node.name, [x], [made], {"vectors": vectors}))
    return made


def reshape(g: Graph, node: Node, made: str) -> None:
    """Make a node the numbers of `made`, in its own shape."""
    shape = g.new_const(f"{node.outputs[0]}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [made, shape], {}
