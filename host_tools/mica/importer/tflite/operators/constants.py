"""Operators whose outputs depend on shapes only, so that they are known when a model is packed.

SHAPE(x), FILL(shape, value), ZEROS_LIKE(x), BROADCAST_ARGS(a, b)   =>   a constant
"""

import numpy as np

from mica.importer.tflite.net import Net
from mica.importer.tflite.operators.form import Form, Op


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


FORMS = {
    "BROADCAST_ARGS": Form(_broadcast_args, "", (2, 2)),
    "FILL": Form(_fill, "", (2, 2)),
    "SHAPE": Form(lambda net, op: net.done(op.y, net.const(np.array(net.shape(op.i(0)), net.tensor(op.y).dtype)))),
    "ZEROS_LIKE": Form(_zeros_like),
}
