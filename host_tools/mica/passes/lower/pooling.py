"""Pools and means over the image.

y = MaxPool(x)                =>   y = Transpose(MaxPool2d(Transpose(x, to NHWC)), to NCHW)
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder
from mica.passes.lower.windows import NO_CLIP, as_nhwc, batch_one, from_nhwc, nhwc_shape, window


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


LOWERINGS = dict.fromkeys(("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"), _pool)
