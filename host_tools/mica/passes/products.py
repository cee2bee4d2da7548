"""Products of features, as PolynomialFeatures writes them, one after the other.

Concat(ReduceProd(Gather(x, [i, j])), ReduceProd(Gather(x, [k])), 1)   =>   Mul(Gather(z, [i, k, n]), Gather(z, [j, n, n]))
ReduceProd(x)                                                          =>   likewise, of one

z is Concat(x, 1), x one row of n features. Constants beside the products are columns of z, too.
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
        last = len(g.value(node.outputs[0]).shape) - 1
        if node.op == "Concat" and node.attrs.get("axis") in (-1, last):
            _rewrite(g, node, [_factors(g, i, producers) for i in node.inputs])
    for node in list(dead_code.run(g).nodes):
        if node.op == "ReduceProd":
            _rewrite(g, node, [_factors(g, node.outputs[0], producers)])
    return dead_code.run(g)


def _factors(g: Graph, name: str, producers: dict[str, Node]) -> tuple[str, np.ndarray] | None:
    """(row, which of its numbers are multiplied), or ("", a constant number)."""
    if (data := g.data(name)) is not None:
        return ("", data.reshape(-1)) if data.size == 1 else None
    node = producers.get(name)
    if node is None or node.op != "ReduceProd" or g.value(name).size != 1:
        return None
    x = node.inputs[0]
    places, maker = np.arange(g.value(x).size), producers.get(x)
    at = g.data(maker.inputs[1]) if maker is not None and maker.op == "Gather" else None
    if maker is not None and at is not None and maker.attrs.get("axis", 0) in (-1, len(g.value(x).shape) - 1):
        x, places = maker.inputs[0], at.reshape(-1)
    row = g.value(x).size == g.value(x).shape[-1] and 0 < len(places) <= MOST
    return (x, places) if row else None


def _rewrite(g: Graph, node: Node, parts: Sequence[tuple[str, np.ndarray] | None]) -> None:
    known = [p for p in parts if p is not None]
    rows = {x for x, _ in known if x}
    if len(known) < len(parts) or len(rows) != 1:
        return
    (x,) = rows
    shape, out = g.value(x).shape, node.outputs[0]
    n = shape[-1]
    ones = np.concatenate([np.ones(1, np.float32), *(c.astype(np.float32) for r, c in known if not r)])
    degree = max(len(p) for r, p in known if r)
    table = np.full((degree, len(known)), n, np.int64)  # the column of ones
    constant = n
    for k, (r, p) in enumerate(known):
        constant += not r
        table[: len(p) if r else 1, k] = p if r else constant

    def emit(op: str, inputs: list[str], width: int, **attrs: int) -> str:
        y = g.new_value(f"{out}.{op.lower()}", (*shape[:-1], width))
        g.insert_before(node, Node(op, node.name, inputs, [y], attrs))
        return y

    z = x
    if table.max() >= n:
        z = emit(
            "Concat", [x, g.new_const(f"{out}.ones", ones.reshape(*[1] * (len(shape) - 1), -1))], n + len(ones), axis=-1
        )
    factors = [emit("Gather", [z, g.new_const(f"{out}.places", row)], len(known), axis=len(shape) - 1) for row in table]
    while len(factors) > 1:
        factors[:2] = [emit("Mul", factors[:2], len(known))]
    shape_of = g.new_const(f"{out}.shape", np.array(g.value(out).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [factors[0], shape_of], {}
