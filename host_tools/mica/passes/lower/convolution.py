"""Convolutions.

y = Conv(x, w, b)    =>   y = Transpose(Conv2d(Transpose(x, to NHWC), w as OHWI, b), to NCHW)
depthwise            =>   likewise with DepthwiseConv2d; 1-D forms as 2-D of height 1
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import prequantised_weights
from mica.passes.builder import Builder
from mica.passes.lower.windows import NO_CLIP, as_nhwc, from_nhwc, nhwc_shape, operands, window


def _conv(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    xs, ys = g.value(x).shape, g.value(out).shape
    w, bias = operands(node, b)
    if w.ndim == 3:
        w = w[:, :, None, :]
    groups = int(node.attrs.get("group", 1))
    attrs = window(node, xs[2:], ys[2:], w.shape[2:] if len(xs) == 4 else w.shape[3:])
    depthwise = groups == xs[1] and groups > 1 and w.shape[1] == 1
    if depthwise:
        op, weights = "DepthwiseConv2d", w[:, 0]
    else:
        op, weights = "Conv2d", w.transpose(0, 2, 3, 1)
        attrs["groups"] = groups  # type: ignore[assignment]
    attrs["clip"] = NO_CLIP  # type: ignore[assignment]
    attrs.update(prequantised_weights.attributes(node))  # type: ignore[arg-type]
    w_name = g.new_const(f"{node.inputs[1]}.{op.lower()}", np.ascontiguousarray(weights, np.float32))
    b_name = g.new_const(f"{node.name}.bias", bias)
    y = b.emit(op, [as_nhwc(b, x), w_name, b_name], nhwc_shape(ys), attrs)
    from_nhwc(b, y, out)


LOWERINGS = {"Conv": _conv}
