"""The core operators on float32 arrays, one sample at a time: what calibration watches.

Layouts as in `ir/ops.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import axis_indices
from mica.kernels.custom import custom_definition
from mica.kernels.integers import Output
from mica.kernels.movement import pick_s8, scatter_s8
from mica.reference import axes, exact, front_end, functions, pointwise, products, recurrent, reductions, unary, vectors

Arrays = list[np.ndarray]
Operator = Callable[[Node, Arrays, tuple[int, ...]], np.ndarray]  # (node, inputs, shape of the output)


def run(g: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every activation of a core graph for one sample. `inputs` have the graph's input shapes."""
    return dict(stream(g, inputs))


def stream(g: Graph, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """(name, array) of every activation, as it is made; one that nobody reads any more is let go."""
    values: dict[str, np.ndarray] = {}
    last = {i: k for k, node in enumerate(g.nodes) for i in node.inputs}
    for name, array in inputs.items():
        values[name] = np.asarray(array, np.float32)
        yield name, values[name]
    for k, node in enumerate(g.nodes):
        arrays = [values[i] if i in values else g.values[i].data for i in node.inputs]
        shape = g.values[node.outputs[0]].shape
        if len(node.outputs) > 1:
            results = SEVERAL[node.op](node, arrays, shape)  # type: ignore[arg-type]
        else:
            results = [OPS[node.op](node, arrays, shape)]  # type: ignore[arg-type]
        for out, y in zip(node.outputs, results, strict=True):
            values[out] = held(g, out, np.asarray(y, np.float32))
        del arrays, results, y
        for i in node.inputs:
            if last[i] == k:
                values.pop(i, None)
        for out in node.outputs:
            yield out, values[out]
            if out not in last:
                del values[out]


def held(g: Graph, name: str, y: np.ndarray) -> np.ndarray:
    """Return what the file's own integers can hold, if it came quantised: the ends of a range are a Relu, or a Clip."""
    q = g.values[name].quant
    return y if q is None else np.clip(y, np.float32(q.reals[0]), np.float32(q.reals[1]))


def _clamp(y: np.ndarray, node: Node) -> np.ndarray:
    low, high = node.attrs.get("clip", (None, None))
    return y if low is None and high is None else np.clip(y, low, high)


def _one(of_many: Operator) -> Operator:
    """An operator of `products`, on one sample."""
    return lambda node, a, shape: of_many(node, [a[0][None], *a[1:]], shape)[0]


def _conv_transpose2d(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """Each input adds its taps to the outputs that they reach."""
    x, w, b = a
    groups, (sh, sw), (dh, dw) = node.attrs["groups"], node.attrs["strides"], node.attrs["dilations"]
    top, left = node.attrs["pads"][:2]
    rows = exact.constant_rows(w)
    numbers, unit = exact.whole(x, exact.bits(rows.numbers.shape[1])[0])
    taps = rows.numbers.reshape(w.shape)
    y = np.zeros(shape)
    n_in, n_out = x.shape[3] // groups, shape[3] // groups
    for ky, kx in np.ndindex(*w.shape[1:3]):
        oy, ox = np.arange(x.shape[1]) * sh + ky * dh - top, np.arange(x.shape[2]) * sw + kx * dw - left
        iy, ix = np.flatnonzero((oy >= 0) & (oy < shape[1])), np.flatnonzero((ox >= 0) & (ox < shape[2]))
        for k in range(groups):
            i, o = slice(k * n_in, (k + 1) * n_in), slice(k * n_out, (k + 1) * n_out)
            y[0, oy[iy, None], ox[ix], o] += numbers[0, iy[:, None], ix, i] @ taps[o, ky, kx].T
    y *= np.reshape(rows.unit, -1) * unit
    y += b
    return _clamp(y, node)


def _max_pool(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    views = products.windows(a[0][None], node.attrs["kernel"], node.attrs, shape, -np.inf)[0]
    y = views[..., 0, 0].copy()
    for ky, kx in np.ndindex(*views.shape[3:]):
        np.maximum(y, views[..., ky, kx], out=y)
    return _clamp(y[None], node)


def pool_counts(node: Node, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> np.ndarray:
    """Divisors of an AveragePool2d, int64 [OH, OW]: taps inside x, or inside x and its pads."""
    counts = []
    for axis in (0, 1):
        size, out = in_shape[1 + axis], out_shape[1 + axis]
        pad, stride, k = node.attrs["pads"][axis], node.attrs["strides"][axis], node.attrs["kernel"][axis]
        low, high = (0, size) if not node.attrs["count_include_pad"] else (-pad, size + node.attrs["pads"][2 + axis])
        starts = np.arange(out) * stride - pad
        counts.append(np.minimum(starts + k, high) - np.maximum(starts, low))
    return np.multiply.outer(counts[0], counts[1])


def _average_pool(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    views = products.windows(a[0][None], node.attrs["kernel"], node.attrs, shape, 0.0)[0]
    counts = pool_counts(node, a[0].shape, shape)
    return _clamp((views.sum(axis=(3, 4)) / counts[:, :, None])[None], node)


def _pointwise(function: Callable[[Mapping[str, Any], Arrays], np.ndarray]) -> Operator:
    return lambda node, a, shape: unary.finite(function(node.attrs, a))


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, float64."""
    e = functions.exp(np.asarray(x, np.float64) - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _remap(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    y: np.ndarray = a[0][np.ix_(*(axis_indices(axis) for axis in node.attrs["axes"]))]
    return y


def _move(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    return a[0].reshape(-1)[axis_indices((node.attrs["begin"], node.attrs["places"]))].reshape(shape)


def _pad(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    widths = list(zip(node.attrs["begins"], node.attrs["ends"], strict=True))
    if node.attrs["mode"] == "constant":
        return np.pad(a[0], widths, constant_values=node.attrs["value"])
    return np.pad(a[0], widths, node.attrs["mode"])


def _resize_linear(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    x, rows, row_weights, columns, column_weights = a
    y = x[0].astype(np.float64)
    for axis, first, weights in ((0, rows, row_weights), (1, columns, column_weights)):
        lines = np.moveaxis(y, axis, 0)
        total = np.zeros((len(first), *lines.shape[1:]))
        for tap, weight in enumerate(weights.astype(np.float64).T):
            total += lines[first.astype(np.int64) + tap] * weight.reshape(-1, *[1] * (lines.ndim - 1))
        y = np.moveaxis(total, 0, axis)
    return y[None]


def _embedding(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    indices, table = a[0].astype(np.int64), a[1]
    y: np.ndarray = table[np.clip(np.where(indices < 0, indices + len(table), indices), 0, len(table) - 1)]
    return y


def _scatter_rows(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """Rows as the kernel writes them, for elements of any type."""
    p = {"axis": node.attrs["axis"], "circular": int(node.attrs["circular"])}
    return scatter_s8.oracle(a, {}, p, Output(shape))


def _attend(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    q, k, v, length = a
    n = int(np.clip(length.reshape(-1)[0] + node.attrs["more"], 1, k.shape[-2]))
    scores = (q @ np.swapaxes(k[..., :n, :], -1, -2)) * np.float32(node.attrs["factor"])
    return softmax(scores) @ v[..., :n, :]


def _rotate(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    x, c, s = a
    half = c.shape[-1]
    c, s = c.reshape(-1, 1, half), s.reshape(-1, 1, half)
    x = x.reshape(-1, len(c), node.attrs["inner"], 2 * half)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * c - second * s, first * s + second * c], axis=-1).reshape(shape)


def _features(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    x, factor, shift, missing = (v.astype(np.float64) for v in a)
    return np.where(np.isnan(x), missing, x * factor + shift)


def _axis_features(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    factor, shift = (v.astype(np.float64) for v in a[1:])
    return (axes.features(node.attrs["front_end"], a[0]).reshape(-1) * factor + shift).reshape(shape)


def _ranks(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """Return what the kernel's integers stand for."""
    x, thresholds, first, source, missing = a
    y = np.empty(shape, np.float32)
    for c, f in enumerate(source):
        v = x[..., f].astype(np.float64)
        rank = np.searchsorted(thresholds[first[c] : first[c + 1]], v, "left") - 128
        y[..., c] = np.where(np.isnan(v), missing[c], rank)
    return (y - node.attrs["zero_point"]) * np.float32(node.attrs["step"])


def _custom(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    y: np.ndarray = node.attrs["operator"].values(custom_definition(node.attrs["definition"].encode())[1], a, shape)
    return y


def _recurrent(node: Node, a: Arrays, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Hidden states; of an LSTM also what its integers have to hold, and the last cell state where that is needed."""
    return [y[0] for y in recurrents(node, [v[None] for v in a[:-5]] + a[-5:], shape)]


def recurrents(node: Node, a: Arrays, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The same of several samples, the first dimension of what is no constant."""
    states, inner = recurrent.run_several(node.attrs, a[0], a[1:-5], a[-5:])
    y = states if shape[0] == states.shape[1] else recurrent.last(node.attrs, states)
    ends = [recurrent.last(node.attrs, inner[:, 0])]
    if "carried" in node.attrs:
        ends = [recurrent.last(node.attrs, states), *ends]
    return [y, inner, *ends][: len(node.outputs)]


def _mask(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    """x, masked elements set to the least of the rest, or so far below a row's largest that a Softmax gives 0.

    Together the masked elements of a row are e**-8 of the row's largest.
    """
    x, out = np.broadcast_to(a[0], shape), np.broadcast_to(a[1] > 0.5, shape)
    if out.all():
        return np.zeros(shape, np.float32)
    least = float(np.where(out, np.inf, x).min())
    axis = node.attrs["axis"]
    if axis < 0:
        least -= 8.0 + _log(max(shape))
    else:
        tops = np.where(out, -np.inf, x).max(axis=axis)
        least = min(least, float(tops[np.isfinite(tops)].min()) - 8.0 - _log(shape[axis]))
    return np.where(out, np.float32(least), x)


def _log(n: int) -> float:
    return float(functions.log(np.array([n], np.float64))[0])


# Operators with more than one output; OPS has the first.
SEVERAL: dict[str, Callable[[Node, Arrays, tuple[int, ...]], list[np.ndarray]]] = {"Recurrent": _recurrent}

OPS: dict[str, Operator] = {
    **{name: _pointwise(f) for name, f in pointwise.FUNCTIONS.items()},
    **reductions.OPS,
    "Conv2d": _one(products.conv2d),
    "DepthwiseConv2d": _one(products.depthwise),
    "ConvTranspose2d": _conv_transpose2d,
    "FullyConnected": _one(products.fully_connected),
    "Recurrent": lambda node, a, shape: _recurrent(node, a, shape)[0],
    "Mask": _mask,
    "MaxPool2d": _max_pool,
    "AveragePool2d": _average_pool,
    "Custom": _custom,
    "Softmax": lambda node, a, shape: softmax(a[0]),
    "Unary": lambda node, a, shape: unary.finite(unary.apply(node.attrs["function"], a[0], node.attrs["arguments"])),
    "Transpose": lambda node, a, shape: a[0].transpose(node.attrs["perm"]),
    "Reshape": lambda node, a, shape: a[0].reshape(shape),
    "Remap": _remap,
    "StridedCopy": _move,
    "Gather": lambda node, a, shape: np.take(a[0], a[1].astype(np.int64), axis=node.attrs["axis"]),
    "Concat": lambda node, a, shape: np.concatenate(a, axis=node.attrs["axis"]),
    "Pad": _pad,
    "ResizeLinear": _resize_linear,
    "Attend": _attend,
    "Rotate": _rotate,
    "Embedding": _embedding,
    "Pick": lambda node, a, shape: pick_s8.oracle([*a[:2]], {}, {"axis": node.attrs["axis"]}, Output(shape)),
    "ScatterRows": _scatter_rows,
    "Features": _features,
    "Ranks": _ranks,
    "Neighbours": lambda node, a, shape: vectors.run(node.attrs["vectors"], a[0]),
    "Machine": lambda node, a, shape: vectors.run(node.attrs["vectors"], a[0]),
    "LogMel": lambda node, a, shape: front_end.features(node.attrs["front_end"], a[0])[None],
    "AxisFeatures": _axis_features,
    "Trees": lambda node, a, shape: node.attrs["forest"].run(a[0]),
}
