"""Weights of four bits: a table of 16 int8 values for a layer, and for each weight its number in it.

    Linear(x, w, b)   =>   Linear(x, w', b'), w' = table[codes] * attrs["weight_steps"], attrs["weight_bits"] = 4

The scale of a channel is that of its int8 weights, so that all channels share one table: a weighted k-means of the
weights in their steps, rounded to int8. Layers are fitted in sequence. A layer reads the outputs of quantised layers,
xq, not the exact x. So its weights first become those with the least squared error of W xq against w x. That is a ridge
regression, which keeps a weight as it is if the samples tell nothing about it. The weights are then rounded to the
table one by one, errors handed on (`rounding.in_turn`). Held-out samples decide how much of both serves a layer: it is
fitted to one half of the samples and measured on the other, and the winner is made of all. With consecutive runs, each
channel then gets the best of some steps, and weights move one by one to the table's value that is best beside the
others. The bias corrects the shift of the mean. Layers of eight bits behind them are fitted likewise.

Every weight is again an int8 times a step, so nothing behind this file but the codec knows of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mica.format.weights import CODE_BITS, CODES, INT8
from mica.ir.graph import Graph, Node, Quant
from mica.passes.wide import is_wide
from mica.quantise import moments, rounding, simulate
from mica.quantise.calibrate import Samples
from mica.quantise.chains import ALONE, Chain
from mica.quantise.kernels.common import OFFSET_TABLE
from mica.quantise.kernels.linear import weight_scales
from mica.quantise.params import choose_quants
from mica.quantise.tune import Tuned, copy, macs, thin
from mica.reference import exact

OPS = ("Conv2d", "FullyConnected")  # their kernels read codes; a depthwise layer has few weights and feels each
LEAST = 512  # weights of a layer: smaller ones save little
NARROW = 8  # numbers or channels, through which all goes that is behind: such a layer feels each weight
WORK = 1_500_000_000  # multiplications of one run over the samples
FEWEST = 8  # samples, where there are so many
DAMPINGS = (0.02, 0.2, 1.0)  # of rounding one by one, in units of the mean variance
RIDGES = (None, 0.1, 1.0, 10.0)  # likewise: how little samples move a weight before it is rounded; None: not at all
IN_A_ROW = (None, 1.0, 10.0)  # of consecutive runs, one like the next: they would speak for less than that
FINE = 2.0**12  # parts of a step in which exact inputs are counted
ROUNDS = 40  # of the k-means
SCALES = (1.0, 0.8, 0.87, 0.93, 1.07, 1.15)  # of the step that a channel's int8 weights have
SWEEPS = 4  # over all weights of a layer, each of which may take another value of the table
NEAR = 0.05  # damping of both: 0.02 and 0.2 gain less, with one of them alone

Told = Callable[[], None]
Ridges = Sequence[float | None]
Integers = tuple[np.ndarray, np.ndarray]  # int8 weights as floats [Cout, K]; their steps [Cout]


def _nobody() -> None:
    pass


def candidates(g: Graph) -> list[str]:
    """Layers that four bits may serve, by the names of their outputs, in order."""
    nodes = [n for n in g.nodes if n.op in OPS and not n.attrs.get(OFFSET_TABLE) and not is_wide(g, n.outputs[0])]
    return [n.outputs[0] for n in nodes if all(g.is_const(i) for i in n.inputs[1:]) and _large(g, n)]


def _large(g: Graph, node: Node) -> bool:
    """True if the layer is large enough to save bytes, and no bottleneck."""
    w = g.value(node.inputs[1])
    return w.size >= LEAST and min(w.shape[0], w.size // w.shape[0]) > NARROW


def run(tuned: Tuned, samples: Samples, chosen: Collection[str], told: Told = _nobody, chain: Chain = ALONE) -> Tuned:
    """The network with the chosen layers in four bits, each fitted to what those before it deliver.
    told: after each of them."""
    return replace(tuned, graph=_walk(tuned, samples, chosen, chain, told))


def each_alone(
    tuned: Tuned, samples: Samples, names: Collection[str], told: Told = _nobody, chain: Chain = ALONE
) -> Graph:
    """The named layers, each fitted as if all others had eight bits: to be taken out with `only`.
    told: after each of them."""
    return _walk(tuned, samples, names, chain, told, alone=True)


def only(tuned: Tuned, g: Graph, names: Collection[str]) -> Graph:
    """The network with the named layers as they are in g."""
    result = copy(tuned.graph)
    result.values = dict(g.values)
    of_g = g.producers()
    result.nodes = [of_g[n.outputs[0]] if n.outputs[0] in names else n for n in result.nodes]
    return result


def nearest(tuned: Tuned, chosen: Collection[str]) -> Tuned:
    """Without samples: tables of the weights alone, and the nearest of their values."""
    quants = choose_quants(tuned.exact, tuned.ranges)
    g, of_exact = copy(tuned.graph), tuned.exact.producers()
    for node in g.nodes:
        if node.outputs[0] in chosen:
            rows, bias = _rows(tuned.exact, of_exact[node.outputs[0]])
            steps = weight_scales(rows, bias, quants[node.inputs[0]], quants[node.outputs[0]])
            _set(g, node, _to_table(rows / steps[:, None], np.ones_like(rows))(rows / steps[:, None]), steps)
    return replace(tuned, graph=g)


# ---- one layer after the other ---------------------------------------------------------------------------------------


def _walk(
    tuned: Tuned, samples: Samples, chosen: Collection[str], chain: Chain, told: Told, alone: bool = False
) -> Graph:
    """The graph with the chosen layers in four bits. Those behind a layer read what it then delivers, those of the next
    run too where it hands on a state. alone: what it delivered before."""
    samples = thin(samples, max(FEWEST, WORK // max(macs(tuned.exact), 1)))
    samples = [*samples, *(sample for text in chain.texts for sample in text)]
    quants = choose_quants(tuned.exact, tuned.ranges)
    g = copy(tuned.graph)
    last = {i: k for k, n in enumerate(g.nodes) for i in n.inputs}
    ridges = IN_A_ROW if chain.pairs else RIDGES
    some = False  # layers in four bits were met
    handed_on = {} if alone else chain.written_first(g)
    real = [{i: np.asarray(v, np.float32) for i, v in s.items()} for s in samples]
    seen = [simulate.started(tuned.exact, s, quants) for s in real]
    for k, (node, model) in enumerate(zip(g.nodes, tuned.exact.nodes, strict=True)):
        name = node.outputs[0]
        before = Node(node.op, node.name, list(node.inputs), list(node.outputs), dict(node.attrs))
        if name in chosen or (not alone and some and _refitted(tuned.exact, model)):
            x = node.inputs[0]
            halves = [Pairs(g, node, quants[x]) for _ in range(2)]
            for half, a, b in zip(itertools.cycle(halves), real, seen, strict=False):
                half.add(a[x], b[x])
            rows, bias = _rows(tuned.exact, model)
            if name in chosen:
                refine = bool(chain.pairs)
                _set(g, node, *fit(rows, bias, halves[0], halves[1], quants[x], quants[name], ridges, refine))
                some = True
                told()
            elif not node.attrs.get(OFFSET_TABLE):
                again = fit_again(rows, _rows(g, node)[0], bias, halves[0], halves[1], quants[x], quants[name], ridges)
                if again is not None:
                    rounding.set_weights(g, node, *again)
            corrected = halves[0].merged(halves[1]).corrected(rows, _rows(g, node)[0], bias)
            node.inputs[2] = g.new_const(f"{node.inputs[2]}.corrected", corrected.astype(np.float32))
        if name not in handed_on:
            simulate.steps(tuned.exact, model, real)
            simulate.steps(g, before if alone else node, seen, quants)
        for t, (a, b) in enumerate(zip(real, seen, strict=True)):
            if name in handed_on:
                simulate.step(tuned.exact, model, a)
                simulate.step(g, before if alone else node, b, quants)
                if t + 1 < len(samples) and chain.follows(*samples[t : t + 2]):
                    state, shape = handed_on[name], g.value(handed_on[name]).shape
                    real[t + 1].setdefault(state, a[name].reshape(shape))
                    seen[t + 1][state] = b[name].reshape(shape)
            for value in {*node.inputs, *node.outputs}:
                if last.get(value, -1) <= k:
                    a.pop(value, None)
                    b.pop(value, None)
    return g


def _refitted(g: Graph, node: Node) -> bool:
    """True if a layer of eight bits may be fitted to outputs of layers of four: the compiler chooses its weights."""
    if node.op not in OPS or node.attrs.get("weight_steps") is not None:
        return False
    return all(g.is_const(i) and bool(np.all(np.isfinite(np.asarray(g.data(i))))) for i in node.inputs[1:])


def _rows(g: Graph, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Weights [Cout, K] and biases [Cout] of a linear node, float64."""
    w, b = (np.asarray(g.data(i), np.float64) for i in node.inputs[1:])
    return w.reshape(len(w), -1), b


