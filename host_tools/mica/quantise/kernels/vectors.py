"""Nearest neighbours and machines of support vectors: vectors and features on one grid of 16 bits or less,
then what follows."""

from dataclasses import replace

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.vectors import Machine, Neighbours, Vectors
from mica.kernels import vectors
from mica.quantise.kernels.common import act, emit, quant
from mica.quantise.kernels.tabular import OPEN, place
from mica.quantise.params import INDEX_QUANT, quantise_multiplier
from mica.quantise.ranges import grid
from mica.reference import vectors as reference

ROOM = 1.5  # times as far as the vectors lie from their middle, a feature may lie from it: of products
FAR = 4.0  # the same of distances: what is an outlier is to be told from what nearly is one
FLAT = 6e-6  # of a curve's largest value: less than that is nothing beside others
VALUE_MOST, FACTOR_MOST = 32767, 32767
CERTAIN = 0x4000  # vote of a neighbour for its class


def _most_bound(measure: int, features: int) -> int:
    """The largest bound that distances of so many features allow."""
    left = (2**31 - 1) / vectors.largest(measure, features, 1)
    return int(min(32767, left if measure == vectors.SUM else left**0.5))


def _distances(out: Graph, node: Node, v: Vectors) -> tuple[Node, float]:
    """The step that measures, and the real size of a step of its grid."""
    count, n = v.points.shape
    bound = _most_bound(v.measure, n)
    low, high = v.points.min(axis=0), v.points.max(axis=0)
    middle = np.zeros(n) if v.measure == vectors.PRODUCTS else (low + high) / 2
    reach = max(float(np.abs(v.points - middle).max()), 1e-30)
    step = (ROOM if v.measure == vectors.PRODUCTS else FAR) * reach / bound
    own = grid([v.points]) if count * n > 1 else None
    if own is not None:  # integers of a sensor stay what they are, so that equal distances stay equal
        unit = (own.high - own.low) / 255.0
        middle = np.rint(middle / unit) * unit
        step = unit / max(np.floor(unit / step), 1.0) if unit >= step else step
    if bound < 127 or step <= 0:
        raise ValueError(f"{n} features; its distances are too coarse in 32 bits")
    points = np.clip(np.rint((v.points - middle) / step), -bound, bound).astype(np.int16)
    missing = np.clip(np.rint((np.nan_to_num(v.missing, nan=0.0) - middle) / step), -bound, bound).astype(np.int16)
    scale, exponent, offset = place(v.factor / step, (v.shift - middle) / step)
    blobs: list[np.ndarray] = [np.ascontiguousarray(points.T), scale, exponent, offset, missing]
    for before in (n for n in out.nodes if n.op == "distances_s8" and n.inputs[0] == node.inputs[0]):
        same = (np.array_equal(np.asarray(out.data(i)), a) for i, a in zip(before.inputs[1:], blobs, strict=True))
        if before.attrs == {"kind": v.measure, "bound": bound} and all(same):
            return before, step
    shape = (*out.value(node.inputs[0]).shape[:-1], count)
    name = out.new_value(f"{node.outputs[0]}.distances", shape, "int32")
    out.value(name).quant = INDEX_QUANT
    measured = Node(node.op, f"{node.name}.distances", list(node.inputs), [name], {})
    emit(out, measured, "distances_s8", node.inputs[:1], blobs, {"kind": v.measure, "bound": bound})
    return measured, step


def _neighbours(g: Graph, out: Graph, node: Node) -> None:
    v: Neighbours = node.attrs["vectors"]
    qy = quant(out, node.outputs[0])
    measured, step = _distances(out, node, v)
    same = bool((v.value == v.value[0]).all())
    unit = max(float(np.abs(v.value).max()), 1e-30) / (CERTAIN if same else VALUE_MOST)
    unit = step if v.weights == vectors.REACH else unit  # that of distances
    value = np.clip(np.rint(v.value / unit), -VALUE_MOST, VALUE_MOST).astype(np.int16)
    mult, shift = quantise_multiplier(np.array([unit / 256 / qy.scale]))
    params = {"k": v.k, "kind": v.weights, "mult": int(mult[0]), "shift": int(shift[0]), **act(qy, OPEN)}
    emit(out, node, "nearest_s8", measured.outputs, [v.target.astype(np.uint16), value], params)


def _ends(m: Machine) -> tuple[float, float]:
    """Return the range of distances of a machine's table: the points' own and some room, without what is flat."""
    each = [reference.distances(replace(m, factor=np.ones_like(p), shift=np.zeros_like(p)), p) for p in m.points]
    low, high = min(float(d.min()) for d in each), max(float(d.max()) for d in each)
    if m.measure == vectors.PRODUCTS:
        middle, half = (low + high) / 2, max((high - low) / 2, 1e-30)
        low, high = middle - ROOM * half, middle + ROOM * half
    else:
        low, high = 0.0, max(high * ROOM**2, 1e-30)
    at = np.linspace(low, high, 4097)
    for _ in range(3):  # the narrower, the better is it known where it ends
        y = reference.curve(m, at)
        flat = FLAT * float(np.abs(y).max())
        left, right = (int(np.argmax(np.abs(v - v[0]) > flat)) for v in (y, y[::-1]))
        at = np.linspace(at[max(left - 1, 0)], at[min(len(at) - right, len(at) - 1)], 4097)
    return float(at[0]), max(float(at[-1]), float(at[0]) + 1e-30)


def _machine(g: Graph, out: Graph, node: Node) -> None:
    m: Machine = node.attrs["vectors"]
    qy = quant(out, node.outputs[0])
    measured, step = _distances(out, node, m)
    unit_of_distance = step ** (1 if m.measure == vectors.SUM else 2)
    low, high = _ends(m)
    in_mult, in_shift = quantise_multiplier(np.array([unit_of_distance * 65535 / (high - low)]))
    at = np.arange(vectors.PARTS + 1) * 256 / 65535 * (high - low)
    real = reference.curve(m, low + at)
    unit = max(float(np.abs(real).max()), 1e-30) / vectors.TABLE_MOST
    factor = max(float(np.abs(m.factors).max()), 1e-30) / FACTOR_MOST
    factors = np.rint(m.factors / factor).astype(np.int64)
    sums = np.abs(factors).sum(axis=0) * vectors.TABLE_MOST
    down = 0
    while float((sums / 2.0**down + np.abs(m.bias) / (unit * factor * 2.0**down)).max()) >= 2.0**30:
        down += 1
    size = unit * factor * 2.0**down
    mult, shift = quantise_multiplier(np.array([size / qy.scale]))
    origin = int(np.rint(-low * 65535 / (high - low)))
    params = {"in_mult": int(in_mult[0]), "in_shift": int(in_shift[0]), "in_offset": origin, "down": down}
    params |= {"mult": int(mult[0]), "shift": int(shift[0]), **act(qy, OPEN)}
    bias = np.rint(m.bias / size).astype(np.int32)
    blobs: list[np.ndarray] = [np.rint(real / unit).astype(np.int32), factors.astype(np.int16), bias]
    emit(out, node, "machine_s8", measured.outputs, blobs, params)


STEPS = {"Neighbours": _neighbours, "Machine": _machine}
