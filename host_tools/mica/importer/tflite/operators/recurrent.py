"""Layers with a state, which lives from run to run as the file's variable tensors do; 0 at first.

SVDF(x [1,I], feature weights [F,I], time weights [F,T], bias [F / rank], state [1,F*T])
    =>   v = FullyConnected(x); s' = s without its oldest row, and v; y = Conv(s', time weights, group=F / rank)
UNIDIRECTIONAL_SEQUENCE_LSTM(x, weights of four gates, h, c)
    =>   y, h', c' = LSTM(x, h, c) {cell_scale: of c, where the file has one; cell_bits: 16 where it may stay int16}
"""

import math

import numpy as np

from mica.format.values import saturate
from mica.importer.tflite import schema
from mica.importer.tflite.net import TO_NCHW, Grid8, Net
from mica.importer.tflite.operators.form import Form, Op
from mica.importer.tflite.operators.movement import cut
from mica.importer.tflite.operators.weights import bias_of, weights_of

# Converters write a clip of 10 for every LSTM. tanh of 10 is 1 to eight places: beyond it the output does not change.
IDLE_CLIP = 10.0
COARSE = 258  # steps of int16 in one of int8: 127 of these are all of them
# Inputs of UNIDIRECTIONAL_SEQUENCE_LSTM. The four of a gate stand in the order input, forget, cell, output.
WEIGHTS, RECURRENT, PEEPHOLES, BIASES, PROJECTION, HIDDEN, CELL, NORMS = 1, 5, 9, 12, 16, 18, 19, 20
GATES = ("input", "forget", "cell", "output")
ONNX_ORDER = ("input", "output", "forget", "cell")


def _svdf(net: Net, op: Op) -> None:
    x, features, times, state = (op.i(k) for k in (0, 1, 2, 4))
    (filters, size), (rows, memory) = _matrix(net, features), _matrix(net, times)
    rank = op.integer("rank")
    if rank < 1 or rows != filters or filters % rank or math.prod(net.shape(x)) != size:
        raise ValueError(f"weights of {list(net.shape(features))} and {list(net.shape(times))}, rank {rank}")
    if math.prod(net.shape(op.y)) != filters // rank or math.prod(net.shape(state)) != filters * memory:
        raise ValueError(f"a state of {list(net.shape(state))} for {filters} filters of {memory}")
    if not net.tensor(state).variable:
        raise ValueError("a state that is no variable")
    net.wide = net.tensor(state).dtype == "int16"
    grid = net.grid16(state) or net.grid(state)
    weights, _ = weights_of(net, features, (0, 1))
    v = net.rounded(net.node("Gemm", [net.reshape(net.x(x), (1, size)), weights], transB=1), grid)
    v = net.reshape(v, (1, 1, 1, filters))
    if memory > 1:
        before, behind = net.add_state(f"{net.name(op.y)}.rows", (1, memory - 1, 1, filters), grid)
        v = net.node("Concat", [before, v], axis=1)
        net.keep(behind, cut(net, v, 1, 1, memory))
    y, sums = _over_time(net, op, net.transpose(v, TO_NCHW), rank)
    y = net.rounded(net.activation(net.reshape(y, net.shape(op.y)), op["activation"]), sums)
    net.done(op.y, y, positive=schema.ACTIVATIONS.get(op.integer("activation"), "") in ("RELU", "RELU6"))


