"""Simulation of int8 before there are integers: the float graph with each activation rounded to its 256 values.

With weights that are integers times a step (`rounding.py`) this equals the kernels' results, except for the rounding of
requantisation itself. It needs no kernel, so it works for every operator that has a float definition.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mica.ir.exact_inputs import exact_inputs
from mica.ir.graph import Graph, Node, Quant
from mica.quantise.calibrate import Batch, Runs, Samples
from mica.reference import batch, float_ops, functions

LN10 = 2.302585092994046


def started(g: Graph, inputs: Mapping[str, np.ndarray], quants: Mapping[str, Quant]) -> dict[str, np.ndarray]:
    """The inputs, as their integers stand for them."""
    reals = exact_inputs(g)
    values = {name: np.asarray(x, np.float32) for name, x in inputs.items()}
    return {name: x if name in reals or whole(g, name) else rounded(x, quants[name]) for name, x in values.items()}


def whole(g: Graph, name: str) -> bool:
    """Row numbers, positions and lengths: integers of 32 bits, which no scale says."""
    return g.values[name].dtype == "int32"


def step(g: Graph, node: Node, values: dict[str, np.ndarray], quants: Mapping[str, Quant] | None = None) -> None:
    """Adds a node's outputs to the values; exact ones without quants."""
    arrays = [values[i] if i in values else np.asarray(g.values[i].data) for i in node.inputs]
    for out, y in zip(node.outputs, apply(g, node, arrays), strict=True):
        values[out] = y if quants is None or whole(g, out) else rounded(y, quants[out])


def steps(
    g: Graph, node: Node, several: Sequence[dict[str, np.ndarray]], quants: Mapping[str, Quant] | None = None
) -> None:
    """The same for several samples, small ones together."""
    elements = sum(math.prod(g.value(name).shape) for name in (*node.inputs, *node.outputs) if not g.is_const(name))
    size = max(1, batch.ELEMENTS // max(elements, 1)) if node.op in batch.TOGETHER - batch.LAID_OUT else 1
    for start in range(0, len(several), size):
        part = several[start : start + size]
        if len(part) == 1:
            step(g, node, part[0], quants)
            continue
        arrays = [
            np.stack([values[i] for values in part]) if i in part[0] else np.asarray(g.values[i].data)
            for i in node.inputs
        ]
        for out, y in zip(node.outputs, batch.apply(g, node, arrays), strict=True):
            y = y if quants is None or whole(g, out) else rounded(y, quants[out])
            for values, one in zip(part, y, strict=True):
                values[out] = one


def apply(g: Graph, node: Node, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The float outputs of one core node, float32."""
    shape = g.values[node.outputs[0]].shape
    several = float_ops.SEVERAL.get(node.op) if len(node.outputs) > 1 else None
    results = several(node, arrays, shape) if several else [float_ops.OPS[node.op](node, arrays, shape)]
    return [np.asarray(y, np.float32) for y in results]


def rounded(x: np.ndarray, q: Quant) -> np.ndarray:
    """float32 -> float32: to the nearest value that an integer stands for."""
    scale = np.float32(q.scale)
    with np.errstate(over="ignore"):  # what is far outside of the range is cut off below
        y = np.rint(x / scale)
    low, high = q.limits
    np.clip(y, low - q.zero_point, high - q.zero_point, out=y)
    y *= scale
    return np.asarray(y)


def watched(g: Graph) -> list[str]:
    """Values whose error says how good a quantisation is: the outputs, and before a final Softmax its input.

    Probabilities near 0 and 1 hide errors that decide the next sample; their logits show them all. A cache that is
    written in place is no answer: of ten caches and one row of scores, the scores would count for an eleventh.
    """
    producers = g.producers()
    names = [o for o in g.outputs if not _cache(g, producers.get(o))] or list(g.outputs)
    for o in g.outputs:
        node = producers.get(o)
        if node is not None and node.op == "Softmax":
            names.append(node.inputs[0])
    return names


def _cache(g: Graph, node: Node | None) -> bool:
    return node is not None and node.op == "ScatterRows" and node.inputs[0] in g.inputs


def noise(
    exact: Graph, tried: Sequence[tuple[Graph, Mapping[str, Quant]]], samples: Samples, runs: Runs | None = None
) -> list[float]:
    """Mean over the watched values of 10 log10(squared error / squared size), in dB: the lower, the better.

    tried: graphs with the activations of `exact`, and the scales of these. runs: of `exact`, where there are some.
    """
    names = [n for n in watched(exact) if all(n in quants for _, quants in tried)]
    error, size = np.zeros((len(tried), len(names))), np.zeros(len(names))
    for part, expected in (runs or Runs(exact, room=0))(samples, names):
        real = [expected[name].astype(np.float64) for name in names]
        for of_one in np.transpose([batch.squares(w) for w in real]):
            size += of_one
        inputs = batch.inputs(part)
        for e, (g, quants) in zip(error, tried, strict=True):
            found = ends(g, inputs, quants, names)
            for of_one in np.transpose([batch.squares(found[name] - w) for name, w in zip(names, real, strict=True)]):
                e += of_one
    decibels = 10 / LN10 * functions.log(np.maximum(error, 1e-30) / np.maximum(size, 1e-30))
    return [float(d) for d in decibels.mean(axis=1)]


def ends(g: Graph, inputs: Batch, quants: Mapping[str, Quant], names: Sequence[str]) -> Batch:
    """The named activations of some samples, as their integers stand for them."""
    values = started(g, inputs, quants)
    last = {i: k for k, node in enumerate(g.nodes) for i in node.inputs} | dict.fromkeys(names, len(g.nodes))
    for k, node in enumerate(g.nodes):
        arrays = [values[i] if i in values else np.asarray(g.values[i].data) for i in node.inputs]
        for out, y in zip(node.outputs, batch.apply(g, node, arrays), strict=True):
            if out in last:
                values[out] = y if whole(g, out) else rounded(y, quants[out])
        for i in node.inputs:
            if last[i] == k:
                values.pop(i, None)
    return values
