"""Transposes and reshapes sink towards the outputs, meet, and cancel.

    Transpose(Transpose(x, p), q)          =>   Transpose(x, p then q), nothing where that is the identity
    Transpose that moves only 1s           =>   Reshape
    Reshape(Reshape(x))                    =>   Reshape(x), nothing where the shape is x's
    Unary(Transpose(x))                    =>   Transpose(Unary(x)); Softmax and LayerNorm where the last axis stays
    Add(Transpose(a, p), Transpose(b, p))  =>   Transpose(Add(a, b), p); also Mul, Div ..., and with a b that is
                                                constant, or small, as the gates of an image's channels are
    the last two with Reshape              =>   likewise
    Reduce(Transpose(x))                   =>   Transpose(Reduce(x)), where the axes lie next to each other in x
    MatMul(a, Transpose(b))                =>   MatMul(a, b, transpose_b)
    Remap, Pad, Gather (Transpose(x))      =>   Transpose of the same with its axes renumbered; also with a Reshape that
                                                neither cuts nor merges the axes they change
    Concat(Transpose(a, p), Transpose(b, p), ...)   =>   Transpose(Concat(a, b, ...), p); likewise with Reshapes
    FullyConnected(Reshape(Transpose(x)))  =>   FullyConnected(Reshape(x)) with the weights' columns permuted

What remains is at most one transpose at each end of a network of convolutions.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import BROADCASTING
from mica.passes import dead_code
from mica.passes.axis_ops import AXIS_OPS, axes_moved, changed_axes
from mica.passes.builder import Builder
from mica.passes.drop_identity import bypass
from mica.passes.lower.reduce import adjacent
from mica.passes.merge_moves import copied_by

LAST_AXIS_OPS = ("LayerNorm", "LogSoftmax", "Softmax")
REDUCTIONS = ("ArgMax", "Extreme", "Reduce")


def run(g: Graph) -> Graph:
    while _step(g):
        g = dead_code.run(g)
    return g


def _step(g: Graph) -> bool:
    """Applies the first rule that fits somewhere; False when none does."""
    producers = g.producers()
    for node in g.nodes:
        before = producers.get(node.inputs[0]) if node.inputs else None
        if node.op == "Transpose":
            changed = _transpose(g, node, before)
        elif node.op == "Reshape":
            changed = _reshape(g, node, before)
        elif node.op == "Unary" or node.op in LAST_AXIS_OPS:
            changed = _sink_unary(g, node, before)
        elif node.op in BROADCASTING:
            changed = _sink_pointwise(g, node, producers)
        elif node.op in REDUCTIONS:
            changed = _sink_reduction(g, node, before)
        elif node.op == "MatMul":
            changed = _into_product(g, node, producers)
        elif node.op in AXIS_OPS:
            changed = _sink_axes(g, node, before)
        elif node.op == "Concat":
            changed = _sink_concat(g, node, producers)
        elif node.op == "FullyConnected":
            changed = _into_weights(g, node, before, producers)
        else:
            changed = False
        if changed:
            return True
    return False


def _transpose(g: Graph, node: Node, before: Node | None) -> bool:
    perm: Sequence[int] = node.attrs["perm"]
    if before is not None and before.op == "Transpose":
        node.attrs["perm"] = tuple(before.attrs["perm"][p] for p in perm)
        node.inputs = before.inputs[:1]
        return True
    if list(perm) == list(range(len(perm))):
        node.op, node.attrs = "Reshape", {}
        return True
    shape = g.value(node.inputs[0]).shape
    moved = [p for p in perm if shape[p] > 1]
    if moved == sorted(moved):
        node.op, node.attrs = "Reshape", {}
        return True
    return False


def _reshape(g: Graph, node: Node, before: Node | None) -> bool:
    if before is not None and before.op == "Reshape":
        node.inputs = before.inputs[:1]
        return True
    if g.value(node.inputs[0]).shape != g.value(node.outputs[0]).shape:
        return False
    bypass(g, node)
    return not any(n is node for n in g.nodes)  # it stays where both its ends are the graph's own names


def _mover(node: Node | None) -> bool:
    return node is not None and node.op in ("Transpose", "Reshape")


def _sink_unary(g: Graph, node: Node, before: Node | None) -> bool:
    if before is None or not _mover(before):
        return False
    attrs = _of_map(g, node, before) if node.op == "LayerNorm" else None
    if attrs is None and node.op in LAST_AXIS_OPS and not _last_axis_stays(g, node, before):
        return False
    _move_below(g, node, before, [before.inputs[0], *node.inputs[1:]], attrs=attrs)
    return True


def _of_map(g: Graph, node: Node, mover: Node) -> dict[str, Any] | None:
    """Attributes of a LayerNorm of all elements in another order; None where its constants do not allow that."""
    src = g.value(mover.inputs[0]).shape
    n, channels = math.prod(src), g.value(node.inputs[1]).size
    if node.attrs["axis"] == len(src) - 1 or math.prod(g.value(node.inputs[0]).shape[: node.attrs["axis"]]) != 1:
        return None
    attrs = {**node.attrs, "axis": 0}
    if mover.op == "Reshape" or channels == 1:
        return attrs
    order = np.arange(n).reshape(src).transpose(mover.attrs["perm"]).reshape(-1)
    if node.attrs["inner"] * channels != n or np.any(order != np.arange(n).reshape(-1, channels).T.reshape(-1)):
        return None
    return {**attrs, "inner": 1}  # planes of channels become channels of places


def _last_axis_stays(g: Graph, node: Node, mover: Node) -> bool:
    src, dst = g.value(mover.inputs[0]).shape, g.value(mover.outputs[0]).shape
    if node.op == "LayerNorm":
        last_alone = node.attrs["axis"] == len(dst) - 1 and node.attrs["inner"] == 1 and len(src) == len(dst)
        if not last_alone or g.value(node.inputs[1]).shape != dst[-1:]:
            return False
    if mover.op == "Transpose":
        return bool(mover.attrs["perm"][-1] == len(src) - 1)
    return src[-1:] == dst[-1:] != ()


def _sink_pointwise(g: Graph, node: Node, producers: dict[str, Node]) -> bool:
    movers = [producers.get(i) for i in node.inputs]
    return _all_moved_alike(g, node, movers) or any(
        _others_moved_back(g, node, mover) for mover in movers if mover is not None and mover.op == "Transpose"
    )


def _all_moved_alike(g: Graph, node: Node, movers: list[Node | None]) -> bool:
    first = movers[0]
    if first is None or not _mover(first):
        return False
    src, dst = g.value(first.inputs[0]).shape, g.value(first.outputs[0]).shape
    for m in movers[1:]:
        if m is None or m.op != first.op or m.attrs != first.attrs:
            return False
        if g.value(m.inputs[0]).shape != src or g.value(m.outputs[0]).shape != dst:
            return False
    _move_below(g, node, first, [m.inputs[0] for m in movers if m is not None])
    return True


def _others_moved_back(g: Graph, node: Node, mover: Node) -> bool:
    """One input is transposed; the others are constant, small, or moved at no cost."""
    out = g.value(node.outputs[0]).shape
    if out != g.value(mover.outputs[0]).shape:  # another input widens it
        return False
    perm = mover.attrs["perm"]
    back = np.argsort(perm).tolist()
    wide = {i: (1,) * (len(out) - len(g.value(i).shape)) + g.value(i).shape for i in node.inputs}

    def same(i: str) -> bool:
        made = producers.get(i)
        return made is not None and made.op == "Transpose" and made.attrs["perm"] == perm

    producers = g.producers()
    for i in node.inputs:
        moved = [p for p in back if wide[i][p] > 1]
        if not (same(i) or g.is_const(i) or moved == sorted(moved) or 4 * g.value(i).size <= math.prod(out)):
            return False
    nodes: list[Node] = []
    b = Builder(g, nodes, node.name)
    inputs = []
    for i in node.inputs:
        data = g.data(i)
        if data is not None:
            name = g.new_const(f"{i}.transposed", np.ascontiguousarray(data.reshape(wide[i]).transpose(back)))
        elif same(i):
            name = producers[i].inputs[0]
        elif max(wide[i]) == 1:
            name = i  # a single number
        else:
            name = b.transpose(b.reshape(i, wide[i]), back)
        if name != i and not same(i):
            g.value(name).quant = g.value(i).quant
        inputs.append(name)
    g.nodes[g.index(node) : g.index(node)] = nodes
    _move_below(g, node, mover, inputs)
    return True


def _sink_reduction(g: Graph, node: Node, before: Node | None) -> bool:
    """Reduce(Transpose(x)) => Transpose(Reduce(x)), which moves fewer elements."""
    if before is None or before.op != "Transpose":
        return False
    perm, src = before.attrs["perm"], g.value(before.inputs[0]).shape
    first, n = node.attrs["axis"], node.attrs.get("axes", 1)
    axes = sorted(perm[first : first + n])
    run = adjacent(src, axes)
    if run is None:
        return False
    shape = [1 if run[0] <= i < run[0] + run[1] else d for i, d in enumerate(src)]
    moved = [p for p in perm if shape[p] > 1]
    if node.op == "ArgMax" and (moved != sorted(moved) or run[1] != 1):  # there is no transposition of int32
        return False
    where = {"axis": run[0]} if node.op == "ArgMax" else {"axis": run[0], "axes": run[1]}
    dtype = g.value(node.outputs[0]).dtype
    inner = _move_below(g, node, before, [before.inputs[0]], shape, {**node.attrs, **where})
    g.value(inner).dtype = dtype
    return True


def _into_product(g: Graph, node: Node, producers: dict[str, Node]) -> bool:
    """MatMul(a, Transpose(b)) => MatMul(a, b, transpose_b), where just the matrices are transposed."""
    mover = producers.get(node.inputs[1])
    if mover is None or mover.op != "Transpose" or g.value(mover.outputs[0]).quant is not None:
        return False
    rank = len(mover.attrs["perm"])
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    if list(mover.attrs["perm"]) != swapped:
        return False
    node.inputs[1] = mover.inputs[0]
    node.attrs["transpose_b"] = not node.attrs["transpose_b"]
    return True


def _sink_axes(g: Graph, node: Node, before: Node | None) -> bool:
    if before is None or not _mover(before):
        return False
    src, dst = g.value(before.inputs[0]).shape, g.value(before.outputs[0]).shape
    places = _axes_in_source(before, src, dst, changed_axes(node, dst))
    if places is None:
        return False
    attrs, shape = axes_moved(node, places, src, g.value(node.outputs[0]).shape)
    _move_below(g, node, before, [before.inputs[0], *node.inputs[1:]], shape, attrs)
    return True


def _axes_in_source(
    mover: Node, src: tuple[int, ...], dst: tuple[int, ...], axes: Sequence[int]
) -> dict[int, int] | None:
    """axis of the mover's output -> the same axis of its input; None where a Reshape cut or merged one of them."""
    if mover.op == "Transpose":
        return {axis: mover.attrs["perm"][axis] for axis in range(len(dst))}
    places: dict[int, int] = {}
    for axis in axes:
        outer = math.prod(dst[:axis])
        k = next((k for k, n in enumerate(src) if n == dst[axis] and math.prod(src[:k]) == outer), None)
        if k is None or k in places.values():
            return None
        places[axis] = k
    return places


