"""Ranges of scores and of the logits behind them: the values that calibration saw, and those of a confident answer.

y = Sigmoid(x), y an output    =>   x reaches +-3.9 at least (y: 0.98 or 0.02) and ends at +-6.2 (int8 y: 1 or 0).
y = Softmax(x) of C classes    =>   x is 5 + log(C - 1) wide at least, so that one class of C can have 0.99.
scores behind them             =>   [0, 1], even if calibration saw less.

A detector whose calibration samples hold nothing to detect would never detect anything otherwise: its logits end where
those of the samples end. A margin costs two bits at most (`groups.WIDENS`). A score map spends its steps where a score
is not 0. Any function that ends in two limits counts as a sigmoid, if a sigmoid, a tanh or an exponential is part of
it. Its result has to reach an output of the model; only movements, products, maxima and means of other scores may lie
between. Gates inside of a network keep the range that was seen.
"""

import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME
from mica.ir.vectors import Machine
from mica.kernels.vectors import REACH, SQUARES
from mica.printable import shown
from mica.quantise.calibrate import Runs, Samples
from mica.quantise.groups import WIDENS, both, width
from mica.quantise.histogram import Range
from mica.reference import unary, vectors

SURE = 5.0  # logits between a class and another, where neither can go beyond the range: 0.0067 of its probability
CONFIDENT = 0.02  # of a sigmoid's range that may be left between a confident answer and its limit
FLAT = 1 / 512  # of a sigmoid's range: half a step of int8
CURVED = ("sigmoid", "hard_sigmoid", "tanh", "exp")
LEAST = 16  # samples, and for each class, that could have held what was never seen
KEEP = ("Mul", "MinMax", "AveragePool2d")  # of numbers from 0 to 1 only they make such again
_GRID = np.concatenate([-np.geomspace(1e6, 1e-3, 2000), np.geomspace(1e-3, 1e6, 2000)])


@dataclass(frozen=True)
class Curve:
    """A function that ends in two limits: results; from where on x is confident, and flat, on either side."""

    limits: Range
    confident: Range
    flat: Range

    @property
    def signed(self) -> bool:
        """True of a number on either side of 0, as a tanh gives, which is no score."""
        return min(-self.limits.low, self.limits.high) > 0.25 * width(self.limits)


def widened(g: Graph, ranges: Mapping[str, Range]) -> Mapping[str, Range]:
    """The ranges, changed where scores or their logits are among them."""
    result: ChainMap[str, Range] = ChainMap({}, ranges)  # type: ignore[arg-type]
    ends = heads(g)
    scored = scores(g, ends)
    for node in ends:
        curve = None if node.op != "Unary" else _curve(node)
        for name in _sources(g, node.inputs[0]):
            if name in result:
                node_clip = _clip(g, name)
                alone = curve is not None and _read_by(g, name, ends)
                classes = (g.value(node.inputs[0]).shape or (1,))[-1]
                result[name] = _logits(result[name], curve, classes, alone, node_clip)
        if curve is not None and node.outputs[0] in result:
            result[node.outputs[0]] = both(result[node.outputs[0]], curve.limits)
    for node in g.nodes:
        if node.op in KEEP and node.outputs[0] in scored and node.outputs[0] in result:
            result[node.outputs[0]] = both(result[node.outputs[0]], Range(0.0, 1.0))
    for node in g.nodes:
        if node.op == "Machine" and _labelled(g, node.outputs[0]) and _ends_far(node.attrs["vectors"]):
            far = node.attrs["vectors"].bias  # the score of what resembles no support vector
            result[node.outputs[0]] = both(result[node.outputs[0]], Range(float(far.min()), float(far.max())))
        elif node.op == "Neighbours" and node.attrs["vectors"].weights == REACH and node.outputs[0] in result:
            _reach(g, node.outputs[0], result)
    return result


