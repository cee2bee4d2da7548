"""Attention over as many rows as an input says becomes one operator.

    y = MatMul(Softmax(Mask(MatMul(q, k^T) * factor, table[length])), v)   =>   y = Attend(q, k, v, length)

where row n of the table leaves out all but the first n places, or all but place n and those before it: more = 1.
So the scores stay int32, and rows that are left out cost nothing.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import dead_code


def run(g: Graph) -> Graph:
    producers = g.producers()
    consumers = g.consumers()

    def maker(name: str, op: str) -> Node | None:
        """The node that makes a value, if it is of this kind and nobody else reads it."""
        node = producers.get(name)
        return node if node is not None and node.op == op and g.sole_consumer(name, consumers) is not None else None

    for node in g.nodes:
        if node.op != "MatMul" or node.attrs["transpose_b"] or not (node.attrs["factor"] == 1.0 and _open(node)):
            continue
        softmax = maker(node.inputs[0], "Softmax")
        mask = softmax and maker(softmax.inputs[0], "Mask")
        product = mask and maker(mask.inputs[0], "MatMul")
        if mask is None or product is None or not product.attrs["transpose_b"] or product.attrs["factor"] <= 0:
            continue
        q, k, v = *product.inputs, node.inputs[1]
        shapes = [g.value(i).shape for i in (q, k, v)]
        found = _length(g, producers, mask.inputs[1], shapes[1][-2])
        alike = len({s[:-2] for s in shapes}) == 1 and not any(g.is_const(i) or g.value(i).quant for i in (q, k, v))
        between = (product.outputs[0], mask.outputs[0], node.inputs[0], node.outputs[0])
        if found is None or not alike or not _open(product) or any(g.value(i).quant is not None for i in between):
            continue
        length, more = found
        node.op, node.inputs = "Attend", [q, k, v, length]
        node.attrs = {"factor": product.attrs["factor"], "more": more}
    return dead_code.run(g)


def _open(node: Node) -> bool:
    return all(bound is None for bound in node.attrs["clip"])


def _length(g: Graph, producers: dict[str, Node], mask: str, rows: int) -> tuple[str, int] | None:
    """(index of the row, k) if row n of a mask [.., rows] leaves out places from n + k on (k 0 or 1), else None."""
    while (node := producers.get(mask)) is not None and node.op == "Reshape":
        mask = node.inputs[0]
    if node is None or node.op != "Embedding" or g.value(node.inputs[0]).size != 1:
        return None
    table = np.asarray(g.data(node.inputs[1])) > 0.5
    for more in (0, 1):
        if np.array_equal(table, np.arange(rows)[None] >= np.arange(rows + 1)[:, None] + more):
            return node.inputs[0], more
    return None
