"""Zero padding in front of a convolution or an average pool becomes their own.

Conv(Pad(x, constant 0), pads=p)                            =>   Conv(x, pads=p + pad)
AveragePool(Pad(x, constant 0), no pads, or counting them)  =>   AveragePool(x, pads=p + pad, count_include_pad=1)
Pad(x, nothing)                                             =>   x

PyTorch writes the second for every average pool that counts its padding, the third for those that have none.
"""

from mica.ir.graph import Graph, Node
from mica.passes.drop_identity import bypass

_SPATIAL_FROM = 2  # N, C come first


def run(g: Graph) -> Graph:
    for pad in [n for n in g.nodes if n.op == "Pad"]:
        amounts = pad_amounts(g, pad)
        if not any(amounts):
            bypass(g, pad)
        elif _zeros_around_the_image(g, pad, amounts) and pad.outputs[0] not in g.outputs:
            for node in g.consumers().get(pad.outputs[0], []):
                if node.inputs.index(pad.outputs[0]) == 0 and _takes_pads(node):
                    _fold(g, pad, amounts, node)
            if pad.outputs[0] not in g.consumers():
                g.remove(pad)
    return g


def _zeros_around_the_image(g: Graph, pad: Node, amounts: list[int]) -> bool:
    rank = len(g.value(pad.inputs[0]).shape)
    outside = amounts[:_SPATIAL_FROM] + amounts[rank : rank + _SPATIAL_FROM]
    zero = pad.attrs.get("mode", "constant") == "constant" and pad_value(g, pad) == 0.0
    return zero and not any(outside) and min(amounts) >= 0


def _takes_pads(node: Node) -> bool:
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    counts = node.attrs.get("count_include_pad", 0) or not any(node.attrs.get("pads", []))
    return node.op == "Conv" or (node.op == "AveragePool" and bool(counts))


def _fold(g: Graph, pad: Node, amounts: list[int], node: Node) -> None:
    rank = len(amounts) // 2
    own = node.attrs.get("pads", [0] * 2 * (rank - _SPATIAL_FROM))
    extra = amounts[_SPATIAL_FROM:rank] + amounts[rank + _SPATIAL_FROM :]
    node.attrs["pads"] = [a + b for a, b in zip(own, extra, strict=True)]
    node.attrs["auto_pad"] = "NOTSET"
    if node.op == "AveragePool":
        node.attrs["count_include_pad"] = 1
    node.inputs = [pad.inputs[0], *node.inputs[1:]]


def pad_amounts(g: Graph, pad: Node) -> list[int]:
    """Begins then ends for every dimension, from the attribute (opset < 11) or the constant input."""
    rank = len(g.value(pad.inputs[0]).shape)
    if "pads" in pad.attrs:
        return [int(p) for p in pad.attrs["pads"]]
    data = g.data(pad.inputs[1])
    if data is None:
        return [-1] * 2 * rank  # never folded
    amounts = [int(p) for p in data]
    axes_data = g.data(pad.inputs[3]) if len(pad.inputs) > 3 and pad.inputs[3] else None
    if axes_data is None:
        return amounts
    axes = [int(a) % rank for a in axes_data]
    full = [0] * 2 * rank
    for k, axis in enumerate(axes):
        full[axis], full[rank + axis] = amounts[k], amounts[len(axes) + k]
    return full


def pad_value(g: Graph, pad: Node) -> float | None:
    """The constant that a Pad fills with; None where it is no constant."""
    if "value" in pad.attrs:
        return float(pad.attrs["value"])
    if len(pad.inputs) < 3 or not pad.inputs[2]:
        return 0.0
    data = g.data(pad.inputs[2])
    return float(data.reshape(-1)[0]) if data is not None and data.size else None
