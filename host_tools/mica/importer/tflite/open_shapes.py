"""Dimensions that a converter leaves open: the file has 1 there, and the operators say the true size.

With an open batch, Keras' converter leaves open all that follows from it: the rows of a dense layer over several
dimensions, the windows of a dilated convolution. LiteRT finds these sizes before its first run, as this does.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from mica.importer.tflite.model import Operator
from mica.importer.tflite.net import Net

Shape = tuple[int, ...]


def settle(net: Net, op: Operator) -> None:
    """Gives the output of `op` its true shape where the file leaves a dimension open.
    A size that cannot be found stays as in the file."""
    if len(op.outputs) != 1 or not op.inputs or op.inputs[0] < 0:
        return
    y = net.tensor(op.outputs[0])
    if -1 not in y.signature or len(y.signature) != len(y.shape):
        return
    shape = _SHAPES.get(op.kind, _same_batch)(net, op, y.shape)
    fixed = all(s in (-1, n) for s, n in zip(y.signature, shape, strict=True)) if len(shape) == len(y.shape) else False
    if fixed and min(shape, default=1) > 0:
        net.model.tensors[y.index] = replace(y, shape=shape)


def _same_batch(net: Net, op: Operator, shape: Shape) -> Shape:
    """Keep the batch of operators that take each row of it by itself."""
    inputs = [net.tensor(i) for i in op.inputs if i >= 0]
    batches = [t.shape[0] for t in inputs if t.signature[:1] == (-1,) and t.shape]
    return (max(batches), *shape[1:]) if batches and shape else shape


def _reshape(net: Net, op: Operator, shape: Shape) -> Shape:
    asked = net.known(op.inputs[1]) if len(op.inputs) > 1 and op.inputs[1] >= 0 else None
    if asked is None:
        return shape
    sizes, elements = asked.reshape(-1).tolist(), math.prod(net.shape(op.inputs[0]))
    rest = math.prod(n for n in sizes if n != -1)
    return tuple(elements // rest if n == -1 and rest > 0 else n for n in sizes)


def _dense(net: Net, op: Operator, shape: Shape) -> Shape:
    x, weights = net.shape(op.inputs[0]), net.shape(op.inputs[1])
    if len(weights) != 2 or len(shape) == len(x) != 2:
        return _same_batch(net, op, shape)
    return (math.prod(x) // max(weights[1], 1), weights[0])


def _space(net: Net, op: Operator, shape: Shape) -> Shape:
    x, (block, around) = net.shape(op.inputs[0]), (net.known(i) for i in op.inputs[1:3])
    if block is None or around is None or len(x) <= block.size or around.size != 2 * block.size or block.min() < 1:
        return shape
    sizes, sums = zip(x[1:], block.reshape(-1).tolist(), strict=False), around.reshape(-1, 2).sum(axis=1).tolist()
    n = int(block.prod())
    if op.kind == "SPACE_TO_BATCH_ND":
        inner = [(size + a) // b for (size, b), a in zip(sizes, sums, strict=True)]
        return (x[0] * n, *inner, *x[1 + block.size :])
    inner = [size * b - a for (size, b), a in zip(sizes, sums, strict=True)]
    return (x[0] // n, *inner, *x[1 + block.size :])


def _expand(net: Net, op: Operator, shape: Shape) -> Shape:
    x, axis = net.shape(op.inputs[0]), net.known(op.inputs[1])
    if axis is None or axis.size != 1:
        return shape
    at = int(axis.reshape(-1)[0]) % (len(x) + 1)
    return (*x[:at], 1, *x[at:])


_SHAPES: Mapping[str, Callable[[Net, Operator, Shape], Shape]] = {
    "BATCH_TO_SPACE_ND": _space,
    "EXPAND_DIMS": _expand,
    "FULLY_CONNECTED": _dense,
    "RESHAPE": _reshape,
    "SPACE_TO_BATCH_ND": _space,
}
