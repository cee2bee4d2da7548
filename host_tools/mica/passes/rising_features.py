"""A rising function of each feature becomes the ranks of the features among the points where its result has another integer.

scale * (f(x) - mean), x an input or features picked from it    =>    Ranks(x), on a scale of its own

So scikit-learn's PowerTransformer keeps what float32 tells apart, however skewed a feature is. Its exporter writes both branches of a
function, with infinity and NaN in the one that does not count; an InfinityImputer marks such a graph. Results are standardised, so
the range of int8 is known before calibration.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.kernels.tabular import MOST_RANKS, keys, reals
from mica.passes import dead_code
from mica.passes.drop_identity import FLOAT_TYPES
from mica.passes.leaf_values import given

MARK = "InfinityImputer"
STEP = 4.5 / 128  # standard deviations
_REACH = 10.0 ** np.arange(-6, 19)

Function = Callable[..., np.ndarray]
_FUNCTIONS: Mapping[str, Function] = {
    **{"Add": np.add, "Div": np.divide, "Mul": np.multiply, "Sub": np.subtract, "Pow": np.power},
    **{"Less": np.less, "Not": np.logical_not, "Log": np.log, "Neg": np.negative, "Identity": np.asarray},
}
_OPERATORS = (*_FUNCTIONS, "Cast", "Imputer", MARK)


def run(g: Graph) -> Graph:
    """Leaves a function as it is that is not known or does not rise."""
    if not any(n.op == MARK for n in g.nodes):
        return g
    known: dict[str, str] = {}  # values that elementwise operators make of features -> these
    for node in (n for n in g.nodes if n.op in _OPERATORS):
        of = {known.get(i, i) for i in node.inputs if not g.is_const(i)}
        shape = g.value(node.outputs[0]).shape
        if len(of) == 1 and all(shape == g.value(i).shape for i in of):
            known[node.outputs[0]] = of.pop()
    readers, producers = g.consumers(), g.producers()
    for node in [n for n in g.nodes if n.outputs[0] in known and n.op in ("Mul", "Div")]:
        out, maker = node.outputs[0], producers.get(node.inputs[0])
        inside = all(r.outputs[0] in known for r in readers.get(out, [])) and out not in g.outputs
        scaler = maker is not None and maker.op == "Sub" and g.is_const(maker.inputs[1]) and g.is_const(node.inputs[1])
        if scaler and not inside:
            _replace(g, node, known[out], producers)
    return dead_code.run(g)


def _replace(g: Graph, end: Node, root: str, producers: Mapping[str, Node]) -> None:
    """Writes Ranks in the place of a function's last node, if infinities are replaced in it and it rises."""
    out, found = end.outputs[0], given(g, producers, root)
    names = {out}
    for node in reversed(g.nodes):
        if node.outputs[0] in names - {root}:
            names.update(node.inputs)
    nodes = [n for n in g.nodes if n.outputs[0] in names - {root}]
    if found is None or not any(n.op == MARK for n in nodes):
        return
    x, places = found

    def function(v: np.ndarray) -> np.ndarray:
        """[n, F] -> [n, F], float64."""
        values: dict[str, np.ndarray] = {root: v}
        with np.errstate(all="ignore"):
            for node in nodes:
                arrays = [values[i] if i in values else np.asarray(g.data(i)) for i in node.inputs]
                values[node.outputs[0]] = _value(node, arrays)
        return values[out].astype(np.float64)

    thresholds = _thresholds(function, len(places))
    if thresholds is None:
        return
    first, missing = np.arange(len(places) + 1) * MOST_RANKS, np.full(len(places), np.nan)
    tables = (("thresholds", thresholds.T.reshape(-1)), ("first", first), ("source", places), ("missing", missing))
    constants = [g.new_const(f"{out}.{name}", table) for name, table in tables]
    g.value(out).quant = Quant(STEP, 0)
    g.nodes[g.index(end)] = Node("Ranks", end.name, [x, *constants], [out], {"step": STEP})


def _value(node: Node, arrays: Sequence[np.ndarray]) -> np.ndarray:
    if node.op == "Cast":
        return arrays[0].astype(np.float64) if node.attrs.get("to") in FLOAT_TYPES else arrays[0]
    if node.op in ("Imputer", MARK):
        missing = np.isposinf(arrays[0]) if node.op == MARK else np.isnan(arrays[0])
        return np.where(missing, node.attrs["values"], arrays[0])
    return _FUNCTIONS[node.op](*arrays)


def _thresholds(function: Function, n: int) -> np.ndarray | None:
    """[255, n]: the largest float32 x at which a result is at most half a step above each integer; None where a column does not rise."""
    levels = ((np.arange(MOST_RANKS) - 127.5) * STEP)[:, None]
    low, high = (np.broadcast_to(end, (MOST_RANKS, n)) for end in (-_reach(function, n, -1), _reach(function, n, 1)))
    for _ in range(33):
        middle = (low + high) >> 1
        above = function(reals(middle)) > levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    thresholds = reals(low)
    between = (thresholds[1:] + thresholds[:-1]) / 2
    apart = (thresholds[1:] > thresholds[:-1]) & (low[1:] < high[-1]) & (between != 0)
    off = np.abs(function(between) - (levels[1:] + levels[:-1]) / 2)
    rises = (off[apart] <= STEP * 0.51).all() and apart.any(axis=0).all()
    return thresholds if rises else None


def _reach(function: Function, n: int, sign: int) -> np.ndarray:
    """Of each column, how far from zero it rises, int64 [n], as a key: a power may overflow, and a logarithm ends at 0."""
    points = _REACH[:, None] * np.ones(n)
    values = sign * function(sign * points)
    with np.errstate(invalid="ignore"):
        rises = np.isfinite(values[1:]) & (np.diff(values, axis=0) >= 0)
    count = np.cumprod(rises, axis=0).sum(axis=0)
    end = np.take_along_axis(values, count[None], 0)[0]
    out: np.ndarray = np.where(end > values[0], keys(_REACH.astype(np.float32).view(np.int32))[count], 0)
    return out
