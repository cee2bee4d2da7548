"""Recurrent layers over whole sequences."""

from collections.abc import Sequence

import numpy as np

from mica.format.schema import MAX_BYTES, MULT_MAX, MULT_MIN, SHIFT_MAX, SHIFT_MIN
from mica.format.values import clip_s8
from mica.kernels.base import Cost, Kernel, Shapes, Step, Tensor, Tensors
from mica.kernels.integers import Array, Blobs, Output, Params, dot, int32, requantise
from mica.kernels.rules import INT32_LIMIT, Broken, require, within

GATES = (1, 4, 3, 3)  # of a simple cell, an LSTM, and both kinds of GRU
LSTM = 1
TABLE = 257  # entries: the ends of 256 intervals
CARRIED = 2  # result: states come and go as they are inside
STATE_MOST = 32767  # of a hidden state, inside
_RECURRENT_NUMBERS = ("cell_shift", "output_shift", "hidden_zero", "in_mult", "in_shift", "out_mult", "out_shift")


def ahead(p: Params) -> int:
    """Rows of y that hold the last states, two bytes each."""
    return 0 if p["result"] != CARRIED else 4 if p["cell"] == LSTM else 2


def _recurrent_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    require(
        len(x[0].dims) == len(y.dims) == 3, f"input {list(x[0].dims)} and output {list(y.dims)}; expected 3 dimensions"
    )
    time, batch, n = x[0].dims
    rows, batches, units = y.dims
    rows -= ahead(p)
    require(batches == batch and rows in (1, time), f"input {list(x[0].dims)} does not make {list(y.dims)}")
    within(p, cell=(0, 3), result=(0, 2), cell_shift=(0, 15), output_shift=(0, 13))
    within(p, reverse=(0, 1), coupled=(0, 1), peepholes=(0, 1))
    lstm = p["cell"] == LSTM
    require(
        lstm or not (len(x) > 2 or p["result"] == 1 or p["coupled"] or p["peepholes"]),
        "only an LSTM has a cell state, peepholes and coupled gates",
    )
    require(p["result"] != 1 or rows == 1, f"the cell state makes one row, not {rows}")
    within(p, hidden_zero=(-128, 127))
    require(bool(p["result"]) or p["hidden_zero"] == y.zero_point, "hidden_zero is not the output's zero point")
    state = (1, batch, units * (2 if p["result"] == CARRIED else 1))
    for t in x[1:]:
        require(t.dims == state, f"an initial state of shape {list(t.dims)}; expected {list(state)}")
    require(
        len(x) < 2 or p["result"] == CARRIED or x[1].zero_point == p["hidden_zero"],
        "the initial state's zero point is not hidden_zero",
    )
    for name in ("in", "out"):
        mult, shift = p[f"{name}_mult"], p[f"{name}_shift"]
        sound = MULT_MIN <= mult <= MULT_MAX and SHIFT_MIN <= shift <= SHIFT_MAX
        require(sound, f"{name}_mult is {mult}, {name}_shift {shift}")
    channels = GATES[p["cell"]] * units
    require(channels * (n + units) <= MAX_BYTES, "too many weights")
    terms = 4 * channels + p["peepholes"] * 3 * units
    tables = {"gate": p["cell"] > 0, "candidate": True, "output": lstm}
    sizes = {name: (TABLE if there else 0,) for name, there in tables.items()}
    return {"matrix": (channels, n + units), "terms": (terms,), "shifts": (channels,)} | sizes


def _recurrent_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    matrix, channels = blobs["matrix"], len(blobs["matrix"])
    bias, factors = blobs["terms"][: 4 * channels].astype(np.int64).reshape(2, 2, channels)
    for part, b, most in ((matrix[:, : x[0].dims[2]], bias[0], 128), (matrix[:, x[0].dims[2] :], bias[1], STATE_MOST)):
        bound = np.abs(b) + most * np.abs(part.astype(np.int64)).sum(axis=1)
        for i in np.flatnonzero(bound >= INT32_LIMIT)[:1]:
            raise Broken(f"row {i} can reach {bound[i]}; expected |bias| + {most} * sum|w| < 2**31")
    require(bool(((factors >= 0) & (factors < 2**30)).all()), "a factor outside 0 to 2**30 - 1")
    require(bool(((blobs["shifts"] >= 1) & (blobs["shifts"] <= 60)).all()), "a shift outside 1 to 60")
    for name in ("gate", "candidate", "output"):
        require(bool((blobs[name] >= -STATE_MOST).all()), f"the {name} table holds -32768")


def _look_up(table: Array, v: Array) -> Array:
    """A function, linear between the entries of its table: entry k stands for v = 256 * (k - 128)."""
    at = np.clip(v, -32768, 32767) + 32768
    a, b = table[at >> 8], table[(at >> 8) + 1]
    out: Array = a + (((b - a) * (at & 255) + 128) >> 8)
    return out