def _sink_concat(g: Graph, node: Node, producers: dict[str, Node]) -> bool:
    movers = [producers.get(i) for i in node.inputs]
    return _concat_of_transposes(g, node, movers) or _concat_of_reshapes(g, node, movers)


def _concat_of_transposes(g: Graph, node: Node, movers: list[Node | None]) -> bool:
    """All inputs are transposed alike, or most of them by size: then the others are transposed back.

    That costs nothing for what is made by a copy, which merge_moves will let copy to another order.
    """
    producers, consumers = g.producers(), g.consumers()
    perms = [tuple(m.attrs["perm"]) if m is not None and m.op == "Transpose" else None for m in movers]
    size: dict[tuple[int, ...], int] = {}
    rest = 0
    for i, mover, perm in zip(node.inputs, movers, perms, strict=True):
        x = mover.inputs[0] if mover is not None and perm is not None else i
        if g.is_const(i) or copied_by(g, x, producers, consumers) is not None:
            continue
        if perm is None:
            rest += g.value(i).size
        else:
            size[perm] = size.get(perm, 0) + g.value(i).size
    if not size:
        return False
    most = max(size, key=lambda p: size[p])
    if 2 * (rest + sum(size.values()) - size[most]) > size[most]:
        return False
    back = np.argsort(most).tolist()
    nodes: list[Node] = []
    b = Builder(g, nodes, node.name)
    inputs = []
    for i, mover, perm in zip(node.inputs, movers, perms, strict=True):
        data = g.data(i)
        if data is not None:
            inputs.append(g.new_const(f"{i}.transposed", np.ascontiguousarray(data.transpose(back))))
            g.value(inputs[-1]).quant = g.value(i).quant
        elif mover is not None and perm == most:
            inputs.append(mover.inputs[0])
        else:
            inputs.append(b.transpose(i, back))
            g.value(inputs[-1]).quant = g.value(i).quant
    g.nodes[g.index(node) : g.index(node)] = nodes
    shape = [g.value(node.outputs[0]).shape[p] for p in back]
    first = next(m for m, perm in zip(movers, perms, strict=True) if m is not None and perm == most)
    _move_below(g, node, first, inputs, shape, {"axis": most[node.attrs["axis"]]})
    return True


