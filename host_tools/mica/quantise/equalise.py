"""Channels of very different size get one size, where float arithmetic does not notice.

    y = Linear2(pool(relu(Linear1(x, w1, b1))), w2, b2)
    =>  y = Linear2(pool(relu(Linear1(x, w1 / s, b1 / s))), w2 * s, b2)

s > 0 has one entry per channel between the two; dividing commutes with everything positive-homogeneous between them
(Relu, LeakyRelu, pools, Reshape that keeps channels). An activation has one scale for all its channels, so that a
channel ten times smaller than the largest has 25 integers instead of 255; weights have a scale for each *output*
channel, so dividing w1 costs nothing, and where Linear2 is depthwise multiplying w2 costs nothing either. Elsewhere it
makes the columns of w2 unlike, which costs there. How far to go is measured: with r the range of a channel and c the
largest weight that reads it, s = r**a / c**b, of which 0 < a <= 1 and b = 0 or 1 - a are tried on samples that
had no part in r; the pair stays as it is unless the error of y falls by at least 2 %.

Cross-layer equalisation: M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction",
ICCV 2019. The exponents: G. Xiao et al., "SmoothQuant", ICML 2023.
"""

from dataclasses import dataclass

import numpy as np

from mica.format.weights import INT8
from mica.ir.graph import Graph, Node
from mica.quantise.calibrate import Runs, Samples
from mica.quantise.histogram import Range
from mica.quantise.params import from_range
from mica.quantise.simulate import rounded
from mica.reference import batch

LINEAR = ("Conv2d", "DepthwiseConv2d", "FullyConnected")
CHOICES = ((1, 0), (2, 0), (3, 0), (4, 0), (1, 3), (2, 2), (3, 1))  # (4 a, 4 b)
GAIN = 0.98  # an error above this share of the old one is not worth a change
# A channel that was small may take up to 1 / HEADROOM of the range: in use it can exceed the samples' values.
HEADROOM = 1.25
KEPT = 1_000_000  # weights of all second nodes, up to which those of each choice are made once: 100 bytes for each
LARGEST = 2.0**10  # of s against its mean, so that no weights become numbers that float32 rounds to nothing


@dataclass
class Pair:
    """Two linear nodes, and what stands between them, in order."""

    first: Node
    path: list[Node]
    second: Node

    @property
    def between(self) -> str:
        """The first node's output."""
        return self.first.outputs[0]


Channels = dict[str, np.ndarray]  # activation -> largest |value| of each channel, float64 [channels]


def channels(g: Graph) -> Channels:
    """Zeros for the activation between the nodes of each pair: the ranges that `calibrate.observe` is to measure."""
    return {p.between: np.zeros(g.value(p.between).shape[-1]) for p in pairs(g)}


def run(g: Graph, fit: Channels, whole: Channels, held: Samples, runs: Runs | None = None) -> Graph:
    """Equalises every pair for which that lowers the error on `held`.

    fit: channel ranges of other samples than `held`, for the choice; whole: those of all samples, for the result.
    runs: of g as it is before, where there are some.
    """
    found = pairs(g)
    tried = [_candidates(g, p, fit[p.between]) for p in found]
    errors = [np.zeros(len(t)) for t in tried]
    few = sum(g.value(p.second.inputs[1]).size for p in found) <= KEPT
    kept = [[_wide(g, p, s) if few else None for s in t] for p, t in zip(found, tried, strict=True)]
    needed = {name for p in found for name in (p.between, p.second.outputs[0])}
    for _, values in (runs or Runs(g, room=0))(held, needed) if found else ():
        for p, t, e, w in zip(found, tried, errors, kept, strict=True):
            expected = values[p.second.outputs[0]].astype(np.float64)
            size = np.maximum(batch.squares(expected), 1e-30)
            for k, (s, wide) in enumerate(zip(t, w, strict=True)):
                error = _error(g, p, values[p.between], expected, s, fit[p.between], wide) / size
                e[k] = np.maximum(e[k], np.max(error))
    chosen = [int(np.argmin(e)) if e.min() < GAIN * e[0] else 0 for e in errors]
    # All factors before any is applied: a pair's second node may be another's first.
    factors = [_candidates(g, p, whole[p.between])[k] for p, k in zip(found, chosen, strict=True)]
    for p, k, s in zip(found, chosen, factors, strict=True):
        if k > 0:
            scale(g, p, s)
    return g


def pairs(g: Graph) -> list[Pair]:
    """Linear nodes whose output reaches exactly one other linear node, with only homogeneous operators between."""
    consumers = g.consumers()
    result = []
    for node in g.nodes:
        if node.op not in LINEAR or not free(g, node):
            continue
        path: list[Node] = []
        last: Node | None = node
        while last is not None and _homogeneous(g, last):
            reader = g.sole_consumer(last.outputs[0], consumers)
            if reader is None or g.value(last.outputs[0]).quant is not None:
                break
            if reader.op in LINEAR:
                if free(g, reader) and reader.attrs.get("groups", 1) == 1:
                    result.append(Pair(node, list(path), reader))
                break
            path.append(reader)
            last = reader
    return result


def free(g: Graph, node: Node) -> bool:
    """Its weights are real numbers of its own, not the integers of a model that came quantised."""
    return node.attrs.get("weight_steps") is None and all(
        g.is_const(i) and g.value(i).quant is None for i in node.inputs[1:]
    )


