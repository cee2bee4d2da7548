"""One row of a cache, scattered at a place that an input says, is a TensorScatter.

ScatterElements(x, Expand(i), rows)     =>   TensorScatter(x, rows, i), where rows is one row along the axis and i one number
ScatterND(x, i, rows)                   =>   likewise along the first axis

So exporters write `cache.index_copy(2, i, rows)`, `cache.scatter(...)` and `cache[i] = rows`.
"""

from __future__ import annotations

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code
from mica.passes.index_inputs import INTEGER_TYPES, INTEGERS, RENAMES


def run(g: Graph) -> Graph:
    producers = g.producers()
    for node in list(g.nodes):
        if node.op not in ("ScatterElements", "ScatterND", "Scatter") or node.attrs.get("reduction", "none") != "none":
            continue
        x, indices, rows = node.inputs
        if g.is_const(indices) or (at := _number(g, indices, producers)) is None:
            continue
        shape = g.value(x).shape
        axis = int(node.attrs.get("axis", 0)) % max(len(shape), 1) if node.op != "ScatterND" else 0
        one = (*shape[:axis], 1, *shape[axis + 1 :])
        if node.op == "ScatterND" and g.value(indices).shape[-1:] == (1,) and g.value(rows).size == int(np.prod(one)):
            news = g.new_value(f"{rows}.row", one)
            g.insert_before(
                node, Node("Reshape", node.name, [rows, g.new_const(f"{rows}.shape", np.array(one))], [news])
            )
            rows = news
        if g.value(rows).shape != one or (node.op != "ScatterND" and g.value(indices).shape != one):
            continue
        node.op, node.inputs, node.attrs = "TensorScatter", [x, rows, at], {"axis": axis}
    return dead_code.run(g)  # the copies of the place


def _number(g: Graph, x: str, producers: dict[str, Node]) -> str | None:
    """The input of one whole number whose copies a value is, under the name that it has there; None where there is none."""
    while x not in g.inputs:
        node = producers.get(x)
        renamed = node is not None and (node.op in RENAMES or node.op in ("Expand", "Tile"))
        if node is None or not (renamed or (node.op == "Cast" and node.attrs.get("to") in INTEGER_TYPES)):
            return None
        x = node.inputs[0]
    return x if g.value(x).size == 1 and g.value(x).dtype in INTEGERS else None
