"""Features that the model picks from its input and then scales are scaled first, or are read from the input itself.

Mul(Sub(Gather(x, places), mean), scale)       =>   Gather(Mul(Sub(x, means), scales), places)
Concat(Sub(Gather(x, a), m), Gather(x, b))     =>   Gather(Sub(x, means), places)
TreeEnsemble(Cast(Gather(x, places), int64))   =>   TreeEnsemble(x), with other thresholds
FullyConnected(Gather(x, places), w, b)        =>   FullyConnected(x, w in these columns, b)
TreeEnsemble(..), VectorEnsemble(..)           =>   likewise, with these columns

x is an input of the model, [F] or [1, F]. So scikit-learn's SelectKBest and ColumnTransformer keep what its scalers
have: a feature of 0.001 beside one of 1000 keeps all its bits (`features.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node
from mica.ir.vectors import Vectors, imputed, scaled
from mica.passes.features import ENSEMBLES

MOST_WIDER = 4  # times: by what the weights of a product may grow, so that nothing is copied
FEW = 64  # features, with which they may grow by more
_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


@dataclass(frozen=True)
class View:
    """x[place] * factor + shift for each place of an input x; value [n] stands for a NaN, of x, or is None."""

    x: str
    place: np.ndarray
    factor: np.ndarray
    shift: np.ndarray
    value: np.ndarray | None = None
    picked: bool = False
    whole: bool = False  # numbers are cut towards 0, as a cast to integers does

    @property
    def moved(self) -> bool:
        return self.value is not None or bool((self.factor != 1).any() or (self.shift != 0).any())


def run(g: Graph) -> Graph:
    views = {name: v for name in g.inputs if (v := _whole(g, name)) is not None}
    for node in list(g.nodes):
        view = _through(g, node, views)
        if view is not None:
            views[node.outputs[0]] = view
            continue
        for k, name in enumerate(dict.fromkeys(node.inputs)):
            if (view := views.get(name)) is not None and _picks(g, view, node.op if k == 0 else ""):
                _read(g, node, name, view)
    return g


def _whole(g: Graph, name: str) -> View | None:
    v = g.value(name)
    n = v.shape[-1] if v.shape else 0
    if v.quant is not None or v.dtype != "float32" or len(v.shape) not in (1, 2) or v.size != n or n < 2:
        return None
    return View(name, np.arange(n), np.ones(n), np.zeros(n))


def _picks(g: Graph, view: View, op: str) -> bool:
    """True if a view picks each feature at most once and a reader with `op` gains by reading x itself."""
    n = g.value(view.x).shape[-1]
    if not view.picked or len(np.unique(view.place)) < len(view.place) or (view.whole and op != "TreeEnsemble"):
        return False
    return view.whole or op in ENSEMBLES or not np.array_equal(view.place, np.arange(n))


def _through(g: Graph, node: Node, views: dict[str, View]) -> View | None:
    """A node's output as a view, if its input is one and the operator keeps it one; else None."""
    if len(node.outputs) != 1 or not node.inputs:
        return None
    if node.op == "Concat":
        return _concat(g, node, [views.get(i) for i in node.inputs])
    at = next((k for k, i in enumerate(node.inputs) if i in views), None)
    if at is None or node.op not in _RULES or (at and node.op not in ("Add", "Mul")):
        return None
    view = views[node.inputs[at]]
    return _RULES[node.op](g, node, view) if not view.whole or node.op in ("Identity", "Imputer") else None


def _concat(g: Graph, node: Node, parts: Sequence[View | None]) -> View | None:
    first = parts[0]
    if first is None or node.attrs.get("axis") not in (-1, len(g.value(node.outputs[0]).shape) - 1):
        return None
    known = [p for p in parts if p is not None and p.x == first.x and (p.value is None) == (first.value is None)]
    if len(known) < len(parts):
        return None
    whole = {k: np.concatenate([getattr(p, k) for p in known]) for k in ("place", "factor", "shift")}
    value = None if first.value is None else np.concatenate([p.value for p in known if p.value is not None])
    return View(first.x, whole["place"], whole["factor"], whole["shift"], value, True)


def _imputer(g: Graph, node: Node, view: View) -> View | None:
    values = np.asarray(node.attrs["values"], np.float64).reshape(-1)
    return None if view.moved else replace(view, value=np.broadcast_to(values, view.place.shape))


def _cast(g: Graph, node: Node, view: View) -> View | None:
    if node.attrs.get("to") in _INTEGERS and not view.moved:
        return replace(view, whole=True)
    return view if node.attrs.get("to") == TensorProto.FLOAT else None


def _gather(g: Graph, node: Node, view: View) -> View | None:
    places, n = g.data(node.inputs[1]), len(view.place)
    last = len(g.value(node.outputs[0]).shape) - 1
    if places is None or places.ndim != 1 or node.attrs.get("axis", 0) not in (-1, last):
        return None
    if (places >= n).any() or (places < -n).any():  # `lower` refuses them
        return None
    value = None if view.value is None else view.value[places]
    return View(view.x, view.place[places], view.factor[places], view.shift[places], value, True)


