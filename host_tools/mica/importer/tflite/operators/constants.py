"""Operators whose outputs depend on shapes only, so that they are known when a model is packed.

SHAPE(x), RANK(x), FILL(shape, value), ZEROS_LIKE(x), BROADCAST_ARGS(a, b)     =>   a constant
RANGE(start, limit, step), REDUCE_PROD(x, axes), where these follow from shapes =>   likewise
"""

import numpy as np

from mica.importer.bounds import range_size
from mica.importer.tflite.net import Net
from mica.importer.tflite.operators.form import Form, Op
from mica.importer.tflite.operators.reduce import axes_of


def _fill(net: Net, op: Op) -> None:
    if net.data(op.i(0), "a shape").reshape(-1).tolist() != list(net.shape(op.y)):
        raise ValueError(f"a shape other than the output's, {list(net.shape(op.y))}")
    value = net.x(op.i(1))
    net.done(op.y, net.node("Expand", [net.reshape(value, [1]), net.numbers(net.shape(op.y))]))


def _zeros_like(net: Net, op: Op) -> None:
    t = net.tensor(op.y)
    dtype = np.float32 if t.grid is not None or t.dtype == "float16" else np.dtype(t.dtype)
    net.done(op.y, net.const(np.zeros(t.shape, dtype)))


def _broadcast_args(net: Net, op: Op) -> None:
    shapes = (net.data(op.i(k), "a shape").reshape(-1).tolist() for k in (0, 1))
    net.done(op.y, net.const(np.array(np.broadcast_shapes(*(tuple(s) for s in shapes)), net.tensor(op.y).dtype)))


def _plain(net: Net, op: Op) -> None:
    if any(net.tensor(i).grid is not None for i in (*op.inputs, op.y)):
        raise ValueError("integers that have a scale")


def _range(net: Net, op: Op) -> None:
    _plain(net, op)
    ends = [net.data(op.i(k), "a range") for k in range(3)]
    if range_size(*ends)[0] != net.shape(op.y):
        raise ValueError(f"a range of {range_size(*ends)[0][0]} numbers for an output of {list(net.shape(op.y))}")
    net.done(op.y, net.const(np.arange(*(e.item() for e in ends)).astype(net.tensor(op.y).dtype)))


def _product(net: Net, op: Op) -> None:
    _plain(net, op)
    x, axes = net.data(op.i(0), "a product"), axes_of(net, op.i(1), len(net.shape(op.i(0))))
    y = np.prod(x, axis=tuple(axes), keepdims=True).reshape(net.shape(op.y))
    net.done(op.y, net.const(y.astype(net.tensor(op.y).dtype)))


def _rank(net: Net, op: Op) -> None:
    net.done(op.y, net.const(np.array(len(net.shape(op.i(0))), net.tensor(op.y).dtype)))


FORMS = {
    "BROADCAST_ARGS": Form(_broadcast_args, "", (2, 2)),
    "FILL": Form(_fill, "", (2, 2)),
    "RANGE": Form(_range, "", (3, 3)),
    "RANK": Form(_rank),
    "REDUCE_PROD": Form(_product, "ReducerOptions", (2, 2)),
    "SHAPE": Form(lambda net, op: net.done(op.y, net.const(np.array(net.shape(op.i(0)), net.tensor(op.y).dtype)))),
    "ZEROS_LIKE": Form(_zeros_like),
}
