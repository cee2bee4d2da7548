"""Nearest neighbours, as scikit-learn's exporter writes them, are found before their loop over the training data is unrolled.

d = Scan(x, points) | CDist(x, points); v, i = TopK(Sqrt(Transpose(d)), k, largest=0)
y = ReduceMean(Reshape(ArrayFeatureExtractor(values, i)))                           =>   y = the mean of the k nearest
y = Concat(ReduceSum(Equal(Reshape(ArrayFeatureExtractor(labels, i)), c)), ...)     =>   y = the share of each class c

A class's sum, and what divides it by the sum of all, become its share: only their ratio and the largest are ever read. Weights by
distance multiply the terms by Reciprocal(Max(v, least)). (The exporter takes -v for v, of which all are the least.)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from mica.importer.protos import array_of
from mica.ir.vectors import Neighbours
from mica.kernels.vectors import BY_ROOT, BY_VALUE, SQUARES, SUM, UNIFORM

OP = "VectorEnsemble"
_PLAIN = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_BODIES = {
    ("Identity", "Identity", "ReduceSumSquare", "Sub"): SQUARES,
    ("Abs", "Identity", "Identity", "ReduceSum", "Sub"): SUM,
}
_CDIST = {"euclidean": (SQUARES, True), "sqeuclidean": (SQUARES, False)}


@dataclass(frozen=True, eq=False)
class Found:
    """Neighbours of the value x make the value y, in the place of the node whose first output is y; without any y is x."""

    x: str
    y: str
    vectors: Neighbours | None


class _Graph:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self.constants = {c.name: c for c in graph.initializer}
        self.makers = {o: n for n in graph.node for o in n.output if o}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        for n in graph.node:
            for i in n.input:
                self.readers.setdefault(i, []).append(n)
        self.outputs = {o.name for o in graph.output}

    def constant(self, name: str) -> np.ndarray | None:
        maker = self.makers.get(name)
        if name in self.constants:
            return array_of(self.constants[name])
        if maker is not None and maker.op_type == "Constant" and maker.attribute[0].name == "value":
            return array_of(maker.attribute[0].t)
        return None

    def behind(self, name: str, ops: Sequence[str] = _PLAIN) -> str:
        """The value seen through its only readers, as long as these only change its shape or type."""
        while name not in self.outputs and len(found := self.readers.get(name, [])) == 1 and found[0].op_type in ops:
            name = found[0].output[0]
        return name

    def reader(self, name: str, op: str) -> onnx.NodeProto | None:
        found = self.readers.get(name, [])
        return found[0] if len(found) == 1 and found[0].op_type == op and name not in self.outputs else None


def _attributes(n: onnx.NodeProto) -> dict[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in n.attribute}


def _measured(g: _Graph, name: str) -> tuple[str, np.ndarray, int, bool] | None:
    """(x, points [S, F], measure, whether a root was taken) of the distances that `name` holds."""
    rooted = False
    while (n := g.makers.get(name)) is not None and n.op_type in (*_PLAIN, "Sqrt", "Transpose"):
        rooted |= n.op_type == "Sqrt"
        name = n.input[0]
    found = distances(n, g.constant) if n is not None and name == n.output[-1] else None
    return (n.input[0], *found[:2], rooted or found[2]) if n is not None and found else None


def distances(n: onnx.NodeProto, constant: Callable[[str], np.ndarray | None]) -> tuple[np.ndarray, int, bool] | None:
    """Return (points [S, F], measure, whether a root is taken) of a node whose last output is distances to rows of a constant."""
    points = constant(n.input[1]) if n.op_type in ("CDist", "Scan") and len(n.input) == 2 else None
    if points is None or points.ndim != 2 or points.dtype.kind != "f":
        return None
    attributes = _attributes(n)
    if n.op_type == "CDist":
        kind = attributes.get("metric", b"sqeuclidean")
        measure = _CDIST.get(kind.decode() if isinstance(kind, bytes) else "")
        return (points, *measure) if measure else None
    if attributes.get("num_scan_inputs") != 1 or len(n.output) != 2:
        return None
    body = next(a.g for a in n.attribute if a.name == "body")
    kinds = tuple(sorted(node.op_type for node in body.node))
    difference = next((node for node in body.node if node.op_type == "Sub"), None)
    if kinds not in _BODIES or difference is None or set(difference.input) != {i.name for i in body.input}:
        return None
    return points, _BODIES[kinds], False


def _weighted(g: _Graph, values: str, squares: bool, rooted: bool) -> tuple[str, int] | None:
    """(factor of the terms, '' if there is none; its kind of weights), None if the kind is not known."""
    if values in g.outputs:
        return None
    n: onnx.NodeProto | None = next(iter(g.readers.get(values, [])), None)
    if n is None:
        return "", UNIFORM
    sign = 1.0
    if n.op_type in ("Mul", "Neg"):
        factor = (
            np.array(-1.0)
            if n.op_type == "Neg"
            else next((c for i in n.input if (c := g.constant(i)) is not None), None)
        )
        if factor is None or factor.size != 1:
            return None
        sign = float(factor.reshape(-1)[0])
        n = g.reader(n.output[0], "Max")
    if n is None or n.op_type != "Max" or (n := g.reader(n.output[0], "Reciprocal")) is None:
        return None
    if sign <= 0:
        return n.output[0], UNIFORM
    return n.output[0], BY_ROOT if squares and rooted else BY_VALUE if rooted or not squares else -1


def _found(g: _Graph, top: onnx.NodeProto) -> list[Found]:
    k = g.constant(top.input[1]) if len(top.input) > 1 else None
    measured = _measured(g, top.input[0])
    if _attributes(top).get("largest", 1) != 0 or k is None or measured is None:
        return []
    x, points, measure, rooted = measured
    weights = _weighted(g, top.output[0], measure == SQUARES, rooted)
    picked = next((n for n in g.readers.get(g.behind(top.output[1]), [])), None)
    values = g.constant(picked.input[0]) if picked is not None else None
    if weights is None or weights[1] < 0 or values is None or picked is None or values.size != len(points):
        return []
    if picked.op_type not in ("ArrayFeatureExtractor", "Gather"):
        return []
    at, factors = g.behind(picked.output[0]), weights[0]
    n = points.shape[1]
    still = {"factor": np.ones(n), "shift": np.zeros(n), "missing": np.full(n, np.nan)}

    def neighbours(target: np.ndarray, value: np.ndarray, numbers: int) -> Neighbours:
        return Neighbours(
            points.astype(np.float64), measure, **still, weights=weights[1], k=int(k.reshape(-1)[0]),
            target=target, value=value.astype(np.float64), numbers=numbers,
        )  # fmt: skip

    if (y := _mean(g, at, factors)) is not None:
        everything = neighbours(np.zeros(len(points), np.int64), values.reshape(-1), 1)
        return [Found(x, y, everything)]
    if (shares := _shares(g, at, factors)) is not None:
        classes, ys = shares
        places = {c: p for p, c in enumerate(classes)}
        target = np.array([places.get(v, -1) for v in values.reshape(-1).tolist()])
        if len(places) == len(classes) and (target >= 0).all():
            share = neighbours(target, np.ones(len(points)), len(classes))
            return [Found(x, ys[0], share), *(Found(ys[0], y, None) for y in ys[1:])]
    return []


def _mean(g: _Graph, at: str, factors: str) -> str | None:
    """Name of the mean of the values `at`, weighted by `factors` if that is not ""; None if nothing computes it."""
    found = g.readers.get(at, [])
    if len(found) != 1:
        return None
    n = found[0]
    if not factors:
        return n.output[0] if n.op_type == "ReduceMean" else None
    total = g.reader(n.output[0], "ReduceSum")
    if n.op_type != "Mul" or set(n.input) != {at, factors} or total is None:
        return None
    y = total.output[0]
    divisions = [r for r in g.readers.get(y, []) if r.op_type == "Div" and r.input[0] == y]
    return divisions[0].output[0] if len(divisions) == 1 else None


def _shares(g: _Graph, at: str, factors: str) -> tuple[list[object], list[str]] | None:
    """The classes in order, and the names of their sums and of the sums' shares of all."""
    of: dict[str, object] = {}
    joined: onnx.NodeProto | None = None
    for n in g.readers.get(at, []):
        c = next((c for i in n.input if (c := g.constant(i)) is not None), None)
        if n.op_type != "Equal" or c is None or c.size != 1:
            return None
        term = g.behind(n.output[0])
        if factors:
            product = g.reader(term, "Mul")
            if product is None or factors not in product.input:
                return None
            term = product.output[0]
        total = g.reader(term, "ReduceSum")
        joined = g.reader(total.output[0], "Concat") if total is not None else None
        if total is None or joined is None:
            return None
        of[total.output[0]] = c.reshape(-1)[0].item()
    if joined is None or set(joined.input) != set(of):
        return None
    y = joined.output[0]
    divisions = [n.output[0] for n in g.readers.get(y, []) if n.op_type == "Div" and n.input[0] == y]
    return [of[i] for i in joined.input], [y, *divisions[:1]]


