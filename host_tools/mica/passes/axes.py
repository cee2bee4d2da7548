"""A window of samples of several axes as the input of a network that was made for features of them.

input x [.., axes, features ..]                          =>   samples [1, N, A] -> AxisFeatures -> Reshape -> x
input x -> Features(x, factor, shift, missing) -> y      =>   samples [1, N, A] -> AxisFeatures(factor, shift) -> Reshape -> y
Reshape(x) -> DepthwiseConv2d(1 x 1) -> y, as a scaler    =>   likewise
Ranks(x) -> Trees                                        =>   .. -> x -> Trees, which asks features themselves, as fine as int8 has them
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mica.errors import MicaError
from mica.format.values import LOW
from mica.ir import check
from mica.ir.axes import AxisFeatures
from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME


def put(g: Graph, f: AxisFeatures, name: str, samples: str) -> Graph:
    """A core graph with the front end before its input `name`; samples: what its new input is called. Raises MicaError."""
    x, n = g.value(name), f.axes * f.each
    if name in g.outputs:
        raise MicaError(f"--frontend: input '{name}' is an output as well")
    readers = g.consumers().get(name, [])
    factor, shift, y = np.ones(n, np.float32), np.zeros(n, np.float32), name
    if len(readers) == 1 and readers[0].op == "Features":
        found = (np.asarray(g.data(i), np.float32).reshape(-1) for i in readers[0].inputs[1:3])
        factor, shift = (np.broadcast_to(v, (n,)) for v in found)
        y = readers[0].outputs[0]
        g.nodes.remove(readers[0])
    if len(readers) == 1 and readers[0].op == "Ranks":
        _without_ranks(g, readers[0], name)
    other = next((r for r in g.consumers().get(name, []) if CORE_BY_NAME[r.op].reads == "float32"), None)
    if other is not None:
        raise MicaError(
            f"--frontend: '{other.name}' ({other.op}) reads real numbers, which a front end does not give",
            todo="expected a network, a linear model or a forest, behind at most one scaler",
        )
    made = g.new_value(f"{name}.features", (1, *f.shape))
    g.value(made).quant = x.quant
    given = g.new_value(samples, f.input_shape)
    g.nodes.insert(0, Node("Reshape", y, [made], [y]))
    factor, shift = _scalers(g, made, factor.astype(np.float64), shift.astype(np.float64))
    constants = [
        g.new_const(f"{made}.{what}", v.astype(np.float32)) for what, v in (("factor", factor), ("shift", shift))
    ]
    g.nodes.insert(0, Node("AxisFeatures", made, [given, *constants], [made], {"front_end": f}))
    g.inputs = [given if i == name else i for i in g.inputs]
    x.dtype, x.whole = "float32", False
    if y != name:
        del g.values[name]
    check.structure(g, "front_end")
    check.core(g)
    return g


def _without_ranks(g: Graph, ranks: Node, name: str) -> None:
    """Forests ask the input `name` in place of what it ranks among their thresholds."""
    readers = g.consumers().get(ranks.outputs[0], [])
    if ranks.outputs[0] in g.outputs or not all(r.op == "Trees" for r in readers):
        return
    thresholds, first, source = (np.asarray(g.data(i)) for i in ranks.inputs[1:4])
    for node in readers:
        f: Forest = node.attrs["forest"]
        inner = f.column >= 0
        at = f.column[inner].astype(np.int64)
        column, threshold = f.column.copy(), f.threshold.astype(np.float64)
        column[inner] = source[at]
        threshold[inner] = thresholds[first[at].astype(np.int64) + f.threshold[inner].astype(np.int64) - LOW]
        node.attrs["forest"] = replace(f, column=column, threshold=threshold)
        node.inputs = [name]
    g.nodes.remove(ranks)
    del g.values[ranks.outputs[0]]


def _scalers(g: Graph, features: str, factor: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes scalers of each feature out of what follows, behind any Reshapes: factor and shift, float64 [n], with them."""
    here = features
    while len(readers := g.consumers().get(here, [])) == 1 and here not in g.outputs and g.value(here).quant is None:
        (node,) = readers
        if _is_scaler(g, node, len(factor)):
            w, b = (np.asarray(g.data(i), np.float64).reshape(-1) for i in node.inputs[1:])
            factor, shift = factor * w, shift * w + b
            node.op, node.inputs, node.attrs = "Reshape", node.inputs[:1], {}
        elif node.op != "Reshape":
            break
        here = node.outputs[0]
    return factor, shift


def _is_scaler(g: Graph, node: Node, n: int) -> bool:
    """Whether it multiplies each of n features with a factor of its own, more than 0, and adds a number."""
    if node.op != "DepthwiseConv2d" or not all(g.is_const(i) for i in node.inputs[1:]):
        return False
    w, x = np.asarray(g.data(node.inputs[1])), g.value(node.inputs[0])
    one = w.shape == (n, 1, 1) and x.shape == (1, 1, 1, n) == g.value(node.outputs[0]).shape
    return one and node.attrs["clip"] == (None, None) and bool((w > 0).all()) and "weight_steps" not in node.attrs
