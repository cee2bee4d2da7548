"""Reductions, normalisations and products of two tensors on float32 arrays; see `float_ops`."""

from collections.abc import Callable

import numpy as np

from mica.ir.graph import Node
from mica.reference import exact, functions
from mica.reference.pointwise import clamp
from mica.reference.unary import finite

Arrays = list[np.ndarray]


def _matmul(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    right = a[1].swapaxes(-1, -2) if node.attrs["transpose_b"] else a[1]
    return clamp(node.attrs["factor"] * exact.product(a[0], right), node.attrs)


def _over(node: Node) -> tuple[int, ...]:
    return tuple(range(node.attrs["axis"], node.attrs["axis"] + node.attrs["axes"]))


REDUCTIONS: dict[str, Callable[[np.ndarray, tuple[int, ...]], np.ndarray]] = {
    "sum": lambda x, over: x.sum(axis=over),
    "squares": lambda x, over: (x * x).sum(axis=over),
    "absolute": lambda x, over: np.abs(x).sum(axis=over),
    "root": lambda x, over: np.sqrt((x * x).sum(axis=over)),
    "log": lambda x, over: functions.log(x.sum(axis=over)),
}


def _reduce(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    with np.errstate(all="ignore"):
        y = REDUCTIONS[node.attrs["mode"]](a[0].astype(np.float64), _over(node))
    return clamp(finite(np.asarray(y)) * node.attrs["factor"], node.attrs).reshape(shape)


def _extreme(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    y = (a[0].max if node.attrs["larger"] else a[0].min)(axis=_over(node))
    return clamp(np.asarray(y), node.attrs).reshape(shape)


def argmax(x: np.ndarray, axis: int, minimum: bool, select_last: bool) -> np.ndarray:
    """Index of the extreme element: of equal ones the first or last."""
    x = -x if minimum else x
    if select_last:
        return np.asarray(x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis=axis))
    return np.asarray(np.argmax(x, axis=axis))


def _argmax(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    attrs = node.attrs
    return argmax(a[0], attrs["axis"], attrs["minimum"], attrs["select_last"]).reshape(shape)


def _top_k(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    axis = node.attrs["axis"]
    order = np.argsort(a[0] if node.attrs["smallest"] else -a[0], axis=axis, kind="stable")
    return np.take(order, np.arange(shape[axis]), axis=axis)


def _layer_norm(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    x, gamma, beta = (v.astype(np.float64) for v in a)
    rows = x.reshape(int(np.prod(shape[: node.attrs["axis"]], dtype=np.int64)), -1)
    mode, epsilon = node.attrs["mode"], node.attrs["epsilon"]
    if mode == "deviation":
        rows = rows - rows.mean(axis=1, keepdims=True)
        spread = rows.var(axis=1, keepdims=True)
    elif mode == "squares":
        spread = (rows * rows).sum(axis=1, keepdims=True)
    else:
        spread = np.abs(rows).sum(axis=1, keepdims=True) ** 2
    spread = spread + epsilon
    normal = np.divide(rows, np.sqrt(spread), out=np.zeros_like(rows), where=spread > 0)
    channel = np.arange(x.size).reshape(shape) // node.attrs["inner"] % gamma.size
    return clamp(normal.reshape(shape) * gamma[channel] + beta[channel], node.attrs)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Over the last axis, which stays with length 1; float64."""
    x = x.astype(np.float64)
    most = x.max(axis=-1, keepdims=True)
    return np.asarray(most + functions.log(functions.exp(x - most).sum(axis=-1, keepdims=True)))


OPS: dict[str, Callable[[Node, Arrays, tuple[int, ...]], np.ndarray]] = {
    "ArgMax": _argmax,
    "Extreme": _extreme,
    "LayerNorm": _layer_norm,
    "LogSoftmax": lambda node, a, shape: clamp(a[0] - log_sum_exp(a[0]), node.attrs),
    "LogSumExp": lambda node, a, shape: clamp(log_sum_exp(a[0]), node.attrs).reshape(shape),
    "MatMul": _matmul,
    "Reduce": _reduce,
    "TopK": _top_k,
}
