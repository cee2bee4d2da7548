"""Curves of the distances to constant points, and weighted sums of these, are machines: kernel methods, in one step for all points.

d = VectorEnsemble(x), a distance for each point [1, S]
MatMul(Exp(d * -0.5), w) + b                        =>   VectorEnsemble(x), a machine; any chain of functions, then of sums
Pow(MatMul(x, points) * a + b, 2), then MatMul      =>   likewise, of products
v, i = TopK(Sqrt(d), k, largest=0)                  =>   Mul(a, b), both of them neighbours: a the mean of density[i], b that of
ReduceMean(density[i] / (1 / ReduceMean(Max(v, reach[i]))))      the distances, where a point's reach is not more

So scikit-learn's KernelPCA and GaussianProcessRegressor, and its LocalOutlierFactor, keep distances in 32 bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.vectors import Machine, Neighbours, Program, machine, unary
from mica.kernels.vectors import PRODUCTS, REACH, SQUARES, UNIFORM
from mica.passes import dead_code
from mica.passes.leaf_values import given_scaled, renames

OP = "VectorEnsemble"
MOST_POINTS = 512  # whose curves are wanted one by one
_FUNCTIONS = {"Abs": "abs", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Tanh": "tanh"}
_MOVES = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")
_ROOT = (unary("sqrt", 0),)


@dataclass(frozen=True, eq=False)
class _Row:
    """curve(distances of x to points) @ matrix + bias; None: the curve itself."""

    x: str
    vectors: Machine
    program: Program
    matrix: np.ndarray | None = None
    bias: np.ndarray | None = None

    @property
    def plain(self) -> bool:
        """True if functions may follow: nothing has been summed or shifted."""
        return self.matrix is None and self.bias is None

    @property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Matrix [S, N] and bias [N]."""
        matrix = np.eye(len(self.vectors.points)) if self.matrix is None else self.matrix
        return matrix, np.zeros(matrix.shape[1]) if self.bias is None else self.bias

    def then(self, function: str, *arguments: float) -> "_Row":
        return replace(self, program=(*self.program, unary(function, len(self.program), *arguments)))

    def moved(self, factor: np.ndarray, shift: np.ndarray) -> "_Row":
        """The row times factor, plus shift, each [N] or [1]."""
        matrix, bias = self.sums
        scaled = self.matrix if np.all(factor == 1) else matrix * factor
        return replace(self, matrix=scaled, bias=bias * factor + shift)


def run(g: Graph) -> Graph:
    rows: dict[str, _Row] = {}
    for node in g.nodes:
        if len(node.outputs) == 1 and (found := _source(g, node) or _next(g, node, rows)) is not None:
            rows[node.outputs[0]] = found
    if not rows:
        return g
    for node in list(g.nodes):
        if node.op == "TopK" and (row := rows.get(node.inputs[0])) is not None:
            _outlier_factor(g, node, row)
    readers = g.consumers()
    for node in [n for n in g.nodes if n.outputs[0] in rows]:
        y = node.outputs[0]
        row = rows[y]
        if (y in g.outputs or any(r.outputs[0] not in rows for r in readers.get(y, []))) and _worth(row):
            _become(g, node, row)
    return dead_code.run(g)


def _worth(row: _Row) -> bool:
    """Products of a row and constants are a layer as any other, but for sums of a function without a bias of its own."""
    if row.vectors.measure != PRODUCTS:
        return True
    functions = [attrs.get("function") for _, attrs, _ in row.program]
    return row.matrix is not None and ("power" in functions or functions[:3] == ["affine", "affine", "tanh"])


def _source(g: Graph, node: Node) -> _Row | None:
    if node.op == OP and isinstance(v := node.attrs["vectors"], Machine) and not v.factors.size:
        return _Row(node.inputs[0], v, ())
    points = g.data(node.inputs[1]) if node.op == "MatMul" else None
    if (
        points is None
        or points.ndim != 2
        or not given_scaled(g, node.inputs[0])
        or len(g.value(node.outputs[0]).shape) != 2
    ):
        return None
    return _Row(node.inputs[0], machine(points.T, PRODUCTS, (), np.zeros(0), np.zeros(0)), ())


