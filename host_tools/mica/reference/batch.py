"""The core operators on several samples in one go: arrays are [n, *shape]. Each sample gets the bits of `float_ops`.

A small layer takes less time than numpy takes to begin with it. So `size` says how many samples of a graph make arrays
that still stay in a processor's cache. Graphs that hold other operators than TOGETHER, whose results depend on how
arrays lie in memory, go one by one.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mica.ir.graph import Graph, Node
from mica.reference import float_ops, pointwise, products, unary

ELEMENTS = 1 << 16  # of an activation of all samples together, on average
Arrays = list[np.ndarray]
OfMany = Callable[[Node, Arrays, tuple[int, ...]], np.ndarray | None]


def _pointwise(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray | None:
    """An elementwise operator on all samples; None if broadcasting would mistake the samples for a dimension."""
    whole = (len(a[0]), *shape)
    if any(v.shape != whole for v in a):
        return None
    return _if_finite(pointwise.FUNCTIONS[node.op](node.attrs, a))


def _if_finite(y: np.ndarray) -> np.ndarray | None:
    """y, or None if it has infinities, whose replacement depends on the sample."""
    return y if np.all(np.isfinite(y)) else None


# Operators that compute all samples together; a result None: each sample alone.
_MANY: dict[str, OfMany] = {
    "Conv2d": products.conv2d,
    "DepthwiseConv2d": products.depthwise,
    "FullyConnected": products.fully_connected,
    "Reshape": lambda node, a, shape: a[0].reshape(len(a[0]), *shape),
    "Transpose": lambda node, a, shape: a[0].transpose(0, *(axis + 1 for axis in node.attrs["perm"])),
    "Softmax": lambda node, a, shape: float_ops.softmax(a[0]),
    "Unary": lambda node, a, shape: _if_finite(unary.apply(node.attrs["function"], a[0], node.attrs["arguments"])),
    **dict.fromkeys(pointwise.FUNCTIONS, _pointwise),
}
_LINEAR = {"Conv2d", "DepthwiseConv2d", "FullyConnected"}
TOGETHER = {*_MANY, "AveragePool2d", "MaxPool2d", "Recurrent"}
_MOVES = {"Concat", "Remap", "Reshape", "StridedCopy", "Transpose"}  # only where linear operators alone read them
LAID_OUT = {"Transpose"}  # what follows may depend on how it lies in memory


def keep_memory() -> None:
    """Keeps the memory of freed arrays, which the system would have to clear for the next ones.

    glibc gives back what is larger than the largest block that was freed so far, up to 32 MB.
    Nothing is written into this one.
    """
    np.empty(31 << 20, np.uint8)


def size(g: Graph) -> int:
    """Number of samples of a core graph that go together, at least 1."""
    activations = [*g.inputs, *(o for node in g.nodes for o in node.outputs)]
    readers = g.consumers()
    recurrent = any(node.op == "Recurrent" for node in g.nodes)
    moves = _MOVES if recurrent else {"Transpose"}
    for node in g.nodes:
        several = len(node.outputs) > 1 and node.op != "Recurrent"
        alone = node.op not in TOGETHER | moves and not (recurrent and _in_order(g, node))
        if alone or several or all(map(g.is_const, node.inputs)):
            return 1
        # Behind moves all is laid out anew; their order in memory must not matter.
        behind = {r.op for r in readers.get(node.outputs[0], [])}
        if node.op in moves and not behind <= _LINEAR | ({"Recurrent", "Reduce", *moves} if recurrent else set()):
            return 1
    total = sum(math.prod(g.value(name).shape) for name in activations)
    return max(1, ELEMENTS * len(activations) // max(total, 1))


def _in_order(g: Graph, node: Node) -> bool:
    """True for a sum over an array that lies in memory as it was made, with one sample and with several."""
    above = g.producers().get(node.inputs[0])
    while above is not None and above.op == "Reshape":
        above = g.producers().get(above.inputs[0])
    return node.op == "Reduce" and above is not None and above.op in ("Concat", "FullyConnected", "Recurrent")


def inputs(samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of several samples, by name, float32 [n, *shape]."""
    return {name: together([np.asarray(s[name], np.float32) for s in samples]) for name in samples[0]}


def together(arrays: Arrays) -> np.ndarray:
    """[n, *shape] of n arrays; of one the same memory."""
    return np.stack(arrays) if len(arrays) > 1 else arrays[0][None]


def stream(g: Graph, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """(name, array [n, ...]) of every activation, as it is made; one that nobody reads any more is let go."""
    values = dict(inputs)
    last = {i: k for k, node in enumerate(g.nodes) for i in node.inputs}
    yield from inputs.items()
    for k, node in enumerate(g.nodes):
        made = apply(g, node, [values[i] if i in values else np.asarray(g.data(i)) for i in node.inputs])
        for i in node.inputs:
            if last[i] == k:
                values.pop(i, None)
        made = [float_ops.held(g, out, y) for out, y in zip(node.outputs, made, strict=True)]
        values.update((out, y) for out, y in zip(node.outputs, made, strict=True) if out in last)
        for out in node.outputs:
            yield out, made.pop(0)


def apply(g: Graph, node: Node, arrays: Arrays) -> Arrays:
    """The outputs of one core node, float32 [n, *shape]. arrays: activations [n, *shape], constants [*shape]."""
    shape = g.values[node.outputs[0]].shape
    many = [not g.is_const(i) for i in node.inputs]
    n = next((len(a) for a, of_samples in zip(arrays, many, strict=True) if of_samples), 1)
    if n > 1 and node.op in _MANY:
        y = _MANY[node.op](node, arrays, shape)
        if y is not None:
            return [np.asarray(y, np.float32)]
    if n > 1 and node.op == "Recurrent":
        given = [
            a if of_samples else np.broadcast_to(a, (n, *a.shape)) for a, of_samples in zip(arrays, many, strict=True)
        ]
        made = float_ops.recurrents(node, [*given[:-5], *arrays[-5:]], shape)
        if all(np.all(np.isfinite(y)) for y in made):
            return [np.asarray(y, np.float32) for y in made]
    several = float_ops.SEVERAL.get(node.op) if len(node.outputs) > 1 else None
    each = []
    for k in range(n):
        one = [a[k] if of_samples else a for a, of_samples in zip(arrays, many, strict=True)]
        results = several(node, one, shape) if several else [float_ops.OPS[node.op](node, one, shape)]
        each.append([np.asarray(y, np.float32) for y in results])
    return [together(list(ys)) for ys in zip(*each, strict=True)]


def squares(x: np.ndarray) -> np.ndarray:
    """Sum of squares of each sample [n], float64; x [n, ...]."""
    squared = x**2
    if squared.flags.c_contiguous:
        return np.asarray(squared.reshape(len(squared), -1).sum(axis=1))
    return np.array([np.sum(one) for one in squared])
