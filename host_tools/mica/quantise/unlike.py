"""Small networks on columns of a table compute in 16 bits where int8 would change answers; their numbers have room.

y = FullyConnected(x, w, b)    =>    Add(FullyConnected(x, high, b), FullyConnected(x, low, 0)), high + low = w

Columns of other units (age, income, a category's 0 and 1) that nobody scales make layers whose large terms cancel:
neither their sums nor their weights may be rounded to 8 bits. high has the integers of 8 bits, low what these leave.
"""

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import TRUTH_FUNCTIONS
from mica.kernels.wide import SOFTMAX_SCALE
from mica.passes.builder import Builder
from mica.passes.quantised_values import quantise
from mica.quantise import fine, margins, rounding, rows, simulate
from mica.quantise.calibrate import Range, Samples, calibrate
from mica.quantise.params import SOFTMAX_QUANT, choose_quants, from_range
from mica.quantise.ranges import input_grids
from mica.quantise.tune import copy, thin

ENOUGH = -32.0  # dB of the error that int8 leaves in outputs
LEAST = 32  # samples
SOME = 64  # of them, by which int8 is judged
ROOM = 2.0  # more than was seen: 16 bits have it to spare
MIXED = 8  # rows of columns from any sample, for each sample
MOST_ROOM = 0.3  # of a width, on each side, for what these rows reach
MOST_PRODUCTS = 50_000  # multiplications of all layers
MOST = 2048  # elements of one layer
OPS = ("Add", "FullyConnected", "MinMax", "Mul", "Softmax", "Unary")
SOURCES = ("Features", "Ranks")
PARTS = ("Concat", "Gather", "Remap")
WIDE = ".in16"  # ends the name of what a Softmax makes in 16 bits


def run(g: Graph, samples: Samples) -> Graph:
    """A core graph with the scales of such layers and numbers given."""
    if len(samples) < LEAST or not any(n.op in SOURCES for n in g.nodes):
        return g
    layers = _layers(g)
    work = sum(g.value(n.inputs[1]).size for n in layers if n.op == "FullyConnected")
    small = all(g.value(n.outputs[0]).size <= MOST for n in layers)
    if 0 < work <= MOST_PRODUCTS and small and not _good(g, samples):
        g = _in_16(g, layers, samples)
    _reach(g, samples)
    return g


def _of_columns(g: Graph) -> list[Node]:
    """Return the nodes that read columns of a table alone, or what is made of them."""
    known, found = set[str](), list[Node]()
    for node in g.nodes:
        read = [i for i in node.inputs if not g.is_const(i)]
        if node.op in SOURCES or (read and known.issuperset(read)):
            known.update(node.outputs)
            found.append(node)
    return found


def _layers(g: Graph) -> list[Node]:
    """Return layers that 16 bits can have: from the first that reads a whole row of columns, on to the outputs."""
    readers = g.consumers()

    def one(node: Node) -> bool:
        y = node.outputs[0]
        if node.op == "Unary" and node.attrs["function"] in ("quantise", *TRUTH_FUNCTIONS):
            return False
        inner = node.op == "Softmax" and not y.endswith(WIDE)
        part = any(n.op in PARTS for n in readers.get(y, ()))
        return node.op in OPS and not inner and not part and g.value(y).quant is None

    return [n for n in _of_columns(g) if one(n)]


def _in_16(g: Graph, layers: list[Node], samples: Samples) -> Graph:
    for node in layers:
        if node.op == "FullyConnected":
            _in_two(g, node)
    for node in [n for n in g.nodes if n.op == "Softmax" and n.outputs[0] in g.outputs]:
        y = node.outputs[0]
        node.outputs = [g.new_value(f"{y}{WIDE}", g.value(y).shape)]
        g.nodes.insert(g.index(node) + 1, quantise(node.outputs[0], y, node.name, SOFTMAX_QUANT))
    ranges, more = calibrate(g, samples), 1 + rows.SPARE / len(samples)
    wider = {name: Range(r.low * more, r.high * more) for name, r in ranges.items()}
    quants = choose_quants(g, wider | input_grids(g, samples))
    for node in _layers(g):
        for name in node.inputs:
            if name in quants and g.value(name).quant is None:
                g.value(name).quant = quants[name]
        y = node.outputs[0]
        step = ROOM * max(-ranges[y].low, ranges[y].high, 1e-20) / 32767
        g.value(y).quant = Quant(SOFTMAX_SCALE if node.op == "Softmax" else float(np.float32(step)), 0, 16)
    return fine.settled(g)


def _in_two(g: Graph, node: Node) -> None:
    """Make one product two of int8 weights, and their sum."""
    nodes: list[Node] = []
    b, (x, w, bias) = Builder(g, nodes, node.name), node.inputs
    left, parts = np.asarray(g.data(w), np.float64), list[str]()
    for k, add in enumerate((np.asarray(g.data(bias)), np.zeros(len(left)))):
        steps = np.maximum(np.abs(left).max(axis=1) / 127, 1e-30)
        integers = np.rint(left / steps[:, None]) * steps[:, None]
        constants = [g.new_const(f"{i}.{k}", a.astype(np.float32)) for i, a in ((w, integers), (bias, add))]
        attrs = {"clip": (None, None), "weight_steps": steps}
        parts.append(b.emit("FullyConnected", [x, *constants], g.value(node.outputs[0]).shape, attrs))
        left = left - integers
    g.nodes[g.index(node) : g.index(node)] = nodes
    node.op, node.inputs, node.attrs = "Add", parts, {"signs": (1, 1), "clip": node.attrs["clip"]}


def _good(g: Graph, samples: Samples) -> bool:
    """Return True if activations and weights of int8 leave enough of the outputs."""
    quants = choose_quants(g, calibrate(g, samples) | input_grids(g, samples))
    return simulate.noise(g, [(rounding.plain(copy(g), quants), quants)], thin(samples, SOME))[0] <= ENOUGH


def _reach(g: Graph, samples: Samples) -> None:
    """Give numbers that trees or layers answer the range that columns of several samples together reach."""
    made = set[str]()
    for n in _of_columns(g):
        if n.op in ("FullyConnected", "Trees") or (n.op == "Reshape" and n.inputs[0] in made):
            made.add(n.outputs[0])
    ends = [y for y in g.outputs if y in made and y not in margins.scores(g) and g.value(y).quant is None]
    if not ends or len(g.inputs) != 1:
        return
    (name,) = g.inputs
    x = np.concatenate([sample[name].reshape(1, -1) for sample in samples])
    mixed = np.random.default_rng(1).permuted(np.repeat(x, MIXED, axis=0), axis=0)
    seen, found = calibrate(g, samples), calibrate(g, [{name: row.reshape(g.value(name).shape)} for row in mixed])
    for y in ends:
        low, high = min(seen[y].low, 0.0), max(seen[y].high, 0.0)
        more = MOST_ROOM * (high - low)
        ends_at = Range(max(min(found[y].low, low), low - more), min(max(found[y].high, high), high + more))
        g.value(y).quant = from_range(ends_at)
