"""Products of features, as PolynomialFeatures writes them, one after the other; and others, element by element.

y = Concat(1, ReduceProd(Gather(x, [k])), ReduceProd(Gather(x, [i, j])), ReduceProd(Gather(x, [i, j, k])))
    =>   Concat(1, Gather(x, [k]), Mul(Mul(Gather(z, [i, i]), Gather(z, [j, j])), Gather(z, [n, k])))
ReduceProd(x), two elements along an axis    =>   Mul(Gather(x, [0]), Gather(x, [1]))

x is one row of n features, z Concat(x, 1).
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


def _product(g: Graph, node: Node, factors: list[str]) -> str:
    """Return the product of these, neighbours first."""
    while len(factors) > 1:
        pairs = [factors[k : k + 2] for k in range(0, len(factors), 2)]
        factors = [_emit(g, node, "Mul", p, g.value(p[0]).shape) if len(p) > 1 else p[0] for p in pairs]
    return factors[0]


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
    final = g.new_const(f"{node.outputs[0]}.shape", np.array(g.value(node.outputs[0]).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [_product(g, node, factors), final], {}


def _factors(g: Graph, name: str, producers: dict[str, Node]) -> tuple[str, np.ndarray] | None:
    """(row, which of its numbers are multiplied), or ("", a constant number)."""
    if (data := g.data(name)) is not None:
        return ("", data.reshape(-1)) if data.size == 1 else None
    node = producers.get(name)
    if node is None or node.op != "ReduceProd" or g.value(name).size != 1:
        return None
    name, places = node.inputs[0], None
    while (maker := producers.get(name)) is not None and maker.op == "Gather":
        x, at = g.value(maker.inputs[0]), g.data(maker.inputs[1])
        row = x.size == x.shape[-1] and maker.attrs.get("axis", 0) in (-1, len(x.shape) - 1)
        if (
            at is None
            or not row
            or not 0 < at.size <= max(MOST, x.size)
            or (at >= x.size).any()
            or (at < -x.size).any()
        ):
            break
        at = at.reshape(-1) % x.size
        name, places = x.name, at if places is None else at[places]
    return (name, places) if places is not None and len(places) <= MOST else None


def _rewrite(g: Graph, node: Node, parts: Sequence[tuple[str, np.ndarray] | None]) -> None:
    known = [p for p in parts if p is not None]
    rows = {x for x, _ in known if x}
    kinds = [min(len(p), 2) if r else 0 for r, p in known]
    if len(known) < len(parts) or len(rows) != 1 or kinds != sorted(kinds):
        return
    (x,) = rows
    *before, n = g.value(x).shape
    axis = len(before)
    if axis + 1 != len(g.value(node.outputs[0]).shape):
        return
    made = [i for i, kind in zip(node.inputs, kinds, strict=True) if kind == 0]
    for some in ([p for p in known if p[0] and len(p[1]) == 1], [p for p in known if len(p[1]) > 1]):
        table = np.full((max((len(p) for _, p in some), default=0), len(some)), n, np.int64)  # a column of ones
        for k, (_, p) in enumerate(some):
            table[: len(p), k] = p
        z = x
        if table.max(initial=0) == n:
            one = g.new_const(f"{x}.one", np.ones((*before, 1), np.float32))
            z = _emit(g, node, "Concat", [x, one], (*before, n + 1), axis=axis)
        places = [g.new_const(f"{x}.places", row) for row in table]
        factors = [_emit(g, node, "Gather", [z, p], (*before, len(some)), axis=axis) for p in places]
        made += [_product(g, node, factors)] if factors else []
    node.inputs = made
