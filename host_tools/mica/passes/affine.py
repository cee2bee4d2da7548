"""Normalisation and constant arithmetic become one operator, `Affine`: y = scale * x + shift.

    BatchNormalization(x)                                     =>   Affine(x)
    x * c, c * x, x / c, x + c, c + x, x - c, c - x, -x       =>   Affine(x)
    Affine(Affine(x))                                         =>   Affine(x)

scale and shift are vectors along attribute `axis`, or scalars with axis None. A constant that varies along more than
one axis is left alone, as is the sum of two tensors that came as integers: Add takes both as they are. Affine does not
survive: `fold_affine` and `lower` remove it.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.quantised_values import is_quantise


def run(g: Graph) -> Graph:
    producers, consumers = g.producers(), g.consumers()
    for node in g.nodes:
        if node.op == "BatchNormalization":
            _batch_norm(g, node)
        elif node.op in ("Add", "Sub") and _sum_of_integers(g, node, producers, consumers):
            continue
        elif node.op in ("Mul", "Div", "Add", "Sub", "Neg"):
            _arithmetic(g, node)
    _merge(g)
    return g


def _become(node: Node, x: str, axis: int | None, scale: np.ndarray, shift: np.ndarray) -> None:
    node.op = "Affine"
    node.inputs = [x]
    node.outputs = node.outputs[:1]
    node.attrs = {"axis": axis, "scale": scale, "shift": shift}


def _batch_norm(g: Graph, node: Node) -> None:
    parts = [g.data(i) for i in node.inputs[1:5]]
    if any(p is None or p.ndim != 1 for p in parts) or node.attrs.get("training_mode", 0) or any(node.outputs[1:]):
        return  # `lower` refuses it
    gamma, beta, mean, var = (np.asarray(p, np.float64) for p in parts)
    scale = gamma / np.sqrt(var + node.attrs.get("epsilon", 1e-5))
    shift = beta - mean * scale
    if len(g.value(node.inputs[0]).shape) == 1:  # no channels: one of each
        _become(node, node.inputs[0], None, scale.reshape(()), shift.reshape(()))
    else:
        _become(node, node.inputs[0], 1, scale, shift)


def _arithmetic(g: Graph, node: Node) -> None:
    if node.op == "Neg":
        _become(node, node.inputs[0], None, np.array(-1.0), np.array(0.0))
        return
    left, right = node.inputs
    const_left = g.is_const(left)
    if const_left == g.is_const(right):
        return
    x, c_name = (right, left) if const_left else (left, right)
    c = np.asarray(g.data(c_name), np.float64)
    out = g.value(node.outputs[0]).shape
    if g.value(x).shape != out:  # the constant widens x
        return
    wide: np.ndarray = c.reshape((1,) * (len(out) - c.ndim) + c.shape)
    axes = [i for i, d in enumerate(wide.shape) if d > 1]
    if len(axes) > 1:
        return
    axis = axes[0] if axes else None
    v = wide.reshape(-1) if axes else np.array(float(wide.reshape(-1)[0]))
    one, zero = np.ones_like(v), np.zeros_like(v)
    if node.op == "Mul":
        _become(node, x, axis, v, zero)
    elif node.op == "Div" and not const_left and np.all(v != 0):
        _become(node, x, axis, 1.0 / v, zero)
    elif node.op == "Add":
        _become(node, x, axis, one, v)
    elif node.op == "Sub":
        _become(node, x, axis, -one if const_left else one, v if const_left else -v)


def _sum_of_integers(g: Graph, node: Node, producers: dict[str, Node], consumers: dict[str, list[Node]]) -> bool:
    """Rounded, plus a constant that came as int8, and rounded again."""
    others = [i for i in node.inputs if g.value(i).quant is None]
    readers = consumers.get(node.outputs[0], [])
    return (
        len(others) == 1
        and g.is_const(next(i for i in node.inputs if i != others[0]))
        and is_quantise(producers.get(others[0]))
        and all(is_quantise(r) or r.op in ("Relu", "Clip") for r in readers)
    )


def _merge(g: Graph) -> None:
    producers, consumers = g.producers(), g.consumers()
    for node in g.nodes:
        first = producers.get(node.inputs[0]) if node.op == "Affine" else None
        if first is None or first.op != "Affine" or g.sole_consumer(node.inputs[0], consumers) is not node:
            continue
        a, b = first.attrs["axis"], node.attrs["axis"]
        if a is not None and b is not None and a != b:
            continue
        scale = first.attrs["scale"] * node.attrs["scale"]
        shift = first.attrs["shift"] * node.attrs["scale"] + node.attrs["shift"]
        axis = a if b is None else b
        _become(node, first.inputs[0], axis, *np.broadcast_arrays(scale, shift))
        # `first` is dead now; dead_code takes it.
