"""Weights that the file has as integers keep these: the product remembers the scale of each output channel.

    Conv(x, w with a weight scale, b)   =>   Conv(x, w, b) {weight_steps [Cout]}; likewise ConvTranspose,
                                             Gemm and MatMul
    channels that int8 does not hold    =>   with a step of their own, larger by as much as it takes: uint8 less a zero
                                             point

`quantise` divides by this scale and finds the integers again, however w was laid out again in between. A pass that
scales the weights scales the attribute too. An int32 bias, whose own scale is float32(sx * sw), is put on the exact
product of the two, so that it too is found again to the last bit.
"""

import numpy as np

from mica.format.values import growth
from mica.ir.graph import Graph, Node
from mica.ir.ops import MOVES
from mica.passes.quantised_values import grid_of, is_quantise
from mica.passes.refusal import Refusals
from mica.passes.weight_layout import transposed_rows

# A bias scale this close to sx * sw is meant to be it: float32 holds 2**-24.
SAME_SCALE = 2.0**-20


def run(g: Graph) -> Graph:
    refusals = Refusals()
    producers = g.producers()
    for node in g.nodes:
        if node.op in ("Conv", "ConvTranspose", "Gemm", "MatMul") and g.value(node.inputs[1]).weight_scale is not None:
            with refusals.at(node):
                _keep(g, node, producers)
    refusals.stop()
    return g


def attributes(node: Node, factor: float = 1.0) -> dict[str, np.ndarray]:
    """The attribute for a node that takes over the weights of `node`, multiplied by `factor`; {} where it has none."""
    weight_scale = node.attrs.get("weight_steps")
    return {} if weight_scale is None else {"weight_steps": weight_scale * abs(factor)}


def _keep(g: Graph, node: Node, producers: dict[str, Node]) -> None:
    value = g.value(node.inputs[1])
    assert value.data is not None
    assert value.weight_scale is not None
    if node.op == "MatMul" and value.data.ndim != 2:
        return  # refused where products are lowered
    axis = 0 if node.op == "Conv" or node.attrs.get("transB", 0) else value.data.ndim - 1
    rows = _by_channel(node, np.broadcast_to(value.weight_scale, value.shape), axis).astype(np.float64)
    if np.any(rows != rows[:, :1]):
        raise ValueError(
            "weights whose scale varies within an output channel; quantise them per tensor or per output channel"
        )
    larger = growth(np.rint(_by_channel(node, value.data, axis) / rows))
    node.attrs["weight_steps"] = rows[:, 0] * larger
    if np.any(larger > 1):
        steps = value.weight_scale * _spread(node, larger, value.shape, axis)
        node.inputs[1] = g.new_const(f"{node.inputs[1]}.int8", np.rint(value.data / steps) * steps)
    _exact_bias(g, node, producers)


def _by_channel(node: Node, w: np.ndarray, axis: int) -> np.ndarray:
    """Weights by output channel, [Cout, n]."""
    rows = transposed_rows(w, node.attrs.get("group", 1)) if node.op == "ConvTranspose" else np.moveaxis(w, axis, 0)
    return rows.reshape(rows.shape[0], -1)


def _spread(node: Node, channels: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """A number for each output channel [Cout], so that it broadcasts to weights of `shape`."""
    if node.op != "ConvTranspose":
        return channels.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    group = node.attrs.get("group", 1)  # weights are [Cin, Cout / group, kh, kw]
    rows = np.repeat(channels.reshape(group, -1), shape[0] // group, axis=0)
    return rows.reshape(*shape[:2], *[1] * (len(shape) - 2))


def _exact_bias(g: Graph, node: Node, producers: dict[str, Node]) -> None:
    scale = _input_scale(node, producers)
    bias = g.value(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if scale is None or bias is None or bias.data is None or bias.weight_scale is None:
        return
    product = scale * node.attrs["weight_steps"] * float(node.attrs.get("alpha", 1.0))
    own = np.broadcast_to(bias.weight_scale, bias.shape)
    if bias.data.size == product.size:
        product = product.reshape(bias.shape)
    elif np.all(product == product.flat[0]):
        product = np.full(bias.shape, product.flat[0])
    else:
        return
    exact = np.where(np.abs(own / product - 1) < SAME_SCALE, np.rint(bias.data / own) * product, bias.data)
    node.inputs[2] = g.new_const(f"{node.inputs[2]}.exact", exact)


def _input_scale(node: Node, producers: dict[str, Node]) -> float | None:
    """Scale of a product's data, found through operators that move its elements."""
    source = producers.get(node.inputs[0])
    while source is not None and source.op in MOVES:
        source = producers.get(source.inputs[0])
    return grid_of(source).scale if source is not None and is_quantise(source) else None
