"""Operators of int16 that are several kernels one behind the other.

A least element is the largest of the complements -1 - x, complemented.

y = MinMax(a, b)           =>   the largest in a window of two: pool_s16(Concat(a, b)).
y = Extreme(x, axes)       =>   likewise, a window as long as the axes.
y = Reduce(x, axes), sums  =>   pool_s16(x), a mean whose multiplier is that of a sum.
y = ConvTranspose2d(x, w)  =>   conv2d_s16(x with zeros between its pixels, w turned round).
y = PRelu(x, slope)        =>   what is above 0, and what is below times the slope.
"""

import math
from collections.abc import Sequence

import numpy as np

from mica.ir import strided_copy
from mica.ir.byte_pairs import Shape
from mica.ir.graph import Graph, Node, Quant, Value
from mica.passes.wide import along, rows_of, turned_pads
from mica.quantise.kernels import wide_moves
from mica.quantise.kernels.common import StepQuantiser, act, emit, quant, window_params
from mica.quantise.kernels.wide import NO_MEAN, ONE_PIXEL, TIE, binary_params, linear, operand, rescaled
from mica.quantise.params import quantise_multiplier

Clip = tuple[float | None, float | None]
WHOLE: Clip = (None, None)
NO_PADS = {"pad_top": 0, "pad_left": 0}


