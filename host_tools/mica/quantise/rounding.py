"""Weights become integers so that the layer's output changes least, and biases take up the rest.

    Linear(x, w, b)    =>   Linear(x, w', b'), w' = integers * attrs["weight_steps"] (one step an output channel)

Rounding each weight to the nearest integer is best for the weights; the output is what counts, and inputs are alike:
neighbouring pixels, a mean far from zero. What one weight was rounded up, the following ones can make good. Candidates
for a layer: the step that makes the largest weight the type's largest, or the smaller step with the least output error;
weights rounded to nearest, or one by one with each error handed on to those that follow, for several amounts of damping
(E. Frantar et al., "GPTQ: Accurate Post-Training Quantization", ICLR 2023, after Hassibi's optimal brain surgeon).
Errors are d @ C @ d (`moments.py`): found on one half of the samples, compared on the other, and the winner is computed
from all. The shift that rounding causes, of weights and of activations, is subtracted from the bias (bias correction,
M. Nagel et al., ICCV 2019), for a channel where the two halves of the samples agree that it helps.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mica.format.weights import INT8
from mica.ir.graph import Graph, Node, Quant
from mica.quantise.equalise import LINEAR
from mica.quantise.kernels.linear import nearest_integers, parts, weight_scales
from mica.quantise.moments import Moments
from mica.reference import exact
from mica.reference.exact import ROOM, Whole

STEPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)  # of the step that makes the largest weight the type's largest
DAMPINGS = (0.01, 0.1, 1.0)  # of the mean variance
BLOCK = 32  # weights whose errors are handed on together
PANEL = 128  # rows of a symmetric matrix that one product makes
FINE = 2.0**16  # parts of a step in which errors are handed on
Candidate = tuple[np.ndarray, np.ndarray]  # steps [Cout], integers [Cout, K]
ToIntegers = Callable[[np.ndarray], np.ndarray]


class Seen(Protocol):
    """Moments of the numbers that rows are multiplied with."""

    @property
    def covariance(self) -> np.ndarray: ...

    def merged(self, other: Any) -> Any: ...


MOST_TOGETHER = 1 << 19  # entries of a covariance for which all dampings are tried at once
MAX_WORK = 4e9  # multiplications of all candidates of one layer; above, to the nearest


def run(
    g: Graph,
    fit: Mapping[str, Moments],
    held: Mapping[str, Moments],
    quants: Mapping[str, Quant],
    known: dict[Hashable, Candidate] | None = None,
) -> Graph:
    """Rounds the weights and corrects the biases of the linear nodes that `fit` and `held` know.

    known: what was chosen for the same graph before, of moments that still live; new choices come to it.
    """
    known = {} if known is None else known
    for node in g.nodes:
        name = node.outputs[0]
        if name in fit and node.attrs.get("weight_steps") is None:
            _node(g, node, fit[name], held[name], quants[node.inputs[0]], quants[name], known)
    return g


def plain(g: Graph, quants: Mapping[str, Quant]) -> Graph:
    """Weights to the nearest integer, biases as they are: what the kernels get without tuning."""
    for node in g.nodes:
        if node.op in LINEAR and node.attrs.get("weight_steps") is None and all(g.is_const(i) for i in node.inputs[1:]):
            w, b = (np.asarray(g.data(i)) for i in node.inputs[1:])
            rows = w.reshape(len(w), -1)
            if np.all(np.isfinite(rows)) and np.all(np.isfinite(b)):
                steps = weight_scales(rows, b.astype(np.float64), quants[node.inputs[0]], quants[node.outputs[0]])
                set_weights(g, node, nearest_integers(rows, steps), steps)
    return g


def set_weights(g: Graph, node: Node, q: np.ndarray, steps: np.ndarray) -> None:
    """The node's weights become integers q [Cout, K] times steps [Cout]."""
    w = np.empty(q.shape, np.float32)
    for part in parts(q):
        w[part] = q[part] * steps[part, None]
    node.inputs[1] = g.new_const(f"{node.inputs[1]}.rounded", w.reshape(g.value(node.inputs[1]).shape))
    node.attrs["weight_steps"] = steps


def _node(
    g: Graph, node: Node, fit: Moments, held: Moments, qx: Quant, qy: Quant, known: dict[Hashable, Candidate]
) -> None:
    w, b = (np.asarray(g.data(i)) for i in node.inputs[1:])
    rows, bias = w.reshape(len(w), -1), b.astype(np.float64)
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(bias))):
        return  # refused by the step's quantiser, with its name
    largest = weight_scales(rows, bias, qx, qy)
    key = (node.outputs[0], id(fit), id(held), largest.tobytes())
    if key not in known:
        if fit.with_covariance:
            chosen, integers = choose(rows.astype(np.float64), largest, fit, held)
            known[key] = chosen, integers.astype(np.int8)
        else:
            known[key] = largest, nearest_integers(rows, largest)
    steps, q = known[key]
    set_weights(g, node, q, steps)
    corrected = correct(rows, q, steps, bias, fit, held)
    node.inputs[2] = g.new_const(f"{node.inputs[2]}.corrected", corrected.astype(np.float32))


