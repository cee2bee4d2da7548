"""Recurrent layers: one step for each direction, whatever the number of time steps.

y, y_h, y_c = LSTM(x, w, r, b, ...)    =>   y, y_c = Recurrent(x, w, r, b, ...); y_h = Remap(y), its last time step
y_h alone                              =>   y_h = Recurrent(x, ...), which then keeps no other time step
bidirectional                          =>   y = Concat(Recurrent(x, ...), Recurrent(x, ..., reverse))
GRU, RNN                               =>   likewise; layout 1 (batch first) with transposes, idle for batch 1
"""

from dataclasses import dataclass

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.passes.builder import Builder
from mica.passes.lower.movement import concat, remap
from mica.reference.recurrent import DEFAULTS, FUNCTIONS, GATES, Activation, bounded

CELLS = {"RNN": "simple", "LSTM": "lstm", "GRU": "gru"}
DEFAULT_ACTIVATIONS = {"RNN": ["Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}
# Positions of the inputs; W and R are 1 and 2.
BIAS, LENGTHS, HIDDEN, CELL, PEEPHOLES = 3, 4, 5, 6, 7
LARGEST = 127.5  # of what int8 holds on both sides


@dataclass
class _Direction:
    """Outputs of one direction: hidden states [T,B,H], the last one and the last cell state [1,B,H]; '' if unused."""

    states: str
    hidden: str
    cell: str


def _recurrent(g: Graph, node: Node, b: Builder) -> None:
    x = node.inputs[0]
    if g.is_const(x):
        raise ValueError("its input is constant")
    batch_first = int(node.attrs.get("layout", 0)) == 1
    if batch_first:
        x = b.transpose(x, (1, 0, 2))
    time, _, _ = b.shape(x)
    _whole_sequences(g, node, time)
    kinds = _directions(node)
    w = _constant(b, node, 1, "weights")
    if w is None or w.shape[0] != len(kinds):
        raise ValueError(f"weights for other than {len(kinds)} directions")
    read = {*g.outputs, *(i for n in g.nodes for i in n.inputs)}
    needed = [o if o in read else "" for o in (*node.outputs, "", "")[:3]]
    if not any(needed):
        return
    found = [_direction(g, node, b, x, k, reverse, needed) for k, reverse in enumerate(kinds)]
    _join_states(b, needed[0], [d.states for d in found], batch_first)
    _join_last(b, needed[1], [d.hidden for d in found], batch_first)
    _join_last(b, needed[2], [d.cell for d in found], batch_first)


def _input(node: Node, index: int) -> str:
    return node.inputs[index] if len(node.inputs) > index else ""


def _constant(b: Builder, node: Node, index: int, what: str) -> np.ndarray | None:
    name = _input(node, index)
    return np.asarray(b.constant(name, what), np.float32) if name else None


def _directions(node: Node) -> list[bool]:
    """For each direction, True if it runs from the last time step to the first."""
    direction = node.attrs.get("direction", "forward")
    known = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    if direction not in known:
        raise ValueError(f"direction '{direction}'")
    return known[direction]


def _whole_sequences(g: Graph, node: Node, time: int) -> None:
    name = _input(node, LENGTHS)
    lengths = g.data(name) if name else np.array(time)
    if lengths is None:
        raise ValueError("sequence_lens that are computed; export the model for sequences of one length")
    if np.any(lengths != time):
        found = sorted(set(lengths.reshape(-1).tolist()))
        raise ValueError(f"sequences of {found} time steps in a tensor of {time}; cut it to one length")


def _activations(node: Node, k: int, directions: int) -> list[Activation]:
    """The functions of direction k; numbers are handed out in order, to the functions that take some."""
    defaults = DEFAULT_ACTIVATIONS[node.op]
    names = [str(n).lower() for n in node.attrs.get("activations", defaults * directions)]
    if len(names) != len(defaults) * directions:
        raise ValueError(f"{len(names)} activations; needed {len(defaults) * directions}")
    alphas, betas = list(node.attrs.get("activation_alpha", [])), list(node.attrs.get("activation_beta", []))
    clip = float(node.attrs.get("clip", 0.0)) or None
    found = []
    for name in names:
        if name not in FUNCTIONS:
            raise ValueError(f"activation '{name}'; supported are {', '.join(sorted(FUNCTIONS))}")
        numbers = [float(v) for v in DEFAULTS.get(name, ())]
        for slot, given in zip(range(len(numbers)), (alphas, betas), strict=False):
            if given:
                numbers[slot] = float(given.pop(0))
        alpha, beta = (*numbers, 0.0, 0.0)[:2]
        found.append(Activation(name, alpha, beta, clip))
    return found[k * len(defaults) : (k + 1) * len(defaults)]


def _direction(g: Graph, node: Node, b: Builder, x: str, k: int, reverse: bool, needed: list[str]) -> _Direction:
    time, batch, _ = b.shape(x)
    functions = _activations(node, k, len(_directions(node)))
    constants = _constants(b, node, k)
    units = constants[1].shape[1]
    cell = CELLS[node.op]
    if node.op == "GRU" and node.attrs.get("linear_before_reset", 0):
        cell = "gru_after"
    attrs = {
        "cell": cell,
        "reverse": reverse,
        "coupled": bool(node.attrs.get("input_forget", 0)),
        "gate": functions[0] if len(functions) > 1 else None,
        "candidate": functions[1] if len(functions) > 1 else functions[0],
        "output": functions[2] if len(functions) > 2 else None,
    }
    steps = tuple(_steps(g, node.inputs[i], k) for i in (1, 2))
    if int(node.attrs.get("cell_bits", 8)) == 16 or all(s is not None for s in steps):
        attrs["weight_steps"] = steps
    inputs = [x, *_initial(g, node, b, k, batch, units)]
    names = ("weights", "recurrent", "bias", "recurrent_bias", "peepholes")
    inputs += [g.new_const(f"{node.name}.{name}", c) for name, c in zip(names, constants, strict=True)]
    every = bool(needed[0]) and time > 1
    y = b.emit("Recurrent", inputs, (time if every else 1, batch, units), attrs)
    made = b.nodes[-1]
    end = ""
    if node.op == "LSTM" or (node.op == "GRU" and not bounded(attrs)):  # the quantiser has to know what is inside
        made.outputs.append(g.new_value(f"{node.name}.range", (2, time, batch, units)))
        if scale := float(node.attrs.get("cell_scale", 0)):  # of a model that says how far the cell state goes
            g.value(made.outputs[-1]).quant = Quant(scale, 0, int(node.attrs.get("cell_bits", 8)))
    if node.op == "LSTM" and needed[2]:
        end = g.new_value(f"{node.name}.cell", (1, batch, units))
        made.outputs.append(end)
    hidden = y
    if every and needed[1]:
        hidden = remap(b, y, [(0 if reverse else time - 1, ((1, 1),)), (0, ((batch, 1),)), (0, ((units, 1),))])
    return _Direction(y, hidden, end)


def _constants(b: Builder, node: Node, k: int) -> list[np.ndarray]:
    """Weights [G*H,I], recurrent [G*H,H], both biases [G*H], peepholes [3,H] of direction k."""
    w, r = _constant(b, node, 1, "weights"), _constant(b, node, 2, "recurrent weights")
    assert w is not None and r is not None
    rows, units = r.shape[1:]
    if rows != GATES[CELLS[node.op]] * units:
        raise ValueError(f"recurrent weights of shape {list(r.shape)}")
    bias = _constant(b, node, BIAS, "a bias and its like")
    both = np.zeros((2, rows), np.float32) if bias is None else bias[k].reshape(2, rows)
    peep = _constant(b, node, PEEPHOLES, "peepholes") if node.op == "LSTM" else None
    p = np.zeros((3, units), np.float32) if peep is None else peep[k].reshape(3, units)
    return [w[k], r[k], both[0], both[1], p]


def _steps(g: Graph, name: str, k: int) -> np.ndarray | None:
    """Scales of the rows of direction k's weights, if the file has these as int8 around zero, else None."""
    value = g.value(name)
    if value.data is None or value.weight_scale is None:
        return None
    steps = np.broadcast_to(value.weight_scale, value.shape)[k]
    alike = np.all(steps == steps[:, :1]) and np.abs(value.data[k] / steps).max() < LARGEST
    return steps[:, 0] if alike else None


def _initial(g: Graph, node: Node, b: Builder, k: int, batch: int, units: int) -> list[str]:
    """Initial hidden state, and cell state, of direction k as [1,B,H]; those that are 0 anyway are left out."""
    states = [_input(node, HIDDEN)] + ([_input(node, CELL)] if node.op == "LSTM" else [])
    zero = [not s or (g.is_const(s) and not np.any(g.data(s))) for s in states]
    if all(zero):
        return []
    if len(states) > 1 and zero[1]:
        states = states[:1]
    found = []
    for s, nothing in zip(states, zero, strict=False):
        data = None if nothing else g.data(s)
        if nothing or data is not None:
            whole = np.zeros((1, batch, units), np.float32)
            if data is not None:
                whole[0] = data[:, k] if int(node.attrs.get("layout", 0)) else data[k]
            found.append(g.new_const(f"{node.name}.initial", whole))
            continue
        if int(node.attrs.get("layout", 0)):
            s = b.transpose(s, (1, 0, 2))
        found.append(remap(b, s, [(k, ((1, 1),)), (0, ((batch, 1),)), (0, ((units, 1),))]))
    return found


def _join_states(b: Builder, out: str, parts: list[str], batch_first: bool) -> None:
    """[T,B,H] of each direction -> [T,D,B,H], or [B,T,D,H]."""
    if not out:
        return
    time, batch, units = b.shape(parts[0])
    wide = [b.reshape(p, (time, 1, batch, units)) for p in parts]
    if batch_first:
        b.transpose_to(out, concat(b, wide, 1), (2, 0, 1, 3))
    else:
        concat(b, wide, 1, out)


def _join_last(b: Builder, out: str, parts: list[str], batch_first: bool) -> None:
    """[1,B,H] of each direction -> [D,B,H], or [B,D,H]."""
    if not out:
        return
    if batch_first:
        b.transpose_to(out, concat(b, parts, 0), (1, 0, 2))
    else:
        concat(b, parts, 0, out)


LOWERINGS = {"GRU": _recurrent, "LSTM": _recurrent, "RNN": _recurrent}