def _arithmetic(g: Graph, node: Node, view: View) -> View | None:
    """With one constant, for all features or for each."""
    n, rank = len(view.place), len(g.value(node.outputs[0]).shape)
    c = next((data for i in node.inputs if (data := g.data(i)) is not None), None)
    if len(node.inputs) != 2 or c is None or c.size not in (1, n) or (c.ndim and c.shape[-1] != c.size) or rank > 2:
        return None
    a = np.broadcast_to(c.reshape(-1).astype(np.float64), (n,))
    if node.op in ("Add", "Sub"):
        return replace(view, shift=view.shift + (a if node.op == "Add" else -a))
    if not np.isfinite(a).all() or (node.op == "Div" and (a == 0).any()):
        return None
    a = a if node.op == "Mul" else 1 / a
    return replace(view, factor=view.factor * a, shift=view.shift * a)


_RULES: dict[str, Callable[[Graph, Node, View], View | None]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    "Cast": _cast,
    "Gather": _gather,
    "Identity": lambda g, node, view: view,
    "Imputer": _imputer,
}


def _read(g: Graph, node: Node, name: str, view: View) -> None:
    """Gives a node that reads a view the features where they are, or behind scalers of all of them."""
    n = g.value(view.x).shape[-1]
    if node.op == "VectorEnsemble":
        v: Vectors = node.attrs["vectors"]
        v = scaled(v, view.factor, view.shift)
        v = v if view.value is None else imputed(v, view.value)
        points = np.zeros((len(v.points), n))
        points[:, view.place] = v.points
        factor, shift, missing = (_spread(a, view.place, n) for a in (v.factor, v.shift, v.missing))
        v = replace(v, points=points, factor=factor, shift=shift, missing=missing)
        node.attrs = {**node.attrs, "vectors": v}
        node.inputs[0] = view.x
        return
    x = _scaled(g, node, view, n)
    if node.op == "TreeEnsemble":
        f: Forest = node.attrs["forest"]
        if f.columns <= len(view.place):
            f = replace(f, threshold=_cut(f.threshold)) if view.whole else f
            column = np.where(f.column >= 0, view.place[np.maximum(f.column, 0)], -1)
            node.attrs = {**node.attrs, "forest": replace(f, column=column)}
            node.inputs[0] = x
        return
    weights = g.data(node.inputs[1]) if node.op == "FullyConnected" and name == node.inputs[0] else None
    if weights is not None and "weight_steps" not in node.attrs and n <= max(MOST_WIDER * len(view.place), FEW):
        wide = np.zeros((len(weights), n), weights.dtype)
        wide[:, view.place] = weights
        node.inputs[:2] = [x, g.new_const(f"{node.inputs[1]}.wide", wide)]
    elif view.moved:
        shape = g.value(name).shape
        picked = g.new_value(f"{node.name}.picked", shape)
        places = g.new_const(f"{node.name}.places", view.place.astype(np.int64))
        g.insert_before(node, Node("Gather", node.name, [x, places], [picked], {"axis": len(shape) - 1}))
        node.inputs = [picked if i == name else i for i in node.inputs]


def _cut(t: np.ndarray) -> np.ndarray:
    """Thresholds of x: x is at most the result exactly if x, cut towards 0, is at most t."""
    whole = np.floor(t)
    below = np.nextafter((whole + 1).astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    return np.where(t >= 0, below, whole)


def _spread(a: np.ndarray, place: np.ndarray, n: int, rest: float = 0.0) -> np.ndarray:
    result = np.full(n, rest)
    result[place] = a
    return result


def _scaled(g: Graph, node: Node, view: View, n: int) -> str:
    """x * factor + shift for all features of x. Those that nobody picked are 0, so that they do not widen the range;
    trees want none at all."""
    x = view.x
    shape = g.value(x).shape
    rest = 1.0 if node.op == "TreeEnsemble" else 0.0
    steps: list[tuple[str, np.ndarray | None, dict[str, np.ndarray]]] = []
    if view.value is not None:
        steps.append(("Imputer", None, {"values": _spread(view.value, view.place, n)}))
    if view.moved:
        steps.append(("Mul", _spread(view.factor, view.place, n, rest), {}))
    if (view.shift != 0).any():
        steps.append(("Add", _spread(view.shift, view.place, n), {}))
    for op, a, attrs in steps:
        y = g.new_value(f"{node.name}.{op.lower()}", shape)
        others: list[str] = [] if a is None else [g.new_const(f"{y}.by", a.astype(np.float32))]
        g.insert_before(node, Node(op, node.name, [x, *others], [y], attrs))
        x = y
    return x