def _homogeneous(g: Graph, node: Node) -> bool:
    """f(s * x) = s * f(x) for s > 0 per channel, where the last axis holds the channels before and after."""
    low, high = node.attrs.get("clip", (None, None))
    if low not in (None, 0.0) or high not in (None, 0.0):
        return False
    if node.op in (*LINEAR, "MaxPool2d", "AveragePool2d"):
        return True
    if node.op == "Unary":
        return node.attrs["function"] in ("leaky_relu", "abs", "neg") or (
            node.attrs["function"] == "clip" and all(a in (None, 0.0) for a in node.attrs["arguments"])
        )
    if node.op == "Reshape":
        return g.value(node.inputs[0]).shape[-1:] == g.value(node.outputs[0]).shape[-1:]
    return False


def scale(g: Graph, p: Pair, s: np.ndarray) -> None:
    """Divides the channels between the two nodes of a pair by s [channels]."""
    first, second = p.first, p.second
    first.inputs[1:] = [scaled(g, name, 1.0 / s, 0) for name in first.inputs[1:]]
    second.inputs[1] = scaled(g, second.inputs[1], *_into(g, second, s))


def scaled(g: Graph, name: str, factors: np.ndarray, axis: int) -> str:
    data = g.data(name)
    assert data is not None
    shape = [1] * data.ndim
    shape[axis] = -1
    return g.new_const(f"{name}.equalised", (data * factors.reshape(shape)).astype(np.float32))


def _into(g: Graph, second: Node, s: np.ndarray) -> tuple[np.ndarray, int]:
    """s as factors of the second node's weights, and the axis they lie along."""
    if second.op == "DepthwiseConv2d":
        return np.repeat(s, g.value(second.inputs[1]).shape[0] // len(s)), 0
    return s, -1


def _candidates(g: Graph, p: Pair, ranges: np.ndarray) -> list[np.ndarray]:
    """Factors to try, the first of them all ones. Channels that are always zero, or that nobody reads, keep 1."""
    weights = np.abs(np.asarray(g.data(p.second.inputs[1]), np.float64))
    if p.second.op == "DepthwiseConv2d":
        read = weights.reshape(len(ranges), -1).max(axis=1)
    else:
        read = weights.reshape(-1, weights.shape[-1]).max(axis=0)
    live = (ranges > 1e-6 * ranges.max(initial=0.0)) & (read > 1e-6 * read.max(initial=0.0))
    result = [np.ones(len(ranges))]
    for a, b in CHOICES:
        s = np.ones(len(ranges))
        if live.any():
            # The largest channel keeps its range: equalising makes small ones larger.
            r, c = ranges[live] / ranges[live].max(), read[live] / read[live].max()
            raw = quarters(r, a) / quarters(c, b)
            raw *= np.max(r) / np.max(r / raw)
            room = np.minimum(1.0, HEADROOM * r)
            s[live] = np.clip(np.maximum(raw, room), 1.0 / LARGEST, LARGEST)
        result.append(s)
    return result


def quarters(x: np.ndarray, n: int) -> np.ndarray:
    """x**(n / 4) for n in 0..4, by square roots, which are the same on every machine."""
    root = np.sqrt(x)
    return np.asarray((np.ones_like(x), np.sqrt(root), root, root * np.sqrt(root), x)[n])


def _wide(g: Graph, p: Pair, s: np.ndarray) -> np.ndarray:
    """The second node's weights times s, in 8 bits."""
    w = np.asarray(g.data(p.second.inputs[1]))
    factors, axis = _into(g, p.second, s)
    return rounded_rows(w * factors.reshape([-1 if k == axis % w.ndim else 1 for k in range(w.ndim)]))


def _error(
    g: Graph,
    p: Pair,
    between: np.ndarray,
    expected: np.ndarray,
    s: np.ndarray,
    ranges: np.ndarray,
    wide: np.ndarray | None,
) -> np.ndarray:
    """Squared error of the second node's output in each sample [n], with channels divided by s and all in 8 bits.

    between, expected: outputs of both nodes [n, *shape]. wide: the second node's weights by `_wide`,
    where they are kept.
    """
    x = between / s.astype(np.float32)
    below = x.reshape(len(x), -1).min(axis=1) < 0
    if below.any() and not below.all():  # samples that have scales of their own
        each = [_error(g, p, a[None], y[None], s, ranges, wide) for a, y in zip(between, expected, strict=True)]
        return np.concatenate(each)
    top = ranges / s
    low = -top.max() if below.any() else 0.0
    x = rounded(x, from_range(Range(low, float(top.max()))))
    for node in p.path:
        (x,) = batch.apply(g, node, [x])
    bias = np.asarray(g.data(p.second.inputs[2]))
    (y,) = batch.apply(g, p.second, [x, _wide(g, p, s) if wide is None else wide, bias])
    return batch.squares(y - expected)


def rounded_rows(w: np.ndarray) -> np.ndarray:
    """Weights [Cout, ...] rounded to 8 bits, one scale for each output channel."""
    rows = w.reshape(len(w), -1)
    steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / INT8.largest, 1e-30)
    return (np.rint(rows / steps) * steps).reshape(w.shape).astype(np.float32)