def _over_time(net: Net, op: Op, v: str, rank: int) -> tuple[str, Grid8 | None]:
    """The sums of v [1, filters, memory, 1] over memory and rank, times the time weights,
    and the bias: one of each unit.

    Time weights of int16 are two products of int8, w = COARSE * high + low, with sums of int16.
    """
    times, state, bias = op.i(2), op.i(4), op.i(3)
    filters, memory = net.shape(times)
    units = filters // rank
    shape = (units, rank, memory, 1)

    def product(kernel: str, *more: str) -> str:
        return net.node("Conv", [v, kernel, *more], group=units, kernel_shape=[memory, 1])

    t, whole = net.tensor(times), net.grid(op.y)
    if t.dtype != "int16" or t.data is None or t.grid is None or t.grid.scale.size > 1 or whole is None:
        weights, scales = weights_of(net, times, (0, 1))
        if rank > 1 and scales is not None and scales.size > 1:
            raise ValueError("a scale for each row of time weights of a rank above 1")
        return product(net.reshape(weights, shape), *bias_of(net, bias, state, scales, units)), None
    q = t.data.astype(np.int64).reshape(shape)
    high = np.rint(q / COARSE)
    low = saturate(q - COARSE * high)
    sums = Grid8(max(-whole.low, whole.high) / 2**14, 0, "int16")  # twice as far as y goes
    parts = []
    for part, step in ((high, COARSE), (low, 1)):
        kernel = net.integers(part.astype(np.int8), t.grid.scale * step, np.zeros(1, np.int64), 0)
        more = bias_of(net, bias, state, t.grid.scale, units) if part is high else []
        parts.append(net.rounded(product(kernel, *more), sums))
    return net.rounded(net.node("Add", parts), sums), sums


def _matrix(net: Net, i: int) -> tuple[int, int]:
    shape = net.shape(i)
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"weights of shape {list(shape)}")
    return shape[0], shape[1]


def _lstm(net: Net, op: Op) -> None:
    x = op.i(0)
    _refuse_variants(net, op)
    time_major = bool(op["time_major"])
    if len(net.shape(x)) != 3:
        raise ValueError(f"an input of shape {list(net.shape(x))}; expected time, batch and features")
    batch = net.shape(x)[1 if time_major else 0]
    w = _gates(net, op, WEIGHTS)
    r = _gates(net, op, RECURRENT)
    units = r.shape[2]
    if w.shape != (1, len(GATES) * units, net.shape(x)[2]) or r.shape[1] != len(GATES) * units:
        raise ValueError(f"weights of {list(w.shape[1:])} and {list(r.shape[1:])} for an input of {list(net.shape(x))}")
    if any(math.prod(net.shape(op.i(k))) != batch * units for k in (HIDDEN, CELL)):
        raise ValueError(f"states of other than {batch} times {units}")
    bias = _rows(net, op, BIASES, units)
    peepholes = _rows(net, op, PEEPHOLES, units, only=("input", "forget", "output"))
    net.wide = net.wide and net.grid16(op.i(HIDDEN)) == net.grid16(op.y)  # they are the same numbers
    hidden, cell = (net.grid16(op.i(k)) or net.grid(op.i(k)) for k in (HIDDEN, CELL))
    known = {} if cell is None else {"cell_scale": cell.scale}
    if cell is not None and cell.dtype == "int16":
        known["cell_bits"] = 16
    if not net.wide and batch * units % 2 == 0:
        hidden = cell = None  # 16 bits each (passes/carried.py): finer than the file's
    (h, h_next), (c, c_next) = (
        net.add_state(f"{net.name(op.y)}.{what}", (1, batch, units), grid)
        for what, grid in (("hidden", hidden), ("cell", cell))
    )
    sequence = net.x(x) if time_major else net.transpose(net.x(x), (1, 0, 2))
    both = np.concatenate([bias, np.zeros_like(bias)]).reshape(1, -1)
    weights = [_integers(net, op, first) or net.const(real) for first, real in ((WEIGHTS, w), (RECURRENT, r))]
    inputs = [sequence, *weights, net.const(both), "", h, c, net.const(peepholes.reshape(1, -1))]
    y, y_h, y_c = net.several("LSTM", inputs, 3, hidden_size=units, **known)
    net.keep(h_next, net.rounded(y_h, hidden))
    net.keep(c_next, net.rounded(y_c, cell))
    y = net.reshape(y, (net.shape(x)[0 if time_major else 1], batch, units))  # the only direction
    net.done(op.y, y if time_major else net.transpose(y, (1, 0, 2)))


