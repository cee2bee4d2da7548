"""The range of each activation, by the calibration method that serves its readers best.

For each activation the ranges of all methods (`methods.py`), found on one half of the samples, are tried on the other:
the activation alone is rounded, everything that reads it is computed, and the squared error of the results, relative to
their size, is the method's error. That weighs a clipped value as the network does, not as the histogram does. A method
is as good as its worst sample: finer steps help every sample a little, clipping ruins a few, and these few matter most.
By the mean over samples, VWW's answers differed from float's twice as often as with min-max. If a saturating function
reads the activation, ranges that end where the function is flat compete as well. The winner's range is then taken from
all samples.

Two things are known without measuring. A model input whose samples lie on a grid through zero (the integers of a sensor
times a scale) keeps that grid, so that rounding it costs nothing. A range that a fused clamp ends (Relu6) ends with it,
because nothing beyond is ever seen.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.ir.ops import CORE_BY_NAME
from mica.quantise.calibrate import Batch, Runs, Samples
from mica.quantise.histogram import Histogram, Range
from mica.quantise.methods import METHODS, percentile, wider
from mica.quantise.params import choose_quants, from_range
from mica.quantise.simulate import rounded
from mica.reference import batch

GAIN = 0.9  # of min-max's error; a method that does not come below this share of it is not taken
FEW_DIFFER = 16  # different values that need not come again to be a grid's
MAX_GRID = 256  # different values of an input that may be a grid's

Candidate = Callable[[Histogram], Range]
_CANDIDATES: tuple[tuple[str, Candidate], ...] = (
    *METHODS.items(),
    ("percentile 99.999", lambda h: percentile(h, 1e-5)),
    ("minmax + 10 %", lambda h: wider(h, 1.1)),
    ("minmax + 25 %", lambda h: wider(h, 1.25)),
)


def _within(low: float, high: float) -> Candidate:
    return lambda h: Range(max(h.low, low), min(h.high, high))


# Where the function is flat to less than half an output step there is nothing to tell apart. (A Softmax is flat far
# below its largest input as well; cutting there won 0.1 dB of probabilities, and spoilt the logits for who taps them.)
_SATURATING: dict[str, tuple[tuple[str, Candidate], ...]] = {
    "sigmoid": (("sigmoid", _within(-6.3, 6.3)), ("sigmoid near", _within(-5.0, 5.0))),
    "tanh": (("tanh", _within(-3.2, 3.2)), ("tanh near", _within(-2.5, 2.5))),
    "hard_sigmoid": (("hard_sigmoid", _within(-3.0, 3.0)),),
    "hard_swish": (("hard_swish", _within(-3.0, np.inf)),),
}


def choose(
    g: Graph, fit: Mapping[str, Histogram], held: Mapping[str, Histogram], samples: Samples, runs: Runs | None = None
) -> tuple[dict[str, Range], dict[str, str]]:
    """(range of every activation, method that gave it).

    fit, held: histograms of the two halves; samples: of the second half, those to measure on.
    runs: of g, where there are some.
    """
    whole = {name: fit[name].merged(held[name]) for name in fit}
    ranges = {name: METHODS["minmax"](h) for name, h in whole.items()}
    methods = dict.fromkeys(ranges, "minmax")
    consumers = g.consumers()
    tried = {name: _distinct(_candidates(g, name, consumers), fit[name]) for name in _open(g, ranges)}
    errors = {name: np.zeros(len(c)) for name, c in tried.items()}
    for _, values in (runs or Runs(g, room=0))(samples):
        sizes: Batch = {}
        for name, candidates in tried.items():
            for k, quant in enumerate(candidates if len(candidates) > 1 else ()):
                found = _error(g, name, rounded(values[name], quant), values, consumers, sizes)
                errors[name][k] = max(errors[name][k], *found.tolist())
    for name, candidates in tried.items():
        best = int(np.argmin(errors[name]))
        if best > 0 and errors[name][best] < GAIN * errors[name][0]:
            methods[name], method = list(candidates.values())[best]
            ranges[name] = method(whole[name])
    return ranges, methods


def _open(g: Graph, ranges: Mapping[str, Range]) -> list[str]:
    """Activations whose scale follows from their own range, rather than from their operator or from another tensor."""
    quants = choose_quants(g, ranges)
    told = {n.outputs[0] for n in g.nodes if CORE_BY_NAME[n.op].selects}
    told |= {name for name, v in g.values.items() if v.quant is not None}
    return [n for n in quants if n not in told and quants[n] == from_range(ranges[n])]


def _candidates(g: Graph, name: str, consumers: Mapping[str, list[Node]]) -> list[tuple[str, Candidate]]:
    result = list(_CANDIDATES)
    for reader in _readers(name, consumers):
        result += _SATURATING.get(reader.attrs["function"], ()) if reader.op == "Unary" else ()
    return result


def _readers(name: str, consumers: Mapping[str, list[Node]]) -> list[Node]:
    """Nodes that compute with a value: its readers, seen through operators that only move it."""
    result = []
    for node in consumers.get(name, []):
        result += _readers(node.outputs[0], consumers) if CORE_BY_NAME[node.op].keeps_quant else [node]
    return result


def _distinct(candidates: list[tuple[str, Candidate]], h: Histogram) -> dict[Quant, tuple[str, Candidate]]:
    """Keep the methods by what they make of a histogram, without those that give the same as an earlier one."""
    seen: dict[Quant, tuple[str, Candidate]] = {}
    for name, candidate in candidates:
        seen.setdefault(from_range(candidate(h)), (name, candidate))
    return seen


def _error(
    g: Graph, name: str, x: np.ndarray, values: Batch, consumers: Mapping[str, list[Node]], sizes: Batch
) -> np.ndarray:
    """Squared error of everything computed from `name` when it is x, relative to its size,
    summed over readers: of each sample [n].

    sizes: of values, those that are known.
    """
    total = _relative(x, name, values, sizes) if name in g.outputs else np.zeros(len(x))
    for node in consumers.get(name, []):
        arrays = [x if i == name else values[i] if i in values else np.asarray(g.data(i)) for i in node.inputs]
        for out, y in zip(node.outputs, batch.apply(g, node, arrays), strict=True):
            if CORE_BY_NAME[node.op].keeps_quant:
                total = total + _error(g, out, y, values, consumers, sizes)
            else:
                total = total + _relative(y, out, values, sizes)
    return total


def _relative(found: np.ndarray, name: str, values: Batch, sizes: Batch) -> np.ndarray:
    expected = values[name]
    if name not in sizes:
        sizes[name] = np.maximum(batch.squares(expected.astype(np.float64)), 1e-30)
    return batch.squares(found.astype(np.float64) - expected) / sizes[name]


def input_grids(g: Graph, samples: Samples) -> dict[str, Range]:
    """Inputs whose samples are multiples of one step, at most 255 of them apart -> the range with that scale."""
    result = {}
    for name in g.inputs:
        found = grid(s[name] for s in samples)
        if found is not None:
            result[name] = found
    return result


def grid(arrays: Iterable[np.ndarray]) -> Range | None:
    """The range whose 256 integers fall on every value of the arrays, or None.

    A sensor gives the same integers again and again. Values that all differ, as np.linspace makes them, are samples of
    something that has more.
    """
    values, seen = np.zeros(1, np.float32), 0
    for a in arrays:
        values, seen = np.union1d(values, a), seen + a.size
        if values.size > MAX_GRID or not np.isfinite(values[-1]):
            return None
    if values.size < 2 or (seen <= values.size and values.size > FEW_DIFFER):
        return None
    values = values.astype(np.float64)
    gap = float(np.diff(values).min())
    steps = np.rint(values / gap)
    if np.abs(values / gap - steps).max() > 0.02 or np.ptp(steps) > 255:
        return None
    step = math.fsum(values * steps) / math.fsum(steps * steps)  # least squares
    first, last = int(steps.min()), int(steps.max())
    if np.abs(values / step - steps).max() > 1e-3:
        return None
    parts = 255 // (last - first)  # a grid of few steps is made finer: what comes later may lie between
    spare = 255 - parts * (last - first)
    below = 0 if first == 0 else spare if last == 0 else spare // 2
    low = (parts * first - below) * step / parts
    return Range(low, low + 255 * step / parts)
