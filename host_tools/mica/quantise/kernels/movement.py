"""Operators that move, join or rename elements."""

import numpy as np

from mica.format.schema import MAX_RANK
from mica.format.values import HIGH, LOW
from mica.ir import strided_copy
from mica.ir.graph import Graph, Node, Quant
from mica.kernels.resize import RESIZE_MOST, RESIZE_ONE
from mica.quantise.kernels.common import OFFSET_TABLE, emit, quant, reshape

PAD_MODES = {"constant": 0, "edge": 1, "reflect": 2, "wrap": 3}


def _transpose(g: Graph, out: Graph, node: Node) -> None:
    perm = list(node.attrs["perm"]) + [0] * (MAX_RANK - len(node.attrs["perm"]))
    emit(out, node, "transpose_s8", node.inputs[:1], [], {f"perm_{i}": p for i, p in enumerate(perm)})


def _move(g: Graph, out: Graph, node: Node) -> None:
    move = strided_copy.read(g, node)
    if not move.fits:
        _in_two(g, out, node)
        return
    places = np.array(move.places or ((1, 0),), np.int32)
    emit(out, node, "move_s8", node.inputs[:1], [places], {"begin": move.begin, "rank": len(places)})


def _in_two(g: Graph, out: Graph, node: Node) -> None:
    """A Remap of so many patterns that one step cannot hold them: one dimension, then the others."""
    axes = list(node.attrs["axes"])
    x, y = node.inputs[0], node.outputs[0]
    shape = g.value(x).shape
    k = next(i for i, axis in enumerate(axes) if axis != strided_copy.same(shape[i]))
    first = [axis if i == k else strided_copy.same(shape[i]) for i, axis in enumerate(axes)]
    middle = tuple(strided_copy.length(axis) for axis in first)
    name = g.new_value(f"{y}.part", middle)
    out.new_value(name, middle, "int8")
    out.value(name).quant = quant(out, x)
    second = [strided_copy.same(middle[i]) if i == k else axis for i, axis in enumerate(axes)]
    _move(g, out, Node("Remap", node.name, [x], [name], {"axes": tuple(first)}))
    _move(g, out, Node("Remap", node.name, [name], [y], {"axes": tuple(second)}))


def _gather(g: Graph, out: Graph, node: Node) -> None:
    indices = g.data(node.inputs[1])
    assert indices is not None
    emit(out, node, "gather_s8", node.inputs[:1], [indices.astype(np.int32)], {"axis": node.attrs["axis"]})


def requantised(g: Graph, out: Graph, node: Node, x: str, expected: Quant) -> str:
    """x with another scale or zero point, by a table; a constant is quantised again. x itself if it has them."""
    data = g.data(x)
    if data is not None:
        name = out.new_const(x, expected.quantise(data))
        out.value(name).quant = expected
        return name
    has = quant(out, x)
    if has == expected:
        return x
    name = out.new_value(f"{x}.rescaled", g.value(x).shape, "int8")
    out.value(name).quant = expected
    emit(out, Node("", node.name, [x], [name]), "lut_s8", [x], [expected.quantise(has.levels())], {})
    return name


def _concat(g: Graph, out: Graph, node: Node) -> None:
    expected = quant(out, node.outputs[0])
    parts = [requantised(g, out, node, x, expected) for x in node.inputs]
    emit(out, node, "concat_s8", parts, [], {"axis": node.attrs["axis"]})


def _scatter_rows(g: Graph, out: Graph, node: Node) -> None:
    expected = quant(out, node.outputs[0])
    x, rows, index = node.inputs
    parts = [requantised(g, out, node, v, expected) for v in (x, rows)]
    p = {"axis": node.attrs["axis"], "circular": int(node.attrs["circular"])}
    emit(out, node, "scatter_s8", [*parts, index], [], p)


def _pad(g: Graph, out: Graph, node: Node) -> None:
    expected = quant(out, node.outputs[0])
    x = requantised(g, out, node, node.inputs[0], expected)
    begins = [*node.attrs["begins"], *[0] * MAX_RANK][:MAX_RANK]
    params = {f"begin_{i}": n for i, n in enumerate(begins)}
    params |= {"mode": PAD_MODES[node.attrs["mode"]], "value": int(expected.quantise(np.array(node.attrs["value"])))}
    emit(out, node, "pad_s8", [x], [], params)


def _resize(g: Graph, out: Graph, node: Node) -> None:
    x = requantised(g, out, node, node.inputs[0], quant(out, node.outputs[0]))
    rows, row_weights, columns, column_weights = (g.data(i) for i in node.inputs[1:])
    assert rows is not None and row_weights is not None and columns is not None and column_weights is not None
    a, b = fixed_weights(row_weights), fixed_weights(column_weights)
    blobs = [rows.astype(np.uint16), a, columns.astype(np.uint16), b]
    emit(out, node, "resize_linear_s8", [x], blobs, {"row_taps": a.shape[1], "column_taps": b.shape[1]})


def fixed_weights(weights: np.ndarray) -> np.ndarray:
    """int16 in units of 1/2048; each entry's still sum to one, the largest weight taking what rounding left over."""
    if weights.shape[1] > 255:
        raise ValueError(f"each output is a sum of {weights.shape[1]} inputs along an axis; 255 are supported")
    fixed = np.rint(weights.astype(np.float64) * RESIZE_ONE).astype(np.int64)
    largest = np.abs(fixed).argmax(axis=1)
    fixed[np.arange(len(fixed)), largest] += RESIZE_ONE - fixed.sum(axis=1)
    reach = int(np.abs(fixed).sum(axis=1).max())
    if reach > RESIZE_MOST:
        raise ValueError(
            f"its weights overshoot too far: absolute values sum to {reach / RESIZE_ONE:.2f}, "
            f"{RESIZE_MOST / RESIZE_ONE:.2f} is supported (cubic_coeff_a of -0.75 to 0)"
        )
    return fixed.astype(np.int16)


def _embedding(g: Graph, out: Graph, node: Node) -> None:
    x, table = node.inputs
    data = g.data(table)
    assert data is not None
    y = node.outputs[0]
    q = quant(out, y)
    if not node.attrs.get(OFFSET_TABLE):
        emit(out, node, "embedding_s8", [x], [q.quantise(data)], {"rows": len(data)})
        return
    # As `offset_rows` has them, which flips the highest bit of each byte; a table of 256 entries flips it back.
    name = out.new_value(f"{y}.offset", g.value(y).shape, "int8")
    out.value(name).quant = q
    offset = q.quantise(data) ^ np.int8(LOW)
    emit(out, Node("", node.name, [x], [name]), "embedding_s8", [x], [offset], {"rows": len(data)})
    levels = np.arange(LOW, HIGH + 1).astype(np.int8) ^ np.int8(LOW)
    emit(out, Node("", node.name, [name], [y]), "lut_s8", [name], [levels], {})


STEPS = {
    "Concat": _concat,
    "Embedding": _embedding,
    "Gather": _gather,
    "StridedCopy": _move,
    "Pad": _pad,
    "Remap": _move,
    "Reshape": reshape,
    "ResizeLinear": _resize,
    "Pick": lambda g, out, node: emit(out, node, "pick_s8", list(node.inputs), [], {"axis": node.attrs["axis"]}),
    "ScatterRows": _scatter_rows,
    "Transpose": _transpose,
}
