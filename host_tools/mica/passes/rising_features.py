"""A rising function of each feature becomes the ranks of the features among the points where its result has another
integer.

scale * (f(x) - mean), x an input or features picked from it    =>    Ranks(x), on a scale of its own
g(x) that looks a place up in a constant                        =>    likewise, on a scale from g's least to its largest

So scikit-learn's PowerTransformer keeps what float32 tells apart, however skewed a feature is. Its exporter writes
both branches of a function, with infinity and NaN in the one that does not count; an InfinityImputer marks such a
graph. Results are standardised, so the range of int8 is known before calibration. A QuantileTransformer is searched
step by step, with integers.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mica.format.values import HIGH, LOW
from mica.ir.graph import Graph, Node, Quant
from mica.ir.whole import BY_NUMBER
from mica.kernels.tabular import MOST_RANKS, keys, reals
from mica.passes import dead_code
from mica.passes.drop_identity import FLOAT_TYPES
from mica.passes.leaf_values import BOOL, RENAMES, given

MARK = "InfinityImputer"
STEP = 4.5 / 128  # standard deviations
_REACH = 10.0 ** np.arange(-6, 19)

Function = Callable[..., np.ndarray]
_FUNCTIONS: Mapping[str, Function] = {
    **{"Add": np.add, "Div": np.divide, "Mul": np.multiply, "Sub": np.subtract, "Pow": np.power},
    **{"Log": np.log, "IsNaN": np.isnan},
}
_OPERATORS = frozenset((*_FUNCTIONS, *BY_NUMBER, *RENAMES, "Gather", "Imputer", MARK))


def run(g: Graph) -> Graph:
    """Leaves a function as it is that is not known or does not rise."""
    return _run(g, MARK) if any(n.op == MARK for n in g.nodes) else g


def searched(g: Graph) -> Graph:
    """Replace functions that look a place up in a constant; they compute with integers."""
    return _run(g, "Gather") if any(_looks_up(g, n) for n in g.nodes) else g


def _looks_up(g: Graph, node: Node) -> bool:
    return node.op == "Gather" and g.is_const(node.inputs[0]) and g.value(node.inputs[0]).dtype == "float32"


def _run(g: Graph, mark: str) -> Graph:
    known: dict[str, str] = {}  # values that elementwise operators make of features -> these
    for node in (n for n in g.nodes if n.op in _OPERATORS):
        of = {known.get(i, i) for i in node.inputs if not g.is_const(i)}
        size = g.value(node.outputs[0]).size
        picks = node.op == "Gather" and not g.is_const(node.inputs[0])
        if len(of) == 1 and all(size == g.value(i).size for i in of) and not picks:
            known[node.outputs[0]] = of.pop()
    readers, producers = g.consumers(), g.producers()
    for node in [n for n in g.nodes if n.outputs[0] in known]:
        out = node.outputs[0]
        inside = all(r.outputs[0] in known for r in readers.get(out, [])) and out not in g.outputs
        if not inside and (mark != MARK or _scales(g, node, producers)):
            _replace(g, node, known[out], producers, mark)
    return dead_code.run(g)


def _scales(g: Graph, node: Node, producers: Mapping[str, Node]) -> bool:
    """Return True if a node is the end of a scaler: a constant is subtracted, and another divides."""
    maker = producers.get(node.inputs[0])
    scaler = maker is not None and maker.op == "Sub" and g.is_const(maker.inputs[1])
    return scaler and node.op in ("Mul", "Div") and g.is_const(node.inputs[1])


def _replace(g: Graph, end: Node, root: str, producers: Mapping[str, Node], mark: str) -> None:
    """Writes Ranks in the place of a function's last node, if it bears the mark and rises."""
    out, found = end.outputs[0], given(g, producers, root)
    names = {out}
    for node in reversed(g.nodes):
        if node.outputs[0] in names - {root}:
            names.update(node.inputs)
    nodes = [n for n in g.nodes if n.outputs[0] in names - {root}]
    if found is None or not any(n.op == MARK if mark == MARK else _looks_up(g, n) for n in nodes):
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

    n = len(places)
    q = Quant(STEP, 0) if mark == MARK else _scale(function, n)
    thresholds = _thresholds(function, n, q) if q is not None else None
    if q is None or thresholds is None:
        return
    first, missing = np.arange(n + 1) * MOST_RANKS, np.full(n, np.nan)
    if any(node.op == "Imputer" for node in nodes):
        values = function(np.full((1, n), np.nan))[0]
        missing = np.where(np.isfinite(values), q.quantise(np.nan_to_num(values)), np.nan)
    tables = (("thresholds", thresholds.T.reshape(-1)), ("first", first), ("source", places), ("missing", missing))
    constants = [g.new_const(f"{out}.{name}", table) for name, table in tables]
    y = g.new_value(f"{out}.ranks", (1, n))
    at, shape = g.index(end), g.new_const(f"{out}.shape", np.array(g.value(out).shape, np.int64))
    ranks = Node("Ranks", end.name, [x, *constants], [y], {"step": q.scale, "zero_point": q.zero_point})
    g.nodes[at : at + 1] = [ranks, Node("Reshape", end.name, [y, shape], [out], {})]


