"""Nearest neighbours and machines of support vectors: vectors and features on one grid of 16 bits or less, then what follows."""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.vectors import Machine, Neighbours, Vectors
from mica.kernels import vectors
from mica.quantise.kernels.common import act, emit, quant
from mica.quantise.kernels.tabular import OPEN, place
from mica.quantise.multiplier import quantise_multiplier
from mica.quantise.params import INDEX_QUANT
from mica.quantise.ranges import grid
from mica.reference.vectors import function

ROOM = 1.5  # times as far as the vectors lie from their middle, a feature may lie from it
NOTHING = 12.0  # exp(-12) times a coefficient is nothing beside others
FLAT = 5.0  # tanh is 1 from here on
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
    step = ROOM * reach / bound
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
    shape = (*out.value(node.inputs[0]).shape[:-1], count)
    name = out.new_value(f"{node.outputs[0]}.distances", shape, "int32")
    out.value(name).quant = INDEX_QUANT
    measured = Node(node.op, f"{node.name}.distances", list(node.inputs), [name], {})
    blobs: list[np.ndarray] = [np.ascontiguousarray(points.T), scale, exponent, offset, missing]
    emit(out, measured, "distances_s8", node.inputs[:1], blobs, {"kind": v.measure, "bound": bound})
    return measured, step


def _neighbours(g: Graph, out: Graph, node: Node) -> None:
    v: Neighbours = node.attrs["vectors"]
    qy = quant(out, node.outputs[0])
    measured, _ = _distances(out, node, v)
    same = bool((v.value == v.value[0]).all())
    unit = max(float(np.abs(v.value).max()), 1e-30) / (CERTAIN if same else VALUE_MOST)
    value = np.rint(v.value / unit).astype(np.int16)
    mult, shift = quantise_multiplier(np.array([unit / 256 / qy.scale]))
    params = {"k": v.k, "kind": v.weights, "mult": int(mult[0]), "shift": int(shift[0]), **act(qy, OPEN)}
    emit(out, node, "nearest_s8", measured.outputs, [v.target.astype(np.uint16), value], params)


def _ends(m: Machine) -> tuple[float, float]:
    """The range over which a machine's function is tabulated."""
    if m.function == "exp":
        return -NOTHING, 0.0
    if m.function == "tanh":
        return -FLAT, FLAT
    low, high = np.inf, -np.inf
    for p in m.points:
        t = m.slope * (m.points * p).sum(axis=1) + m.origin
        low, high = min(low, float(t.min())), max(high, float(t.max()))
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-30)
    return middle - ROOM * half, middle + ROOM * half


def _machine(g: Graph, out: Graph, node: Node) -> None:
    m: Machine = node.attrs["vectors"]
    qy = quant(out, node.outputs[0])
    measured, step = _distances(out, node, m)
    low, high = _ends(m)
    slope = m.slope * step ** (1 if m.measure == vectors.SUM else 2)
    back = slope < 0  # the table runs the other way
    inward = abs(slope) * 65535 / (high - low)
    origin = (high - m.origin if back else m.origin - low) * 65535 / (high - low)
    in_mult, in_shift = quantise_multiplier(np.array([inward]))
    at = np.arange(vectors.PARTS + 1) * 256 / 65535 * (high - low)
    real = function(m, high - at if back else low + at)
    unit = max(float(np.abs(real).max()), 1e-30) / vectors.TABLE_MOST
    factor = max(float(np.abs(m.factors).max()), 1e-30) / FACTOR_MOST
    factors = np.rint(m.factors / factor).astype(np.int64)
    sums = np.abs(factors).sum(axis=0) * vectors.TABLE_MOST
    down = 0
    while float((sums / 2.0**down + np.abs(m.bias) / (unit * factor * 2.0**down)).max()) >= 2.0**30:
        down += 1
    size = unit * factor * 2.0**down
    mult, shift = quantise_multiplier(np.array([size / qy.scale]))
    params = {"in_mult": int(in_mult[0]), "in_shift": int(in_shift[0]), "in_offset": int(np.rint(origin)), "down": down}
    params |= {"mult": int(mult[0]), "shift": int(shift[0]), **act(qy, OPEN)}
    bias = np.rint(m.bias / size).astype(np.int32)
    blobs: list[np.ndarray] = [np.rint(real / unit).astype(np.int32), factors.astype(np.int16), bias]
    emit(out, node, "machine_s8", measured.outputs, blobs, params)


STEPS = {"Neighbours": _neighbours, "Machine": _machine}