def _next(g: Graph, node: Node, rows: Mapping[str, _Row]) -> _Row | None:
    """The row that a node makes of rows and constants."""
    known = [rows[i] for i in node.inputs if i in rows]
    shapes = [g.value(name).shape for name in (node.inputs[0], node.outputs[0])] if node.inputs and known else []
    sizes = [g.value(i).size for i in (*node.inputs, *node.outputs) if i in rows or i in node.outputs]
    if not known or any(max(s, default=1) != int(np.prod(s)) for s in shapes):
        return None
    row, data = known[0], [g.data(i) for i in node.inputs if i not in rows]
    if len(known) == 1 and (node.op in _MOVES or renames(node)) and sizes[0] == sizes[-1]:
        return row
    if any(a is None for a in data):
        return None
    if node.op in _SUMS and node.inputs[0] in rows and len(known) == 1:
        return _SUMS[node.op](g, node, row)
    if len(known) == 2 and len(node.inputs) == 2:
        return _both(node, *known) if max(sizes[:2]) == sizes[2] else None
    if row.plain and len(node.inputs) == 1:
        function = _FUNCTIONS.get(node.op)
        return row.then(function) if function else row.then("affine", -1.0, 0.0) if node.op == "Neg" else None
    if len(node.inputs) != 2 or sizes[0] != sizes[-1] or len(known) != 1:
        return None
    return _with_constant(node.op, row, np.asarray(data[0], np.float64).reshape(-1), node.inputs[0] in rows)


def _with_constant(op: str, row: _Row, c: np.ndarray, first: bool) -> _Row | None:
    """c: one number or one for each of the row. first: the row is the operator's first operand."""
    one = float(c[0])
    if row.plain and c.size == 1:
        if (op, first) in (("Pow", True), ("Div", False)):
            return row.then("power" if first else "reciprocal", one)
        if op in ("Max", "Min"):
            return row.then("clip", *((one, None) if op == "Max" else (None, one)))
    by = 1 / c if op == "Div" and first else c if op == "Mul" else None
    if by is None and op not in ("Add", "Sub"):
        return None
    factor = by if by is not None else np.array([1.0 if first or op == "Add" else -1.0])
    shift = np.zeros(1) if by is not None else -c if first and op == "Sub" else c
    if row.plain and c.size == 1:
        return row.then("affine", float(factor[0]), float(shift[0]))
    return row.moved(factor, shift)


def _both(node: Node, a: _Row, b: _Row) -> _Row | None:
    if (a.x, a.vectors) != (b.x, b.vectors) or node.op not in ("Add", "Div", "Mul", "Sub"):
        return None
    if a.plain and b.plain:
        offset = len(a.program)
        moved = [(op, at, tuple(o if o == "v0" else f"v{int(o[1:]) + offset}" for o in of)) for op, at, of in b.program]
        ends = (f"v{offset}", f"v{offset + len(moved)}" if moved else "v0")
        attrs = {"signs": (1, -1 if node.op == "Sub" else 1)}
        last = (node.op if node.op in ("Div", "Mul") else "Add", attrs, ends)
        return replace(a, program=(*a.program, *moved, last))
    if a.program != b.program or node.op not in ("Add", "Sub"):
        return None
    sign = -1.0 if node.op == "Sub" else 1.0
    (matrix, bias), (other, shift) = a.sums, b.sums
    return replace(a, matrix=matrix + sign * other, bias=bias + sign * shift)


def _product(g: Graph, node: Node, row: _Row) -> _Row | None:
    w = np.asarray(g.data(node.inputs[1]), np.float64)
    w = (w.T if node.attrs.get("transB") else w) * node.attrs.get("alpha", 1.0)
    matrix, bias = row.sums
    if (
        node.attrs.get("transA")
        or w.ndim > 2
        or w.shape[0] != matrix.shape[1]
        or g.value(node.inputs[0]).shape[-1] != len(w)
    ):
        return None
    w = w.reshape(len(w), -1)
    more = g.data(node.inputs[2]) if len(node.inputs) > 2 else None
    shift = 0.0 if more is None else node.attrs.get("beta", 1.0) * np.asarray(more, np.float64).reshape(-1)
    return replace(row, matrix=matrix @ w, bias=bias @ w + shift)


def _total(g: Graph, node: Node, row: _Row) -> _Row | None:
    matrix, bias = row.sums
    shape, places = g.value(node.inputs[0]).shape, node.attrs.get("axes")
    if len(node.inputs) > 1:
        places = np.asarray(g.data(node.inputs[1])).reshape(-1).tolist()
    reduced = range(len(shape)) if not places else [a % len(shape) for a in places]
    if matrix.shape[1] > 1 and shape.index(max(shape)) not in reduced:
        return row
    by = 1.0 / matrix.shape[1] if node.op == "ReduceMean" else 1.0
    return replace(row, matrix=matrix.sum(axis=1, keepdims=True) * by, bias=bias.sum(keepdims=True) * by)


_SUMS: Mapping[str, Callable[[Graph, Node, _Row], _Row | None]] = {
    "Gemm": _product,
    "MatMul": _product,
    "ReduceMean": _total,
    "ReduceSum": _total,
}


