"""Leaves out channels that are constant, and channels that nothing reads.

y = Conv2d(x, w, b); row c of w is zero                     =>   y without channel c; every w[:, c] below goes, and the
z = Conv2d(relu(y), v, a)                                        bias there gets relu(b[c]) times its sum
y = Conv2d(x, w, b); z = Conv2d(relu(y), v, a), v[:, c] zero =>  both without channel c

Training leaves such channels behind: a channel that a Relu has silenced loses its weights to weight decay (971 of the
2,736 channels of MLPerf Tiny's person detector). Operators that treat each channel by itself (Relu, pools, depthwise
convolutions, sums of two activations ...) tie the channels of several tensors together: a channel goes from all of
them or from none. Where a convolution pads, only a constant of zero can be left out: elsewhere its border differs.

Once a channel is gone, further channels may be constant, so the pass repeats until nothing changes. Models that were
quantised before the import keep all channels, because their integers stay as they are.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from mica.ir import knobs
from mica.ir.graph import Graph, Node
from mica.reference import float_ops

# Weights below this share of the layer's largest one: float32 sums do not notice them.
NOTHING = 1e-12
NOTHING_AT_ALL = 1e-20  # and these are nothing beside any inputs that int8 can stand for

_LINEAR = ("Conv2d", "FullyConnected")
# Operators of which channel c of the output depends on channel c of the inputs alone, the last axes being equal.
_BY_CHANNEL = ("Unary", "MaxPool2d", "AveragePool2d", "DepthwiseConv2d", "Add", "Mul", "Div", "MinMax", "Reshape")

Constants = dict[str, np.ndarray]  # activation -> its value in each channel [C], NaN where that is not always the same


def run(g: Graph) -> Graph:
    while not knobs.KEEP_DEAD_CHANNELS and _once(g):
        pass
    return g


def _once(g: Graph) -> bool:
    tied = _ties(g)
    known = _constants(g)
    changed = False
    for names in tied:
        kept = _kept(g, names, known)
        if not kept.all():
            _leave_out(g, names, kept, known)
            changed = True
    return changed


def _ties(g: Graph) -> list[set[str]]:
    """Sets of activations that have their channels in common, without those that must stay as they are."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while (up := parent.get(name, name)) != name:
            name = up
        return name

    fixed = {*g.inputs, *g.outputs, *(name for name, v in g.values.items() if v.quant is not None)}
    for node in g.nodes:
        activations = [i for i in node.inputs if i and not g.is_const(i)]
        if _is_by_channel(g, node):
            for i in activations:
                parent[find(i)] = find(node.outputs[0])
        elif not _is_linear(g, node):
            fixed.update(activations, node.outputs)
    sets: dict[str, set[str]] = {}
    for name in [*g.inputs, *(o for n in g.nodes for o in n.outputs if o)]:
        sets.setdefault(find(name), set()).add(name)
    return [names for names in sets.values() if not names & fixed]


def _is_linear(g: Graph, node: Node) -> bool:
    """Mixes all channels of its input by weights that may be changed."""
    if node.op not in _LINEAR or node.attrs.get("groups", 1) != 1:
        return False
    return g.value(node.inputs[0]).shape[-1] == g.value(node.inputs[1]).shape[-1] and _own_constants(g, node)


def _own_constants(g: Graph, node: Node) -> bool:
    return all(g.is_const(i) and g.value(i).quant is None and g.value(i).weight_scale is None for i in node.inputs[1:])


def _is_by_channel(g: Graph, node: Node) -> bool:
    if node.op not in _BY_CHANNEL:
        return False
    out = g.value(node.outputs[0]).shape
    if node.op == "DepthwiseConv2d":
        return out[-1] == g.value(node.inputs[0]).shape[-1] and _own_constants(g, node)
    return len(out) > 0 and all(not g.is_const(i) and g.value(i).shape[-1:] == out[-1:] for i in node.inputs)


def _constants(g: Graph) -> Constants:
    known: Constants = {i: np.full(g.value(i).shape[-1:], np.nan) for i in g.inputs}
    for node in g.nodes:
        for o in node.outputs:
            if o:
                known[o] = np.full(g.value(o).shape[-1:], np.nan)
        if _is_linear(g, node):
            known[node.outputs[0]] = np.where(_nothing(g, node.inputs[1], 0), _clamped_bias(g, node, 0.0), np.nan)
        elif _is_by_channel(g, node):
            known[node.outputs[0]] = _through(g, node, known)
    return known


