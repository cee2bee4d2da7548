"""Operators that pick, repeat, join and rename elements.

y = Flatten(x), Squeeze, Unsqueeze         =>   y = Reshape(x)
y = Slice(x), Expand, Tile                 =>   y = Remap(x): each axis reads the same axis of x, by a pattern
y1, y2 = Split(x)                          =>   y1 = Remap(x); y2 = Remap(x)
y = Gather(x, constant)                    =>   y = Remap(x); Gather(x) if the indices have no pattern
y = Gather(constant, x)                    =>   y = Embedding(x)
y = Concat(a, b, c, d, e)                  =>   y = Concat(Concat(a, b, c, d), e)
y = GatherElements(x, places)              =>   y = Pick(x, places); there may be one place for all behind the axis
y = TensorScatter(x, rows, index)          =>   y = ScatterRows(x, rows, index)
y = Pad(x)                                 =>   y = Pad(Remap(x)); the Remap is for pads below zero
y = DepthToSpace(x), SpaceToDepth          =>   y = Transpose(StridedCopy(Transpose(x, to NHWC)), to NCHW)
y = GatherND(x, constant), GatherElements, ReverseSequence, Trilu, Where and ScatterND with constant conditions
                                           =>   y = StridedCopy or Gather of the flattened operands
"""

from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_DIM, MAX_INPUTS
from mica.ir.graph import Graph, Node
from mica.ir.strided_copy import AxisMap, StridedCopy, as_axis_map, axis_indices, length, same, simplify
from mica.passes.builder import TO_NCHW, TO_NHWC, Builder, refuse
from mica.passes.fold_pad import pad_amounts, pad_value
from mica.passes.lower import logic, sums

# Stands for infinity where an operator fills with it: as far outside every range, and finite.
FAR = 3e38


# ---- building blocks


def remap(b: Builder, x: str, axes: Sequence[AxisMap], out: str = "") -> str:
    """y[i, j, ...] = x[axes[0](i), axes[1](j), ...], into `out` where that is given."""
    shape = b.shape(x)
    if all(np.array_equal(axis_indices(a), np.arange(n)) for a, n in zip(axes, shape, strict=True)):
        return b.emit("Reshape", [x], shape, out=out) if out else x
    return b.emit("Remap", [x], [length(a) for a in axes], {"axes": tuple(axes)}, out)


def pick(g: Graph, b: Builder, x: str, axis: int, indices: np.ndarray, out: str = "") -> str:
    """x's elements `indices` along an axis: a Remap where they have a pattern, else a Gather."""
    shape = b.shape(x)
    pattern = as_axis_map(indices)
    if pattern is not None:
        return remap(b, x, [pattern if i == axis else same(n) for i, n in enumerate(shape)], out)
    wide = (*shape[:axis], len(indices), *shape[axis + 1 :])
    constant = g.new_const(f"{b.origin}.indices", indices.astype(np.int32))
    return b.emit("Gather", [x, constant], wide, {"axis": axis}, out)


def pick_flat(g: Graph, b: Builder, x: str, indices: np.ndarray, out: str) -> None:
    """out = the flattened x's elements `indices`, an array of out's shape."""
    size = g.value(x).size
    pattern = as_axis_map(indices.reshape(-1))
    if pattern is not None:
        move = simplify(StridedCopy(*pattern))
        if move.fits:
            b.emit_to(out, "StridedCopy", [x], {"begin": move.begin, "places": move.places or ((1, 0),)})
            return
    if max(size, indices.size) > MAX_DIM:
        raise ValueError(f"it picks single elements of a tensor of {max(size, indices.size)}; {MAX_DIM} are supported")
    flat = pick(g, b, b.reshape(x, (size,)), 0, indices.reshape(-1))
    b.emit_to(out, "Reshape", [flat])


