"""Recurrent layers on float32 arrays, and the functions that ONNX gives them.

Formulas and names are those of ONNX's RNN, LSTM and GRU. Gates stand in its order: i, o, f, c of an LSTM, z, r, h of a
GRU.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mica.reference import exact, functions, unary

FAR = 1e6  # where a function that has a limit has reached it
GATES = {"simple": 1, "lstm": 4, "gru": 3, "gru_after": 3}


class Activation(NamedTuple):
    """One of ONNX's activation functions of recurrent operators, its input limited to +-clip."""

    name: str  # in small letters
    alpha: float = 0.0
    beta: float = 0.0
    clip: float | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x) if self.clip is None else np.clip(x, -self.clip, self.clip)
        return FUNCTIONS[self.name](x, self.alpha, self.beta)


FUNCTIONS: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, b: np.where(x < 0, a * functions.expm1(np.minimum(x, 0)), x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "leakyrelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "scaledtanh": lambda x, a, b: a * functions.tanh(b * x),
    "sigmoid": lambda x, a, b: unary.apply("sigmoid", x, ()),
    "softplus": lambda x, a, b: unary.apply("softplus", x, ()),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "tanh": lambda x, a, b: functions.tanh(x),
    "thresholdedrelu": lambda x, a, b: np.where(x > a, x, 0),
}
# What ONNX says where the node does not: alpha, beta. A function takes as many of the node's numbers as it has here.
DEFAULTS: dict[str, tuple[float, ...]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "scaledtanh": (1.0, 1.0),
    "thresholdedrelu": (1.0,),
}


def bounded(attrs: Mapping[str, Any]) -> bool:
    """True if the hidden state stays in [-1, 1] when it begins there. All functions are monotonous."""
    functions = [attrs["gate"], attrs["output"] if attrs["cell"] == "lstm" else attrs["candidate"]]
    far = np.array([-FAR, FAR])
    return all(f is None or np.abs(f(far)).max() <= 1 for f in functions)


def run(
    attrs: Mapping[str, Any], x: np.ndarray, initial: list[np.ndarray], constants: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(hidden states [T,B,H], what else the integers have to hold: cell states and candidates [2,T,B,H]).

    x [T,B,I]; initial: hidden state and cell state [1,B,H], as many as there are; constants: weights [G*H,I], recurrent
    [G*H,H], biases of both [G*H], peepholes [3,H] for i, o, f. attrs as of the core operator Recurrent.
    """
    states, inner = run_several(attrs, x[None], [s[None] for s in initial], constants)
    return states[0], inner[0]


def run_several(
    attrs: Mapping[str, Any], x: np.ndarray, initial: list[np.ndarray], constants: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The same of N samples, each of which gets the bits that it gets alone: x [N,T,B,I], initial states [N,1,B,H]."""
    w, r, bias, recurrent_bias, peep = constants
    cell, f, g, h = attrs["cell"], attrs["gate"], attrs["candidate"], attrs["output"]
    samples, time, batch, _ = x.shape
    units, n = r.shape[1], GATES[cell]
    rows, recurrent_rows = exact.constant_rows(w), exact.constant_rows(r)
    again_rows = exact.Whole(recurrent_rows.numbers[2 * units :], np.asarray(recurrent_rows.unit)[2 * units :])
    zeros = np.zeros((samples, batch, units), np.float32)
    hidden, c = (initial[k][:, 0] if len(initial) > k else zeros for k in (0, 1))
    states, cells, candidates = np.zeros((3, samples, time, batch, units), np.float32)
    most = exact.bits(units)[0]

    def split(v: np.ndarray) -> list[np.ndarray]:
        return [v[..., k * units : (k + 1) * units] for k in range(n)]

    def again(v: np.ndarray, rows: exact.Whole) -> np.ndarray:
        return exact.rows_with_rows(exact.whole_each(v, most), rows)

    from_x = exact.rows_with_rows(exact.whole_each(x, exact.bits(x.shape[-1])[0]), rows)
    for t in range(time)[:: -1 if attrs["reverse"] else 1]:
        a, b = split(from_x[:, t] + bias), split(again(hidden, recurrent_rows) + recurrent_bias)
        if cell == "simple":
            hidden = g(a[0] + b[0])
        elif cell == "lstm":
            i, new = f(a[0] + b[0] + peep[0] * c), g(a[3] + b[3])
            keep = 1 - i if attrs["coupled"] else f(a[2] + b[2] + peep[2] * c)
            c = keep * c + i * new
            hidden = f(a[1] + b[1] + peep[1] * c) * h(c)
            cells[:, t], candidates[:, t] = c, new
        else:
            z, reset = f(a[0] + b[0]), f(a[1] + b[1])
            if cell == "gru":
                more = again(reset * hidden, again_rows) + recurrent_bias[2 * units :]
            else:
                more = reset * b[2]
            candidates[:, t] = g(a[2] + more)
            hidden = z * hidden + (1 - z) * candidates[:, t]
        states[:, t] = hidden
    return states, np.stack([cells, candidates], axis=1)


def last(attrs: Mapping[str, Any], states: np.ndarray) -> np.ndarray:
    """[..., T,B,H] -> [..., 1,B,H], the state after the last time step that was taken."""
    return states[..., :1, :, :] if attrs["reverse"] else states[..., -1:, :, :]
