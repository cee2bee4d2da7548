"""Effects of errors in the arguments of an LSTM's gates on its outputs, by backpropagation through time.

Random signs at the outputs come back to each argument as a number. Its square is, on average, the sum of the squares of
the argument's effects on all outputs. An error at a time step of which little is left at the end costs little. So
moments of what rows of weights are multiplied with count each time step by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.reference import exact, recurrent

PROBES = 2
STEP = 2.0**-6  # of an argument, for the slope of a function
INPUT_BITS, COUNT_BITS, MOST_PLACES = 12, 13, 2**16  # of inputs and of what they count: sums of products are exact
PAIRS = 2**20  # numbers of an array of products


@dataclass
class Weighted:
    """Sums over what rows are multiplied with. Groups: rows, or gates of large layers."""

    total: np.ndarray  # [groups]
    sums: np.ndarray  # [groups, K]
    products: np.ndarray  # [groups, K, K]

    @classmethod
    def collect(cls, x: np.ndarray, counts: np.ndarray, groups: int) -> Weighted:
        """x [P, K], counts [P, rows], MOST_PLACES at most."""
        places, taps = x.shape
        real = exact.whole(x, INPUT_BITS)
        often = exact.whole_rows(counts.reshape(places, groups, -1).sum(axis=2).T, COUNT_BITS)
        products, size = np.zeros((groups, taps * taps)), max(1, PAIRS // taps**2)
        for k in range(0, places, size):
            part = real.numbers[k : k + size]
            products += often.numbers[:, k : k + size] @ (part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
        sums = often.numbers @ real.numbers * often.unit * real.unit
        products *= often.unit * real.unit**2
        return cls((often.numbers * often.unit).sum(axis=1), sums, products.reshape(groups, taps, taps))

    def merged(self, other: Weighted) -> Weighted:
        """Return the sums of both sets of samples."""
        return Weighted(self.total + other.total, self.sums + other.sums, self.products + other.products)

    @property
    def mean(self) -> np.ndarray:
        """[groups, K]."""
        return np.asarray(self.sums / np.maximum(self.total, 1e-30)[:, None])

    @property
    def covariance(self) -> np.ndarray:
        """[groups, K, K], times the total; positive definite, by a millionth of the mean square."""
        square = np.diagonal(self.products, axis1=1, axis2=2).mean(axis=1)
        noise = np.maximum(1e-6 * square, 1e-30)[:, None, None] * np.eye(self.sums.shape[1])
        return np.asarray(self.products - self.mean[:, :, None] * self.sums[:, None, :] + noise)


def measure(
    attrs: Mapping[str, Any], x: np.ndarray, initial: Sequence[np.ndarray], constants: list[np.ndarray], every: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x [P,I], hidden states before a step [P,H], effects of an error of each row's argument [P,4*H]),
    P = PROBES * N * T * B.

    x [N,T,B,I], initial states [N,1,B,H], constants as of `recurrent.run`;
    every: y is every hidden state, not the last one.
    """
    states, inner = recurrent.run_several(attrs, x, list(initial), constants)
    w, r, bias, more, peep = constants
    if attrs["reverse"]:
        x, states, inner = x[:, ::-1], states[:, ::-1], inner[:, :, ::-1]
    cells, units = inner[:, 0], r.shape[1]
    hidden, before = (
        np.concatenate([initial[k] if len(initial) > k else 0 * v[:, :1], v[:, :-1]], axis=1)
        for k, v in enumerate((states, cells))
    )
    z = exact.with_rows(x, exact.constant_rows(w)) + exact.with_rows(hidden, exact.constant_rows(r)) + (bias + more)
    i, o, f, n = (z[..., k * units : (k + 1) * units] for k in range(4))
    i, o, f = i + peep[0] * before, o + peep[1] * cells, f + peep[2] * before
    gate, new, bend = attrs["gate"], attrs["candidate"], attrs["output"]
    opened, shown, made = gate(i), gate(o), new(n)
    kept = 1 - opened if attrs["coupled"] else gate(f)
    # Of the cell state for each argument, of the hidden state for the output gate and the cell state.
    to_i = (made - before if attrs["coupled"] else made) * _slope(gate, i)
    to_f = before * _slope(gate, f) * (not attrs["coupled"])
    to_n, to_o, to_c = opened * _slope(new, n), bend(cells) * _slope(gate, o), shown * _slope(bend, cells)
    columns, rng, found = exact.whole_rows(r.T, exact.bits(len(r))[1]), np.random.default_rng(1), []
    for _ in range(PROBES):
        asked = rng.choice(np.array([-1.0, 1.0]), states.shape)
        if not every:
            asked[:, :-1] = 0
        dh, dc, of = 0 * asked[:, 0], 0 * asked[:, 0], np.zeros(z.shape)
        for t in range(states.shape[1])[::-1]:
            dh = dh + asked[:, t]
            at_o = dh * to_o[:, t]
            dc = dc + dh * to_c[:, t] + at_o * peep[1]
            of[:, t] = np.concatenate([dc * to_i[:, t], at_o, dc * to_f[:, t], dc * to_n[:, t]], axis=-1)
            dh = exact.with_rows(of[:, t], columns)
            dc = dc * (kept[:, t] + to_i[:, t] * peep[0] + to_f[:, t] * peep[2])
        found.append(of)
    of_x, of_hidden = (np.concatenate([v] * PROBES).reshape(-1, v.shape[-1]) for v in (x, hidden))
    return of_x, of_hidden, np.square(np.concatenate(found)).reshape(-1, len(w))


def _slope(f: recurrent.Activation, v: np.ndarray) -> np.ndarray:
    return np.asarray((f(v + STEP) - f(v - STEP)) / (2 * STEP))