def _concat_of_reshapes(g: Graph, node: Node, movers: list[Node | None]) -> bool:
    """All inputs are reshaped from shapes that have the axis too, and are alike beside it."""
    axis = node.attrs["axis"]
    inputs, shapes, places = [], [], []
    for i, mover in zip(node.inputs, movers, strict=True):
        if mover is None or mover.op != "Reshape":
            return False
        src = g.value(mover.inputs[0]).shape
        found = _axes_in_source(mover, src, g.value(i).shape, [axis])
        if found is None:
            return False
        inputs.append(mover.inputs[0])
        shapes.append(src)
        places.append(found[axis])
    k = places[0]
    beside = {(*s[:k], -1, *s[k + 1 :]) for s in shapes}
    if len(beside) > 1 or set(places) != {k}:
        return False
    shape = (*shapes[0][:k], sum(s[k] for s in shapes), *shapes[0][k + 1 :])
    first = movers[0]
    assert first is not None
    _move_below(g, node, first, inputs, shape, {"axis": k})
    return True


def _move_below(
    g: Graph,
    node: Node,
    mover: Node,
    inputs: list[str],
    shape: Sequence[int] | None = None,
    attrs: dict[str, Any] | None = None,
) -> str:
    """node(mover(x)) => mover(node(x)). The mover stays for its other readers. Returns the node's new output.

    inputs, shape and attrs: of the node in its new place; by default it keeps its attributes, and has the shape of the
    mover's input.
    """
    nodes: list[Node] = []
    b = Builder(g, nodes, node.name)
    if shape is None:
        shape = g.value(mover.inputs[0]).shape
    inner = b.emit(node.op, inputs, shape, dict(node.attrs if attrs is None else attrs))
    nodes.append(Node(mover.op, mover.name, [inner], node.outputs, dict(mover.attrs)))
    at = g.index(node)
    g.nodes[at : at + 1] = nodes
    return inner


def _into_weights(g: Graph, node: Node, before: Node | None, producers: dict[str, Node]) -> bool:
    if before is None or before.op != "Reshape":
        return False
    transpose = producers.get(before.inputs[0])
    if transpose is None or transpose.op != "Transpose":
        return False
    weights = g.data(node.inputs[1])
    shape = g.value(node.inputs[0]).shape
    if weights is None or shape[-1] != g.value(node.inputs[0]).size:  # several rows: the order within a row is not all
        return False
    perm = transpose.attrs["perm"]
    transposed = g.value(transpose.outputs[0]).shape
    columns = np.arange(weights.shape[1]).reshape(transposed).transpose(np.argsort(perm)).reshape(-1)
    nodes: list[Node] = []
    flat = Builder(g, nodes, before.name).reshape(transpose.inputs[0], shape)
    g.nodes[g.index(node) : g.index(node)] = nodes
    permuted = g.new_const(f"{node.inputs[1]}.nhwc", np.ascontiguousarray(weights[:, columns]))
    node.inputs = [flat, permuted, *node.inputs[2:]]
    return True
