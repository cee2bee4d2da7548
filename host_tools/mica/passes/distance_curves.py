"""Curves of the distances to constant points, and weighted sums of these, are machines: kernel methods, in one step.

d = VectorEnsemble(x), a distance for each point [1, S]
MatMul(Exp(d * -0.5), w) + b                        =>   VectorEnsemble(x), a machine; any functions, then sums
Pow(MatMul(x, points) * a + b, 2), then MatMul      =>   likewise, of products

So scikit-learn's KernelPCA and GaussianProcessRegressor keep distances in 32 bits. `nearest_rows.py` has what stands
behind a TopK of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.vectors import Machine, Program, machine, unary
from mica.kernels.vectors import PRODUCTS
from mica.passes import dead_code
from mica.passes.leaf_values import given_scaled, renames
from mica.passes.nearest_rows import OP, Nearest, emit, reshape

MOST_POINTS = 512  # whose curves are read one by one
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
        """Return True if functions may follow: nothing has been summed or shifted."""
        return self.matrix is None and self.bias is None

    @property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return matrix [S, N] and bias [N]."""
        matrix = np.eye(len(self.vectors.points)) if self.matrix is None else self.matrix
        return matrix, np.zeros(matrix.shape[1]) if self.bias is None else self.bias

    def then(self, function: str, *arguments: float) -> "_Row":
        return replace(self, program=(*self.program, unary(function, len(self.program), *arguments)))

    def moved(self, factor: np.ndarray, shift: np.ndarray) -> "_Row":
        """Return the row times factor, plus shift, each [N] or [1]."""
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
        row, k = rows.get(node.inputs[0]) if node.op == "TopK" else None, g.data((*node.inputs, "", "")[1])
        if (
            row is not None
            and k is not None
            and row.plain
            and row.program in ((), _ROOT)
            and not node.attrs.get("largest", 1)
        ):
            Nearest(g, row.x, row.vectors, node, bool(row.program), int(k.reshape(-1)[0])).run()
    g = dead_code.run(g)
    readers = g.consumers()
    for node in [n for n in g.nodes if n.outputs[0] in rows]:
        y = node.outputs[0]
        row = rows[y]
        if (y in g.outputs or any(r.outputs[0] not in rows for r in readers.get(y, []))) and _worth(row):
            _become(g, node, row)
    return dead_code.run(g)


def _worth(row: _Row) -> bool:
    """Return True for distances, and for sums of a function of products with more rows than features, without a bias;
    other products are a layer, as those of a QuadraticDiscriminantAnalysis."""
    if row.vectors.measure != PRODUCTS:
        return True
    if len(row.vectors.points) <= row.vectors.points.shape[1]:
        return False
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
    """Return the row that a node makes of rows and constants."""
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
    """Return the row and a constant joined. c: [1] or a number each. first: the row is the first operand."""
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
    """Put a machine in the place of a node."""
    points = row.vectors.points
    if row.matrix is None and len(points) > MOST_POINTS:
        raise ValueError(f"node '{node.name}' needs {len(points)} distances one by one; {MOST_POINTS} are supported")
    matrix, bias = row.sums
    vectors = replace(row.vectors, program=row.program, factors=matrix, bias=bias)
    reshape(g, node, emit(g, node, row.x, vectors, len(bias)))
