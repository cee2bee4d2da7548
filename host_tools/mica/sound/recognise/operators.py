"""Results of each ONNX operator on recognised values (`values`); None if the result is not recognised."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mica.ir.graph import Graph, Node
from mica.kernels.audio import MOST_POINTS
from mica.passes.fold_pad import pad_amounts, pad_value
from mica.reference.front_end import turns
from mica.sound.recognise import arithmetic
from mica.sound.recognise.values import NOTHING, Bands, Lines, Logs, Recognised, Samples, arrays, joined, with_arrays

Known = Mapping[str, Recognised]
Rule = Callable[[Graph, Node, Known], "list[Recognised] | Recognised | None"]

MOST_FRAME = MOST_POINTS  # samples: longer ones are not looked at
_FLOATS = (1, 10, 11, 16)  # TensorProto's


def _const(g: Graph, node: Node, i: int) -> np.ndarray | None:
    """Input i as float64, where it is a constant."""
    data = g.data(node.inputs[i]) if len(node.inputs) > i else None
    return None if data is None or data.dtype.kind not in "fiu" else np.asarray(data, np.float64)


def _integers(g: Graph, node: Node, i: int, name: str) -> list[int] | None:
    """A list of integers: attribute `name`, or constant input `i`; None where both are absent."""
    value = node.attrs.get(name)
    if value is None and len(node.inputs) > i and node.inputs[i]:
        value = g.data(node.inputs[i])
    return None if value is None else [int(v) for v in np.asarray(value).reshape(-1)]


# ---- what moves elements


def _moves(function: Callable[[Graph, Node, np.ndarray], np.ndarray | None]) -> Rule:
    def rule(g: Graph, node: Node, known: Known) -> Recognised | None:
        v = known[node.inputs[0]]
        new = [function(g, node, a) for a in arrays(v)]
        return None if any(a is None for a in new) else with_arrays(v, new)  # type: ignore[arg-type]

    return rule


def _reshape(g: Graph, node: Node, a: np.ndarray) -> np.ndarray:
    return a.reshape(g.value(node.outputs[0]).shape)


def _slice(g: Graph, node: Node, a: np.ndarray) -> np.ndarray | None:
    starts, ends = _integers(g, node, 1, "starts"), _integers(g, node, 2, "ends")
    if starts is None or ends is None:
        return None
    axes = _integers(g, node, 3, "axes") or list(range(len(starts)))
    steps = _integers(g, node, 4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        taken = range(a.shape[axis])[start:end:step]
        a = np.take(a, np.arange(taken.start, taken.stop, taken.step), axis)
    return a


def _gather(g: Graph, node: Node, a: np.ndarray) -> np.ndarray | None:
    indices = g.data(node.inputs[1])
    return None if indices is None else np.take(a, indices.astype(np.int64), int(node.attrs.get("axis", 0)))


def _expand(g: Graph, node: Node, a: np.ndarray) -> np.ndarray | None:
    shape = g.value(node.outputs[0]).shape
    return np.broadcast_to(a, shape) if node.op == "Expand" else None


def _split(g: Graph, node: Node, known: Known) -> list[Recognised] | None:
    v = known[node.inputs[0]]
    axis = int(node.attrs.get("axis", 0))
    sizes = [g.value(o).shape[axis] if o else 0 for o in node.outputs]
    if 0 in sizes:
        return None
    parts = [np.split(a, np.cumsum(sizes)[:-1], axis) for a in arrays(v)]
    return [with_arrays(v, list(part)) for part in zip(*parts, strict=True)]


def _pad(g: Graph, node: Node, known: Known) -> Recognised | None:
    v, amounts = known[node.inputs[0]], pad_amounts(g, node)
    mode = node.attrs.get("mode", "constant")
    n = len(amounts) // 2
    if min(amounts) < 0 or mode not in ("constant", "reflect", "edge"):
        return None
    widths = list(zip(amounts[:n], amounts[n:], strict=True))
    if mode == "constant":
        if not isinstance(v, Samples) or pad_value(g, node) != 0.0:
            return None
        return replace(v, at=np.pad(v.at, widths, constant_values=NOTHING), gain=np.pad(v.gain, widths, mode="edge"))
    if any(max(w) >= m for w, m in zip(widths, v.at.shape, strict=True) if max(w)):
        return None
    return with_arrays(v, [np.pad(a, widths, mode) for a in arrays(v)])


def _concat(g: Graph, node: Node, known: Known) -> Recognised | None:
    if any(i not in known for i in node.inputs):
        return None
    axis = int(node.attrs["axis"])
    total = known[node.inputs[0]]
    for i in node.inputs[1:]:
        pair = joined(total, known[i])
        if pair is None:
            return None
        parts = zip(arrays(pair[0]), arrays(pair[1]), strict=True)
        total = with_arrays(pair[1], [np.concatenate(p, axis) for p in parts])
    return total


# ---- from samples to lines


def fourier(n: int, points: int, onesided: bool) -> np.ndarray:
    """Real and imaginary rows of a transform in turn, float64 [2 * bins, n];
    frames shorter than its points have zeros behind them."""
    bins = points // 2 + 1 if onesided else points
    cosine, sine = turns(points)
    steps = np.arange(bins)[:, None] * np.arange(n) % points
    return np.stack([cosine[steps], -sine[steps]], axis=1).reshape(2 * bins, n)


def _whole(g: Graph, node: Node, i: int) -> int | None:
    data = _const(g, node, i) if len(node.inputs) > i and node.inputs[i] else None
    return None if data is None or data.size != 1 else int(data.reshape(-1)[0])


def _stft(g: Graph, node: Node, known: Known) -> Recognised | None:
    v, step, n = known[node.inputs[0]], _whole(g, node, 1), _whole(g, node, 3)
    window = _const(g, node, 2) if len(node.inputs) > 2 and node.inputs[2] else None
    y = g.value(node.outputs[0]).shape
    if not isinstance(v, Samples) or step is None or v.at.size != max(v.at.shape) or len(y) != 4:
        return None
    n = n or (None if window is None else window.size)
    if n is None or not 0 < n <= MOST_FRAME or (window is not None and window.size != n):
        return None
    at, gain = (np.lib.stride_tricks.sliding_window_view(a.reshape(-1), n)[::step] for a in arrays(v))
    rows = fourier(n, n, bool(node.attrs.get("onesided", 1)))
    lines = arithmetic.framed(Samples(at, gain), rows if window is None else rows * window.reshape(-1))
    if lines is None or lines.at.size != int(np.prod(y)):
        return None
    return with_arrays(lines, [a.reshape(y) for a in arrays(lines)])


def _dft(g: Graph, node: Node, known: Known) -> Recognised | None:
    v = known[node.inputs[0]]
    y = g.value(node.outputs[0]).shape
    length = _whole(g, node, 1)
    given = _whole(g, node, 2) if len(node.inputs) > 2 else None
    axis = int(node.attrs["axis"]) if "axis" in node.attrs else given if given is not None else 1
    axis %= len(y)
    if not isinstance(v, Samples) or v.at.shape[-1] != 1 or node.attrs.get("inverse", 0) or axis == len(y) - 1:
        return None
    at, gain = (np.moveaxis(a[..., 0], axis, -1) for a in arrays(v))
    points = length or at.shape[-1]
    if not 0 < points <= MOST_FRAME:
        return None
    at, gain = at[..., :points], gain[..., :points]
    lines = arithmetic.framed(Samples(at, gain), fourier(at.shape[-1], points, bool(node.attrs.get("onesided", 0))))
    if lines is None:
        return None
    parts = [np.moveaxis(a.reshape(*a.shape[:-1], -1, 2), -2, axis) for a in arrays(lines)]
    return with_arrays(lines, parts) if parts[0].shape == y else None


def _conv(g: Graph, node: Node, known: Known) -> Recognised | None:
    """Make of samples a frame at each place; of bands with a kernel of one, a matrix over its channels."""
    v, w = known[node.inputs[0]], _const(g, node, 1)
    bias = _const(g, node, 2) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    y = g.value(node.outputs[0]).shape
    if w is None or bias is None or node.attrs.get("group", 1) != 1 or set(node.attrs.get("dilations", [1])) != {1}:
        return None
    if isinstance(v, (Bands, Logs)) and w.size == w.shape[0] * w.shape[1] and not any(node.attrs.get("pads", [0])):
        if set(node.attrs.get("strides", [1])) != {1} or node.attrs.get("auto_pad", "NOTSET") in (
            "SAME_UPPER",
            "SAME_LOWER",
        ):
            return None
        out = arithmetic.times(np.moveaxis(v.at, 1, -1), v, w.reshape(w.shape[:2]).T)
        if out is None:
            return None
        return arithmetic.shifted(replace(out, at=np.moveaxis(out.at, -1, 1)), bias.reshape(-1, *[1] * (len(y) - 2)))
    if (
        not isinstance(v, Samples)
        or v.at.size != max(v.at.shape)
        or w.size != w.shape[0] * max(w.shape[1:])
        or bias.any()
    ):
        return None
    n, spatial = max(w.shape[1:]), len(y) - 2
    along = next((i for i in range(spatial) if v.at.shape[2 + i] > 1), spatial - 1)
    if w.shape[2 + along] != n or y[0] * y[1] * y[2 + along] != int(np.prod(y)):
        return None
    step = node.attrs.get("strides", [1] * spatial)[along]
    pads = node.attrs.get("pads", [0] * 2 * spatial)
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    at = np.pad(v.at.reshape(-1), (pads[along], pads[spatial + along]), constant_values=NOTHING)
    gain = np.pad(v.gain.reshape(-1), (pads[along], pads[spatial + along]), mode="edge")
    if len(at) < n:
        return None
    at, gain = (np.lib.stride_tricks.sliding_window_view(a, n)[::step] for a in (at, gain))
    lines = arithmetic.framed(Samples(at, gain), w.reshape(len(w), n))
    if lines is None or lines.at.size != int(np.prod(y)):
        return None
    return with_arrays(lines, [a.T.reshape(y) for a in arrays(lines)])


# ---- matrices


def _matmul(g: Graph, node: Node, known: Known) -> Recognised | None:
    left = node.inputs[0] in known
    v, w = known[node.inputs[0 if left else 1]], _const(g, node, 1 if left else 0)
    if w is None or v.at.ndim < 2 or w.ndim < 2 or w.size != w.shape[-1] * w.shape[-2]:
        return None
    w = w.reshape(w.shape[-2:])
    alpha, turned = float(node.attrs.get("alpha", 1.0)), node.attrs.get("transB" if left else "transA", 0)
    w = (w.T if turned else w) * alpha
    across = bool(node.attrs.get("transA" if left else "transB", 0)) == left  # v's columns are summed over
    moved = with_arrays(v, [np.swapaxes(a, -1, -2) if across else a for a in arrays(v)])
    w = w if left else w.T
    if len(w) != moved.at.shape[-1]:
        return None
    out: Recognised | None
    if isinstance(moved, Samples):
        out = arithmetic.framed(moved, w.T)
    elif isinstance(moved, (Bands, Logs)):
        out = arithmetic.times(moved.at, moved, w)
    else:
        return None
    if out is None:
        return None
    y = g.value(node.outputs[0]).shape
    out = with_arrays(out, [(a if left else np.swapaxes(a, -1, -2)).reshape(y) for a in arrays(out)])
    if node.op == "Gemm" and len(node.inputs) > 2 and node.inputs[2]:
        bias = _const(g, node, 2)
        return None if bias is None else arithmetic.shifted(out, bias * float(node.attrs.get("beta", 1.0)))
    return out


# ---- element by element


def _sum_of_pairs(g: Graph, node: Node, v: Lines) -> Bands | None:
    """Along an axis of two."""
    axes = _integers(g, node, 1, "axes")
    if axes is None or len(axes) != 1 or v.at.shape[axes[0]] != 2 or not v.squared:
        return None
    parts = [with_arrays(v, [np.take(a, k, axes[0]) for a in arrays(v)]) for k in (0, 1)]
    assert isinstance(parts[0], Lines) and isinstance(parts[1], Lines)
    out = arithmetic.squared_sums(parts[0], parts[1])
    return None if out is None else replace(out, at=out.at.reshape(g.value(node.outputs[0]).shape))


def _reduce(g: Graph, node: Node, known: Known) -> Recognised | None:
    v = known[node.inputs[0]]
    if not isinstance(v, Lines):
        return None
    if node.op != "ReduceSum":
        if v.squared:
            return None
        v = replace(v, squared=True)
    total = _sum_of_pairs(g, node, v)
    return arithmetic.root(total) if total is not None and node.op == "ReduceL2" else total


def _pow(g: Graph, node: Node, known: Known) -> Recognised | None:
    v, c = known.get(node.inputs[0]), _const(g, node, 1)
    if v is None or c is None or c.size != 1:
        return None
    power = float(c.reshape(-1)[0])
    if power == 2 and isinstance(v, (Lines, Bands)):
        return arithmetic.squares(v)
    return arithmetic.root(v) if power == 0.5 else v if power == 1 else None


def _mul(g: Graph, node: Node, known: Known) -> Recognised | None:
    a, b = node.inputs
    if a == b:
        v = known[a]
        return arithmetic.squares(v) if isinstance(v, (Lines, Bands)) else None
    first = a in known
    v, c = known[a if first else b], _const(g, node, 1 if first else 0)
    if c is None or (node.op == "Div" and (not first or not c.all())):
        return None
    return arithmetic.scaled(v, 1 / c if node.op == "Div" else c)


def _add(g: Graph, node: Node, known: Known) -> Recognised | None:
    a, b = node.inputs
    minus = node.op == "Sub"
    if a in known and b in known:
        x, y = known[a], known[b]
        for one, other, sign in ((x, y, 1.0), (y, x, -1.0 if minus else 1.0)):
            if isinstance(one, Lines) and isinstance(other, Lines) and not other.gain.any() and not one.squared:
                return arithmetic.scaled(one, np.array(sign)) if one.at.shape == other.at.shape else None
        pair = joined(x, y)
        if minus or pair is None or not isinstance(pair[0], Lines) or not isinstance(pair[1], Lines):
            return None
        return arithmetic.squared_sums(pair[0], pair[1]) if pair[0].squared else None
    first = a in known
    v, c = known[a if first else b], _const(g, node, 1 if first else 0)
    if c is None or (minus and not first):
        return None
    return arithmetic.shifted(v, -c if minus else c)


def _clip(g: Graph, node: Node, known: Known) -> Recognised | None:
    if node.inputs[0] not in known:
        return None
    low, high = (node.attrs.get(name) for name in ("min", "max"))
    for i, name in ((1, "min"), (2, "max")):
        if len(node.inputs) > i and node.inputs[i]:
            c = _const(g, node, i)
            if c is None:
                return None
            low, high = (float(c.reshape(-1)[0]), high) if name == "min" else (low, float(c.reshape(-1)[0]))
    return arithmetic.limited(
        known[node.inputs[0]], None if low is None else float(low), None if high is None else float(high)
    )


def _max(g: Graph, node: Node, known: Known) -> Recognised | None:
    recognised = [i for i in node.inputs if i in known]
    others = [_const(g, node, k) for k, i in enumerate(node.inputs) if i not in known]
    if len(recognised) != 1 or len(others) != 1 or others[0] is None or others[0].size != 1:
        return None
    return arithmetic.limited(known[recognised[0]], float(others[0].reshape(-1)[0]), None)


def _one(function: Callable[[Recognised], Recognised | None]) -> Rule:
    return lambda g, node, known: function(known[node.inputs[0]])


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity"), _moves(_reshape)),
    "Cast": _moves(lambda g, node, a: a if node.attrs.get("to") in _FLOATS else None),
    "Transpose": _moves(lambda g, node, a: a.transpose(node.attrs.get("perm", range(a.ndim - 1, -1, -1)))),
    "Slice": _moves(_slice),
    "Gather": _moves(_gather),
    "Expand": _moves(_expand),
    "Split": _split,
    "Pad": _pad,
    "Concat": _concat,
    "STFT": _stft,
    "DFT": _dft,
    "Conv": _conv,
    "MatMul": _matmul,
    "Gemm": _matmul,
    "Mul": _mul,
    "Div": _mul,
    "Add": _add,
    "Sum": _add,
    "Sub": _add,
    "Neg": _one(lambda v: arithmetic.scaled(v, np.array(-1.0)) if not (isinstance(v, Lines) and v.squared) else None),
    "Pow": _pow,
    **dict.fromkeys(("ReduceSum", "ReduceSumSquare", "ReduceL2"), _reduce),
    "Sqrt": _one(arithmetic.root),
    "Relu": _one(lambda v: arithmetic.limited(v, 0.0, None)),
    "Clip": _clip,
    "Max": _max,
    "Log": _one(arithmetic.logarithm),
    "Abs": _one(lambda v: v if isinstance(v, Bands) else None),
}


def apply(g: Graph, node: Node, known: Known) -> list[Recognised] | None:
    """Outputs of a node, some of whose inputs are in `known`; None if they are not recognised."""
    rule = RULES.get(node.op)
    if (
        rule is None
        or (node.op == "Sum" and len(node.inputs) != 2)
        or (node.inputs[0] not in known and node.op in _FIRST)
    ):
        return None
    try:
        out = rule(g, node, known)
    except (IndexError, ValueError):  # shapes and axes that the operator does not have
        return None
    found = out if isinstance(out, list) else None if out is None else [out]
    if found is None or len(found) != len(node.outputs):
        return None
    same = all(not o or v.at.shape == g.value(o).shape for o, v in zip(node.outputs, found, strict=True))
    return found if same else None


_FIRST = frozenset(RULES) - {"Concat", "MatMul", "Gemm", "Mul", "Add", "Sum", "Sub", "Div", "Max"}