def _become(g: Graph, node: Node, row: _Row) -> None:
    """The value of a node as a machine's."""
    points = row.vectors.points
    if row.matrix is None and len(points) > MOST_POINTS:
        raise ValueError(f"node '{node.name}' needs {len(points)} distances one by one; {MOST_POINTS} are supported")
    matrix, bias = row.sums
    vectors = replace(row.vectors, program=row.program, factors=matrix, bias=bias)
    _emit(g, node, row.x, vectors, len(bias))


def _emit(g: Graph, node: Node, x: str, vectors: Machine | Neighbours, n: int) -> None:
    made = g.new_value(f"{node.outputs[0]}.of_rows", (1, n))
    g.insert_before(node, Node(OP, node.name, [x], [made], {"vectors": vectors}))
    shape = g.new_const(f"{node.outputs[0]}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [made, shape], {}


def _outlier_factor(g: Graph, top: Node, row: _Row) -> None:
    """Rewrites what a LocalOutlierFactor computes of the nearest distances and their places."""
    k = g.data(top.inputs[1]) if len(top.inputs) > 1 else None
    if (
        k is None
        or top.attrs.get("largest", 1)
        or row.program != _ROOT
        or row.vectors.measure != SQUARES
        or not row.plain
    ):
        return
    producers, tables = g.producers(), _picked(g, top.outputs[1], len(row.vectors.points))
    for node in [n for n in g.nodes if n.op == "ReduceMean"]:
        ratio = producers.get(node.inputs[0])
        if ratio is None or ratio.op != "Div" or ratio.inputs[0] not in tables or g.value(node.outputs[0]).size != 1:
            continue
        reach = _reach(g, producers, ratio.inputs[1], top.outputs[0], tables)
        if reach is None:
            continue
        means = []
        for weights, value in ((UNIFORM, tables[ratio.inputs[0]]), (REACH, reach)):
            v = row.vectors
            near = Neighbours(
                v.points, v.measure, v.factor, v.shift, v.missing, weights=weights, k=int(k.reshape(-1)[0]),
                target=np.zeros(len(value), np.int64), value=value, numbers=1,
            )  # fmt: skip
            means.append(g.new_value(f"{node.outputs[0]}.mean", (1, 1)))
            g.insert_before(node, Node(OP, node.name, [row.x], [means[-1]], {"vectors": near}))
        product = g.new_value(f"{node.outputs[0]}.product", (1, 1))
        g.insert_before(node, Node("Mul", node.name, means, [product], {}))
        shape = g.new_const(f"{node.outputs[0]}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
        node.op, node.inputs, node.attrs = "Reshape", [product, shape], {}


def _picked(g: Graph, places: str, points: int) -> dict[str, np.ndarray]:
    """Values that hold a constant's number for each of the places: these numbers [points]."""
    tables: dict[str, np.ndarray] = {}
    for node in g.nodes:
        data, out = g.data(node.inputs[0]) if node.inputs else None, node.outputs[0]
        if node.op == "Gather" and node.inputs[1] == places and data is not None and len(data) == points:
            if node.attrs.get("axis", 0) == 0:
                tables[out] = np.asarray(data, np.float64)
        elif node.inputs and node.inputs[0] in tables:
            table, axis, at = tables[node.inputs[0]], int(node.attrs.get("axis", 0)), g.data((*node.inputs, "")[1])
            if node.op == "Gather" and at is not None and axis > 1 and at.size == 1:
                tables[out] = np.take(table, at.reshape(-1), axis=axis - 1)
            elif node.op in _MOVES and table.size == points:
                tables[out] = table.reshape(-1)
    return tables


def _reach(
    g: Graph, makers: Mapping[str, Node], density: str, distances: str, tables: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """[S] where a value is 1 / (the mean of Max(distances, what is picked of these) + nearly nothing)."""
    path: list[tuple[str, Callable[[Node], Sequence[str]]]] = [
        ("Div", lambda n: n.inputs[1:] if g.is_const(n.inputs[0]) else []),
        ("Add", lambda n: [i for i in n.inputs if not g.is_const(i)]),
        ("ReduceMean", lambda n: n.inputs[:1]),
    ]
    name = density
    for op, behind in path:
        node = makers.get(name)
        found = list(behind(node)) if node is not None and node.op == op else []
        if len(found) != 1:
            return None
        name = found[0]
    node = makers.get(name)
    if node is None or node.op != "Max" or len(node.inputs) != 2:
        return None
    reach = next((tables[i] for i in node.inputs if i in tables and tables[i].size == len(tables[i])), None)
    name, sign = next((i for i in node.inputs if i not in tables), ""), 1.0
    while (node := makers.get(name)) is not None and node.op == "Mul" and (c := g.data(node.inputs[1])) is not None:
        name, sign = node.inputs[0], sign * float(c.reshape(-1)[0])
    return reach if name == distances and sign == 1.0 else None
