"""What is legal in a graph, checked between passes. A failure here is a bug of a pass, never of a user's model."""

from __future__ import annotations

import math

import numpy as np

from mica.format.schema import MAX_INPUTS
from mica.ir.graph import Graph, Node
from mica.ir.ops import BROADCASTING, CORE_BY_NAME, UNARY_FUNCTIONS
from mica.ir.strided_copy import axis_indices


class BrokenGraph(AssertionError):
    """A pass left a graph behind that contradicts itself."""


def structure(g: Graph, after: str = "?") -> None:
    """Every value is known, made once, and made before it is read; constants are what they say."""
    made = set(g.inputs) | {name for name, v in g.values.items() if v.data is not None}
    for node in g.nodes:
        for i in node.inputs:
            if i and i not in made:
                raise BrokenGraph(f"after {after}: node '{node.name}' ({node.op}) reads '{i}' before it is made")
        for o in node.outputs:
            if o in made:
                raise BrokenGraph(f"after {after}: node '{node.name}' ({node.op}) makes '{o}' a second time")
            if o:
                made.add(o)
                if o not in g.values:
                    raise BrokenGraph(f"after {after}: value '{o}' has no shape")
    for o in g.outputs:
        if o not in made:
            raise BrokenGraph(f"after {after}: output '{o}' is never made")
    for v in g.values.values():
        if v.data is not None and v.data.shape != v.shape:
            raise BrokenGraph(f"after {after}: constant '{v.name}' is {v.data.shape}, its value says {v.shape}")


def core(g: Graph) -> None:
    """Every node is a core operator with its attributes, and its shapes fit."""
    for node in g.nodes:
        op = CORE_BY_NAME.get(node.op)
        if op is None:
            raise BrokenGraph(f"node '{node.name}': '{node.op}' is not a core operator")
        missing = set(op.attrs) - set(node.attrs)
        if missing:
            raise BrokenGraph(f"node '{node.name}' ({node.op}): attributes {sorted(missing)} are missing")
        least_inputs = op.activations + len(op.constants)
        most = MAX_INPUTS + len(op.constants) if op.variadic else least_inputs
        if not least_inputs <= len(node.inputs) <= most:
            raise BrokenGraph(f"node '{node.name}' ({node.op}): {len(node.inputs)} inputs")
        for i in node.inputs[len(node.inputs) - len(op.constants) :]:
            if not g.is_const(i):
                raise BrokenGraph(f"node '{node.name}' ({node.op}): '{i}' must be constant")
        found = g.value(node.outputs[0]).shape
        expected = output_shape(g, node)
        if expected is not None and tuple(found) != tuple(expected):
            raise BrokenGraph(f"node '{node.name}' ({node.op}): output {found}, its inputs give {expected}")