def nearest(rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Integers [Cout, K] of the weights' type."""
    return INT8.round(rows / steps[:, None])


def choose(rows: np.ndarray, largest: np.ndarray, fit: Seen, held: Seen) -> Candidate:
    """The candidate with the smallest error on `held`, made from all samples."""
    held_rows = _rows(held.covariance)

    def best_steps(c: np.ndarray) -> np.ndarray:
        known = _rows(c)
        errors = [_errors(rows, nearest(rows, f * largest) * (f * largest)[:, None], known) for f in STEPS]
        return np.asarray(STEPS)[np.argmin(errors, axis=0)] * largest

    def candidates(c: np.ndarray, dampings: Sequence[float | None]) -> Iterator[Candidate]:
        """For each damping, integers for the largest steps and for the best ones."""
        steps = np.stack([largest, best_steps(c)])
        real = [d for d in dampings if d]
        each = max(1, len(real)) if c.size <= MOST_TOGETHER else 1
        in_turns = (q for k in range(0, len(real), each) for q in in_turn(rows, steps, turns(c, real[k : k + each])))
        for damping in dampings:
            yield from zip(steps, next(in_turns) if damping else [nearest(rows, s) for s in steps], strict=True)

    dampings: list[float | None] = [None, *DAMPINGS]
    if len(DAMPINGS) * 2 * rows.size * rows.shape[1] > MAX_WORK:
        dampings = [None]
    errors = [_errors(rows, q * steps[:, None], held_rows).sum() for steps, q in candidates(fit.covariance, dampings)]
    damping, size = divmod(int(np.argmin(errors)), 2)
    return list(candidates(fit.merged(held).covariance, [dampings[damping]]))[size]


def _rows(c: np.ndarray) -> Whole:
    """A symmetric matrix, to be multiplied with."""
    return exact.whole_rows(c, exact.bits(c.shape[2])[1])


def _errors(rows: np.ndarray, rounded: np.ndarray, c: Whole) -> np.ndarray:
    """Variance of each channel's output error [Cout]; c [groups, K, K]."""
    d = (rounded - rows).reshape(len(c.numbers), -1, rows.shape[1])
    seen = exact.rows_with_rows(exact.whole_rows(d, exact.bits(d.shape[2])[0]), c)
    return np.asarray(np.sum(seen * d, axis=2).reshape(-1))


@dataclass(frozen=True)
class Turns:
    """Order in which weights are rounded, the last first [groups, K]; for each damping the effect of a weight's error
    on those that follow [dampings, groups, K, K]."""

    order: np.ndarray
    low: np.ndarray


def turns(c: np.ndarray, dampings: Sequence[float]) -> Turns:
    """Order the inputs: those that see the most variance come first. c: covariance of the inputs [groups, K, K];
    damping is in units of its mean diagonal."""
    spread = np.diagonal(c, axis1=1, axis2=2)  # [groups, K]
    # The weight that is rounded first stands last, for the triangle below is made from the top.
    order = np.argsort(-spread, axis=1, kind="stable")[:, ::-1]
    h = np.empty((len(dampings), *c.shape))
    h[:] = c[np.arange(len(c))[:, None, None], order[:, :, None], order[:, None, :]]
    diagonal = np.arange(c.shape[1])
    for k, damping in enumerate(dampings):
        h[k][:, diagonal, diagonal] += np.maximum(damping * spread.mean(axis=1), 1e-30)[:, None]
    return Turns(order, triangle(h.reshape(-1, *c.shape[1:])).reshape(h.shape))


def in_turn(rows: np.ndarray, steps: np.ndarray, by: Turns, to_integers: ToIntegers = INT8.round) -> np.ndarray:
    """Integers [dampings, n, Cout, K] for n sets of steps [n, Cout]: weights rounded one by one, errors handed on.

    to_integers: weights in steps -> what they may be, -127 to 127.
    """
    order, dampings = by.order, len(by.low)
    n, groups, taps = len(steps), len(order), rows.shape[1]
    # [groups, K, n * Cout / groups], in steps: a weight of all channels is one row of memory.
    step = steps.reshape(n, groups, -1).transpose(1, 0, 2).reshape(groups, -1)
    grouped = np.take_along_axis(rows.reshape(groups, -1, taps), order[:, None, :], 2).transpose(0, 2, 1)
    expected = np.rint(np.tile(grouped, (1, 1, n)) / step[:, None] * FINE) / FINE
    # Weights, errors and what is handed on are whole numbers of FINE-ths and of units of `low`, few enough that no sum
    # below is rounded: see reference/exact.py.
    reach = float(np.abs(expected).max()) + 128.0
    low = np.empty_like(by.low)
    for given, handed in zip(by.low, low, strict=True):
        most = ROOM - 17 - math.frexp(reach * (1.0 + taps * max(float(given.max()), -float(given.min()))))[1]
        np.multiply(given, 2.0**most, out=handed)
        np.rint(handed, out=handed)
        handed *= 2.0**-most
    low = low.reshape(-1, taps, taps)
    expected = np.tile(expected, (dampings, 1, 1))
    left, q, error = expected.copy(), np.empty_like(expected), np.empty_like(expected)
    # Errors of a block reach what stands before it by one product when the block is done.
    for end in range(taps, 0, -BLOCK):
        start = max(end - BLOCK, 0)
        for j in range(end - 1, start - 1, -1):
            if taps > BLOCK and j + 1 < end:  # what the block's own errors do to this weight
                left[:, j] += (low[:, j + 1 : end, j][:, None] @ error[:, j + 1 : end])[:, 0]
            q[:, j] = to_integers(left[:, j])
            np.subtract(expected[:, j], q[:, j], out=error[:, j])
            if taps <= BLOCK:  # many small matrices: at once to all that follow, which takes no product for each
                left[:, start:j] += low[:, j, start:j, None] * error[:, j, None]
        if start:
            left[:, :start] += low[:, start:end, :start].transpose(0, 2, 1) @ error[:, start:end]
    result = np.empty((dampings, groups, taps, n, len(rows) // groups))
    np.put_along_axis(result, order[None, :, :, None, None], q.reshape(result.shape), 2)
    return result.transpose(0, 3, 1, 4, 2).reshape(dampings, n, *rows.shape)


def triangle(h: np.ndarray) -> np.ndarray:
    """The unit lower triangle L of h = L D L^T, for positive definite h [groups, K, K].

    As Cholesky's method in whole numbers: rows and columns are scaled by powers of two until the diagonal is below
    2**50, and each entry of the root is rounded to a whole number. So all products of the root are exact in float64,
    for which LAPACK would depend on the processor; and an entry has an error of 2**-25 of the square root of h's.
    """
    size = h.shape[1]
    exponent = (50 - np.frexp(np.diagonal(h, axis1=1, axis2=2))[1]) // 2  # [groups, K]
    # Of symmetric matrices the upper half, where what belongs together is one row of memory.
    up = np.ldexp(1.0, exponent)
    left = h * up[:, :, None]
    left *= up[:, None, :]
    np.rint(left, out=left)
    root = np.zeros_like(left)  # its transpose
    for start in range(0, size, BLOCK):
        end = min(start + BLOCK, size)
        for j in range(start, end):
            if size > BLOCK and j > start:
                left[:, j, j:] -= (root[:, start:j, j][:, None] @ root[:, start:j, j:])[:, 0]
            pivot = np.rint(np.sqrt(np.maximum(left[:, j, j], 1.0)))[:, None]
            root[:, j, j] = pivot[:, 0]
            row = np.divide(left[:, j, j + 1 :], pivot, out=root[:, j, j + 1 :])
            np.rint(row, out=row)
            if size <= BLOCK:
                left[:, j + 1 :, j + 1 :] -= row[:, :, None] * row[:, None]
        below = root[:, start:end, end:]
        for part in range(end, size, PANEL):
            rows = below[:, :, part - end : part - end + PANEL].transpose(0, 2, 1)
            left[:, part : part + PANEL, part:] -= rows @ below[:, :, part - end :]
    root /= np.diagonal(root, axis1=1, axis2=2)[:, :, None].copy()
    low = np.array(root.transpose(0, 2, 1), order="C")
    low *= up[:, None, :]
    low /= up[:, :, None]
    return low


def correct(
    rows: np.ndarray, q: np.ndarray, steps: np.ndarray, bias: np.ndarray, fit: Moments, held: Moments
) -> np.ndarray:
    """Biases [Cout] less the mean shift of the output; rows and q [Cout, K], steps [Cout]."""
    group = np.arange(len(rows)) // (len(rows) // fit.groups)

    def shift(m: Moments) -> np.ndarray:
        seen, real, result = m.mean_rounded, m.mean, np.empty(len(rows))
        for part in parts(rows):
            rounded = (q[part] * steps[part, None]) * seen[group[part]]
            result[part] = np.sum(rounded - rows[part] * real[group[part]], axis=1)
        return result

    of_held = shift(held)
    helps = np.abs(of_held - shift(fit)) < np.abs(of_held)
    return bias - np.where(helps, shift(fit.merged(held)), 0.0)
