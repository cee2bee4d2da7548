"""Functions of a sum, or sums of a function, that the reduction's kernel computes in 32 bits become one reduction.

    Reduce(x * x, sum), Reduce(|x|, sum)      =>   Reduce(x, squares), Reduce(x, absolute)
    sqrt(Reduce(x, squares))                  =>   Reduce(x, root): ReduceL2
    log(Reduce(x, sum)), log(sum(exp(x)))     =>   Reduce(x, log), LogSumExp(x)
    exp(x - max(x)) / sum(exp(x - max(x)))    =>   Softmax(x), along the last axis
    x - LogSumExp(x), x - max(x) - log(...)   =>   LogSoftmax(x)

The 8 bits of the value between would cost most of the accuracy: a square root or logarithm is steep near zero.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from mica.ir.graph import Graph, Node

NO_CLIP = (None, None)
ROOT = 1e-6  # PyTorch writes the root of a distance as a power of 0.49999976


def run(g: Graph) -> Graph:
    for rule in (_sum_of_function, _function_of_sum, _log_sum_exp, _softmax, _log_softmax):
        for node in list(g.nodes):
            rule(g, node, _Up(g))
    return g


class _Up:
    """Looks at what makes a value, unless a quantised model rounds that value."""

    def __init__(self, g: Graph) -> None:
        self.g = g

    @cached_property
    def made(self) -> dict[str, Node]:  # when a rule looks: it asks most nodes for nothing
        return self.g.producers()

    def node(self, name: str, op: str, test: Callable[[Node], bool] = lambda n: True) -> Node | None:
        node = self.made.get(name)
        fits = node is not None and node.op == op and self.g.value(name).quant is None and test(node)
        return node if fits else None

    def unary(self, name: str, function: str, *arguments: float) -> Node | None:
        def same(n: Node) -> bool:
            return bool(n.attrs["function"] == function and n.attrs["arguments"] == arguments)

        return self.node(name, "Unary", same)


def _plain_sum(n: Node) -> bool:
    return bool(n.attrs["mode"] == "sum" and n.attrs["clip"] == NO_CLIP)


def _sum_of_function(g: Graph, node: Node, up: _Up) -> None:
    if node.op != "Reduce" or node.attrs["mode"] != "sum":
        return
    x = node.inputs[0]
    square = up.node(x, "Mul", lambda n: n.inputs[0] == n.inputs[1] and n.attrs["clip"] == NO_CLIP)
    square = square or up.unary(x, "power", 2.0)
    absolute = up.unary(x, "abs")
    found = square or absolute
    if found is not None:
        node.attrs["mode"], node.inputs = "squares" if square else "absolute", [found.inputs[0]]


def _function_of_sum(g: Graph, node: Node, up: _Up) -> None:
    if node.op != "Unary":
        return
    x, function = node.inputs[0], (node.attrs["function"], node.attrs["arguments"])
    if function == ("sqrt", ()) or (function[0] == "power" and abs(function[1][0] - 0.5) < ROOT):
        total = up.node(x, "Reduce", lambda n: n.attrs["mode"] == "squares" and n.attrs["clip"] == NO_CLIP)
        mode, power = "root", 0.5
    elif function == ("log", ()):
        total = up.node(x, "Reduce", lambda n: _plain_sum(n) and n.attrs["factor"] == 1.0)
        mode, power = "log", 1.0
        if total is not None and up.unary(total.inputs[0], "exp") is not None:
            return  # `_log_sum_exp` may know better
    else:
        return
    if total is not None:
        node.op, node.inputs = "Reduce", total.inputs[:1]
        node.attrs = {**total.attrs, "mode": mode, "factor": total.attrs["factor"] ** power}


def _over_last(g: Graph, n: Node) -> bool:
    """One reduction along the last axis alone."""
    shape = g.value(n.inputs[0]).shape
    first = n.attrs["axis"]
    return bool(shape) and first + n.attrs["axes"] == len(shape) and all(d == 1 for d in shape[first:-1])


def _sum_of_exponentials(g: Graph, name: str, up: _Up) -> tuple[str, str] | None:
    """(x, exp(x)) where a value is the sum of exp(x) along the last axis."""
    total = up.node(name, "Reduce", lambda n: _plain_sum(n) and n.attrs["factor"] == 1.0 and _over_last(g, n))
    power = None if total is None else up.unary(total.inputs[0], "exp")
    return None if power is None else (power.inputs[0], power.outputs[0])


def _log_sum_exp(g: Graph, node: Node, up: _Up) -> None:
    if node.op == "Unary" and (node.attrs["function"], node.attrs["arguments"]) == ("log", ()):
        found = _sum_of_exponentials(g, node.inputs[0], up)
        if found is not None:
            node.op, node.inputs, node.attrs = "LogSumExp", [found[0]], {"clip": NO_CLIP}


def _without_maximum(g: Graph, x: str, up: _Up) -> str:
    """z where x = z - (largest z along the last axis), else x itself: the softmax is the same."""
    difference = up.node(x, "Add", lambda n: n.attrs["signs"] == (1, -1) and n.attrs["clip"] == NO_CLIP)
    if difference is None:
        return x
    z, most = difference.inputs
    extreme = up.node(most, "Extreme", lambda n: n.attrs["larger"] and n.inputs[0] == z and _over_last(g, n))
    return x if extreme is None else z


def _softmax(g: Graph, node: Node, up: _Up) -> None:
    if node.op != "Div" or node.attrs["clip"] != NO_CLIP:
        return
    found = _sum_of_exponentials(g, node.inputs[1], up)
    if found is not None and node.inputs[0] == found[1]:
        node.op, node.inputs, node.attrs = "Softmax", [_without_maximum(g, found[0], up)], {}


def _log_softmax(g: Graph, node: Node, up: _Up) -> None:
    if node.op != "Add" or not np.array_equal(node.attrs["signs"], (1, -1)):
        return
    x, log = node.inputs
    total = up.node(log, "LogSumExp", lambda n: n.inputs[0] == x and n.attrs["clip"] == NO_CLIP)
    if total is not None and g.value(node.outputs[0]).shape == g.value(x).shape:
        node.op, node.inputs, node.attrs = "LogSoftmax", [_without_maximum(g, x, up)], {"clip": node.attrs["clip"]}