def concat(b: Builder, parts: Sequence[str], axis: int, out: str = "") -> str:
    """Any number of parts, in as many steps as that takes."""
    parts = list(parts)
    while len(parts) > MAX_INPUTS**2:  # so that no part is copied more than a few times
        parts = [concat(b, parts[k : k + MAX_INPUTS], axis) for k in range(0, len(parts), MAX_INPUTS)]
    while len(parts) > MAX_INPUTS:
        parts[:MAX_INPUTS] = [concat(b, parts[:MAX_INPUTS], axis)]
    shape = list(b.shape(parts[0]))
    if len(parts) == 1:
        return b.emit("Reshape", parts, shape, out=out) if out else parts[0]
    shape[axis] = sum(b.shape(p)[axis] for p in parts)
    return b.emit("Concat", parts, shape, {"axis": axis}, out)


def _integers(b: Builder, node: Node, index: int, name: str) -> list[int] | None:
    """A list of integers: attribute `name`, or constant input `index`; None where both are absent."""
    if name in node.attrs:
        value = node.attrs[name]
        return [int(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
    if len(node.inputs) <= index or not node.inputs[index]:
        return None
    return [int(v) for v in b.constant(node.inputs[index], name).reshape(-1)]


# ---- one tensor


def _slice(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = b.shape(x)
    starts, ends = _integers(b, node, 1, "starts"), _integers(b, node, 2, "ends")
    assert starts is not None and ends is not None
    axes = _integers(b, node, 3, "axes") or list(range(len(starts)))
    steps = _integers(b, node, 4, "steps") or [1] * len(starts)
    maps = [same(n) for n in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        n = shape[axis % len(shape)]
        taken = range(n)[start:end:step]
        maps[axis % len(shape)] = (taken.start, ((len(taken), step),))
    remap(b, x, maps, out)


def _split(g: Graph, node: Node, b: Builder) -> None:
    x = node.inputs[0]
    shape = b.shape(x)
    axis = b.axis(node, len(shape))
    sizes = _integers(b, node, 1, "split")
    if sizes is None:
        parts = int(node.attrs.get("num_outputs", len(node.outputs)))
        one = -(-shape[axis] // parts)
        sizes = [min(one, shape[axis] - k * one) for k in range(parts)]
    at = 0
    for out, size in zip(node.outputs, sizes, strict=True):
        if out:
            remap(b, x, [(at, ((size, 1),)) if i == axis else same(n) for i, n in enumerate(shape)], out)
        at += size


def _repeat(g: Graph, node: Node, b: Builder) -> None:
    """Expand and Tile: what the output's shape has more of, the input is repeated for."""
    x, out = node.inputs[0], node.outputs[0]
    shape, wide = b.shape(x), b.shape(out)
    if len(shape) < len(wide):
        shape = (1,) * (len(wide) - len(shape)) + shape
        x = b.reshape(x, shape)
    remap(b, x, [(0, ((n // m, 0), (m, 1))) for m, n in zip(shape, wide, strict=True)], out)


def _pad(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    rank = len(b.shape(x))
    mode = node.attrs.get("mode", "constant")
    if "pads" not in node.attrs and g.data(node.inputs[1]) is None:
        raise ValueError("pads that are not constant")
    amounts = pad_amounts(g, node)
    before, behind = amounts[:rank], amounts[rank:]
    cut = [(max(0, -p), ((n + min(0, p) + min(0, q), 1),)) for n, p, q in zip(b.shape(x), before, behind, strict=True)]
    x = remap(b, x, cut)
    widths = [(max(0, p), max(0, q)) for p, q in zip(before, behind, strict=True)]
    if not any(map(any, widths)):
        b.emit_to(out, "Reshape", [x])
        return
    value = pad_value(g, node) if mode == "constant" else 0.0
    if value is None:
        raise ValueError("a value that is not constant")
    room = {"reflect": 1, "wrap": 0}
    for axis, (p, q) in enumerate(widths):
        n = b.shape(x)[axis]
        if mode in room and max(p, q) > n - room[mode]:  # further than the kernel reaches: pick the elements
            x = pick(g, b, x, axis, np.pad(np.arange(n), (p, q), mode))
            widths[axis] = (0, 0)
    attrs = {
        "begins": tuple(p for p, _ in widths),
        "ends": tuple(q for _, q in widths),
        "mode": mode,
        "value": float(np.clip(value, -FAR, FAR)),
    }
    b.emit_to(out, "Pad", [x], attrs) if any(map(any, widths)) else b.emit_to(out, "Reshape", [x])


def _nhwc_move(b: Builder, node: Node, places: Sequence[tuple[int, int]]) -> None:
    """Transposes round a StridedCopy, as round a convolution: they cancel against the neighbours'."""
    out = node.outputs[0]
    wide = [b.shape(out)[p] for p in TO_NHWC]
    attrs = {"begin": 0, "places": simplify(StridedCopy(0, tuple(places))).places or ((1, 0),)}
    b.transpose_to(out, b.emit("StridedCopy", [b.transpose(node.inputs[0], TO_NHWC)], wide, attrs), TO_NCHW)


def _depth_to_space(g: Graph, node: Node, b: Builder) -> None:
    n, c, h, w = b.shape(node.inputs[0])
    k = int(node.attrs["blocksize"])
    d = c // (k * k)  # channels of the output
    if node.attrs.get("mode", "DCR") == "DCR":
        rows, columns, depth = k * d, d, 1
    else:
        rows, columns, depth = k, 1, k * k
    _nhwc_move(b, node, [(n * h, w * c), (k, rows), (w, c), (k, columns), (d, depth)])


def _space_to_depth(g: Graph, node: Node, b: Builder) -> None:
    n, c, h, w = b.shape(node.inputs[0])
    k = int(node.attrs["blocksize"])
    block, depth = [(k, w * c), (k, c)], [(c, 1)]
    inside = block + depth if node.attrs.get("mode", "DCR") == "DCR" else depth + block
    _nhwc_move(b, node, [(n * h // k, k * w * c), (w // k, k * c), *inside])


def _reverse_sequence(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    lengths = b.constant(node.inputs[1], "lengths").reshape(-1)
    batch, time = int(node.attrs.get("batch_axis", 1)), int(node.attrs.get("time_axis", 0))
    at = np.arange(g.value(x).size).reshape(b.shape(x))
    rows = np.moveaxis(at, (batch, time), (0, 1)).copy()
    for k, n in enumerate(lengths):
        rows[k, :n] = rows[k, :n][::-1].copy()
    pick_flat(g, b, x, np.moveaxis(rows, (0, 1), (batch, time)), out)


# ---- picks


def _gather(g: Graph, node: Node, b: Builder) -> None:
    x, where, out = node.inputs[0], node.inputs[1], node.outputs[0]
    shape = g.value(x).shape
    axis = b.axis(node, len(shape))
    indices = g.data(where)
    if indices is None:
        if not g.is_const(x):
            raise ValueError("indices that are computed, of a tensor that is computed")
        _embed(g, node, b, axis)
        return
    flat = np.where(indices < 0, indices + shape[axis], indices).reshape(-1).astype(np.int64)
    if np.any((flat < 0) | (flat >= shape[axis])):
        raise ValueError(f"an index outside the {shape[axis]} elements of axis {axis}")
    b.emit_to(out, "Reshape", [pick(g, b, x, axis, flat)])


def _is_place(g: Graph, name: str) -> bool:
    """True for what ArgMax or TopK found, in any shape."""
    producers = g.producers()
    while (maker := producers.get(name)) is not None and maker.op == "Reshape":
        name = maker.inputs[0]
    return maker is not None and (maker.op in ("ArgMax", "ArgMin") or maker.outputs[1:] == [name])


def _embed(g: Graph, node: Node, b: Builder, axis: int) -> None:
    table, where, out = node.inputs[0], node.inputs[1], node.outputs[0]
    data = g.data(table)
    assert data is not None
    if g.value(where).dtype != "int32" and not _is_place(g, where):
        raise ValueError("indices that are computed; an input of the model can be the indices of a constant table")
    rows = np.moveaxis(data, axis, 0)
    rest = rows.shape[1:]
    flat = g.new_const(f"{table}.rows", np.ascontiguousarray(rows.reshape(len(rows), -1), np.float32))
    g.value(flat).quant = g.value(table).quant
    shape = b.shape(where)
    y = b.emit("Embedding", [where, flat], (*shape, g.value(flat).shape[1]))
    if axis:
        # The table's dimensions before the axis come first in the output.
        n = len(shape)
        y = b.reshape(y, (*shape, *rest))
        perm = [*range(n, n + axis), *range(n), *range(n + axis, n + len(rest))]
        b.transpose_to(out, y, perm)
    else:
        b.emit_to(out, "Reshape", [y])


def _gather_elements(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = b.shape(x)
    axis = b.axis(node, len(shape))
    at = node.inputs[1]
    if not g.is_const(at) and not g.is_const(x):
        beside = (*shape[:axis], b.shape(at)[axis], *shape[axis + 1 :])
        if b.shape(out) == b.shape(at) != beside and all(p <= n for p, n in zip(b.shape(at), beside, strict=True)):
            x = remap(b, x, [same(n) for n in (*b.shape(at)[:axis], shape[axis], *b.shape(at)[axis + 1 :])])
            shape, beside = b.shape(x), b.shape(at)  # places in the first elements of the other axes, as ONNX has it
        if b.shape(out) != beside or b.shape(at) not in (beside, (*beside[: axis + 1], *[1] * len(beside[axis + 1 :]))):
            raise ValueError(f"places of shape {list(b.shape(out))} in {list(shape)}; {list(beside)} is supported")
        b.emit_to(out, "Pick", [x, at], {"axis": axis})
        return
    indices = b.constant(at, "indices").astype(np.int64)
    indices = np.where(indices < 0, indices + shape[axis], indices)
    every = np.arange(g.value(x).size).reshape(shape)
    part = tuple(slice(n) if i != axis else slice(None) for i, n in enumerate(indices.shape))
    pick_flat(g, b, x, np.take_along_axis(every[part], indices, axis), out)


def _gather_nd(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    indices = b.constant(node.inputs[1], "indices").astype(np.int64)
    every = np.arange(g.value(x).size).reshape(b.shape(x))
    batch = int(node.attrs.get("batch_dims", 0))
    # every[i, j, ..., indices[i, j, ..., :]], i and j counting the batch dimensions
    lead = np.meshgrid(*(np.arange(n) for n in indices.shape[:batch]), indexing="ij", sparse=True) if batch else []
    lead = [i.reshape(i.shape + (1,) * (indices.ndim - 1 - batch)) for i in lead]
    pick_flat(g, b, x, every[tuple(lead) + tuple(np.moveaxis(indices, -1, 0))], out)


# ---- several tensors


def _concat(g: Graph, node: Node, b: Builder) -> None:
    axis = b.axis(node, len(b.shape(node.outputs[0])))
    concat(b, node.inputs, axis, node.outputs[0])


def _one_of(g: Graph, b: Builder, operands: Sequence[str], indices: np.ndarray, out: str) -> None:
    """Elements of all operands, counted through, flattened one behind the other."""
    flat = []
    for name in operands:
        if g.is_const(name):
            data = np.clip(np.asarray(g.data(name), np.float32).reshape(-1), -FAR, FAR)
            flat.append(g.new_const(f"{name}.flat", data))
        else:
            flat.append(b.reshape(name, (g.value(name).size,)))
    if sum(g.value(f).size for f in flat) > MAX_DIM:
        raise ValueError(f"it picks from more than {MAX_DIM} elements")
    pick_flat(g, b, concat(b, flat, 0), indices, out)


def _where(g: Graph, node: Node, b: Builder) -> None:
    condition, x, y = node.inputs
    out = node.outputs[0]
    if not g.is_const(condition):
        logic.where(g, node, b)
        return
    chosen = np.broadcast_to(b.constant(condition, "a condition and its like"), b.shape(out))
    a = np.arange(g.value(x).size).reshape(g.value(x).shape)
    c = np.arange(g.value(y).size).reshape(g.value(y).shape) + a.size
    _one_of(g, b, (x, y), np.where(chosen, a, c), out)


def _trilu(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    k = _integers(b, node, 1, "k") or [0]
    every = np.arange(g.value(x).size).reshape(b.shape(x))
    ones = np.ones(every.shape[-2:])
    keep = np.triu(ones, k[0]) if node.attrs.get("upper", 1) else np.tril(ones, k[0])
    zero = g.new_const(f"{node.name}.zero", np.zeros((), np.float32))
    _one_of(g, b, (x, zero), np.where(keep, every, every.size), out)


def _scatter(g: Graph, node: Node, b: Builder) -> None:
    """ScatterND and ScatterElements: updates take the place of elements of x."""
    x, updates, out = node.inputs[0], node.inputs[2], node.outputs[0]
    if node.attrs.get("reduction", "none") != "none":
        sums.scatter_add(g, node, b)
        return
    indices = b.constant(node.inputs[1], "indices").astype(np.int64)
    every = np.arange(g.value(x).size).reshape(g.value(x).shape)
    news = np.arange(g.value(updates).size).reshape(g.value(updates).shape) + every.size
    if node.op == "ScatterND":
        every[tuple(np.moveaxis(indices, -1, 0))] = news
    else:
        axis = b.axis(node, every.ndim)
        indices = np.where(indices < 0, indices + every.shape[axis], indices)
        part = every[tuple(slice(n) if i != axis else slice(None) for i, n in enumerate(indices.shape))]  # a view
        np.put_along_axis(part, indices, news, axis)
    _one_of(g, b, (x, updates), every, out)


def _tensor_scatter(g: Graph, node: Node, b: Builder) -> None:
    """The index is an input of the model, or absent: 0."""
    x, rows, index = [*node.inputs, ""][:3]
    out = node.outputs[0]
    shape = b.shape(x)
    axis = b.axis(node, len(shape), -2)
    mode = node.attrs.get("mode", "linear")
    if b.shape(rows)[axis] == shape[axis] and (mode == "linear" or not index):
        b.emit_to(out, "Reshape", [rows])  # linear: nothing of x is left
        return
    if b.shape(rows)[axis] >= shape[axis]:
        raise ValueError(f"{b.shape(rows)[axis]} new rows in a cache of {shape[axis]}; fewer are supported")
    if not index or g.is_const(index):
        at = np.zeros(shape[0], np.int64) if not index else np.broadcast_to(b.constant(index, "indices"), shape[:1])
        every = np.arange(g.value(x).size).reshape(shape)
        news = np.arange(g.value(rows).size).reshape(b.shape(rows)) + every.size
        n, r = shape[axis], b.shape(rows)[axis]
        for k, first in enumerate(at.astype(np.int64)):
            if mode == "linear" and not 0 <= first <= n - r:
                raise ValueError(f"writes {r} rows from row {first} on, of {n}")
            np.moveaxis(every[k], axis - 1, 0)[(first + np.arange(r)) % n] = np.moveaxis(news[k], axis - 1, 0)
        _one_of(g, b, (x, rows), every, out)
        return
    if g.value(index).dtype != "int32":
        raise ValueError("indices that are computed; an input of the model can say where rows are written")
    operands = [g.new_const(f"{v}.array", np.asarray(g.data(v))) if g.is_const(v) else v for v in (x, rows)]
    b.emit_to(out, "ScatterRows", [*operands, index], {"axis": axis, "circular": mode == "circular"})


def _reshape(g: Graph, node: Node, b: Builder) -> None:
    x, y = g.value(node.inputs[0]), g.value(node.outputs[0])
    if x.size != y.size:
        raise ValueError(f"{list(x.shape)} to {list(y.shape)}; was it exported for another batch or input size?")
    b.emit_to(node.outputs[0], "Reshape", node.inputs[:1])


def _transpose(g: Graph, node: Node, b: Builder) -> None:
    rank = len(g.value(node.inputs[0]).shape)
    perm = tuple(int(p) for p in node.attrs.get("perm", range(rank - 1, -1, -1)))
    b.transpose_to(node.outputs[0], node.inputs[0], perm)


LOWERINGS = {
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Dropout": refuse("it is at work, or its mask is used; export the model in inference mode (model.eval())"),
    "Expand": _repeat,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "ReverseSequence": _reverse_sequence,
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _scatter),
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "TensorScatter": _tensor_scatter,
    "Tile": _repeat,
    "Trilu": _trilu,
    "Where": _where,
    "Transpose": _transpose,
}
