"""Transposed convolutions.

y = ConvTranspose(x, w, b)    =>   y = Transpose(ConvTranspose2d(Transpose(x, to NHWC), w as OHWI, b), to NCHW)

1-D forms as 2-D of height 1. What is cropped behind, or added there by output_padding, stands in the output's shape.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import prequantised_weights
from mica.passes.builder import Builder
from mica.passes.lower.windows import NO_CLIP, as_nhwc, from_nhwc, nhwc_shape, operands
from mica.passes.weight_layout import transposed_rows


def _conv_transpose(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    xs, ys = g.value(x).shape, g.value(out).shape
    w, bias = operands(node, b)
    n = len(xs) - 2
    strides, dilations = (list(node.attrs.get(a, [1] * n)) for a in ("strides", "dilations"))
    before = pads_before(node, xs[2:], ys[2:], w.shape[2:], strides, dilations)
    if n == 1:
        w, strides, dilations, before = w[:, :, None, :], [1, *strides], [1, *dilations], [0, *before]
    groups = int(node.attrs.get("group", 1))
    attrs = {
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads": (*before, 0, 0),
        "groups": groups,
        "clip": NO_CLIP,
        **prequantised_weights.attributes(node),
    }
    weights = g.new_const(f"{node.inputs[1]}.ohwi", np.ascontiguousarray(transposed_rows(w, groups), np.float32))
    b_name = g.new_const(f"{node.name}.bias", bias)
    y = b.emit("ConvTranspose2d", [as_nhwc(b, x), weights, b_name], nhwc_shape(ys), attrs)
    from_nhwc(b, y, out)


def pads_before(
    node: Node,
    xs: tuple[int, ...],
    ys: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: list[int],
    dilations: list[int],
) -> list[int]:
    """Rows or columns that are cropped before the first output of each spatial axis, from pads, shape and auto_pad."""
    n = len(xs)
    auto = node.attrs.get("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER") and "output_shape" not in node.attrs:
        before = [0] * n if auto == "VALID" else [int(p) for p in node.attrs.get("pads", [0] * 2 * n)[:n]]
        if min(before) < 0:
            raise ValueError(f"negative pads {before}")
        return before
    extra = node.attrs.get("output_padding", [0] * n)
    before = []
    for i in range(n):
        whole = (xs[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + extra[i]
        total = max(0, whole - (ys[i] if "output_shape" in node.attrs else xs[i] * strides[i]))
        before.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
    return before


LOWERINGS = {"ConvTranspose": _conv_transpose}
