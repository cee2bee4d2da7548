"""An embedding and the head that reads its table have it once in the file, in eight bits.

    Embedding(i, T), FullyConnected(x, T, b)  =>  the same with T = integers * s;
    Embedding.attrs["offset_table"] = True of both

The head's rows lie with 128 added to each byte (`offset_rows`), and so does the table: the embedding's rows are the
same bytes, which a table of 256 entries behind it takes back (`kernels/movement.py`).
One step for all rows costs a head less than four bits do, and its weights cost the file nothing.
"""

from dataclasses import replace

import numpy as np

from mica.format.weights import OFFSET_ROWS
from mica.ir.graph import Graph, Node, Quant
from mica.quantise import rounding
from mica.quantise.kernels.common import OFFSET_TABLE
from mica.quantise.kernels.linear import weight_scales
from mica.quantise.params import choose_quants
from mica.quantise.tune import Tuned, copy


def run(tuned: Tuned) -> Tuned:
    """The network with such tables once; itself where it has none."""
    quants = choose_quants(tuned.exact, tuned.ranges)
    exact, graph = copy(tuned.exact), copy(tuned.graph)
    for embedding, head in _pairs(tuned.exact):
        name = embedding.inputs[1]
        table, bias = (np.asarray(tuned.exact.data(i), np.float64) for i in head.inputs[1:])
        if not (np.all(np.isfinite(table)) and np.all(np.isfinite(bias))):
            continue  # refused by the step's quantiser, with its name
        step = float(np.float32(weight_scales(table, bias, quants[head.inputs[0]], quants[head.outputs[0]]).max()))
        for g in (exact, graph):
            producers = g.producers()
            g.values[name] = replace(g.value(name), quant=Quant(step, 0))
            for node in (embedding, head):
                producers[node.outputs[0]].attrs[OFFSET_TABLE] = True
        of_head = graph.producers()[head.outputs[0]]
        of_head.inputs[1:] = head.inputs[1:]
        steps = np.full(len(table), step)
        rounding.set_weights(graph, of_head, rounding.nearest(table, steps), steps)
    return replace(tuned, exact=exact, graph=graph)


def _pairs(g: Graph) -> list[tuple[Node, Node]]:
    """Embeddings and the heads that alone read their tables with them."""
    result = []
    for embedding in (n for n in g.nodes if n.op == "Embedding"):
        name = embedding.inputs[1]
        readers = [n for n in g.nodes if name in n.inputs]
        heads = [n for n in readers if n.op == "FullyConnected" and n.inputs[1] == name and g.is_const(n.inputs[2])]
        table = g.value(name)
        real = table.quant is None and table.weight_scale is None
        if len(readers) == 2 and len(heads) == 1 and real and table.shape[-1] % OFFSET_ROWS.align == 0:
            result.append((embedding, heads[0]))
    return result
