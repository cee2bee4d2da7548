"""Products of features, as PolynomialFeatures writes them, one after the other; and others, element by element.

Concat(ReduceProd(Gather(x, [i, j])), ReduceProd(Gather(x, [k])), 1)   =>   Mul(Gather(z, [i, k, n]), Gather(z, [j, n, n + 1]))
ReduceProd(x), two elements along an axis                             =>   Mul(Gather(x, [0]), Gather(x, [1]))

z is Concat(x, 1, 1), x one row of n features. Constants beside the products are columns of z, behind a first 1.
"""

from collections.abc import Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code

MOST = 64  # factors


def run(g: Graph) -> Graph:
    if not any(n.op == "ReduceProd" for n in g.nodes):
        return g
    producers = g.producers()
    for node in list(g.nodes):
        if node.op == "Concat" and node.attrs.get("axis") in (-1, len(g.value(node.outputs[0]).shape) - 1):
            _rewrite(g, node, [_factors(g, i, producers) for i in node.inputs])
    for node in list(dead_code.run(g).nodes):
        if node.op == "ReduceProd":
            _in_turn(g, node)
    return g


def _emit(g: Graph, node: Node, op: str, inputs: list[str], shape: Sequence[int], **attrs: int) -> str:
    y = g.new_value(f"{node.outputs[0]}.{op.lower()}", shape)
    g.insert_before(node, Node(op, node.name, inputs, [y], attrs))
    return y


def _finish(g: Graph, node: Node, factors: list[str]) -> None:
    """The node's value is the product of these, neighbours first."""
    shape = g.value(factors[0]).shape
    while len(factors) > 1:
        pairs = [factors[k : k + 2] for k in range(0, len(factors), 2)]
        factors = [_emit(g, node, "Mul", p, shape) if len(p) > 1 else p[0] for p in pairs]
    final = g.new_const(f"{node.outputs[0]}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [factors[0], final], {}


def _in_turn(g: Graph, node: Node) -> None:
    x = node.inputs[0]
    shape, axes = g.value(x).shape, node.attrs.get("axes")
    if axes is None and len(node.inputs) > 1:
        axes = g.data(node.inputs[1])
        if axes is None:
            return
    if (axes is None or len(axes) == 0) and not node.attrs.get("noop_with_empty_axes"):
        axes = range(len(shape))
    factors = [x]
    for axis in [] if axes is None else [int(a) % len(shape) for a in axes]:
        shape = (*shape[:axis], 1, *shape[axis + 1 :])
        places = [g.new_const(f"{x}.place", np.array([k])) for k in range(g.value(x).shape[axis])]
        if len(places) * len(factors) > MOST:
            return
        factors = [_emit(g, node, "Gather", [f, p], shape, axis=axis) for f in factors for p in places]
    _finish(g, node, factors)


def _factors(g: Graph, name: str, producers: dict[str, Node]) -> tuple[str, np.ndarray] | None:
    """(row, which of its numbers are multiplied), or ("", a constant number)."""
    if (data := g.data(name)) is not None:
        return ("", data.reshape(-1)) if data.size == 1 else None
    node = producers.get(name)
    if node is None or node.op != "ReduceProd" or g.value(name).size != 1:
        return None
    maker = producers.get(node.inputs[0])
    at = g.data(maker.inputs[1]) if maker is not None and maker.op == "Gather" else None
    if maker is None or at is None or not 0 < at.size <= MOST:
        return None
    x = g.value(maker.inputs[0])
    row = x.size == x.shape[-1] and maker.attrs.get("axis", 0) in (-1, len(x.shape) - 1)
    return (x.name, at.reshape(-1) % x.size) if row and (at < x.size).all() and (at >= -x.size).all() else None


def _rewrite(g: Graph, node: Node, parts: Sequence[tuple[str, np.ndarray] | None]) -> None:
    known = [p for p in parts if p is not None]
    rows = {x for x, _ in known if x}
    if len(known) < len(parts) or len(rows) != 1:
        return
    (x,) = rows
    *before, n = g.value(x).shape
    table = np.full((max(len(p) for r, p in known if r), len(known)), n, np.int64)  # the column of ones
    numbers = [1.0]
    for k, (r, p) in enumerate(known):
        if r:
            table[: len(p), k] = p
        else:
            table[0, k] = n + len(numbers)
            numbers.append(float(p[0]))
    ones = g.new_const(f"{x}.ones", np.array(numbers, np.float32).reshape(*[1] * len(before), -1))
    z = _emit(g, node, "Concat", [x, ones], (*before, n + len(numbers)), axis=len(before)) if table.max() >= n else x
    places = [g.new_const(f"{x}.places", row) for row in table]
    _finish(g, node, [_emit(g, node, "Gather", [z, p], (*before, len(known)), axis=len(before)) for p in places])
