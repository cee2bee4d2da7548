"""Layers compute in int16 if the model's file has int16 and their operators have kernels for it; others in int8.

    Op(x int16) with a kernel of int16, y int16    =>   stays
    Op(x int16) that moves elements, y int16       =>   stays where what makes x stays, and something that reads y
    Compare(x int16), y 0 or 1                     =>   stays where what makes x does; y is int8
    Op(x int8) with one, y int16                   =>   Op(Unary(x, quantise16)), each integer of x one of int16
    Op(x int16) without one                        =>   Op(Unary(x, quantise)), the range of x in steps 256 times larger
    its y int16                                    =>   int8, likewise; Graph.coarser has its name
    an input int16 that only such operators read   =>   int8

If an output is not negative, as behind a Relu, its int8 begin with 0.
"""

import math

import numpy as np

from mica.format.schema import MAX_DIM
from mica.format.values import LOW16
from mica.ir import byte_pairs
from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import CORE_BY_NAME, TRUTH_FUNCTIONS
from mica.kernels.wide import MOST_TAPS, SOFTMAX_SCALE
from mica.passes import common_subexpressions, dead_code
from mica.passes.quantised_values import is_quantise, quantise
from mica.reference import unary

LARGEST_BIAS = 2.0**31 - 1
# Functions whose results are never negative.
NOT_NEGATIVE = ("abs", "exp", "sigmoid", "sqrt")
POSITIVE_OPS = ("Softmax",)
# Operators whose elements are bytes to them: kernels of int8 move those (quantise/kernels/wide_moves.py).
MOVES = ("Concat", "Gather", "Pad", "Remap", "Reshape", "StridedCopy", "Transpose")


def run(g: Graph) -> Graph:
    if any(v.quant is not None and v.quant.bits == 16 for v in g.values.values()):
        _hand_on(g)
        g = dead_code.run(common_subexpressions.run(g))  # moves whose results have one scale now
        kept = _kept(g)
        _narrow_inputs(g, kept)
        for node in list(g.nodes):
            if id(node) in kept:
                _widen_inputs(g, node)
            else:
                _narrow(g, node)
    return g


def is_wide(g: Graph, name: str) -> bool:
    """True if an activation is int16."""
    quant = g.value(name).quant if name else None
    return quant is not None and quant.bits == 16


def _hand_on(g: Graph) -> None:
    """Gives the output of an operator that moves elements its inputs' scale, if these are int16 and have the same."""
    for node in g.nodes:
        y, op = g.value(node.outputs[0]), CORE_BY_NAME[node.op]
        if y.quant is None and (op.keeps_quant or (op.joins and node.op in MOVES)):
            sources = node.inputs[:1] if op.keeps_quant else [i for i in node.inputs if not g.is_const(i)]
            if len({g.value(i).quant for i in sources}) == 1 and is_wide(g, sources[0]):
                y.quant = g.value(sources[0]).quant


def _kept(g: Graph) -> set[int]:
    """The nodes, by identity, that have a kernel for the types of their inputs and outputs."""
    kept = [n for n in g.nodes if _stays(g, n)]
    while idle := _idle(g, kept):
        kept = [n for n in kept if id(n) not in idle]
    return {id(n) for n in kept}


def _idle(g: Graph, kept: list[Node]) -> set[int]:
    """Moves of what is int8 in any case, before them or behind them, and comparisons of that."""
    made = {o for n in kept for o in n.outputs} | set(g.inputs)
    read = {i for n in kept for i in n.inputs} | set(g.outputs)
    unread = {id(n) for n in kept if n.op in MOVES and n.outputs[0] not in read}
    followers = [n for n in kept if n.op in MOVES or not (is_wide(g, n.outputs[0]) or is_quantise(n))]
    return unread | {id(n) for n in followers if not any(i in made and is_wide(g, i) for i in n.inputs)}


def _stays(g: Graph, node: Node) -> bool:
    if is_quantise(node) and is_wide(g, node.inputs[0]):
        return True
    return (is_wide(g, node.outputs[0]) or makes_truth(g, node)) and _has_kernel(g, node)


def _has_kernel(g: Graph, node: Node) -> bool:
    read = [i for k, i in enumerate(node.inputs) if i and not g.is_const(i) and not _is_condition(node, k)]
    if (not read and node.op != "Where") or any(
        g.value(i).quant is None or g.value(i).dtype != "float32" for i in read
    ):
        return False
    return CHECKS.get(node.op, lambda g, node: False)(g, node)


def _is_condition(node: Node, k: int) -> bool:
    """True if a node's input k is a condition: 0 or 1, and int8 for all its readers."""
    return node.op == "Where" and k == 0


