"""Activations that hardly vary, against the range that they are in, become int16 on their way to an output.

distances of 3.9 to 4.1, scores of 0.48 to 0.57, a last tanh that moves by 0.03: 256 steps from 0 on leave a few for all
that differs

    y = Unary(FullyConnected(x)), both of them such    =>    Unary(quantise16), in 16 bits, and y

where kernels of int16 compute them (passes/wide.py), and everything from there to the output. Only where int8 would
lose a large part of what varies, and in layers of few multiplications: it takes more time.
"""

from collections.abc import Collection, Mapping

import numpy as np

from mica.ir import check
from mica.ir.graph import Graph, Node, Quant
from mica.passes import dead_code, wide
from mica.passes.builder import Builder
from mica.quantise import margins
from mica.quantise.calibrate import Range, Runs, Samples
from mica.quantise.params import choose_quants
from mica.quantise.ranges import input_grids

COARSE = 500.0  # energy of what varies, in that of rounding to int8: below, an output has 27 dB at most
ABOVE = 10_000.0  # likewise of what makes such an output
ROOM = 1.25  # more than was seen: 16 bits have it to spare
MOST_PRODUCTS = 50_000  # multiplications of a layer that becomes int16
MOST = 256  # elements of one
SAMPLES = 32
LEAST = 8  # samples that can tell what varies
LAYERS = ("Conv2d", "DepthwiseConv2d", "FullyConnected")
OPS = (*LAYERS, "Add", "AveragePool2d", "MinMax", "Mul", "PRelu", "Reduce", "Unary", "Where")
MOVES = ("Concat", "Remap", "Reshape", "StridedCopy", "Transpose")


def run(g: Graph, samples: Samples) -> Graph:
    """A core graph with the scales of such activations given."""
    if len(samples) < LEAST:
        return g
    some = samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]
    ends = _coarse(g, some, COARSE)[0].keys() & set(g.outputs) - margins.scores(g)  # whose ranges are not what was seen
    if not ends:
        return g
    coarse, quants = _coarse(g, some, ABOVE)
    if _roots_apart(g, coarse):
        coarse, quants = _coarse(g, some, ABOVE)
    chosen = _chosen(g, coarse, quants, ends)
    if not chosen:
        return g
    for node in g.nodes:
        if node.outputs[0] in chosen:
            for name in (*node.outputs, *(i for i in node.inputs if i in quants)):
                g.value(name).quant = coarse[name] if name in chosen else g.value(name).quant or quants[name]
    return settled(g)


def settled(g: Graph) -> Graph:
    """A graph some of whose activations were given 16 bits; nothing that was of 16 bits before becomes coarser."""
    told = list(g.coarser)
    g = dead_code.run(wide.run(g))
    g.coarser = told
    check.structure(g, "fine")
    check.core(g)
    return g


def _coarse(g: Graph, samples: Samples, limit: float) -> tuple[dict[str, Quant], dict[str, Quant]]:
    """Scales in 16 bits of activations that hardly vary, and those of int8 of all."""
    sums: dict[str, list[np.ndarray]] = {}
    ends: dict[str, Range] = {}
    n = 0
    for part, values in Runs(g, room=0).streams(samples):
        n += len(part)
        for name, x in values:
            now = x.astype(np.float64)
            found = [now.sum(axis=0), (now * now).sum(axis=0)]
            sums[name] = [a + b for a, b in zip(sums[name], found, strict=True)] if name in sums else found
            low, high = float(now.min()), float(now.max())
            ends[name] = (
                Range(min(low, ends[name].low), max(high, ends[name].high)) if name in ends else Range(low, high)
            )
    quants = choose_quants(g, ends | input_grids(g, samples))
    coarse = {}
    for name, (total, squares) in sums.items():
        varies = float(np.mean(np.maximum(squares / n - (total / n) ** 2, 0.0)))
        largest = max(-ends[name].low, ends[name].high)
        if g.value(name).quant is None and 1e-20 < varies < limit * quants[name].scale ** 2 / 12:
            coarse[name] = Quant(float(np.float32(ROOM * largest / 32767)), 0, 16)
    return coarse, quants


def _roots_apart(g: Graph, coarse: Mapping[str, Quant]) -> bool:
    """Lengths become a square, a sum and a root, which have kernels of int16 each."""
    found = [n for n in g.nodes if n.op == "Reduce" and n.attrs["mode"] == "root" and n.outputs[0] in coarse]
    for node in found:
        nodes: list[Node] = []
        b, x, clip = Builder(g, nodes, node.name), node.inputs[0], (None, None)
        square = b.emit("Mul", [x, x], b.shape(x), {"clip": clip})
        attrs = {**node.attrs, "mode": "sum", "factor": node.attrs["factor"] ** 2, "clip": clip}
        total = b.emit("Reduce", [square], b.shape(node.outputs[0]), attrs)
        g.nodes[g.index(node) : g.index(node)] = nodes
        node.op, node.inputs, node.attrs = "Unary", [total], {"function": "sqrt", "arguments": ()}
    return bool(found)


def _products(g: Graph, node: Node) -> int:
    w = g.value(node.inputs[1]) if node.op in LAYERS else None
    return 0 if w is None else w.size * (g.value(node.outputs[0]).size // w.shape[0])


def _chosen(g: Graph, coarse: Mapping[str, Quant], quants: Mapping[str, Quant], ends: Collection[str]) -> set[str]:
    """Return those that a kernel of int16 makes, and a kernel of int16 reads, on to one of the ends."""
    before = {name: g.value(name).quant for name in quants}
    for name, q in quants.items():
        g.value(name).quant = coarse.get(name, q)
    small = [n for n in g.nodes if _products(g, n) <= MOST_PRODUCTS and g.value(n.outputs[0]).size <= MOST]
    makers = [n for n in small if n.op in (*OPS, *MOVES) and n.outputs[0] in coarse]
    chosen = {n.outputs[0] for n in makers if wide.CHECKS[n.op](g, n)}
    for name, own in before.items():
        g.value(name).quant = own
    readers = g.consumers()

    def idle(node: Node) -> bool:
        y, sources = node.outputs[0], [i for i in node.inputs if not g.is_const(i)]
        read = y in ends or any(n.outputs[0] in chosen for n in readers.get(y, ()))
        return y in chosen and not (read and (node.op not in MOVES or chosen.issuperset(sources)))

    while lost := {n.outputs[0] for n in makers if idle(n)}:
        chosen -= lost
    return chosen