def _reach(g: Graph, far: str, result: MutableMapping[str, Range]) -> None:
    """Widen a distance and what follows to twice what calibration saw: a detector's samples hold no outliers."""
    known = {far: Range(result[far].low, 2 * result[far].high)}
    for node in g.nodes:
        seen = next((known[i] for i in node.inputs if i in known), None)
        y = node.outputs[0]
        if seen is None or y not in result:
            continue
        if node.op == "Unary":
            values = unary.apply(node.attrs["function"], np.linspace(seen.low, seen.high, 257), node.attrs["arguments"])
            known[y] = Range(float(values.min()), float(values.max()))
        elif node.op == "Mul":
            known[y] = Range(result[y].low, 2 * result[y].high)
        elif CORE_BY_NAME[node.op].selects:
            known[y] = seen
    for name, seen in known.items():
        result[name] = both(result[name], seen)


def _ends_far(m: Machine) -> bool:
    """Return True if points that are far away add nothing to a machine's score."""
    return m.measure == SQUARES and float(vectors.curve(m, np.array(1e30))) == 0


def _labelled(g: Graph, score: str) -> bool:
    """True if an output is a label of a detector, whole numbers, made of a score."""
    labels = [g.value(n.outputs[0]) for n in g.consumers().get(score, []) if n.op == "Unary"]
    return any(v.name in g.outputs and v.quant is not None and v.quant.scale == 1 for v in labels)


def heads(g: Graph) -> list[Node]:
    """The sigmoids and softmaxes whose results are outputs of the model, or scores made of such."""
    near = set(g.outputs)
    for node in reversed(g.nodes):
        if node.outputs[0] in near and (CORE_BY_NAME[node.op].selects or node.op in KEEP):
            near.update(node.inputs)
    found = [n for n in g.nodes if n.outputs[0] in near and n.op in ("Softmax", "LogSoftmax", "Unary")]
    found = [n for n in found if n.op != "Unary" or ((curve := _curve(n)) is not None and not curve.signed)]
    return [n for n in found if any(name in g.outputs for name in _behind(g, n.outputs[0]))]


def scores(g: Graph, ends: Sequence[Node] | None = None) -> set[str]:
    """Scores that reach an output, and what is made of them that is a score as well.
    ends: `heads` of g, where they are known."""
    return {name for node in (heads(g) if ends is None else ends) for name in _behind(g, node.outputs[0])}


def _curve(node: Node) -> Curve | None:
    function, arguments = node.attrs["function"], node.attrs["arguments"]
    names = {function} | {attrs.get("function") for _, attrs, _ in (arguments[0] if function == "composed" else ())}
    if not names.intersection(CURVED):
        return None
    y = unary.apply(function, _GRID, arguments)
    size = abs(float(y[-1] - y[0]))
    rises = np.diff(y if y[-1] > y[0] else -y)
    even = np.isfinite(y).all() and size > 0 and float(rises.min()) >= -1e-6 * size
    if not even or max(abs(y[1000] - y[0]), abs(y[-1001] - y[-1])) > FLAT * size:  # at +-1000
        return None
    ends = []
    for left in (CONFIDENT, FLAT):
        below = _GRID[np.abs(y - y[0]) <= left * size].max()
        above = _GRID[np.abs(y - y[-1]) <= left * size].min()
        ends.append(Range(min(float(below), 0.0), max(float(above), 0.0)))
    return Curve(Range(float(y.min()), float(y.max())), *ends)


def _logits(seen: Range, curve: Curve | None, classes: int, alone: bool, clip: tuple[Any, Any]) -> Range:
    """clip: what the operator that makes them never leaves. alone: nothing else reads them, so what is flat may go."""
    own = width(seen)
    if curve is None:
        more = max(0.0, min(SURE + math.log(max(classes - 1, 1)), WIDENS * own) - own) / 2
        wide = Range(min(seen.low, 0.0) - more, max(seen.high, 0.0) + more)
    else:
        part = min(1.0, WIDENS * own / width(curve.confident))
        wide = both(seen, Range(part * curve.confident.low, part * curve.confident.high))
        if alone:
            wide = Range(max(wide.low, curve.flat.low), min(wide.high, curve.flat.high))
    least, most = clip
    return Range(
        wide.low if least is None else max(wide.low, min(float(least), seen.low)),
        wide.high if most is None else min(wide.high, max(float(most), seen.high)),
    )