def _product(g: Graph, node: Node) -> bool:
    """Rows of pixels that a convolution takes, and a bias that 32 bits hold."""
    x, w, b = (g.value(i) for i in node.inputs)
    assert w.data is not None
    assert b.data is not None
    if node.op == "FullyConnected" and math.prod(x.shape[:-1]) > MAX_DIM:
        return False
    return _sums_fit(x.quant, w.data, b.data, node.attrs.get("weight_steps"))


def _sums_fit(quant: Quant | None, w: np.ndarray, b: np.ndarray, steps: np.ndarray | None) -> bool:
    """True if 32 bits hold a bias [Cout] in units of the scale of x (quant) times the scale of weights [Cout, ...]."""
    assert quant is not None
    scale = quant.scale if quant.bits == 16 else quant.scale / 128
    rows = np.abs(w.reshape(w.shape[0], -1)).max(axis=1).astype(np.float64)
    steps = rows / 127 if steps is None else np.where(rows > 0, steps, np.inf)
    sound = bool(np.all(np.isfinite(rows)) and np.all(np.isfinite(b)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return sound and not np.any((rows > 0) & (np.abs(b) / (scale * steps) > LARGEST_BIAS))


def _turned(g: Graph, node: Node) -> bool:
    """Return True if a convolution of x with zeros between its pixels computes it."""
    (_, h, w, _), weights = (g.value(i).shape for i in node.inputs[:2])
    strides = node.attrs["strides"]
    fit = min(turned_pads(node, weights)) >= 0 and max(h * strides[0], w * strides[1]) <= MAX_DIM
    return fit and _product(g, node)


def turned_pads(node: Node, weights: tuple[int, ...]) -> tuple[int, int]:
    """(top, left) pads of the convolution that a ConvTranspose2d is, with its weights [Cout, KH, KW,
    Cin / groups] turned round."""
    top, left = ((weights[1 + k] - 1) * node.attrs["dilations"][k] - node.attrs["pads"][k] for k in (0, 1))
    return top, left


def along(g: Graph, node: Node) -> tuple[int, int, int]:
    """Shape of a reduction's input as three dimensions: those before its axes, the axes, those behind them."""
    shape, axis, n = g.value(node.inputs[0]).shape, node.attrs["axis"], node.attrs["axes"]
    return math.prod(shape[:axis]), math.prod(shape[axis : axis + n]), math.prod(shape[axis + n :])


def rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """All dimensions but the last as one."""
    return (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)


def _extreme(g: Graph, node: Node) -> bool:
    return max(along(g, node)) <= MOST_TAPS


def _mean(g: Graph, node: Node) -> bool:
    kernel = node.attrs["kernel"]
    return kernel[0] * kernel[1] <= MOST_TAPS and not (node.attrs["count_include_pad"] and any(node.attrs["pads"]))


CHECKS = {
    **dict.fromkeys(MOVES, byte_pairs.fits),
    # Reshape moves nothing.
    **dict.fromkeys(("Add", "Greater", "MaxPool2d", "Mul", "PRelu", "Reshape"), lambda g, node: True),
    **dict.fromkeys(("Conv2d", "DepthwiseConv2d", "FullyConnected"), _product),
    "AveragePool2d": _mean,
    "ConvTranspose2d": _turned,
    "Extreme": _extreme,
    "MinMax": lambda g, node: max(rows_of(g.value(node.outputs[0]).shape)) <= MAX_DIM,
    "Reduce": lambda g, node: node.attrs["mode"] == "sum" and _extreme(g, node),
    "Softmax": lambda g, node: g.value(node.outputs[0]).quant == Quant(SOFTMAX_SCALE, 0, 16),
    "Unary": lambda g, node: not is_wide(g, node.outputs[0]) or node.attrs["function"] not in TRUTH_FUNCTIONS,
    "Where": lambda g, node: not g.is_const(node.inputs[0]) and not is_wide(g, node.inputs[0]),
}


def _narrow_inputs(g: Graph, kept: set[int]) -> None:
    """Inputs of the model that nothing reads as int16. Of a state, the output is named, too."""
    consumers, states = g.consumers(), {source for source, _ in g.states}
    for name in g.inputs:
        if is_wide(g, name) and not any(id(n) in kept for n in consumers.get(name, ())):
            _coarser(g, name, "" if name in states else name, False)


def _coarser(g: Graph, name: str, said: str, positive: bool) -> None:
    value = g.value(name)
    assert value.quant is not None
    value.quant = as_int8(value.quant, positive)
    if said and said not in g.coarser:
        g.coarser.append(said)


def as_int8(q: Quant, positive: bool) -> Quant:
    """The same range as int8; where it has no negative numbers, its upper half."""
    if positive:
        return Quant(float(np.float32(q.scale * 128)), -128)
    return Quant(float(np.float32(q.scale * 256)), 0)


def _widen_inputs(g: Graph, node: Node) -> None:
    """int8 that it reads becomes int16: each step is 128 of those, so that 255 of them fit.
    What it moves comes on the scale of its output."""
    if is_quantise(node):
        return
    op, y = CORE_BY_NAME[node.op], g.value(node.outputs[0])
    for k, x in enumerate(node.inputs):
        if x and not g.is_const(x) and not _is_condition(node, k):
            quant, moved = g.value(x).quant, op.keeps_quant or op.joins
            assert quant is not None
            if moved and quant != y.quant:
                assert y.quant is not None
                node.inputs[k] = _converted(g, node, x, "wide", y.quant)
            elif not is_wide(g, x):
                grid = Quant(float(np.float32(quant.scale / 128)), 0, 16)
                node.inputs[k] = _converted(g, node, x, "wide", grid)


def _narrow(g: Graph, node: Node) -> None:
    """A node of int8. Where it selects elements, they come on the scale of its output."""
    y, op = g.value(node.outputs[0]), CORE_BY_NAME[node.op]
    if node.op == "Recurrent":
        node.attrs.pop("weight_steps", None)  # sums of 32 bits may need coarser ones
    for name in node.outputs:
        if is_wide(g, name):
            source = _source(g, node)
            _coarser(g, name, source.name, _not_negative(source))
    for k, x in enumerate(node.inputs):
        if x and not g.is_const(x) and is_wide(g, x):
            quant = g.value(x).quant
            assert quant is not None
            grid = y.quant if op.keeps_quant or op.joins else None
            node.inputs[k] = _converted(g, node, x, "narrow", grid or as_int8(quant, _from_not_negative(g, x)))


def _from_not_negative(g: Graph, name: str) -> bool:
    """True if the node that computes a value's elements gives no negative numbers."""
    node = g.producers().get(name)
    return node is not None and _not_negative(_source(g, node))


def _source(g: Graph, node: Node) -> Node:
    """The node that computes the elements that a node moves."""
    producers = g.producers()
    while CORE_BY_NAME[node.op].keeps_quant and (above := producers.get(node.inputs[0])) is not None:
        if is_quantise(above):
            break
        node = above
    return node


def _not_negative(node: Node) -> bool:
    low = node.attrs.get("clip", (None, None))[0]
    if node.op == "Unary" and node.attrs["function"] == "clip":
        low = node.attrs["arguments"][0]
    function = node.attrs["function"] if node.op == "Unary" else ""
    return (low is not None and low >= 0) or node.op in POSITIVE_OPS or function in NOT_NEGATIVE


def _converted(g: Graph, reader: Node, x: str, kind: str, grid: Quant) -> str:
    """x on another grid; one value for all that read it so."""
    for node in g.consumers().get(x, ()):
        y = g.value(node.outputs[0])
        if is_quantise(node) and y.quant == grid and g.index(node) < g.index(reader):
            return y.name
    name = g.new_value(f"{x}.{kind}", g.value(x).shape)
    g.value(name).quant = grid
    producer = g.producers().get(x)
    g.insert_before(reader, quantise(x, name, producer.name if producer is not None else x, grid))
    return name


MOST_CHANGES = 2


def makes_truth(g: Graph, node: Node) -> bool:
    """True if a node reads int16 and gives 0 and 1, which are int8."""
    x, y = g.value(node.inputs[0]), g.value(node.outputs[0])
    if node.op == "Greater":
        return any(q is not None and q.bits == 16 for q in (g.value(i).quant for i in node.inputs))
    if node.op != "Unary" or y.quant is not None or x.quant is None or x.quant.bits != 16:
        return False
    return changes(node, x.quant) is not None


def changes(node: Node, x: Quant) -> tuple[bool, list[int]] | None:
    """(True if it holds for the least int16, the integers from which on the result is the other one)."""
    real = np.asarray(x.levels(), np.float32)  # so that it equals a constant of the same integer, which is float32
    with np.errstate(all="ignore"):
        values = np.asarray(unary.apply(node.attrs["function"], real, node.attrs["arguments"]))
    true = values != 0
    at = np.flatnonzero(np.diff(true)) + 1 + LOW16
    if len(at) > MOST_CHANGES or not np.array_equal(values, true):
        return None
    return bool(true[0]), [int(k) for k in at]