def _initial(xs: Sequence[Array], p: Params, q: Output, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Hidden and cell states [B,H] to begin with."""
    given = [x[0] for x in xs[1:]]
    if p["result"] == CARRIED:
        given = [np.ascontiguousarray(x).view("<i2").astype(np.int64) for x in given]
    else:
        given = [x.astype(np.int64) - zero for x, zero in zip(given, (p["hidden_zero"], q.b_zero), strict=False)]
        given = [128 * given[0], *(requantise(c, p["in_mult"], p["in_shift"]) for c in given[1:])] if given else []
    hidden, cell, *_ = (
        np.clip(x, -STATE_MOST, STATE_MOST) for x in (*given, np.zeros(shape, int), np.zeros(shape, int))
    )
    return hidden, cell


def _recurrent_counts(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    time, batch, size = xs[0].dims
    gates_hidden, width = step.blobs["matrix"].shape
    hidden = width - size
    turns = float(time * batch)
    return f"cell {step.params['cell']}", {
        "turn": turns,
        "gate": turns * gates_hidden,
        "hidden": turns * hidden,
        "mac": turns * gates_hidden * width,
    }


@Kernel(
    id=24,
    n_inputs=3,
    blobs=(
        ("matrix", "i8"),
        ("terms", "i32"),
        ("shifts", "i8"),
        ("gate", "i16"),
        ("candidate", "i16"),
        ("output", "i16"),
    ),
    params=("cell", "reverse", "result", "coupled", "peepholes", *_RECURRENT_NUMBERS),
    min_inputs=1,
    group="matmul",
    rules=_recurrent_rules,
    constants=_recurrent_constants,
    macs=lambda xs, y, blobs: int(blobs["matrix"].size) * xs[0][0] * xs[0][1],  # every row at every time step
    scratch_min=lambda out_channels: 6 * out_channels,  # three states of each unit, 16 bits each
    counts=_recurrent_counts,
)
def recurrent_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """A recurrent layer over a whole sequence: cell 0 simple, 1 LSTM, 2 GRU, 3 GRU that resets after the product; see
    the notes. x [T,B,I], from T - 1 down with reverse; then the initial hidden state, and cell state, [1,B,H], 0 where
    absent. y [T,B,H] is every hidden state, y [1,B,H] the last one, or with result 1 the last cell state. With result 2
    initial states are int16 as bytes [1,B,2*H], and the last ones stand in front of y, hidden first: y [2+T,B,H], of an
    LSTM [4+T,B,H]. matrix [G*H,I+H], G gates: of an LSTM i, o, f, c, of a GRU z, r, h. terms [4,G*H]: bias and factor
    of the input's and of the recurrent product, in the order bias, bias, factor, factor, then with peepholes [3,H] for
    i, o, f. shifts [G*H]. The tables gate, candidate, output [257]: a GRU has no output table, a simple cell no gate
    table either. Needs scratch."""
    x, (rows, batch, units) = xs[0], q.dims
    gates = (1, 4, 3, 3)[p["cell"]]
    simple, lstm, before = p["cell"] == 0, p["cell"] == 1, p["cell"] == 2
    matrix, shifts = blobs["matrix"], blobs["shifts"].astype(np.int64).reshape(gates, units)
    terms = blobs["terms"][: 4 * gates * units].astype(np.int64).reshape(2, 2, gates, units)
    peep = blobs["terms"][4 * gates * units :].astype(np.int64).reshape(-1, units)
    gate, candidate, output = (blobs[n].astype(np.int64) for n in ("gate", "candidate", "output"))
    zero, carried, front = p["hidden_zero"], p["result"] == CARRIED, ahead(p)
    rows -= front

    def part(k: int, a: Array) -> Array:
        """The product of x (k = 0) or the hidden state (k = 1) with its weights [B,G,H], times its factors."""
        w = matrix[:, : x.shape[2]] if k == 0 else matrix[:, x.shape[2] :]
        return int32(terms[0, k] + dot(a, w).reshape(batch, gates, units)) * terms[1, k]

    def drive(g: int, v: Array) -> Array:
        out: Array = (v + (np.int64(1) << (shifts[g] - 1))) >> shifts[g]
        return out

    def state(v: Array) -> Array:
        return np.clip(v, -32767, 32767)

    def gated(gate: Array, v: Array, shift: int = 14) -> Array:
        return state(int32(gate * v + (1 << (shift - 1))) >> shift)

    def finish(h: Array) -> Array:
        if carried:
            return clip_s8(q.y_zero + requantise(h, p["out_mult"], p["out_shift"]))
        return clip_s8(zero + ((h + 64) >> 7))

    hidden, cell = _initial(xs, p, q, (batch, units))
    y = np.zeros(q.dims, np.int8)
    for t in range(len(x))[:: -1 if p["reverse"] else 1]:
        a, b = part(0, x[t]), part(1, hidden)
        s = a + b  # [B,G,H]
        if simple:
            hidden = _look_up(candidate, drive(0, s[:, 0]))
        elif lstm:
            inside, outside = (cell * peep[k] if len(peep) else 0 for k in (0, 2))
            opened = _look_up(gate, drive(0, s[:, 0] + inside))
            new = _look_up(candidate, drive(3, s[:, 3]))
            if p["coupled"]:
                cell = cell + (int32(opened * (new - cell) + (1 << 13)) >> 14)
            else:
                kept = _look_up(gate, drive(2, s[:, 2] + outside))
                cell = int32(kept * cell + opened * new + (1 << 13)) >> 14
            cell = state(cell)
            shown = _look_up(gate, drive(1, s[:, 1] + (cell * peep[1] if len(peep) else 0)))
            hidden = gated(shown, _look_up(output, cell << p["cell_shift"]), 14 - p["output_shift"])
        else:
            reset, update = _look_up(gate, drive(1, s[:, 1])), _look_up(gate, drive(0, s[:, 0]))
            again = part(1, gated(reset, hidden))[:, 2] if before else (b[:, 2] >> 14) * reset
            new = _look_up(candidate, drive(2, a[:, 2] + again))
            hidden = state(new + (int32(update * (hidden - new) + (1 << 13)) >> 14))
        if rows > 1:
            y[front + t] = finish(hidden)
    if carried:
        last = np.stack([hidden, cell][: front // 2]).astype("<i2")
        y[:front] = last.view(np.int8).reshape(front, batch, units)
    if p["result"] == 1:
        y[0] = clip_s8(q.y_zero + requantise(cell, p["out_mult"], p["out_shift"]))
    elif rows == 1:
        y[front] = finish(hidden)
    return y


KERNELS = (recurrent_s8,)
