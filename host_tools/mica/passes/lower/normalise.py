"""Normalisation by statistics of the data itself.

y = LayerNormalization(x, gamma, beta)     =>   y = LayerNorm(x, gamma, beta); gamma and beta that are computed become
                                                a Mul and an Add behind it; its mean and deviation are reductions
y = InstanceNormalization(x), GroupNormalization
                                           =>   y = LayerNorm(x) with one gamma and beta for each channel
y = RMSNormalization(x), LpNormalization   =>   y = LayerNorm(x) by the root of the sum of squares, or by the sum of |x|
y = MeanVarianceNormalization(x, axes)     =>   y = LayerNorm(x), the axes brought to the end

Softmax over any axis becomes Softmax over the last, between two transposes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mica.format.schema import MAX_DIM
from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder, Lowering
from mica.passes.lower.arithmetic import CLIP
from mica.passes.lower.reduce import reduce_to

Array = np.ndarray

MOST_OF_EACH = 513  # elements of a row that norm_s8 can take, which has constants for each
LEAST_OF_RUN = 4  # a run takes as long as half an element more


class _By(NamedTuple):
    """The statistic that a row is divided by, and what is added to it."""

    mode: str
    epsilon: float = 0.0


def _norm(b: Builder, x: str, axis: int, by: _By, gamma: Array, beta: Array, inner: int = 1, out: str = "") -> str:
    """A LayerNorm of everything from `axis` on, into `out` where that is given."""
    n = int(np.prod(b.shape(x)[axis:], dtype=np.int64))
    if n > MAX_DIM:
        raise ValueError(f"{n} elements are normalised together; {MAX_DIM} are supported")
    if inner == 1 and n > MOST_OF_EACH and gamma.size == beta.size == n:
        last = b.shape(x)[-1]
        if _repeats(gamma, last) and _repeats(beta, last):
            gamma, beta = gamma[:last], beta[:last]
        else:
            gamma, beta, inner = _by_runs(gamma, beta)
    constants = [
        b.g.new_const(f"{b.origin}.{what}", np.ascontiguousarray(a, np.float32))
        for what, a in (("gamma", gamma), ("beta", beta))
    ]
    attrs = {"mode": by.mode, "axis": axis, "inner": inner, "epsilon": float(by.epsilon), **CLIP}
    return b.emit("LayerNorm", [x, *constants], b.shape(x), attrs, out)


def _repeats(constants: Array, last: int) -> bool:
    """True if constants of a row repeat those of its last axis, which are not all equal."""
    each = constants.reshape(-1, last)
    return bool(np.all(each == each[0]) and np.any(each[0] != each[0, 0]))


def _by_runs(gamma: Array, beta: Array) -> tuple[Array, Array, int]:
    """One gamma and beta for each run of equal ones, and the length of a run: the longest that divides the row."""
    n = gamma.size
    changes = np.flatnonzero((np.diff(gamma) != 0) | (np.diff(beta) != 0)) + 1
    inner = int(np.gcd.reduce(changes, initial=n))
    return (gamma[::inner], beta[::inner], inner) if inner >= LEAST_OF_RUN else (gamma, beta, 1)


def _spread(g: Graph, name: str, shape: Sequence[int], default: float) -> Array | None:
    """A constant, broadcast to `shape` and flattened; None where it is computed, or has other dimensions."""
    data = np.full((), default) if not name else g.data(name)
    if data is None:
        return None
    lead = data.shape[: max(0, data.ndim - len(shape))]
    if any(n != 1 for n in lead):
        return None
    try:
        return np.broadcast_to(data.reshape(data.shape[len(lead) :]), shape).reshape(-1)
    except ValueError:
        return None


def _norm_and_affine(g: Graph, node: Node, b: Builder, x: str, axis: int, by: _By, factor: float = 1.0) -> None:
    """Normalisation with a scale and shift for each element, constant or not. factor: on what is normalised."""
    out, (scale, shift) = node.outputs[0], [*node.inputs[1:], "", ""][:2]
    shape = b.shape(x)[axis:]
    gamma, beta = _spread(g, scale, shape, 1.0), _spread(g, shift, shape, 0.0)
    n = int(np.prod(shape, dtype=np.int64))
    if gamma is not None and beta is not None:
        _norm(b, x, axis, by, gamma * factor, beta, out=out)
        return
    y = _norm(b, x, axis, by, np.full(n, factor), np.zeros(n))
    if not shift:
        b.emit_to(out, "Mul", [y, scale], CLIP)
        return
    if scale:
        y = b.emit("Mul", [y, scale], b.shape(out), CLIP)
    b.emit_to(out, "Add", [y, shift], {"signs": (1, 1), **CLIP})


def _layer(g: Graph, node: Node, b: Builder) -> None:
    x = node.inputs[0]
    rank = len(b.shape(x))
    axis = b.axis(node, rank, -1)
    epsilon = node.attrs.get("epsilon", 1e-5)
    mean, inverse = ([*node.outputs, "", ""])[1:3]
    read = {i for n in g.nodes for i in n.inputs} | set(g.outputs)
    over = list(range(axis, rank))
    n = int(np.prod(b.shape(x)[axis:], dtype=np.int64))
    if {mean, inverse} & read - {""}:
        if not mean:
            mean = g.new_value(f"{node.name}.mean", (*b.shape(x)[:axis], *[1] * len(over)))
        reduce_to(b, mean, x, over, "sum", 1.0 / n)
    if inverse in read - {""}:
        # For training; 8 bits of a reciprocal, whose table is steep where rows differ little.
        difference = b.emit("Add", [x, mean], b.shape(x), {"signs": (1, -1), **CLIP})
        deviation = g.new_value(f"{node.name}.deviation", b.shape(inverse))
        reduce_to(b, deviation, difference, over, "root", n**-0.5)
        variance = b.emit("Unary", [deviation], b.shape(inverse), {"function": "power", "arguments": (2.0,)})
        wide = b.emit("Unary", [variance], b.shape(inverse), {"function": "affine", "arguments": (1.0, float(epsilon))})
        b.emit_to(inverse, "Unary", [wide], {"function": "power", "arguments": (-0.5,)})
    _norm_and_affine(g, node, b, x, axis, _By("deviation", epsilon))


def _rms(g: Graph, node: Node, b: Builder) -> None:
    x = node.inputs[0]
    axis = b.axis(node, len(b.shape(x)), -1)
    n = int(np.prod(b.shape(x)[axis:], dtype=np.int64))
    # x / sqrt(mean of squares + e) = sqrt(n) * x / sqrt(sum of squares + n * e)
    by = _By("squares", n * node.attrs.get("epsilon", 1e-5))
    _norm_and_affine(g, node, b, x, axis, by, np.sqrt(n))


def _by_channel(g: Graph, node: Node, b: Builder, groups: int) -> None:
    x, out = node.inputs[0], node.outputs[0]
    batch, c, *spatial = b.shape(x)
    if groups < 1 or c % groups:
        raise ValueError(f"{groups} groups of {c} channels")
    plane = int(np.prod(spatial, dtype=np.int64))
    n = c // groups * plane
    rows = b.reshape(x, (batch, groups, n))
    parts = [g.data(i) for i in node.inputs[1:3]]
    by = _By("deviation", node.attrs.get("epsilon", 1e-5))
    gamma, beta = parts
    if gamma is not None and beta is not None:
        if gamma.size not in (c, groups) or gamma.size != beta.size:
            raise ValueError(f"{gamma.size} scales and {beta.size} shifts for {c} channels in {groups} groups")
        inner = plane if gamma.size == c else n
        y = _norm(b, rows, 2, by, gamma.reshape(-1), beta.reshape(-1), inner)
        b.emit_to(out, "Reshape", [y])
        return
    y = b.reshape(_norm(b, rows, 2, by, np.ones(1), np.zeros(1), n), b.shape(x))
    k = g.value(node.inputs[1]).size
    # One number for each group (GroupNormalization of opset 18) goes to all its channels.
    view = (1, c) if k == c else (1, groups, 1)
    wide = (batch, c, plane) if k == c else (batch, groups, n)
    tail = (1,) * (len(wide) - len(view))
    scale, shift = (b.reshape(i, view + tail) for i in node.inputs[1:3])
    y = b.emit("Mul", [b.reshape(y, wide), scale], wide, CLIP)
    y = b.emit("Add", [y, shift], wide, {"signs": (1, 1), **CLIP})
    b.emit_to(out, "Reshape", [y])


def _moved(b: Builder, x: str, axes: list[int]) -> tuple[str, list[int] | None]:
    """x with `axes` at the end, and the permutation that brings them back where there was something to do."""
    rank = len(b.shape(x))
    axes = sorted(a % rank for a in axes)
    if axes == list(range(rank - len(axes), rank)):
        return x, None
    perm = [i for i in range(rank) if i not in axes] + axes
    return b.transpose(x, perm), np.argsort(perm).tolist()


def _lp(g: Graph, node: Node, b: Builder) -> None:
    p = int(node.attrs.get("p", 2))
    if p not in (1, 2):
        raise ValueError(f"a norm of order {p}; 1 and 2 are supported")
    _plain(g, node, b, [b.axis(node, len(b.shape(node.inputs[0])), -1)], "absolute" if p == 1 else "squares")


def _plain(g: Graph, node: Node, b: Builder, axes: list[int], mode: str) -> None:
    """Normalisation over `axes` without scale, shift or epsilon."""
    x, out = node.inputs[0], node.outputs[0]
    moved, back = _moved(b, x, axes)
    axis = len(b.shape(x)) - len(axes)
    n = int(np.prod(b.shape(moved)[axis:], dtype=np.int64))
    y = _norm(b, moved, axis, _By(mode), np.ones(1), np.zeros(1), n, out=out if back is None else "")
    if back is not None:
        b.transpose_to(out, y, back)


def _softmax(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = g.value(x).shape
    if not shape:
        raise ValueError("a softmax of a single number")
    axis = int(node.attrs.get("axis", -1)) % len(shape)
    op, attrs = node.op, {"clip": (None, None)} if node.op == "LogSoftmax" else {}
    if node.attrs.get("flatten"):  # opset < 13: all axes from `axis` on are one
        rows = int(np.prod(shape[:axis], dtype=np.int64))
        flat = b.reshape(x, (rows, g.value(x).size // rows))
        b.emit_to(out, "Reshape", [b.emit(op, [flat], b.shape(flat), attrs)])
    elif axis == len(shape) - 1:
        b.emit_to(out, op, [x], attrs)
    else:
        perm = [i for i in range(len(shape)) if i != axis] + [axis]
        moved = b.transpose(x, perm)
        b.transpose_to(out, b.emit(op, [moved], b.shape(moved), attrs), np.argsort(perm).tolist())


LOWERINGS: dict[str, Lowering] = {
    "GroupNormalization": lambda g, node, b: _by_channel(g, node, b, int(node.attrs["num_groups"])),
    "InstanceNormalization": lambda g, node, b: _by_channel(g, node, b, b.shape(node.inputs[0])[1]),
    "LayerNormalization": _layer,
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "LpNormalization": _lp,
    "MeanVarianceNormalization": lambda g, node, b: _plain(g, node, b, node.attrs.get("axes", [0, 2, 3]), "deviation"),
    "RMSNormalization": _rms,
}