def _refuse_variants(net: Net, op: Op) -> None:
    if op.operator.inputs[NORMS:] != (-1,) * len(op.operator.inputs[NORMS:]):
        raise ValueError("layer normalisation inside of an LSTM")
    if op.i(PROJECTION) >= 0 or op["projection_clip"]:
        raise ValueError("an LSTM with a projection")
    if op["diagonal"]:
        raise ValueError("diagonal recurrent weights")
    if schema.ACTIVATIONS.get(op.integer("activation")) != "TANH":
        raise ValueError("an LSTM whose activation is not tanh")
    if 0 < op["cell_clip"] < IDLE_CLIP:
        raise ValueError(f"a cell clip of {op['cell_clip']:g}; below {IDLE_CLIP:g} it would change answers")
    if not all(op.i(k) >= 0 and net.tensor(op.i(k)).variable for k in (HIDDEN, CELL)):
        raise ValueError("states that are no variables")


def _real(net: Net, i: int) -> np.ndarray:
    """A constant as real numbers, float64."""
    t = net.tensor(i)
    data = net.data(i, "weights")
    if t.grid is None and data.dtype.kind in "iu":
        raise ValueError("weights of integers without a scale")
    if t.grid is None:
        return data.astype(np.float64)
    shape = [-1 if k == t.grid.axis else 1 for k in range(data.ndim)]
    return np.asarray((data - t.grid.zero_point.reshape(shape)) * t.grid.scale.reshape(shape))


def _gates(net: Net, op: Op, first: int) -> np.ndarray:
    """Weights of all gates in ONNX's order, float32 [1, 4 * units, n].

    Where the input gate is coupled to the forget gate, sigmoid(-z) is 1 - sigmoid(z): weights of the other sign.
    """
    found = {gate: op.i(first + k) for k, gate in enumerate(GATES)}
    parts = {gate: _real(net, i) for gate, i in found.items() if i >= 0}
    if "input" not in parts and "forget" in parts:
        parts["input"] = -parts["forget"]
    shapes = {p.shape for p in parts.values()}
    if len(parts) != len(GATES) or len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(f"weights of the shapes {sorted(shapes)} for {len(parts)} of {len(GATES)} gates")
    return np.concatenate([parts[gate] for gate in ONNX_ORDER]).astype(np.float32)[None]


def _integers(net: Net, op: Op, first: int) -> str:
    """The same as the file's int8; "" where they are not that."""
    tensors = [net.tensor(i) for i in (op.i(first + GATES.index(gate)) for gate in ONNX_ORDER) if i >= 0]
    whole = [t.data for t in tensors if t.data is not None and t.dtype == "int8"]
    grids = [t.grid for t in tensors if t.grid is not None and not t.grid.zero_point.any()]
    by_row = all(grid.axis == 0 or grid.scale.size == 1 for grid in grids)
    if not (by_row and len(whole) == len(grids) == len(GATES)):
        return ""
    q = np.concatenate(whole)
    scale = np.concatenate([np.broadcast_to(grid.scale, len(part)) for grid, part in zip(grids, whole, strict=True)])
    return net.integers(q[None], scale, np.zeros_like(q[:, 0]), 1)


def _rows(net: Net, op: Op, first: int, units: int, only: tuple[str, ...] = GATES) -> np.ndarray:
    """A number for each unit and gate in ONNX's order, float32; 0 where there are none."""
    found = {gate: op.i(first + k) for k, gate in enumerate(only)}
    parts = {gate: _real(net, i) for gate, i in found.items() if i >= 0}
    if "input" not in parts and "forget" in parts and op.i(WEIGHTS) < 0:
        parts["input"] = -parts["forget"]
    if any(p.shape != (units,) for p in parts.values()):
        raise ValueError(f"a bias or peephole of other than {units} units")
    zeros = np.zeros(units)
    order = [gate for gate in ONNX_ORDER if gate in only]
    return np.concatenate([parts.get(gate, zeros) for gate in order]).astype(np.float32)


FORMS = {
    "SVDF": Form(_svdf, "SVDFOptions", (5, 5)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Form(_lstm, "UnidirectionalSequenceLSTMOptions", (20, 24), present=1),
}
