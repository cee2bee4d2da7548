"""ONNX operators on the answers that a tree can give, all of them at once: arrays [leaves, *shape]."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.drop_identity import FLOAT_TYPES
from mica.passes.index_inputs import INTEGER_TYPES
from mica.reference import unary

RENAMES = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
COMPARISONS: Mapping[str, Callable[..., np.ndarray]] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}
MOST = 1 << 18  # numbers in the leaves of a tree
_MOST_ROWS = 1 << 12  # that go through a forest
_PLAIN = ("Abs", "Exp", "Log", "Sqrt")
BOOL = 9  # of TensorProto
_ELEMENTWISE: Mapping[str, Callable[..., np.ndarray]] = {
    **COMPARISONS,
    "Add": lambda a, b: a + b,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Sub": np.subtract,
    "Sum": lambda a, b: a + b,
    "Where": np.where,
}


def renames(node: Node) -> bool:
    """True if a node's numbers are those that it reads, none of them cut to whole ones."""
    return node.op in RENAMES and (node.op != "Cast" or node.attrs.get("to") in FLOAT_TYPES)


def given(g: Graph, producers: Mapping[str, Node], name: str) -> tuple[str, np.ndarray] | None:
    """(a row that the model is given, the places that a value picks from it)."""
    places = np.arange(g.value(name).size)
    while (node := producers.get(name)) is not None:
        if node.op == "Gather" and g.value(node.inputs[0]).size == g.value(node.inputs[0]).shape[-1]:
            at, n = g.data(node.inputs[1]), g.value(node.inputs[0]).size
            last = node.attrs.get("axis", 0) in (-1, len(g.value(node.inputs[0]).shape) - 1)
            if at is None or not last or (at >= n).any() or (at < -n).any():
                return None
            places = at.reshape(-1)[places] % n
        elif not renames(node):
            return None
        name = node.inputs[0]
    shape = g.value(name).shape
    row = g.is_given(name) and g.value(name).dtype == "float32" and len(shape) == 2 and shape[0] == 1
    return (name, places) if row else None


def given_scaled(g: Graph, x: str) -> bool:
    """Return True if a value is an input of the model, or one that constants scale, shift, pick from or impute."""
    producers = g.producers()
    while (node := producers.get(x)) is not None and node.op in ("Add", "Div", "Gather", "Imputer", "Mul", "Sub"):
        open_inputs = [i for i in node.inputs if not g.is_const(i)]
        if len(open_inputs) != 1 or (node.op in ("Div", "Gather") and open_inputs[0] != node.inputs[0]):
            return False
        if node.op == "Gather" and not _each_once(g.data(node.inputs[1]), node.attrs.get("axis", 0)):
            return False
        x = open_inputs[0]
    return g.is_given(x) and g.value(x).dtype == "float32"


def _each_once(places: np.ndarray | None, axis: int) -> bool:
    """True if a Gather picks features of a row, none of them twice: `passes/picked_features.py`."""
    return places is not None and places.ndim == 1 and axis in (-1, 1) and len(np.unique(places)) == len(places)


Arrays = Sequence[np.ndarray | None]


def apply(g: Graph, node: Node, arrays: Arrays, *at: int) -> np.ndarray | None:
    """The result of a node [leaves, *shape], or None where it is not known here.
    at: which inputs are of leaves, not constants."""
    shape = g.value(node.outputs[0]).shape
    x = arrays[at[0]]
    assert x is not None
    size = len(x) * int(np.prod(shape))
    if size > MOST:
        return None
    try:
        with np.errstate(all="ignore"):
            y = _computed(node, arrays, x, at, len(shape))
    except (TypeError, ValueError):  # types or shapes that numpy does not take together
        return None
    return y.reshape(len(x), *shape) if y is not None and y.size == size and np.isfinite(y).all() else None


def _computed(node: Node, arrays: Arrays, x: np.ndarray, at: Sequence[int], rank: int) -> np.ndarray | None:
    if node.op == "Cast":
        return _cast(node, x)
    if node.op in RENAMES:
        return x
    if node.op in _PLAIN and x.dtype.kind == "f":
        return np.asarray(unary.apply(node.op.lower(), x, ()), np.float32)
    if node.op in ("ArgMax", "ArgMin") and not node.attrs.get("select_last_index"):
        axis = int(node.attrs.get("axis", 0))
        return (np.argmax if node.op == "ArgMax" else np.argmin)(x, axis=axis + 1 if axis >= 0 else axis)
    if node.op == "LabelEncoder":
        keys, values = (np.asarray(node.attrs[k]) for k in ("keys", "values"))
        order = np.argsort(keys)
        place = np.minimum(np.searchsorted(keys[order], x), len(keys) - 1)
        return np.where(keys[order][place] == x, values[order][place], node.attrs["default"])
    if node.op == "TreeEnsemble":
        if x.ndim < 2 or node.attrs["forest"].columns > x.shape[-1] or x.size > _MOST_ROWS:
            return None
        return np.asarray(node.attrs["forest"].run(x.astype(np.float64)), np.float32)
    if node.op == "Concat":
        axis = int(node.attrs.get("axis", 1))
        parts = [np.asarray(a) for a in arrays]
        parts = [a if k in at else np.broadcast_to(a, (len(x), *a.shape)) for k, a in enumerate(parts)]
        return np.concatenate(parts, axis=axis + 1 if axis >= 0 else axis)
    return _elementwise(node, arrays, at, rank)


def _cast(node: Node, x: np.ndarray) -> np.ndarray | None:
    to = node.attrs.get("to")
    if to == BOOL:
        return x != 0
    if to in INTEGER_TYPES:
        return np.trunc(x).astype(np.int64) if np.isfinite(x).all() else None
    return x.astype(np.float32)


def _elementwise(node: Node, arrays: Arrays, at: Sequence[int], rank: int) -> np.ndarray | None:
    if node.op not in _ELEMENTWISE or any(a is None for a in arrays):
        return None
    parts = [np.asarray(a) for a in arrays]
    if node.op == "Div" and all(a.dtype.kind in "iu" for a in parts):
        return None
    for k in at:  # the leaves stand in front of all dimensions
        parts[k] = parts[k].reshape(len(parts[k]), *[1] * (rank + 1 - parts[k].ndim), *parts[k].shape[1:])
    function = _ELEMENTWISE[node.op]
    if len(parts) > 2 and node.op != "Where":
        y = parts[0]
        for a in parts[1:]:
            y = function(y, a)
    else:
        y = function(*parts) if len(parts) > 1 or node.op in ("Neg", "Not") else parts[0]
    return y.astype(np.float32) if y.dtype == np.float64 else y
