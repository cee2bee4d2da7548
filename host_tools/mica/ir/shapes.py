"""The shape of a core operator's output, from its inputs and attributes: one function for each rule,
named in a row of `ops.py`.

Each takes the graph and the node. () stands for inputs that do not fit together.
None says that only the output knows: windows round up or down, and a user's own operator gives any shape.
"""

import math
from collections.abc import Callable

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import axis_indices

Shape = tuple[int, ...]
Rule = Callable[[Graph, Node], Shape | None]


def _of(g: Graph, node: Node) -> list[Shape]:
    return [g.value(i).shape for i in node.inputs]


def _y(g: Graph, node: Node) -> Shape:
    return g.value(node.outputs[0]).shape


def same(g: Graph, node: Node) -> Shape:
    return g.value(node.inputs[0]).shape


def unknown(g: Graph, node: Node) -> None:
    return None


def window_with_weights(g: Graph, node: Node) -> Shape:
    return (1, *_y(g, node)[1:3], g.value(node.inputs[1]).shape[0])


def pool(g: Graph, node: Node) -> Shape:
    return (1, *_y(g, node)[1:3], same(g, node)[3])


def dense(g: Graph, node: Node) -> Shape:
    x, (n, k) = same(g, node), g.value(node.inputs[1]).shape
    return (*x[:-1], n) if x[-1] == k else ()


def broadcast(g: Graph, node: Node) -> Shape:
    return tuple(np.broadcast_shapes(*_of(g, node)))


def matrix_product(g: Graph, node: Node) -> Shape:
    x, b = _of(g, node)[:2]
    k, n = b[-2:] if not node.attrs["transpose_b"] else b[:-3:-1]
    return (*np.broadcast_shapes(x[:-2], b[:-2]), x[-2], n) if x[-1] == k else ()


def reduced(g: Graph, node: Node) -> Shape:
    x = same(g, node)
    axis, axes = node.attrs.get("axis", len(x) - 1), node.attrs.get("axes", 1)
    return (*x[:axis], *[1] * axes, *x[axis + axes :])


def attend(g: Graph, node: Node) -> Shape:
    x, keys, values = _of(g, node)[:3]
    alike = x[:-2] == keys[:-2] == values[:-2] and x[-1] == keys[-1] and keys[-2] == values[-2]
    return (*x[:-1], values[-1]) if alike else ()


def rotate(g: Graph, node: Node) -> Shape:
    x, cosines, sines = _of(g, node)
    return x if cosines == sines and x[-1] == 2 * cosines[-1] else ()


def transpose(g: Graph, node: Node) -> Shape:
    x = same(g, node)
    return tuple(x[p] for p in node.attrs["perm"])


def reshape(g: Graph, node: Node) -> Shape:
    y = _y(g, node)
    return y if g.value(node.inputs[0]).size == g.value(node.outputs[0]).size else ()


def top_k(g: Graph, node: Node) -> Shape:
    x, y, axis = same(g, node), _y(g, node), node.attrs["axis"]
    return y if y == (*x[:axis], y[axis], *x[axis + 1 :]) and y[axis] <= x[axis] else ()


def remap(g: Graph, node: Node) -> Shape:
    indices = [axis_indices(axis) for axis in node.attrs["axes"]]
    inside = all(i.min() >= 0 and i.max() < n for i, n in zip(indices, same(g, node), strict=True))
    return tuple(len(i) for i in indices) if inside else ()


def strided_copy(g: Graph, node: Node) -> Shape:
    y, begin, places = _y(g, node), node.attrs["begin"], node.attrs["places"]
    reach = [(n - 1) * step for n, step in places]
    low, high = (begin + sum(f(0, r) for r in reach) for f in (min, max))
    whole = math.prod(n for n, _ in places) == math.prod(y)
    return y if whole and low >= 0 and high < math.prod(same(g, node)) else ()


def gather(g: Graph, node: Node) -> Shape:
    x, axis, indices = same(g, node), node.attrs["axis"], np.asarray(g.data(node.inputs[1]))
    inside = indices.min() >= 0 and indices.max() < x[axis]
    return (*x[:axis], g.value(node.inputs[1]).shape[0], *x[axis + 1 :]) if inside else ()


def pick(g: Graph, node: Node) -> Shape:
    (x, places), axis = _of(g, node)[:2], node.attrs["axis"]
    y = (*x[:axis], places[axis], *x[axis + 1 :])
    return y if places in (y, (*y[: axis + 1], *[1] * len(y[axis + 1 :]))) else ()


def scatter_rows(g: Graph, node: Node) -> Shape:
    (x, rows), axis = _of(g, node)[:2], node.attrs["axis"]
    return x if (*x[:axis], rows[axis], *x[axis + 1 :]) == rows and rows[axis] < x[axis] else ()


def concat(g: Graph, node: Node) -> Shape:
    shapes, axis = _of(g, node), node.attrs["axis"]
    return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])


def pad(g: Graph, node: Node) -> Shape:
    sides = zip(node.attrs["begins"], same(g, node), node.attrs["ends"], strict=True)
    return tuple(p + n + q for p, n, q in sides)


def resize(g: Graph, node: Node) -> Shape:
    x, rows, _, columns = _of(g, node)[:4]
    return (1, rows[0], columns[0], x[3])


def embedding(g: Graph, node: Node) -> Shape:
    x, table = _of(g, node)
    return (*x, table[1])


def ranks(g: Graph, node: Node) -> Shape:
    return (*same(g, node)[:-1], g.value(node.inputs[3]).shape[0])


def log_mel(g: Graph, node: Node) -> Shape:
    x, front_end = same(g, node), node.attrs["front_end"]
    return (1, front_end.frames, front_end.columns) if math.prod(x) == x[-1] == front_end.samples else ()


def axis_features(g: Graph, node: Node) -> Shape:
    front_end = node.attrs["front_end"]
    return (1, *front_end.shape) if same(g, node) == front_end.input_shape else ()


def trees(g: Graph, node: Node) -> Shape:
    x, forest = same(g, node), node.attrs["forest"]
    return (*x[:-1], len(forest.bias)) if x[-1] >= forest.columns else ()


def vectors(g: Graph, node: Node) -> Shape:
    x, v = same(g, node), node.attrs["vectors"]
    return (*x[:-1], v.results) if x[-1] == v.points.shape[1] else ()


def recurrent(g: Graph, node: Node) -> Shape:
    x, y, units = same(g, node), _y(g, node), g.value(node.inputs[-4]).shape[1]
    return (y[0] if y[0] in (1, x[0]) else x[0], x[1], units)
