"""A rotary embedding in small operators becomes one.

    a, b = halves of x;  y = Concat(a * c - b * s, a * s + b * c)   =>   y = Rotate(x, c, s)

c and s hold a row for all rows of x, or one for each row along some of its axes.
"""

import math

from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import same
from mica.passes import dead_code

Shape = tuple[int, ...]


def run(g: Graph) -> Graph:
    producers = g.producers()
    for node in g.nodes:
        found = _rotation(g, producers, node) if node.op == "Concat" else None
        if found is not None:
            x, c, s, inner = found
            node.op, node.inputs, node.attrs = "Rotate", [x, c, s], {"inner": inner}
    return dead_code.run(g)


def _rotation(g: Graph, producers: dict[str, Node], node: Node) -> tuple[str, str, str, int] | None:
    """x, cosines, sines, and rows of x for each row of them."""
    shape = g.value(node.outputs[0]).shape
    if len(node.inputs) != 2 or node.attrs["axis"] != len(shape) - 1:
        return None
    sums = [producers.get(i) for i in node.inputs]
    pairs = []
    for total, signs in zip(sums, ((1, -1), (1, 1)), strict=True):
        if total is None or total.op != "Add" or total.attrs["signs"] != signs or total.attrs["clip"] != (None, None):
            return None
        products = [producers.get(i) for i in total.inputs]
        if any(p is None or p.op != "Mul" or p.attrs["clip"] != (None, None) for p in products):
            return None
        pairs.append([frozenset(p.inputs) for p in products if p is not None])
    for a in pairs[0][0]:
        for b in pairs[0][1]:
            c, s = pairs[0][0] - {a}, pairs[0][1] - {b}
            x = _halves(g, producers, a, b, shape)
            if x is None or len(c) != 1 or len(s) != 1 or {c | {b}, s | {a}} != set(pairs[1]):
                continue
            (cosines,), (sines,) = c, s
            inner = _inner(g.value(cosines).shape, shape)
            values = (x, cosines, sines, *node.inputs)
            plain = not any(g.is_const(i) or g.value(i).quant is not None for i in values)
            if plain and inner and g.value(cosines).shape == g.value(sines).shape:
                return x, cosines, sines, inner
    return None


def _halves(g: Graph, producers: dict[str, Node], a: str, b: str, shape: Shape) -> str | None:
    """The value of this shape whose first and second half along the last axis are a and b; None if there is none."""
    nodes = [producers.get(i) for i in (a, b)]
    half = shape[-1] // 2
    for node, begin in zip(nodes, (0, half), strict=True):
        if node is None or node.op != "Remap" or g.value(node.inputs[0]).shape != shape:
            return None
        if node.attrs["axes"] != (*(same(n) for n in shape[:-1]), (begin, ((half, 1),))):
            return None
    first, second = (node.inputs[0] for node in nodes if node is not None)
    return first if first == second else None


def _inner(rows: Shape, shape: Shape) -> int:
    """Tell of how many rows in turn of `shape` each row is, which is broadcast to it; 0: that is not how they go."""
    if rows[-1] * 2 != shape[-1]:
        return 0
    lead, places = rows[:-1], shape[:-1]
    lead = (1,) * (len(places) - len(lead)) + lead
    moving = [i for i, (n, all_) in enumerate(zip(lead, places, strict=True)) if n != 1 and all_ != 1]
    if not moving:
        return math.prod(places)
    first, last = moving[0], moving[-1]
    if any(lead[i] != places[i] for i in range(first, last + 1)):
        return 0
    return math.prod(places[last + 1 :])
