"""Weights of recurrent layers become integers, each error handed on as in `rounding.py`.

    Recurrent(x, W, R, ...)    =>   Recurrent(x, W', R', ...), integers * attrs["weight_steps"], of W and of R

A row of W is a dot product with x at each time step, a row of R one with the hidden state before it, so both are linear
layers whose inputs a float run shows. Biases stay: means differ from time step to time step, and a bias corrected by their mean made
networks worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.quantise.calibrate import Runs, Samples
from mica.quantise.kernels import recurrent as kernel
from mica.quantise.moments import MAX_ENTRIES, Adder, Moments, Rows
from mica.quantise.rounding import Candidate, choose, nearest
from mica.reference import recurrent

PARTS = (0, 1)  # of what a layer multiplies: x, the hidden state


@dataclass
class States:
    """Moments of x, and of the hidden states that time steps begin with."""

    x: Moments
    hidden: Moments


def nodes(g: Graph) -> list[Node]:
    """Recurrent nodes whose weights are constants."""
    return [n for n in g.nodes if n.op == "Recurrent" and all(g.is_const(i) for i in n.inputs[-5:])]


def measure(g: Graph, samples: Samples, quants: Mapping[str, Quant], runs: Runs | None = None) -> dict[str, States]:
    """Of every recurrent node: its output's name -> what it multiplies. Layers of more than MAX_ENTRIES products are left out."""
    adders: dict[str, list[Adder]] = {}
    small = []
    for node in nodes(g):
        time, batch, wide = g.value(node.inputs[0]).shape
        units = g.value(node.inputs[-4]).shape[1]
        if wide * wide + units * units <= MAX_ENTRIES:
            small.append(node)
            scales = (quants[node.inputs[0]], quants[node.outputs[0]])
            adders[node.outputs[0]] = [
                Adder(Rows(time * batch, n), q, True) for n, q in zip((wide, units), scales, strict=True)
            ]
    read = {i for node in small for i in node.inputs[:-5]}
    for _, values in (runs or Runs(g, room=0))(samples, read) if small else ():
        for node in small:
            n = len(values[node.inputs[0]])
            data = [np.asarray(g.data(i)) if g.is_const(i) else values[i] for i in node.inputs[:-5]]
            x, *initial = [np.broadcast_to(d, (n, *d.shape)) if d.ndim == 3 else d for d in data]
            for adder, v in zip(adders[node.outputs[0]], (x, _before(g, node, x, initial)), strict=True):
                adder.add(v)
    return {name: States(*(adder.done() for adder in both)) for name, both in adders.items()}


def _before(g: Graph, node: Node, x: np.ndarray, initial: list[np.ndarray]) -> np.ndarray:
    """The hidden states that time steps of some samples begin with [N,T,B,H]."""
    states, _ = recurrent.run_several(node.attrs, x, initial, [np.asarray(g.data(i)) for i in node.inputs[-5:]])
    first = initial[0] if initial else np.zeros_like(states[:, :1])
    return np.concatenate([states[:, 1:], first] if node.attrs["reverse"] else [first, states[:, :-1]], axis=1)


def run(g: Graph, fit: Mapping[str, States], held: Mapping[str, States], quants: Mapping[str, Quant]) -> Graph:
    """Rounds the weights of the recurrent nodes that both know."""
    for node in nodes(g):
        name = node.outputs[0]
        if name in fit and node.attrs.get("weight_steps") is None and _finite(g, node):
            a, b = fit[name], held[name]
            _set(g, node, quants, [(a.x, b.x), (a.hidden, b.hidden)])
    return g


def plain(g: Graph, quants: Mapping[str, Quant]) -> Graph:
    """Weights to the nearest integer, biases as they are."""
    for node in nodes(g):
        if node.attrs.get("weight_steps") is None and _finite(g, node):
            _set(g, node, quants, None)
    return g


def _finite(g: Graph, node: Node) -> bool:
    """True if all constants are finite. The quantiser refuses others, with the node's name."""
    return all(np.all(np.isfinite(np.asarray(g.data(i)))) for i in node.inputs[-5:])


def _set(g: Graph, node: Node, quants: Mapping[str, Quant], seen: Sequence[tuple[Moments, Moments]] | None) -> None:
    parts = kernel.parts(g, node, quants[node.inputs[0]], kernel.inner_hidden(node, quants))
    steps = []
    for k, part in zip(PARTS, parts, strict=True):
        chosen = part.steps, nearest(part.weights, part.steps)
        if seen is not None:
            better = choose(part.weights, part.steps, *seen[k])
            if part.fits(*better):
                chosen = better
        steps.append(chosen[0])
        _set_weights(g, node, k - 5, chosen)
    node.attrs["weight_steps"] = tuple(steps)


def _set_weights(g: Graph, node: Node, at: int, chosen: Candidate) -> None:
    steps, q = chosen
    node.inputs[at] = g.new_const(f"{node.inputs[at]}.rounded", (q * steps[:, None]).astype(np.float32))