def _scale(function: Function, n: int) -> Quant | None:
    ends = function(np.array([[-1.0], [1.0]]) * np.full(n, _REACH[-1]))
    low, high = min(float(ends.min()), 0.0), max(float(ends.max()), 0.0)
    if not (np.isfinite(ends).all() and high > low):
        return None
    step = (high - low) / (HIGH - LOW)
    return Quant(step, int(LOW - np.rint(low / step)))  # 0 lies inside


def _value(node: Node, arrays: Sequence[np.ndarray]) -> np.ndarray:
    if node.op == "Cast":
        to_float = node.attrs.get("to") in FLOAT_TYPES
        return arrays[0].astype(np.float64 if to_float else np.bool_ if node.attrs.get("to") == BOOL else np.int64)
    if node.op in RENAMES:
        return arrays[0]
    if node.op == "Gather":
        return arrays[0].reshape(-1)[np.clip(arrays[1], 0, arrays[0].size - 1)]
    if node.op in ("Imputer", MARK):
        missing = np.isposinf(arrays[0]) if node.op == MARK else np.isnan(arrays[0])
        return np.where(missing, node.attrs["values"], arrays[0])
    functions = BY_NUMBER if all(a.dtype.kind in "iub" for a in arrays) or node.op not in _FUNCTIONS else _FUNCTIONS
    return functions[node.op](*arrays)


def _thresholds(function: Function, n: int, q: Quant) -> np.ndarray | None:
    """[255, n]: the largest float32 x at which a result is at most half a step above each integer;
    None where a column does not rise."""
    levels = ((np.arange(MOST_RANKS) - 127.5 - q.zero_point) * q.scale)[:, None]
    low, high = (np.broadcast_to(end, (MOST_RANKS, n)) for end in (-_reach(function, n, -1), _reach(function, n, 1)))
    for _ in range(33):
        middle = (low + high) >> 1
        above = function(reals(middle)) > levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    thresholds = reals(low)
    between = (thresholds[1:] + thresholds[:-1]) / 2
    apart = (low[1:] - low[:-1] > 1) & (low[1:] < high[-1]) & (between != 0)
    off = np.abs(function(between) - (levels[1:] + levels[:-1]) / 2)
    rises = (off[apart] <= q.scale * 0.51).all() and apart.any(axis=0).all()
    return thresholds if rises else None


def _reach(function: Function, n: int, sign: int) -> np.ndarray:
    """Return for each column how far from zero it rises, int64 [n], as a key: a power may overflow, and a logarithm
    ends at 0."""
    points = _REACH[:, None] * np.ones(n)
    values = sign * function(sign * points)
    with np.errstate(invalid="ignore"):
        rises = np.isfinite(values[1:]) & (np.diff(values, axis=0) >= 0)
    count = np.cumprod(rises, axis=0).sum(axis=0)
    end = np.take_along_axis(values, count[None], 0)[0]
    out: np.ndarray = np.where(end > values[0], keys(_REACH.astype(np.float32).view(np.int32))[count], 0)
    return out