def _clip(g: Graph, name: str) -> tuple[Any, Any]:
    node = g.producers().get(name)
    clip: tuple[Any, Any] = node.attrs.get("clip", (None, None)) if node is not None else (None, None)
    return clip


def _behind(g: Graph, name: str) -> list[str]:
    """A score, and what is made of it that is a score as well."""
    consumers = g.consumers()
    found, todo = {name: None}, [name]
    while todo:
        for node in consumers.get(todo.pop(), ()):
            y = node.outputs[0]
            if y not in found and (
                CORE_BY_NAME[node.op].selects or (node.op in KEEP and all(_is_score(g, i) for i in node.inputs))
            ):
                found[y] = None
                todo.append(y)
    return list(found)


def _is_score(g: Graph, name: str) -> bool:
    data = g.data(name)
    if data is not None:
        return bool(data.size and data.min() >= 0 and data.max() <= 1)
    node = g.producers().get(name)
    if node is None:
        return False
    if node.op == "Unary":
        curve = _curve(node)
        return curve is not None and curve.limits.low >= 0 and curve.limits.high <= 1
    return node.op == "Softmax" or ((CORE_BY_NAME[node.op].selects or node.op in KEEP) and _is_score(g, node.inputs[0]))


def _sources(g: Graph, name: str) -> list[str]:
    """The activations that a value is moved from, and itself."""
    producers = g.producers()
    found, todo = {name: None}, [name]
    while todo:
        node = producers.get(todo.pop())
        for i in node.inputs if node is not None and CORE_BY_NAME[node.op].selects else ():
            if i not in found and not g.is_const(i):
                found[i] = None
                todo.append(i)
    return list(found)


def _read_by(g: Graph, name: str, ends: list[Node]) -> bool:
    """True if only these nodes compute with a value, and it is no output."""
    known, consumers, todo = {id(n) for n in ends}, g.consumers(), [name]
    while todo:
        at = todo.pop()
        if at in g.outputs:
            return False
        for node in consumers.get(at, ()):
            if CORE_BY_NAME[node.op].selects:
                todo.append(node.outputs[0])
            elif id(node) not in known:
                return False
    return True


def never_seen(g: Graph, samples: Samples, labels: Sequence[str] = ()) -> list[str]:
    """Lines for a person: answers that the outputs can give and never gave in calibration, a score near 1 or a class.

    No lines for few samples or many classes, which prove nothing.
    """
    ends = {n.outputs[0]: n for n in heads(g)}
    if not ends or len(samples) < LEAST:
        return []
    seen: dict[str, list[np.ndarray]] = {name: [] for name in ends}
    for _, values in Runs(g, room=0)(samples, ends):
        for name in ends:
            seen[name].append(values[name])
    lines = []
    for name, node in ends.items():
        y = np.concatenate(seen[name])
        lines += _scores_never(node, y) if node.op == "Unary" else _classes_never(node, y, labels)
    return lines


def _scores_never(node: Node, y: np.ndarray) -> list[str]:
    curve = _curve(node)
    if curve is None or not (curve.limits.low >= 0 and curve.limits.high <= 1):
        return []
    low, high = float(y.min()), float(y.max())
    if high < 0.5:
        return [
            f"'{node.name}' (a sigmoid) is {high:.2g} at most in calibration; give samples of what it is to find, too"
        ]
    return (
        [f"'{node.name}' (a sigmoid) is {low:.2g} at least in calibration; give samples without, too"]
        if low > 0.5
        else []
    )


def _classes_never(node: Node, y: np.ndarray, labels: Sequence[str]) -> list[str]:
    classes = y.shape[-1]
    won = np.bincount(y.reshape(-1, classes).argmax(axis=1), minlength=classes) > 0
    if won.all() or (len(y) < LEAST * classes and won.sum() > 1):
        return []
    names = [labels[int(k)] if len(labels) == classes else str(k) for k in np.flatnonzero(~won)]
    return [f"'{node.name}' (a softmax) never answers {shown(names, 5)} in calibration; give samples of all classes"]
