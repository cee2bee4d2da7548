"""An LSTM of int16, its time steps one behind the other, each of them steps that other layers have.

    a = W x[t] + b, r = R h, z = a + r          conv2d_s16 twice, all gates at once, and binary_s16
    i, o, f = sigmoid(z), n = tanh(z)           lut_s16 twice
    c' = f * c + i * n, h' = o * tanh(c')       binary_s16 three times, lut_s16, binary_s16

Rounded where TensorFlow Lite Micro rounds: arguments of functions on 2^-12, what functions give on 2^-15, the rest on the file's scales. All
time steps read the same constants, which a file has once.
"""

import math
from dataclasses import dataclass

import numpy as np

from mica.format.schema import BLOB_ALIGN, MAX_INPUTS
from mica.ir.byte_pairs import Shape
from mica.ir.graph import Graph, Node, Quant
from mica.quantise.kernels.common import StepQuantiser, quant
from mica.quantise.kernels.wide import ONE_PIXEL, ideal_of, linear, looked_up, table_of
from mica.quantise.kernels.wide_composed import NO_PADS, WHOLE, Stages

ARGUMENT = Quant(2.0**-12, 0, 16)  # of a function
GATE = Quant(2.0**-15, 0, 16)  # results of a function


@dataclass(frozen=True)
class _Product:
    """Weights [4 * units, n] and a bias, the name of a constant; steps: of each row, where the weights came as integers."""

    weights: np.ndarray
    bias: str
    steps: np.ndarray | None

    def of(self, s: Stages, x: str, batch: int) -> str:
        """x [1,1,batch,n] -> the arguments of the gates [1,1,batch,4 * units]."""
        rows, n = self.weights.shape
        y = s.value("product", (1, 1, batch, rows), ARGUMENT)
        attrs = {"weight_steps": self.steps, "clip": WHOLE}
        node = Node("FullyConnected", s.node.name, [x, "", self.bias], [y], attrs)
        linear(s.g, s.out, node, x, self.weights.reshape(rows, 1, 1, n), {**ONE_PIXEL, **NO_PADS, "groups": 1})
        return y


def _lstm(g: Graph, out: Graph, node: Node) -> None:
    """Gates stand in ONNX's order: i, o, f and what is new."""
    s, (x, hidden, cell), (y, inner, *ends) = Stages(g, out, node, node.name), node.inputs[:3], node.outputs
    w, r, bias, more, _ = (np.asarray(g.data(i), np.float64) for i in node.inputs[-5:])
    time, batch, wide = g.value(x).shape
    units = r.shape[1]
    qy, qc = quant(out, y), quant(out, inner)
    del out.values[inner]  # only its scale is needed
    steps = node.attrs.get("weight_steps", (None, None))
    of_x = _Product(w, g.new_const(f"{node.name}.bias", bias + more), steps[0])
    of_hidden = _Product(r, g.new_const(f"{node.name}.no_bias", np.zeros_like(bias)), steps[1])
    sigmoid, tanh, bend = (
        table_of(ideal_of(name, (), q, GATE))[0]
        for name, q in (("sigmoid", ARGUMENT), ("tanh", ARGUMENT), ("tanh", qc))
    )
    row: Shape = (1, 1, batch, units)
    hidden, cell = s.named(s.on_grid(hidden, qy), row), s.named(s.on_grid(cell, qc), row)
    states = []
    for t in range(time):
        now = _run(s, x, t * batch * wide, (1, 1, batch, wide))
        z = s.value("sum", (1, 1, batch, 4 * units), ARGUMENT)
        s.binary(of_x.of(s, now, batch), of_hidden.of(s, hidden, batch), z, (1, 1, 0))
        gates = _function(s, _channels(s, z, 0, 3 * units), sigmoid)
        i, o, f = (_channels(s, gates, k * units, units) for k in range(3))
        new = _function(s, _channels(s, z, 3 * units, units), tanh)
        new = s.binary(i, new, s.value("new", row, qc), (0, 0, GATE.scale**2 / qc.scale))
        kept = s.binary(f, cell, s.value("kept", row, qc), (0, 0, GATE.scale))
        cell = s.binary(kept, new, s.value("cell", row, qc), (1, 1, 0))
        bent = _function(s, cell, bend)
        hidden = s.binary(o, bent, s.value("hidden", row, qy), (0, 0, GATE.scale**2 / qy.scale))
        states.append(s.named(hidden, (1, batch, units)))
    if g.value(y).shape[0] > 1:
        s.named(_joined(s, states, qy), (), y)
    else:
        s.named(hidden, (), y)
    for end in ends:
        s.named(cell, (), end)


def _function(s: Stages, x: str, table: np.ndarray) -> str:
    y = s.value("function", s.out.value(x).shape, GATE)
    looked_up(s.out, Node("", s.node.name, [x], [y]), x, table)
    return y


def _run(s: Stages, x: str, begin: int, shape: Shape) -> str:
    """Elements of x that lie side by side: in place, if a tensor may begin there."""
    y = s.value("run", shape, quant(s.out, x))
    if 2 * begin % BLOB_ALIGN:
        return s.step("StridedCopy", [x], y, begin=begin, places=((math.prod(shape), 1),))
    s.out.nodes.append(Node("View", s.node.name, [x], [y], {"offset": 2 * begin}))
    return y


def _channels(s: Stages, x: str, begin: int, n: int) -> str:
    _, _, batch, channels = s.out.value(x).shape
    if batch == 1:
        return _run(s, x, begin, (1, 1, 1, n))
    y = s.value("channels", (1, 1, batch, n), quant(s.out, x))
    return s.step("StridedCopy", [x], y, begin=begin, places=((batch, channels), (n, 1)))


def _joined(s: Stages, parts: list[str], q: Quant) -> str:
    """One behind the other, as many at a time as a step reads."""
    while len(parts) > 1:
        some = [parts[k : k + MAX_INPUTS] for k in range(0, len(parts), MAX_INPUTS)]
        parts = [part[0] if len(part) == 1 else _concat(s, part, q) for part in some]
    return parts[0]


def _concat(s: Stages, parts: list[str], q: Quant) -> str:
    shapes = [s.out.value(p).shape for p in parts]
    y = s.value("states", (sum(shape[0] for shape in shapes), *shapes[0][1:]), q)
    return s.step("Concat", parts, y, axis=0)


STEPS: dict[str, StepQuantiser] = {"Recurrent": _lstm}
