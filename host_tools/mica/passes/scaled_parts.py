"""A scaler behind a Concat scales the parts, where some of these are features that the model is given, and others are computed.

Mul(Sub(Concat(a, x), mean), scale)   =>   Concat(Mul(Sub(a, mean_a), scale_a), Mul(Sub(x, mean_x), scale_x))

So a feature of 1000 that a ColumnTransformer passes on needs no scale with bins from 0 to 3: `features.py` reads it as float32.
"""

from collections.abc import Mapping

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.leaf_values import given

_ARITHMETIC = ("Add", "Div", "Mul", "Sub")


def run(g: Graph) -> Graph:
    producers = g.producers()
    for node in [n for n in g.nodes if n.op in _ARITHMETIC and g.is_const(n.inputs[1])]:
        x, c = node.inputs[0], np.asarray(g.data(node.inputs[1]))
        concat = producers.get(x)
        if concat is None or concat.op != "Concat" or len(g.consumers()[x]) != 1 or x in g.outputs:
            continue
        sizes = [g.value(i).shape[-1] for i in concat.inputs]
        last = concat.attrs.get("axis") in (-1, len(g.value(x).shape) - 1)
        if not last or c.size != sum(sizes) or len({_raw(g, producers, i) for i in concat.inputs}) < 2:
            continue
        made = [g.new_value(f"{i}.scaled", g.value(i).shape) for i in concat.inputs]
        parts = np.split(c.reshape(-1), np.cumsum(sizes)[:-1])
        for i, out, part in zip(concat.inputs, made, parts, strict=True):
            g.insert_before(node, Node(node.op, node.name, [i, g.new_const(f"{out}.part", part)], [out]))
        node.op, node.inputs, node.attrs = "Concat", made, concat.attrs
        g.remove(concat)
        producers = g.producers()
    return g


def _raw(g: Graph, producers: Mapping[str, Node], name: str) -> bool:
    """True for features that are given, whatever constants scale them."""
    while (node := producers.get(name)) is not None and node.op in _ARITHMETIC and g.is_const(node.inputs[1]):
        name = node.inputs[0]
    return not g.is_const(name) and given(g, producers, name) is not None