def _set(g: Graph, node: Node, q: np.ndarray, steps: np.ndarray) -> None:
    rounding.set_weights(g, node, q, steps)
    node.attrs["weight_bits"] = CODE_BITS


# ---- what a layer reads ----------------------------------------------------------------------------------------------


class Pairs:
    """Sums over the patches that a linear node reads, exact ones and those that quantised layers deliver.

    As in `moments.Moments` all sums are of whole numbers, in steps of x and in FINE-ths of them.
    """

    def __init__(self, g: Graph, node: Node, quant: Quant) -> None:
        self.g, self.node, self.quant = g, node, quant
        groups, taps = moments.shape(g, node)
        self.places = moments.Places(g, node)
        self.groups, self.taps, self.count = groups, taps, 0
        self.real, self.seen = np.zeros((groups, taps)), np.zeros((groups, taps))
        self.products, self.crossed = np.zeros((groups, taps, taps)), np.zeros((groups, taps, taps))

    def add(self, real: np.ndarray, seen: np.ndarray) -> None:
        """x of one sample, exact and as it is delivered."""
        shape = (self.places.inputs, self.places.channels)
        a, b = (self.places.patches(x.reshape(shape), 0).astype(np.float64) for x in (real, seen))
        a, b = np.rint(a * (FINE / self.quant.scale)), np.rint(b / self.quant.scale)
        self.count += a.shape[1]
        self.real += a.sum(axis=1)
        self.seen += b.sum(axis=1)
        self.products += b.transpose(0, 2, 1) @ b  # of whole numbers: no sum is rounded
        self.crossed += a.transpose(0, 2, 1) @ b

    def merged(self, other: Pairs) -> Pairs:
        """Return the sums of both sets of samples."""
        result = Pairs(self.g, self.node, self.quant)
        for name in ("count", "real", "seen", "products", "crossed"):
            setattr(result, name, getattr(self, name) + getattr(other, name))
        return result

    def moments(self) -> Moments:
        """Covariances in units of a step of x, squared; that of what is delivered is positive definite."""
        n = max(self.count, 1)
        real, seen = self.real / (n * FINE), self.seen / n
        covariance = self.products / n - seen[:, :, None] * seen[:, None, :]
        covariance += 1e-6 * (_variance(covariance) + 1e-30)[:, None, None] * np.eye(self.taps)
        crossed = self.crossed / (n * FINE) - real[:, :, None] * seen[:, None, :]
        return Moments(real, seen, covariance, crossed)

    def corrected(self, rows: np.ndarray, rounded: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Biases [Cout] with which the mean of the output is the exact one's."""
        m = self.moments()
        real, seen = (np.repeat(v, len(rows) // self.groups, axis=0) for v in (m.real, m.seen))
        return np.asarray(bias + self.quant.scale * np.sum(rows * real - rounded * seen, axis=1))


@dataclass(frozen=True)
class Moments:
    """Means [groups, K] of what is exact and delivered; covariances [groups, K, K] of the latter, and of both."""

    real: np.ndarray
    seen: np.ndarray
    covariance: np.ndarray
    crossed: np.ndarray

    def error(self, rows: np.ndarray, rounded: np.ndarray) -> float:
        """Variance of all outputs' errors, but for a part that no rounding changes."""
        a, b = (v.reshape(len(self.covariance), -1, v.shape[1]) for v in (rows, rounded))
        noise = np.sum(exact.product(b, self.covariance) * b) - 2 * np.sum(exact.product(a, self.crossed) * b)
        return float(noise)

    def target(self, rows: np.ndarray, ridge: float) -> np.ndarray:
        """Real weights [Cout, K] that make the best of what is delivered, kept near to what they are by the ridge."""
        near = (ridge * (_variance(self.covariance) + 1e-30))[:, None, None] * np.eye(rows.shape[1])
        a = rows.reshape(len(self.covariance), -1, rows.shape[1])
        return solve(self.covariance + near, exact.product(a, self.crossed + near)).reshape(rows.shape)


def _variance(c: np.ndarray) -> np.ndarray:
    """Mean of the diagonals [groups]."""
    return np.asarray(np.diagonal(c, axis1=1, axis2=2).mean(axis=1))


def solve(h: np.ndarray, b: np.ndarray) -> np.ndarray:
    """W [groups, N, K] of W h = b, for positive definite h [groups, K, K];
    by h = L D L^T, element by element, for the same bits everywhere."""
    low = rounding.triangle(h)
    size = h.shape[1]
    w = b.copy()
    pivots = np.empty(h.shape[:2])
    for j in range(size):
        pivots[:, j] = h[:, j, j] - np.sum(low[:, j, :j] ** 2 * pivots[:, :j], axis=1)
        w[:, :, j + 1 :] -= w[:, :, j, None] * low[:, None, j + 1 :, j]
    w /= np.maximum(pivots, 1e-300)[:, None, :]
    for j in range(size - 1, 0, -1):
        w[:, :, :j] -= w[:, :, j, None] * low[:, None, j, :j]
    return w


# ---- one layer -------------------------------------------------------------------------------------------------------


def fit(
    rows: np.ndarray,
    bias: np.ndarray,
    a: Pairs,
    b: Pairs,
    qx: Quant,
    qy: Quant,
    ridges: Ridges = RIDGES,
    refine: bool = False,
) -> Integers:
    """The candidate that, made of one half of the samples, has the least error on the other, both ways round;
    made of all.

    refine: channels may then have other steps, and single weights other codes, if that is better in the same way.
    """
    first, second, whole = (_Maker(rows, bias, m, qx, qy) for m in (a.moments(), b.moments(), a.merged(b).moments()))
    if 2 * len(ridges) * len(DAMPINGS) * rows.size * rows.shape[1] > rounding.MAX_WORK:
        return whole.nearest(DAMPINGS[-1])

    def error(make: Callable[[_Maker], Integers]) -> float:
        found = 0.0
        for maker, held in ((first, second), (second, first)):
            q, steps = make(maker)
            found += held.moments.error(rows, q * steps[:, None])
        return found

    tried = list(itertools.product(ridges, DAMPINGS))
    errors = [error(lambda maker, c=c: maker.in_turn(*c)) for c in tried]  # type: ignore[misc]
    best = int(np.argmin(errors))
    if refine and error(lambda maker: maker.refined(*tried[best])) < errors[best]:
        return whole.refined(*tried[best])
    return whole.in_turn(*tried[best])


def fit_again(
    rows: np.ndarray, rounded: np.ndarray, bias: np.ndarray, a: Pairs, b: Pairs, qx: Quant, qy: Quant, ridges: Ridges
) -> Integers | None:
    """The same for int8 weights; None where those that there are (`rounded`) have the least error."""
    first, second, whole = (_Maker(rows, bias, m, qx, qy) for m in (a.moments(), b.moments(), a.merged(b).moments()))
    moved = [ridge for ridge in ridges if ridge is not None]
    if 2 * len(moved) * rows.size * rows.shape[1] > rounding.MAX_WORK:
        return None
    errors = [sum(m.moments.error(rows, rounded) for m in (first, second))]
    for ridge in moved:
        found = 0.0
        for maker, held in ((first, second), (second, first)):
            q, steps = maker.eight(ridge)
            found += held.moments.error(rows, q * steps[:, None])
        errors.append(found)
    best = int(np.argmin(errors))
    return whole.eight(moved[best - 1]) if best > 0 else None


class _Maker:
    """Makes candidates for a layer's integers from the moments of some samples; what several need is made once."""

    def __init__(self, rows: np.ndarray, bias: np.ndarray, m: Moments, qx: Quant, qy: Quant) -> None:
        self.rows, self.bias, self.moments, self.qx, self.qy = rows, bias, m, qx, qy
        self._desired: dict[float | None, np.ndarray] = {None: rows}
        self._turns: dict[float, rounding.Turns] = {}

    def nearest(self, damping: float) -> Integers:
        """Each weight for itself."""
        steps, scaled, to_table = self._table(self.rows, damping)
        return to_table(scaled), steps

    def in_turn(self, ridge: float | None, damping: float) -> Integers:
        """One by one, errors handed on, after the weights were moved by the ridge regression."""
        desired = self._moved(ridge)
        steps, _, to_table = self._table(desired, damping)
        return rounding.in_turn(desired, steps[None], self._turn(damping), to_table)[0, 0], steps

    def refined(self, ridge: float | None, damping: float) -> Integers:
        """Likewise with the best of some steps for each channel, and then weight after weight as the others want it."""
        desired = self._moved(ridge)
        steps, _, to_table = self._table(desired, damping)
        near = (NEAR * (_variance(self.moments.covariance) + 1e-30))[:, None, None] * np.eye(desired.shape[1])
        c = self.moments.covariance + near
        tried = np.multiply.outer(np.array(SCALES), steps)
        q = rounding.in_turn(desired, tried, self._turn(damping), to_table)[0]
        errors = [_errors(desired - one * s[:, None], c) for one, s in zip(q, tried, strict=True)]
        best, channels = np.argmin(errors, axis=0), np.arange(len(desired))
        return moved(desired, q[best, channels], tried[best, channels], c, to_table), tried[best, channels]

    def eight(self, ridge: float) -> Integers:
        """Int8 weights, likewise."""
        desired = self._moved(ridge)
        steps = weight_scales(desired, self.bias, self.qx, self.qy)
        return rounding.in_turn(desired, steps[None], self._turn(DAMPINGS[-1]))[0, 0], steps

    def _moved(self, ridge: float | None) -> np.ndarray:
        if ridge not in self._desired:
            assert ridge is not None
            self._desired[ridge] = self.moments.target(self.rows, ridge)
        return self._desired[ridge]

    def _turn(self, damping: float) -> rounding.Turns:
        if damping not in self._turns:
            self._turns[damping] = rounding.turns(self.moments.covariance, [damping])
        return self._turns[damping]

    def _table(self, desired: np.ndarray, damping: float) -> tuple[np.ndarray, np.ndarray, rounding.ToIntegers]:
        c = self.moments.covariance
        steps = weight_scales(desired, self.bias, self.qx, self.qy)
        scaled = desired / steps[:, None]
        spread = np.diagonal(c, axis1=1, axis2=2) + damping * _variance(c)[:, None]
        weight = np.repeat(spread, len(desired) // len(spread), axis=0) * steps[:, None] ** 2
        return steps, scaled, _to_table(scaled, weight)


def _errors(off: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Variance of each channel's output [Cout] where weights are off by so much [Cout, K]; c [groups, K, K]."""
    d = off.reshape(len(c), -1, off.shape[1])
    return np.asarray(np.sum(exact.product(d, c) * d, axis=2).reshape(-1))


def moved(
    desired: np.ndarray, q: np.ndarray, steps: np.ndarray, c: np.ndarray, to_table: rounding.ToIntegers
) -> np.ndarray:
    """Integers [Cout, K] that leave no more error than q, each the best of the table beside the others;
    c [groups, K, K].

    Products are exact, and what follows is done element by element: the same bits everywhere.
    """
    shape = (len(c), -1, q.shape[1])
    q, step = q.reshape(shape).copy(), steps.reshape(len(c), -1)
    off = q * step[:, :, None] - desired.reshape(shape)
    slope = exact.product(off, c)  # half of the error's, by each weight
    for _ in range(SWEEPS):
        before = q.copy()
        for j in range(q.shape[2]):
            best = to_table(q[:, :, j] - slope[:, :, j] / (c[:, j, j, None] * step))
            change = (best - q[:, :, j]) * step
            q[:, :, j] = best
            slope += change[:, :, None] * c[:, j, None, :]
        if np.array_equal(before, q):
            break
    return np.asarray(q.reshape(desired.shape))


def _to_table(values: np.ndarray, weight: np.ndarray) -> rounding.ToIntegers:
    """The table that serves these weights in steps best, each counted by its weight: numbers -> the nearest of it."""
    order = np.argsort(values, axis=None, kind="stable")
    v = values.ravel()[order]
    counted = weight.ravel()[order] / max(float(weight.max()), 1e-300) + 1e-12
    # Up to each place: the sums of a run of places are differences of these.
    mass_to = np.concatenate([[0.0], np.cumsum(counted)])
    moment_to = np.concatenate([[0.0], np.cumsum(counted * v)])
    spread = v[(np.arange(CODES) * 2 + 1) * len(v) // (2 * CODES)]
    centre = (spread + np.linspace(v[0], v[-1], CODES)) / 2
    for _ in range(ROUNDS):
        ends = np.concatenate([[0], np.searchsorted(v, (centre[1:] + centre[:-1]) / 2, "right"), [len(v)]])
        mass, moment = np.diff(mass_to[ends]), np.diff(moment_to[ends])
        # A mean lies among what it is of: differences of sums are too coarse where little weighs little.
        mean = np.clip(moment / np.maximum(mass, 1e-300), v[np.minimum(ends[:-1], len(v) - 1)], v[ends[1:] - 1])
        centre = np.sort(np.where((mass > 0) & (np.diff(ends) > 0), mean, centre))
    table = np.unique(INT8.round(centre))
    between = (table[1:] + table[:-1]) / 2
    return lambda x: table[np.searchsorted(between, x)]