def find(graph: onnx.GraphProto) -> tuple[dict[str, Found], set[int]]:
    """(results by the value that they make, numbers of the nodes that are no longer needed)."""
    tops = [n for n in graph.node if n.op_type == "TopK" and not n.domain]
    if not tops:
        return {}, set()
    g = _Graph(graph)
    found = {f.y: f for n in tops for f in _found(g, n)}
    if not found:
        return {}, set()
    before, after = _live(graph, g.makers, {}), _live(graph, g.makers, {f.y: f.x for f in found.values()})
    return found, before - after


def _live(graph: onnx.GraphProto, makers: Mapping[str, onnx.NodeProto], short: Mapping[str, str]) -> set[int]:
    """Numbers of the nodes that outputs need. short: values that need one other alone, but for the node that makes them."""
    numbers = {id(n): k for k, n in enumerate(graph.node)}
    number = {o: numbers[id(n)] for n in graph.node for o in n.output}
    todo, live = [o.name for o in graph.output], set()
    while todo:
        name = todo.pop()
        if name not in makers or (number[name] in live and name not in short):
            continue
        live.add(number[name])
        todo += [short[name]] if name in short and short[name] not in todo else []
        todo += [] if name in short else _needs(makers[name])
    return live


def _needs(n: onnx.NodeProto) -> Iterable[str]:
    inner = [a.g for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [*(i for i in n.input if i), *(i for g in inner for node in g.node for i in _needs(node))]
