"""Recurrent layers: int8 weights per gate and unit, and the units in which the kernel's int16 numbers count.

A gate is in 2^-14. The argument of a function is in 2^-15 of the reach of its table, which ends where the function is
flat, or where the calibration saw no more. The state is in a power of two, so that layers share their tables; with
that of an LSTM comes room for half as much again as the calibration saw.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.format.weights import INT8
from mica.ir.graph import Graph, Node, Quant
from mica.kernels.recurrent import CARRIED, STATE_MOST
from mica.quantise.groups import real_range
from mica.quantise.histogram import Range
from mica.quantise.kernels.common import emit, quant
from mica.quantise.kernels.linear import given_integers
from mica.quantise.kernels.movement import requantised
from mica.quantise.kernels.wide_moves import BYTES
from mica.quantise.params import from_range, quantise_multiplier
from mica.reference.functions import ceil_log2, floor_log2
from mica.reference.recurrent import FAR, Activation

CELLS = {"simple": 0, "lstm": 1, "gru": 2, "gru_after": 3}
GATE = 2.0**-14  # one step of a gate
FINE = 128  # steps of the inner hidden state in one of the output
ROOM = 1.5  # of the cell state beyond what was seen
FLAT = 2.0**-10  # a function this close to its limit has reached it
WIDEST = 2.0**10  # reach of a table
MOST_FACTOR = 2.0**30
MOST_BIAS = 2.0**28  # in steps of its product; as for convolutions
MOST_SUM = 1.5 * 2.0**30  # of a product, so that the bias and the rounding of weights have room beside it


def _recurrent(g: Graph, out: Graph, node: Node) -> None:
    attrs, (x, *initial) = node.attrs, node.inputs[:-5]
    y, *more = node.outputs
    lstm = attrs["cell"] == "lstm"
    if "carried" in attrs:
        _carried(g, out, node)
        return
    qx, qy, inner = (quant(out, name) for name in (x, y, (more or [y])[0]))
    unit = qy.scale / FINE
    ends: list[tuple[str, int]] = [(y, 0)]
    if more:
        del out.values[more[0]]  # only its range is needed
    if lstm:
        largest = real_range(inner)
        unit = 2.0 ** ceil_log2(max(-largest.low, largest.high) * ROOM / STATE_MOST)
        ends = [(o, k) for k, o in enumerate((y, *more[1:])) if (o in g.outputs or any(o in n.inputs for n in g.nodes))]
        if (y, 0) not in ends:
            del out.values[y]
    tables, reaches, cell_shift, output_shift = _tables(attrs, unit, qy)
    terms, matrix, shifts, peepholes = _constants(g, node, qx, qy, reaches, unit)
    states = [requantised(g, out, node, s, qy) for s in initial[:1]]
    in_mult, in_shift = 0, 0
    if len(initial) > 1:
        states.append(_cell_state(g, out, initial[1]))
        in_mult, in_shift = _multiplier(quant(out, states[1]).scale / unit)
    for name, result in ends:
        out_mult, out_shift = _multiplier(unit / quant(out, name).scale) if result else (0, 0)
        params = {"result": result, "hidden_zero": qy.zero_point, "out_mult": out_mult, "out_shift": out_shift}
        params |= {"peepholes": int(peepholes), "cell_shift": cell_shift, "output_shift": output_shift}
        params |= {"in_mult": in_mult, "in_shift": in_shift} | _kind(attrs)
        blobs = [matrix, terms, shifts, *tables]
        emit(out, Node(node.op, node.name, [], [name]), "recurrent_s8", [x, *states], blobs, params)


def _kind(attrs: Mapping[str, Any]) -> dict[str, int]:
    lstm = attrs["cell"] == "lstm"
    return {
        "cell": CELLS[attrs["cell"]],
        "reverse": int(attrs["reverse"]),
        "coupled": int(attrs["coupled"] and lstm),
    }


def _carried(g: Graph, out: Graph, node: Node) -> None:
    """One step; its output is the last states, as bytes, and what is read as int8. Their names are views of it."""
    x, *initial = node.inputs[:-5]
    y, inner, *ends = node.outputs
    del out.values[inner]
    qx, qy, unit = quant(out, x), quant(out, y), quant(out, ends[-1]).scale
    hidden = inner_hidden(node, {name: quant(out, name) for name in (y, *ends)})
    tables, reaches, cell_shift, output_shift = _tables(node.attrs, unit, hidden)
    terms, matrix, shifts, peepholes = _constants(g, node, qx, hidden, reaches, unit)
    rows, batch, units = g.value(y).shape
    states = []
    for name in initial:
        states.append(out.new_value(f"{name}.bytes", (1, batch, 2 * units), "int8"))
        out.value(states[-1]).quant = BYTES
        out.nodes.append(Node("Reshape", node.name, [name], [states[-1]]))
    whole = out.new_value(f"{y}.all", (2 * len(ends) + rows, batch, units), "int8")
    out.value(whole).quant = qy
    out_mult, out_shift = _multiplier(hidden.scale / FINE / qy.scale)
    params = {"result": CARRIED, "hidden_zero": 0, "out_mult": out_mult, "out_shift": out_shift}
    params |= {"peepholes": int(peepholes), "cell_shift": cell_shift, "output_shift": output_shift}
    params |= {"in_mult": 0, "in_shift": 0} | _kind(node.attrs)
    emit(
        out,
        Node(node.op, node.name, [], [whole]),
        "recurrent_s8",
        [x, *states],
        [matrix, terms, shifts, *tables],
        params,
    )
    for k, name in enumerate((*ends, y)):
        out.nodes.append(Node("View", node.name, [whole], [name], {"offset": 2 * k * batch * units}))


def inner_hidden(node: Node, quants: Mapping[str, Quant]) -> Quant:
    """The scale whose FINE-ths a hidden state counts in: of the output, or of the state that is handed on."""
    return Quant(quants[node.outputs[2]].scale * FINE, 0) if "carried" in node.attrs else quants[node.outputs[0]]


def _multiplier(factor: float) -> tuple[int, int]:
    mult, shift = quantise_multiplier(np.array(factor))
    return int(mult), int(shift)


def _cell_state(g: Graph, out: Graph, name: str) -> str:
    """The initial cell state, which keeps its own scale; a constant is kept in the file."""
    data = g.data(name)
    if data is None:
        return name
    q = from_range(Range(float(data.min()), float(data.max())))
    constant = out.new_const(name, q.quantise(data))
    out.values[constant].quant = q
    return constant


def reach(f: Activation, most: float) -> float:
    """Half the width of the table of a function: to where it is flat, or to twice the largest result expected of it."""
    r = 1.0
    while r < WIDEST:
        ends = np.array([-r, r])
        if np.abs(f(ends) - f(np.sign(ends) * FAR)).max() < FLAT:
            return r
        r *= 2
    return 2.0 ** ceil_log2(max(2 * most, 16.0))


def table(f: Activation, reach: float, unit: float) -> np.ndarray:
    """int16 [257]: f in `unit` at the ends of 256 intervals from -reach to reach; its limits where it is flat there."""
    v = np.linspace(-reach, reach, 257)
    real = np.asarray(f(v), np.float64)
    limits = np.asarray(f(np.array([-FAR, FAR])), np.float64)
    for k, limit in ((0, limits[0]), (-1, limits[1])):
        if abs(real[k] - limit) < FLAT:
            real[k] = limit
    return np.clip(np.rint(real / unit), -STATE_MOST, STATE_MOST).astype(np.int16)


def _tables(attrs: dict, unit: float, qy: Quant) -> tuple[list[np.ndarray], dict[str, float], int, int]:
    """(gate, candidate and output table, empty where the cell has none; their reaches; cell_shift; output_shift)."""
    none = np.zeros(0, np.int16)
    candidate = attrs["candidate"]
    reaches = {"candidate": reach(candidate, STATE_MOST * unit)}
    tables = [none, table(candidate, reaches["candidate"], unit), none]
    if attrs["cell"] != "simple":
        gate = attrs["gate"]
        if np.abs(gate(np.array([-FAR, FAR]))).max() >= 2:
            raise ValueError(f"the function of its gates, {gate.name}, has no limit; use a sigmoid")
        reaches["gate"] = reach(gate, 1.0)
        tables[0] = table(gate, reaches["gate"], GATE)
    if attrs["cell"] != "lstm":
        return tables, reaches, 0, 0
    output, wide, fine = attrs["output"], 32768 * unit, qy.scale / FINE  # wide: what the cell state can hold
    cell_shift = int(np.clip(floor_log2(wide / reach(output, wide)), 0, 15))
    # A hidden state is a part of what the table gives, which may be larger than it ever is: there is room in 2^-14.
    largest = float(np.abs(output(np.array([-wide, wide]))).max())
    output_shift = int(np.clip(math.ceil(math.log2(max(largest / (STATE_MOST * fine), 1.0)) - 1e-3), 0, 13))
    tables[2] = table(output, wide / 2**cell_shift, fine * 2**output_shift)
    return tables, reaches, cell_shift, output_shift


def _constants(
    g: Graph, node: Node, qx: Quant, qy: Quant, reaches: dict[str, float], unit: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """(terms, matrix [G*H,I+H], shifts, whether there are peepholes)."""
    w, r, bias, recurrent_bias, peep = (np.asarray(g.data(i), np.float64) for i in node.inputs[-5:])
    if not all(np.all(np.isfinite(a)) for a in (w, r, bias, recurrent_bias, peep)):
        raise ValueError("weights or bias hold NaN or infinity")
    units = r.shape[1]
    gates = len(r) // units
    given = node.attrs.get("weight_steps", (None, None))
    steps = np.full(gates, reaches.get("gate", reaches["candidate"]))
    steps[-1] = reaches["candidate"]
    steps = np.repeat(steps / 32768, units)  # of the argument of each row's function
    made = [part.quantised(k) for part, k in zip(parts(g, node, qx, qy), given, strict=True)]
    factors = np.stack([scale / steps for _, _, scale in made])
    peep = peep * (unit / steps[:units])
    with_peepholes = node.attrs["cell"] == "lstm" and bool(np.any(peep))
    largest = factors.max(axis=0)
    if with_peepholes:
        i, o, f = (slice(k * units, (k + 1) * units) for k in range(3))
        for rows, p in zip((i, o, f), np.abs(peep), strict=True):
            largest[rows] = np.maximum(largest[rows], p)
    _, exponent = np.frexp(np.maximum(largest, 1e-30))
    shifts = np.clip(30 - exponent, 1, 60)
    if np.any(np.rint(largest * 2.0**shifts) >= MOST_FACTOR):
        shifts = np.clip(shifts - 1, 1, 60)
        if np.any(np.rint(largest * 2.0**shifts) >= MOST_FACTOR):
            raise ValueError(f"a scale ratio of {largest.max():.3g} is too large to compute with")
    scaled = np.rint(factors * 2.0**shifts)
    terms = [made[0][1], made[1][1], scaled.reshape(-1)]
    if with_peepholes:
        terms.append(np.rint(peep * 2.0 ** shifts[: 3 * units].reshape(3, units)).reshape(-1))
    matrix = np.concatenate([made[0][0], made[1][0]], axis=1)
    return np.concatenate(terms).astype(np.int32), matrix.astype(np.int8), shifts.astype(np.int8), with_peepholes


@dataclass(frozen=True)
class Part:
    """One of the two products of a layer: its weights [G*H, K], its bias [G*H], the scale of what is multiplied."""

    weights: np.ndarray
    bias: np.ndarray
    q: Quant
    most: int  # largest integer that the weights meet

    @property
    def steps(self) -> np.ndarray:
        """Return the step of each row's weights: the largest weight becomes the type's largest. Rows so long that their
        sum could leave the int32 get coarser weights."""
        scale = np.abs(self.weights).max(axis=1) / INT8.largest
        scale = np.maximum(scale, np.abs(self.bias) / (self.q.scale * MOST_BIAS))
        scale = np.maximum(scale, self.most * (np.abs(self.weights).sum(axis=1)) / MOST_SUM)
        return np.where(scale > 0, scale, 1.0)

    def folded(self, steps: np.ndarray, integers: np.ndarray) -> np.ndarray:
        """The bias in steps of the product, with the zero point in it."""
        return np.asarray(np.rint(self.bias / (self.q.scale * steps)) - self.q.zero_point * integers.sum(axis=1))

    def sums(self, steps: np.ndarray, integers: np.ndarray) -> np.ndarray:
        """Largest possible sum of each row."""
        return np.asarray(np.abs(self.folded(steps, integers)) + self.most * np.abs(integers).sum(axis=1))

    def fits(self, steps: np.ndarray, integers: np.ndarray) -> bool:
        """True if all sums fit an int32."""
        return bool(np.all(self.sums(steps, integers) < 2.0**31))

    def quantised(self, steps: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(integers, folded bias, real value of one step of the product) of each row; steps: where the weights
        have them, kept where the sums then fit."""
        integers = None if steps is None else given_integers(self.weights, steps).astype(np.float64)
        if steps is None or integers is None or not self.fits(steps, integers):
            steps = self.steps
            integers = INT8.round(self.weights / steps[:, None])
        if not self.fits(steps, integers):
            worst = int(np.argmax(self.sums(steps, integers)))
            raise ValueError(f"sums of row {worst} do not fit 32 bits; its layer is too wide")
        return integers, self.folded(steps, integers), self.q.scale * steps


def parts(g: Graph, node: Node, qx: Quant, qy: Quant) -> list[Part]:
    """The two products of a layer: x's and the hidden state's. qy: of the hidden states that leave the layer."""
    w, r, bias, recurrent_bias, _ = (np.asarray(g.data(i), np.float64) for i in node.inputs[-5:])
    own = np.zeros(len(r), bool)
    if node.attrs["cell"] == "gru_after":
        own[2 * r.shape[1] :] = True  # its recurrent bias is multiplied by the reset gate; elsewhere both are one
    return [
        Part(w, np.where(own, bias, bias + recurrent_bias), qx, 128),
        Part(r, np.where(own, recurrent_bias, 0.0), Quant(qy.scale / FINE, 0), STATE_MOST),
    ]


STEPS = {"Recurrent": _recurrent}
