"""Weights of recurrent layers become integers, each error handed on as in `rounding.py`.

    Recurrent(x, W, R, ...)    =>   Recurrent(x, W', R', ...), integers * attrs["weight_steps"], of W and of R

A row of W is a dot product with x at each time step, a row of R one with the hidden state before it, so both are linear
layers whose inputs a float run shows. Those of an LSTM count time steps by their effect (`lstm_effect.py`), and its
biases take the mean error. Other biases stay: means differ from time step to time step, and a bias corrected by their
plain mean made networks worse.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.quantise import lstm_effect
from mica.quantise.calibrate import Runs, Samples
from mica.quantise.kernels import recurrent as kernel
from mica.quantise.lstm_effect import MOST_PLACES, PROBES, Weighted
from mica.quantise.moments import MAX_ENTRIES, Adder, Moments, Rows
from mica.quantise.rounding import Candidate, choose, nearest
from mica.reference import recurrent

PARTS = (0, 1)  # of what a layer multiplies: x, the hidden state
MOST_WORK = 2**30  # multiplications for the moments of an LSTM, of each half of the samples; 8 samples at least
Pair = tuple[Moments | Weighted, Moments | Weighted]  # of x, and of the hidden states that time steps begin with


def nodes(g: Graph) -> list[Node]:
    """Recurrent nodes whose weights are constants."""
    return [n for n in g.nodes if n.op == "Recurrent" and all(g.is_const(i) for i in n.inputs[-5:])]


def measure(
    g: Graph,
    samples: Samples,
    quants: Mapping[str, Quant],
    runs: Runs | None = None,
    known: dict[str, Pair] | None = None,
) -> dict[str, Pair]:
    """Measure every recurrent node: its output's name -> what it multiplies. Layers of more than MAX_ENTRIES
    products are left out.

    known: of LSTMs, which do not depend on quants, and is added to.
    """
    adders: dict[str, list[Adder]] = {}
    found = {} if known is None else known
    small, lstms = [], []
    for node in nodes(g):
        time, batch, wide = g.value(node.inputs[0]).shape
        units = g.value(node.inputs[-4]).shape[1]
        if wide * wide + units * units > MAX_ENTRIES or node.outputs[0] in found:
            continue
        if node.attrs["cell"] == "lstm" and time > 1 and PROBES * time * batch <= MOST_PLACES:
            lstms.append(node)
            continue
        small.append(node)
        scales = (quants[node.inputs[0]], quants[node.outputs[0]])
        adders[node.outputs[0]] = [
            Adder(Rows(time * batch, n), q, True) for n, q in zip((wide, units), scales, strict=True)
        ]
    read = {i for node in small + lstms for i in node.inputs[:-5]}
    seen = 0
    for _, values in (runs or Runs(g, room=0))(samples, read) if read else ():
        for node in small + lstms:
            n = len(values[node.inputs[0]])
            data = [np.asarray(g.data(i)) if g.is_const(i) else values[i] for i in node.inputs[:-5]]
            x, *initial = [np.broadcast_to(d, (n, *d.shape)) if d.ndim == 3 else d for d in data]
            if node.outputs[0] not in adders:
                _add(g, node, found, x, initial, seen)
                continue
            for adder, v in zip(adders[node.outputs[0]], (x, _before(g, node, x, initial)), strict=True):
                adder.add(v)
        seen += n
    return found | {name: (both[0].done(), both[1].done()) for name, both in adders.items()}


def _add(g: Graph, node: Node, found: dict[str, Pair], x: np.ndarray, initial: Sequence[np.ndarray], seen: int) -> None:
    """Moments of some samples, as many as there is work left for behind those that were seen."""
    name, (_, time, batch, wide) = node.outputs[0], x.shape
    rows, units = g.value(node.inputs[-4]).shape
    entries = wide * wide + units * units
    groups = rows if rows * entries <= MAX_ENTRIES else rows // units
    places = PROBES * time * batch
    n = min(max(MOST_WORK // (places * groups * entries), 8), MOST_PLACES // places) - seen
    if n > 0:
        constants = [np.asarray(g.data(i)) for i in node.inputs[-5:]]
        every = g.value(name).shape[0] > 1
        x, hidden, counts = lstm_effect.measure(node.attrs, x[:n], [s[:n] for s in initial], constants, every)
        both = Weighted.collect(x, counts, groups), Weighted.collect(hidden, counts, groups)
        before = found.get(name)
        if before is not None:
            both = before[0].merged(both[0]), before[1].merged(both[1])  # type: ignore[arg-type,assignment]
        found[name] = both


def _before(g: Graph, node: Node, x: np.ndarray, initial: list[np.ndarray]) -> np.ndarray:
    """The hidden states that time steps of some samples begin with [N,T,B,H]."""
    states, _ = recurrent.run_several(node.attrs, x, initial, [np.asarray(g.data(i)) for i in node.inputs[-5:]])
    first = initial[0] if initial else np.zeros_like(states[:, :1])
    return np.concatenate([states[:, 1:], first] if node.attrs["reverse"] else [first, states[:, :-1]], axis=1)


def run(g: Graph, fit: Mapping[str, Pair], held: Mapping[str, Pair], quants: Mapping[str, Quant]) -> Graph:
    """Rounds the weights of the recurrent nodes that both know."""
    for node in nodes(g):
        name = node.outputs[0]
        if name in fit and name in held and node.attrs.get("weight_steps") is None and _finite(g, node):
            _set(g, node, quants, list(zip(fit[name], held[name], strict=True)))
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


def _set(g: Graph, node: Node, quants: Mapping[str, Quant], seen: Sequence[Pair] | None) -> None:
    """seen: of x and of the hidden state, what each half of the samples shows."""
    parts = kernel.parts(g, node, quants[node.inputs[0]], kernel.inner_hidden(node, quants))
    steps = []
    for k, part in zip(PARTS, parts, strict=True):
        chosen = part.steps, nearest(part.weights, part.steps)
        if seen is not None:
            better = choose(part.weights, part.steps, *seen[k])
            if part.fits(*better):
                chosen = better
                _correct(g, node, k - 3, better[1] * better[0][:, None] - part.weights, seen[k])
        steps.append(chosen[0])
        _set_weights(g, node, k - 5, chosen)
    node.attrs["weight_steps"] = tuple(steps)


def _correct(g: Graph, node: Node, at: int, error: np.ndarray, seen: Pair) -> None:
    """Takes the mean error [rows, K] of an LSTM's rows from its bias, where one half of the samples says so for the
    other."""
    fit, held = seen
    if isinstance(fit, Weighted) and isinstance(held, Weighted):
        each = len(error) // len(fit.total)
        shifts = [np.sum(error * np.repeat(m.mean, each, axis=0), axis=1) for m in (fit, held, fit.merged(held))]
        helps = np.abs(shifts[1] - shifts[0]) < np.abs(shifts[1])
        bias = np.asarray(g.data(node.inputs[at])) - np.where(helps, shifts[2], 0.0)
        node.inputs[at] = g.new_const(f"{node.inputs[at]}.corrected", bias.astype(np.float32))


def _set_weights(g: Graph, node: Node, at: int, chosen: Candidate) -> None:
    steps, q = chosen
    node.inputs[at] = g.new_const(f"{node.inputs[at]}.rounded", (q * steps[:, None]).astype(np.float32))