class Stages:
    """A node's steps, and the tensors between them. Those have to be known in the float graph too, by their shapes."""

    def __init__(self, g: Graph, out: Graph, node: Node, base: str = "") -> None:
        self.g, self.out, self.node = g, out, node
        self.base = base or node.outputs[0]  # what names begin with

    def value(self, what: str, shape: Shape, q: Quant) -> str:
        name = self.out.new_value(f"{self.base}.{what}", shape, q.dtype)
        self.out.value(name).quant = q
        self.g.values[name] = Value(name, shape)
        return name

    def named(self, x: str, shape: Shape, y: str = "") -> str:
        """The same bytes in another shape; y: under this name, which has one."""
        y = y or self.value("shape", shape, quant(self.out, x))
        self.out.nodes.append(Node("Reshape", self.node.name, [x], [y]))
        return y

    def step(self, op: str, inputs: Sequence[str], y: str, **attrs: object) -> str:
        """A move, on whose bytes the kernels of int8 work."""
        wide_moves.STEPS[op](self.g, self.out, Node(op, self.node.name, list(inputs), [y], attrs))
        return y

    def binary(self, a: str, b: str, y: str, factors: tuple[float, float, float], clip: Clip = WHOLE) -> str:
        params = {**binary_params(*factors), **act(quant(self.out, y), clip)}
        emit(self.out, Node("", self.node.name, [a, b], [y]), "binary_s16", [a, b], [], params)
        return y

    def complement(self, x: str, y: str, clip: Clip = WHOLE) -> str:
        """-1 - x, which has an int16 for every int16."""
        ones = self.out.new_const(f"{y}.ones", np.full((1,) * len(self.out.value(x).shape), -1, np.int16))
        self.out.value(ones).quant = quant(self.out, x)
        return self.binary(x, ones, y, (-1, 1, 0), clip)

    def on_grid(self, x: str, q: Quant) -> str:
        """An operand with this scale; a constant as it is, for what reads it to be rounded."""
        if self.g.is_const(x) or quant(self.out, x) == q:
            return x
        y = self.value("scaled", self.g.value(x).shape, q)
        rescaled(self.out, Node("", self.node.name, [x], [y]), x, quant(self.out, x).scale / q.scale, act(q, WHOLE))
        return y

    def spread(self, x: str, shape: Shape) -> str:
        """An operand of the output's shape, as numpy broadcasts it."""
        data, has = self.g.data(x), self.g.value(x).shape
        if data is not None:
            return self.g.new_const(f"{x}.spread", np.broadcast_to(data, shape))
        if has == shape:
            return x
        padded = (1,) * (len(shape) - len(has)) + tuple(has)
        steps = [0 if n == 1 else math.prod(padded[k + 1 :]) for k, n in enumerate(padded)]
        move = strided_copy.simplify(strided_copy.StridedCopy(0, tuple(zip(shape, steps, strict=True))))
        y = self.value("spread", shape, quant(self.out, x))
        return self.step("StridedCopy", [x], y, begin=0, places=move.places)

    def most(self, x: str, image: Shape, kernel: tuple[int, int], y: str) -> None:
        """y = the largest (or least) of each window of x as an image, whose windows lie side by side."""
        larger, clip, q = self.node.attrs["larger"], self.node.attrs["clip"], quant(self.out, y)
        x = self.named(x, image)
        if not larger:
            x = self.complement(x, self.value("complement", image, q))
        shape = (1, image[1] // kernel[0], image[2] // kernel[1], image[3])
        made = self.value("most", shape, q)
        window = {"kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": kernel[0], "stride_w": kernel[1]}
        params = {**ONE_PIXEL, **window, **NO_PADS, "largest": 1, **act(q, clip if larger else WHOLE)}
        emit(self.out, Node("", self.node.name, [x], [made]), "pool_s16", [x], NO_MEAN, params)
        if not larger:
            made = self.complement(made, self.value("least", shape, q), clip)
        self.named(made, (), y)


def _minmax(g: Graph, out: Graph, node: Node) -> None:
    y = node.outputs[0]
    s, shape, q = Stages(g, out, node), g.value(y).shape, quant(out, y)
    row, parts = (1, *rows_of(shape)), []
    for x in node.inputs:
        x = s.spread(s.on_grid(x, q), shape)
        data = g.data(x)
        parts.append(s.named(x, row) if data is None else g.new_const(f"{x}.row", data.reshape(row)))
    both = s.step("Concat", parts, s.value("both", (2, *row[1:]), q), axis=0)
    s.most(both, (1, 2, *row[1:]), (2, 1), y)


def _extreme(g: Graph, out: Graph, node: Node) -> None:
    image = (1, *along(g, node))
    Stages(g, out, node).most(node.inputs[0], image, (1, image[2]), node.outputs[0])


def _reduce(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    s, (before, n, behind) = Stages(g, out, node), along(g, node)
    qx, qy = quant(out, x), quant(out, y)
    image, made = s.named(x, (1, before, n, behind)), s.value("sums", (1, before, 1, behind), qy)
    mult, shift = quantise_multiplier(np.array([node.attrs["factor"] * qx.scale / qy.scale * (1 + TIE)]))
    params = {**ONE_PIXEL, **NO_PADS, "kernel_w": n, "stride_w": n, "largest": 0, **act(qy, node.attrs["clip"])}
    emit(out, Node("", node.name, [image], [made]), "pool_s16", [image], [mult, shift], params)
    s.named(made, (), y)


def _conv_transpose(g: Graph, out: Graph, node: Node) -> None:
    """Each pixel of x in a corner of a block of zeros; what the blocks have more is outside of all windows, or zero."""
    x, w = node.inputs[0], np.asarray(g.data(node.inputs[1]))
    s, (_, h, width, c), (sh, sw) = Stages(g, out, node), g.value(x).shape, node.attrs["strides"]
    if (sh, sw) != (1, 1):
        q = quant(out, x)
        pixels = s.named(x, (h, 1, width, 1, c))
        apart = {"begins": (0,) * 5, "ends": (0, sh - 1, 0, sw - 1, 0), "mode": "constant", "value": 0.0}
        blocks = s.step("Pad", [pixels], s.value("apart", (h, sh, width, sw, c), q), **apart)
        x = s.named(blocks, (1, h * sh, width * sw, c))
    top, left = turned_pads(node, w.shape)
    params = window_params(node, (w.shape[1], w.shape[2])) | {"stride_h": 1, "stride_w": 1}
    params |= {"pad_top": top, "pad_left": left, "groups": node.attrs["groups"]}
    linear(g, out, node, x, w[:, ::-1, ::-1], params)


def _prelu(g: Graph, out: Graph, node: Node) -> None:
    x, y, s = node.inputs[0], node.outputs[0], Stages(g, out, node)
    slope, shape = operand(g, out, node.inputs[1]), g.value(x).shape
    (qx, qs), qy = (quant(out, n) for n in (x, slope)), quant(out, y)
    above = s.binary(x, x, s.value("above", shape, qx), (1, 0, 0), (0, None))
    below = s.binary(x, x, s.value("below", shape, qx), (1, 0, 0), (None, 0))
    bent = s.binary(below, slope, s.value("bent", g.value(y).shape, qy), (0, 0, qx.scale * qs.scale / qy.scale))
    s.binary(above, bent, y, (qx.scale / qy.scale, 1, 0), node.attrs["clip"])


STEPS: dict[str, StepQuantiser] = {
    "ConvTranspose2d": _conv_transpose,
    "Extreme": _extreme,
    "MinMax": _minmax,
    "PRelu": _prelu,
    "Reduce": _reduce,
}
