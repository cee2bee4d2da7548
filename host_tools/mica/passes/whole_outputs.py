"""Outputs that are whole numbers within known bounds, as labels of detectors are, keep these numbers: their scale is 1.

y = Cast(Sign(x), to=int64)                       =>   y = 2 * (x > 0) - 1,
                                                       scale 1: rounded scores are 0 where real ones are not
y = Add(Mul(Cast(Less(x, 0), to=int64), 2), -1)   =>   likewise
"""

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.ir.whole import ARITHMETIC, bounds, small
from mica.passes.index_inputs import INTEGER_TYPES


def run(g: Graph) -> Graph:
    producers = g.producers()
    for name in g.outputs:
        y, node = g.value(name), producers.get(name)
        found = bounds(g, name)
        if node is None or y.quant is not None or not small(found) or found == (0, 1):  # truths have that scale anyway
            continue
        if node.op == "Cast" and node.attrs.get("to") in INTEGER_TYPES:
            sign = producers[node.inputs[0]]
            if sign.op == "Sign":
                _as_truth(g, node, sign.inputs[0])
            else:
                node.op, node.attrs = "Identity", {}
                g.value(node.inputs[0]).quant = Quant(1.0, 0)
        elif node.op not in ARITHMETIC:
            continue
        y.quant = Quant(1.0, 0)
    return g


def _as_truth(g: Graph, node: Node, x: str) -> None:
    for op, c in (("Greater", 0.0), ("Mul", 2.0)):
        y = g.new_value(f"{node.name}.{op.lower()}", g.value(x).shape)
        g.insert_before(node, Node(op, node.name, [x, g.new_const(f"{y}.by", np.array(c, np.float32))], [y], {}))
        x = y
    node.op, node.attrs = "Sub", {}
    node.inputs = [x, g.new_const(f"{node.name}.one", np.ones((), np.float32))]