def output_shape(g: Graph, node: Node) -> tuple[int, ...] | None:
    """The shape that a core node's inputs imply; None where only the output knows (windows round up or down)."""
    x = g.value(node.inputs[0]).shape
    y = g.value(node.outputs[0]).shape
    if node.op == "Custom":
        return None
    if node.op in ("Conv2d", "DepthwiseConv2d", "ConvTranspose2d"):
        return (1, *y[1:3], g.value(node.inputs[1]).shape[0])
    if node.op in ("MaxPool2d", "AveragePool2d"):
        return (1, *y[1:3], x[3])
    if node.op == "FullyConnected":
        n, k = g.value(node.inputs[1]).shape
        return (*x[:-1], n) if x[-1] == k else ()
    if node.op in (*BROADCASTING, "Mask"):
        return tuple(np.broadcast_shapes(*(g.value(i).shape for i in node.inputs)))
    if node.op == "MatMul":
        b = g.value(node.inputs[1]).shape
        k, n = b[-2:] if not node.attrs["transpose_b"] else b[:-3:-1]
        return (*np.broadcast_shapes(x[:-2], b[:-2]), x[-2], n) if x[-1] == k else ()
    if node.op in ("Reduce", "Extreme", "ArgMax", "LogSumExp"):
        axis, axes = node.attrs.get("axis", len(x) - 1), node.attrs.get("axes", 1)
        return (*x[:axis], *[1] * axes, *x[axis + axes :])
    if node.op == "Attend":
        keys, values = (g.value(i).shape for i in node.inputs[1:3])
        alike = x[:-2] == keys[:-2] == values[:-2] and x[-1] == keys[-1] and keys[-2] == values[-2]
        return (*x[:-1], values[-1]) if alike else ()
    if node.op == "Rotate":
        cosines, sines = (g.value(i).shape for i in node.inputs[1:])
        return x if cosines == sines and x[-1] == 2 * cosines[-1] else ()
    if node.op == "Transpose":
        return tuple(x[p] for p in node.attrs["perm"])
    if node.op == "Reshape":
        return y if g.value(node.inputs[0]).size == g.value(node.outputs[0]).size else ()
    if node.op == "TopK":
        axis = node.attrs["axis"]
        return y if y == (*x[:axis], y[axis], *x[axis + 1 :]) and y[axis] <= x[axis] else ()
    if node.op in (
        "Remap",
        "StridedCopy",
        "Gather",
        "Concat",
        "Pad",
        "ResizeLinear",
        "Embedding",
        "ScatterRows",
        "Pick",
    ):
        return _moved_shape(g, node)
    if node.op == "Ranks":
        return (*x[:-1], g.value(node.inputs[3]).shape[0])
    if node.op == "LogMel":
        front_end = node.attrs["front_end"]
        return (1, front_end.frames, front_end.columns) if math.prod(x) == x[-1] == front_end.samples else ()
    if node.op == "AxisFeatures":
        front_end = node.attrs["front_end"]
        return (1, *front_end.shape) if x == front_end.input_shape else ()
    if node.op == "Trees":
        return (*x[:-1], len(node.attrs["forest"].bias)) if x[-1] >= node.attrs["forest"].columns else ()
    if node.op in ("Neighbours", "Machine"):
        v = node.attrs["vectors"]
        return (*x[:-1], v.results) if x[-1] == v.points.shape[1] else ()
    if node.op == "Recurrent":
        units = g.value(node.inputs[-4]).shape[1]
        return (y[0] if y[0] in (1, x[0]) else x[0], x[1], units)
    if node.op == "Unary":
        if len(node.attrs["arguments"]) != UNARY_FUNCTIONS[node.attrs["function"]]:
            raise BrokenGraph(f"node '{node.name}' (Unary): arguments {node.attrs['arguments']}")
        return x
    return x


def _moved_shape(g: Graph, node: Node) -> tuple[int, ...]:
    """As output_shape, for operators that move elements; () where they would read outside the input."""
    shapes = [g.value(i).shape for i in node.inputs]
    x, y = shapes[0], g.value(node.outputs[0]).shape
    a = node.attrs
    if node.op == "Remap":
        indices = [axis_indices(axis) for axis in a["axes"]]
        inside = all(i.min() >= 0 and i.max() < n for i, n in zip(indices, x, strict=True))
        return tuple(len(i) for i in indices) if inside else ()
    if node.op == "StridedCopy":
        reach = [(n - 1) * step for n, step in a["places"]]
        low, high = (a["begin"] + sum(f(0, r) for r in reach) for f in (min, max))
        whole = math.prod(n for n, _ in a["places"]) == math.prod(y)
        return y if whole and low >= 0 and high < math.prod(x) else ()
    if node.op == "Gather":
        indices = [np.asarray(g.data(node.inputs[1]))]
        inside = indices[0].min() >= 0 and indices[0].max() < x[a["axis"]]
        return (*x[: a["axis"]], shapes[1][0], *x[a["axis"] + 1 :]) if inside else ()
    if node.op == "Pick":
        axis, places = a["axis"], shapes[1]
        return places if (*x[:axis], places[axis], *x[axis + 1 :]) == places else ()
    if node.op == "ScatterRows":
        axis, rows = a["axis"], shapes[1]
        return x if (*x[:axis], rows[axis], *x[axis + 1 :]) == rows and rows[axis] < x[axis] else ()
    if node.op == "Concat":
        axis = a["axis"]
        return (*x[:axis], sum(s[axis] for s in shapes), *x[axis + 1 :])
    if node.op == "Pad":
        return tuple(p + n + q for p, n, q in zip(a["begins"], x, a["ends"], strict=True))
    if node.op == "ResizeLinear":
        return (1, shapes[1][0], shapes[3][0], x[3])
    return (*x, shapes[1][1])
