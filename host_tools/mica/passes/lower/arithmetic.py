"""Arithmetic of tensors, and what is left of arithmetic with constants.

y = a + b, a - b, a * b, a / b       =>   y = Add(a, b), Mul, Div; x / constant is a product with its inverse
y = constant / x, one number         =>   y = Unary(x, reciprocal)
y = Sum(a, b, c), Mean               =>   y = Add(Add(a, b), c), the mean's 1/n being factors of the first to read each
y = Max(a, b, c), Min                =>   y = MinMax(MinMax(a, b), c); of a number: y = Unary(x, clip)
y = x ** constant, constant ** x     =>   y = Unary(x, power), Unary(x, power_of)
y = PRelu(x, slope)                  =>   y = PRelu(x, slope); of one slope for all: y = Unary(x, leaky_relu)
y = Affine(x), scalar                =>   y = Unary(x, affine)
y = Affine(x), along one axis        =>   y = DepthwiseConv2d(x) 1x1, that axis brought to the end
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder, Lowering, refuse
from mica.passes.lower.windows import NO_CLIP

CLIP = {"clip": NO_CLIP}


def _add(g: Graph, node: Node, b: Builder) -> None:
    finite_constants(g, node)
    signs = (1, 1) if node.op == "Add" else (1, -1)
    b.emit_to(node.outputs[0], "Add", node.inputs, {"signs": signs, **CLIP})


def _affine(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    axis, scale, shift = node.attrs["axis"], node.attrs["scale"], node.attrs["shift"]
    shape = g.value(x).shape
    if axis is None:
        arguments = (float(scale), float(shift))
        b.emit_to(out, "Unary", [x], {"function": "affine", "arguments": arguments})
        return
    # A 1x1 depthwise convolution over the axis: bring it to the end, merge all others into two.
    perm = [i for i in range(len(shape)) if i != axis] + [axis]
    moved = x if axis == len(shape) - 1 else b.transpose(x, perm)
    c = shape[axis]
    width = ([1, 1] + [shape[i] for i in perm[:-1]])[-1]
    flat = b.reshape(moved, (1, g.value(x).size // (width * c), width, c))
    weights = g.new_const(f"{node.name}.scale", scale.reshape(c, 1, 1).astype(np.float32))
    bias = g.new_const(f"{node.name}.shift", shift.astype(np.float32))
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), **CLIP}
    y = b.emit("DepthwiseConv2d", [flat, weights, bias], b.shape(flat), attrs)
    if moved == x:
        b.emit_to(out, "Reshape", [y])
    else:
        b.transpose_to(out, b.reshape(y, b.shape(moved)), np.argsort(perm).tolist())


def number(g: Graph, name: str) -> float | None:
    """The value of a constant that is one number everywhere, or None."""
    data = g.data(name) if name else None
    if data is None or data.size == 0 or np.any(data != data.flat[0]):
        return None
    return float(data.flat[0])


def emit_unary(b: Builder, out: str, x: str, function: str, *arguments: Any) -> None:
    """out = function(x), where out may have dimensions of 1 that x lacks. Raises ValueError where it repeats x."""
    if b.g.value(x).size != b.g.value(out).size:
        raise ValueError("a constant that is larger than the data")
    if b.shape(x) != b.shape(out):
        x = b.reshape(x, b.shape(out))
    b.emit_to(out, "Unary", [x], {"function": function, "arguments": arguments})


def finite_constants(g: Graph, node: Node) -> None:
    for i in node.inputs:
        data = g.data(i) if i else None
        if data is not None and not np.all(np.isfinite(data)):
            raise ValueError("a constant of infinity or NaN; write a large finite number")


def _mul(g: Graph, node: Node, b: Builder) -> None:
    finite_constants(g, node)
    b.emit_to(node.outputs[0], "Mul", node.inputs, CLIP)


def _div(g: Graph, node: Node, b: Builder) -> None:
    finite_constants(g, node)
    left, right = node.inputs
    out, numerator = node.outputs[0], number(g, left)
    divisor = g.data(right)
    if divisor is not None:
        if not np.all(divisor):
            raise ValueError("a division by zero")
        inverse = g.new_const(f"{right}.inverse", (1.0 / divisor.astype(np.float64)).astype(np.float32))
        b.emit_to(out, "Mul", [left, inverse], CLIP)
    elif numerator is not None and g.value(right).size == g.value(out).size:
        emit_unary(b, out, right, "reciprocal", numerator)
    else:
        b.emit_to(out, "Div", node.inputs, CLIP)


def _pair(b: Builder, op: str, x: str, y: str, attrs: dict[str, Any]) -> str:
    return b.emit(op, [x, y], np.broadcast_shapes(b.shape(x), b.shape(y)), attrs)


def _only(b: Builder, node: Node) -> bool:
    """An operator of any number of inputs that has one: it is that."""
    if len(node.inputs) > 1:
        return False
    b.emit_to(node.outputs[0], "Reshape", node.inputs)
    return True


def _sum(g: Graph, node: Node, b: Builder) -> None:
    finite_constants(g, node)
    weight = 1.0 / len(node.inputs) if node.op == "Mean" else 1.0
    if _only(b, node):
        return
    parts = [(i, weight) for i in node.inputs]
    while len(parts) > 2:  # neighbours in pairs, so that few roundings lie behind each other
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [_weighted(b, pair) for pair in pairs]
    b.emit_to(node.outputs[0], "Add", [name for name, _ in parts], {"signs": tuple(w for _, w in parts), **CLIP})


def _weighted(b: Builder, pair: Sequence[tuple[str, float]]) -> tuple[str, float]:
    if len(pair) == 1:
        return pair[0]
    (x, u), (y, v) = pair
    return _pair(b, "Add", x, y, {"signs": (u, v), **CLIP}), 1.0


def _minmax(g: Graph, node: Node, b: Builder) -> None:
    if _only(b, node):
        return
    larger, out = node.op == "Max", node.outputs[0]
    numbers = [n for n in (number(g, i) for i in node.inputs) if n is not None]
    rest = [i for i in node.inputs if number(g, i) is None]
    if any(np.isnan(n) for n in numbers):
        raise ValueError("a constant that is not a number")
    bound = (max if larger else min)(numbers) if numbers else None
    attrs = {"larger": larger, **CLIP}
    if bound is None:
        *first, last = rest
        x = first[0]
        for y in first[1:]:
            x = _pair(b, "MinMax", x, y, attrs)
        b.emit_to(out, "MinMax", [x, last], attrs)
        return
    x = rest[0]
    for y in rest[1:]:
        x = _pair(b, "MinMax", x, y, attrs)
    emit_unary(b, out, x, "clip", *((bound, None) if larger else (None, bound)))


def _pow(g: Graph, node: Node, b: Builder) -> None:
    base, exponent = node.inputs
    out = node.outputs[0]
    power, constant = number(g, exponent), number(g, base)
    if power is not None:
        emit_unary(b, out, base, "power", power)
    elif constant is not None:
        emit_unary(b, out, exponent, "power_of", constant)
    else:
        raise ValueError("an exponent that varies; one constant exponent, or base, for all elements is supported")


def _prelu(g: Graph, node: Node, b: Builder) -> None:
    x, slope = node.inputs
    one = number(g, slope)
    if one is not None:
        emit_unary(b, node.outputs[0], x, "leaky_relu", one)
    else:
        b.emit_to(node.outputs[0], "PRelu", [x, slope], CLIP)


LOWERINGS: dict[str, Lowering] = {
    "Add": _add,
    "Affine": _affine,
    "BatchNormalization": refuse(
        "its statistics are not one constant a channel; export the model in inference mode (model.eval())"
    ),
    "Div": _div,
    "Max": _minmax,
    "Mean": _sum,
    "Min": _minmax,
    "Mul": _mul,
    "PRelu": _prelu,
    "Pow": _pow,
    "Sub": _add,
    "Sum": _sum,
}