def _through(g: Graph, node: Node, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """Constants behind an operator that treats each channel by itself."""
    before = [known[i] for i in node.inputs if not g.is_const(i)]
    if node.op == "DepthwiseConv2d":
        (v,) = before
        w = np.asarray(g.data(node.inputs[1]), np.float64)
        v = np.where(_nothing(g, node.inputs[1], 0), 0.0, _under_window(node, v))
        return _clamped_bias(g, node, v * w.reshape(len(w), -1).sum(axis=1))
    if node.op in ("MaxPool2d", "Reshape"):
        return _clamp(node, before[0])
    if node.op == "AveragePool2d":
        return _clamp(node, _under_window(node, before[0]) if node.attrs["count_include_pad"] else before[0])
    unknown = np.isnan(before).any(axis=0)
    arrays = [np.where(unknown, 0.0, v).astype(np.float32) for v in before]
    with np.errstate(all="ignore"):
        y = np.asarray(float_ops.OPS[node.op](node, arrays, arrays[0].shape), np.float64)
    return np.where(unknown | ~np.isfinite(y), np.nan, y)


def _under_window(node: Node, v: np.ndarray) -> np.ndarray:
    """Constants that a window sees everywhere: zero only, where it also sees padding."""
    return np.where(v == 0, 0.0, np.nan) if any(node.attrs["pads"]) else v


def _clamped_bias(g: Graph, node: Node, more: np.ndarray | float) -> np.ndarray:
    return _clamp(node, np.asarray(g.data(node.inputs[2]), np.float64) + more)


def _clamp(node: Node, v: np.ndarray) -> np.ndarray:
    low, high = node.attrs.get("clip", (None, None))
    return v if low is None and high is None else np.clip(v, low, high)


def _nothing(g: Graph, weights: str, axis: int) -> np.ndarray:
    """Channels of one axis of a constant that are all zero, or nearly: bool [size of the axis]."""
    w = np.abs(np.asarray(g.data(weights), np.float64))
    largest = np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1).max(axis=1, initial=0.0)
    return np.asarray(largest <= max(NOTHING * largest.max(initial=0.0), NOTHING_AT_ALL))


def _readers(g: Graph, names: Iterable[str]) -> list[Node]:
    """The linear operators that read some of the activations."""
    return [n for n in g.nodes if n.inputs[0] in names and _is_linear(g, n)]


def _kept(g: Graph, names: set[str], known: Constants) -> np.ndarray:
    """Channels that somebody needs, bool [C]; one at least, for no tensor is empty."""
    kept = np.zeros(g.value(min(names)).shape[-1], bool)
    for reader in _readers(g, names):
        v = known[reader.inputs[0]]
        v = _under_window(reader, v) if reader.op == "Conv2d" else v
        kept |= np.isnan(v) & ~_nothing(g, reader.inputs[1], -1)
    if not kept.any():
        kept[0] = True
    return kept


def _leave_out(g: Graph, names: set[str], kept: np.ndarray, known: Constants) -> None:
    readers = _readers(g, names)
    makers = [n for n in g.nodes if n.outputs[0] in names and (_is_linear(g, n) or n.op == "DepthwiseConv2d")]
    for reader in readers:
        w, b = (np.asarray(g.data(i), np.float64) for i in reader.inputs[1:])
        gone = np.where(kept | np.isnan(known[reader.inputs[0]]), 0.0, known[reader.inputs[0]])
        shift = (w * gone).reshape(len(w), -1).sum(axis=1)
        _set(g, reader, w[..., kept], b + shift)
    for maker in makers:
        w, b = (np.asarray(g.data(i)) for i in maker.inputs[1:])
        _set(g, maker, w[kept], b[kept])
    for name in names:
        v = g.value(name)
        v.shape = (*v.shape[:-1], int(kept.sum()))
        known[name] = known[name][kept]


def _set(g: Graph, node: Node, weights: np.ndarray, bias: np.ndarray) -> None:
    for k, array in ((1, weights), (2, bias)):
        node.inputs[k] = g.new_const(node.inputs[k], np.ascontiguousarray(array, np.float32))
