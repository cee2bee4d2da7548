"""One row of a cache, scattered at a place that an input says, is a TensorScatter.

ScatterElements(x, Expand(i), rows)     =>   TensorScatter(x, rows, i), where rows is one row along the axis and i one
                                             number
ScatterND(x, i, rows)                   =>   likewise along the first axis

So exporters write `cache.index_copy(2, i, rows)`, `cache.scatter(...)` and `cache[i] = rows`.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code
from mica.passes.index_inputs import whole_number


def run(g: Graph) -> Graph:
    producers = g.producers()
    for node in list(g.nodes):
        if node.op not in ("ScatterElements", "ScatterND", "Scatter") or node.attrs.get("reduction", "none") != "none":
            continue
        x, indices, rows = node.inputs
        at = whole_number(g, indices, producers, ("Expand", "Tile"))
        if g.is_const(indices) or at is None or g.value(at).size != 1:
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
