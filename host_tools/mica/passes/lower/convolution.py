"""Convolutions, pools and means over the image.

y = Conv(x, w, b)    =>   y = Transpose(Conv2d(Transpose(x, to NHWC), w as OHWI, b), to NCHW)
depthwise            =>   likewise with DepthwiseConv2d; 1-D forms as 2-D of height 1
y = ConvTranspose    =>   likewise; what is cropped behind, or added there by output_padding, is in the output's shape
y = MaxPool(x)       =>   y = Transpose(MaxPool2d(Transpose(x, to NHWC)), to NCHW)
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import prequantised_weights
from mica.passes.builder import Builder
from mica.passes.lower.windows import NO_CLIP, as_nhwc, batch_one, from_nhwc, nhwc_shape, operands, window
from mica.passes.weight_layout import transposed_rows


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


def _pool(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    xs, ys = g.value(x).shape, g.value(out).shape
    if len(xs) not in (3, 4):
        raise ValueError(f"input of {len(xs) - 2} spatial dimensions; 1 and 2 are supported")
    batch_one(g, xs)
    if len([o for o in node.outputs if o]) > 1:
        raise ValueError("the second output (Indices) is not supported")
    if node.op.startswith("Global"):
        kernel = xs[2:]
    else:
        kernel = tuple(int(k) for k in node.attrs["kernel_shape"])
    attrs: dict[str, object] = dict(window(node, xs[2:], ys[2:], kernel))
    attrs["kernel"] = kernel if len(kernel) == 2 else (1, *kernel)
    attrs["clip"] = NO_CLIP
    if "Average" in node.op:
        if any(d != 1 for d in node.attrs.get("dilations", [1])):
            raise ValueError("an average pool with dilations")
        del attrs["dilations"]
        attrs["count_include_pad"] = int(node.attrs.get("count_include_pad", 0))
        if node.attrs.get("ties_down", 0):
            attrs["ties_down"] = 1
        op = "AveragePool2d"
    else:
        op = "MaxPool2d"
    _every_window_sees_something(attrs, nhwc_shape(xs), nhwc_shape(ys))
    y = b.emit(op, [as_nhwc(b, x)], nhwc_shape(ys), attrs)
    from_nhwc(b, y, out)


def _every_window_sees_something(attrs: dict, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    """A window that lies wholly in the padding has no maximum and no mean."""
    for axis in (0, 1):
        n, step = attrs["kernel"][axis], attrs.get("dilations", (1, 1))[axis]
        starts = np.arange(ys[1 + axis]) * attrs["strides"][axis] - attrs["pads"][axis]
        # Of its taps the first that is not in front of x; a kernel may be of any size.
        first = (np.maximum(-starts, 0) + step - 1) // step
        if not np.all((first < n) & (starts + first * step < xs[1 + axis])):
            raise ValueError("a window that lies wholly in the padding")


LOWERINGS = {
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"), _pool),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}
