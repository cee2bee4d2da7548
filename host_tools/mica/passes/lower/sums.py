"""Sums at constant places, and spectra inside a network, as products with constant matrices.

ScatterND(x, constant i, updates, reduction=add)   =>   x + FullyConnected(updates): how often each place gets each row
                                                        of them
ScatterElements(...), along its axis               =>   likewise
DFT(x)                                             =>   FullyConnected(x): cosines and sines
"""

import math

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder
from mica.passes.lower.arithmetic import CLIP

MOST = 1 << 18  # bytes of a matrix


def _product(g: Graph, b: Builder, x: str, matrix: np.ndarray) -> str:
    """x [M, K] times a matrix [N, K]."""
    constants = [
        g.new_const(f"{b.origin}.sums", matrix.astype(np.float32)),
        g.new_const(f"{b.origin}.bias", np.zeros(len(matrix), np.float32)),
    ]
    return b.emit("FullyConnected", [x, *constants], (b.shape(x)[0], len(matrix)), dict(CLIP))


def _flat(g: Graph, name: str, width: int) -> str:
    return g.new_const(f"{name}.rows", np.asarray(g.data(name)).reshape(-1, width))


def scatter_add(g: Graph, node: Node, b: Builder) -> None:
    """The axis of the places comes last, for the product, and goes back."""
    (x, where, updates), out, shape = node.inputs, node.outputs[0], b.shape(node.inputs[0])
    if node.attrs["reduction"] != "add":
        raise ValueError(
            f"reduction '{node.attrs['reduction']}'; sums are supported, or ReduceMax and the like of rows that a "
            "Gather repeats"
        )
    index = b.constant(where, "places of a sum")
    if node.op == "ScatterND":
        k = index.shape[-1]
        rows = np.ravel_multi_index(tuple(np.moveaxis(index % shape[:k], -1, 0)), shape[:k]).reshape(-1)
        shape = (math.prod(shape[:k]), math.prod(shape[k:]))
        perm: tuple[int, ...] = (1, 0)
        updates = b.reshape(updates, (rows.size, shape[1])) if not g.is_const(updates) else _flat(g, updates, shape[1])
    else:
        axis = b.axis(node, len(shape))
        perm = (*(k for k in range(len(shape)) if k != axis), axis)
        each = np.transpose(index % shape[axis], perm).reshape(-1, index.shape[axis])
        rows = each[0]
        if np.any(each != rows) or each.size * shape[axis] != rows.size * math.prod(shape):
            raise ValueError("sums at places that differ beside their axis; ScatterND takes them")
    if shape[perm[-1]] * rows.size > MOST:
        raise ValueError(
            f"{rows.size} sums at {shape[perm[-1]]} places are a matrix of {shape[perm[-1]] * rows.size} bytes; "
            f"{MOST} are supported"
        )
    matrix = np.zeros((shape[perm[-1]], rows.size))
    np.add.at(matrix, (rows, np.arange(rows.size)), 1.0)
    given = g.data(updates)
    if given is not None:
        total = np.transpose(given, perm).reshape(-1, rows.size) @ matrix.T
        total = np.transpose(total.reshape([shape[p] for p in perm]), np.argsort(perm)).reshape(b.shape(x))
        b.emit_to(out, "Add", [x, g.new_const(f"{out}.sums", total.astype(np.float32))], {"signs": (1, 1), **CLIP})
        return
    sums = _product(
        g, b, b.reshape(b.transpose(updates, perm), (math.prod(shape) // shape[perm[-1]], rows.size)), matrix
    )
    back = b.transpose(b.reshape(sums, [shape[p] for p in perm]), np.argsort(perm).tolist())
    data = g.data(x)
    if data is not None and not np.any(data):
        b.emit_to(out, "Reshape", [back])
    else:
        b.emit_to(out, "Add", [x, b.reshape(back, b.shape(x))], {"signs": (1, 1), **CLIP})


def _place(g: Graph, node: Node, rank: int) -> int | None:
    """Return the axis of a DFT; None where it is computed, or not given among several (1 up to opset 19, then -2)."""
    if len(node.inputs) > 2 and node.inputs[2]:
        data = g.data(node.inputs[2])
        return None if data is None else int(data.reshape(-1)[0]) % rank
    return int(node.attrs["axis"]) % rank if "axis" in node.attrs else 1 if rank == 3 else None


def is_small(g: Graph, node: Node) -> bool:
    """True if a DFT becomes a product here."""
    x, y = (g.value(name).shape for name in (node.inputs[0], node.outputs[0]))
    axis = _place(g, node, len(x)) if node.op == "DFT" else None
    return axis is not None and x[axis] * x[-1] * y[axis] * y[-1] <= MOST


def _dft(g: Graph, node: Node, b: Builder) -> None:
    x, y = b.shape(node.inputs[0]), b.shape(node.outputs[0])
    axis, parts = _place(g, node, len(x)), x[-1]
    if axis is None or y[-1] != 2:
        raise ValueError("its axis is not a constant" if axis is None else "a spectrum that becomes real numbers again")
    length = b.constant(node.inputs[1], "lengths") if len(node.inputs) > 1 and node.inputs[1] else np.array(x[axis])
    n, inverse = int(length.reshape(-1)[0]), bool(node.attrs.get("inverse", 0))
    if not is_small(g, node):
        raise ValueError(
            f"a spectrum of {n} numbers, a matrix of {x[axis] * parts * y[axis] * 2} bytes; {MOST} are "
            "supported, or --frontend"
        )
    turns = np.outer(np.arange(y[axis]), np.arange(x[axis])) * (2 * np.pi / n) * (1 if inverse else -1)
    real, imaginary = np.cos(turns), np.sin(turns)
    both = np.stack([np.stack([real, -imaginary], -1), np.stack([imaginary, real], -1)], 1)[..., :parts]
    both[:, :, n:] = 0.0  # a length that cuts the signal off
    perm = (*(k for k in range(len(x) - 1) if k != axis), axis, len(x) - 1)
    flat = b.reshape(b.transpose(node.inputs[0], perm), (math.prod(x) // (x[axis] * parts), x[axis] * parts))
    made = _product(g, b, flat, both.reshape(y[axis] * 2, -1) / (n if inverse else 1))
    b.transpose_to(node.outputs[0], b.reshape(made, [y[p] for p in perm]), np.argsort(perm).tolist())


LOWERINGS = {"DFT": _dft}
