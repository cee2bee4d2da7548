"""Seeded cases for recurrent_s8: every cell, direction and option; tables, factors and sums at their ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, Rng, _data, _rng

from mica.kernels.integers import Output

Array = np.ndarray
GATES = (1, 4, 3, 3)
CELLS = ("simple", "lstm", "gru", "gru reset after")


def _tables(rng: Rng, cell: int, kind: str) -> dict[str, Array]:
    """Sigmoid and tanh; or noise; or the largest steps there can be."""
    if kind == "noise":
        tables = rng.integers(-32767, 32768, (3, 257)).astype(np.int16)
    elif kind == "extreme":
        tables = rng.choice(np.array([-32767, 32767], np.int16), (3, 257))
    else:
        v = np.linspace(-8, 8, 257)
        tables = np.rint([16384 / (1 + np.exp(-v)), 16384 * np.tanh(v / 2), 16384 * np.tanh(v)]).astype(np.int16)
    used = {"gate": cell > 0, "candidate": True, "output": cell == 1}
    return {name: table[: 257 * there] for (name, there), table in zip(used.items(), tables, strict=True)}


def _constants(rng: Rng, cell: int, n_in: int, units: int, peepholes: bool, kind: str) -> dict[str, Array]:
    rows = GATES[cell] * units
    limits = kind in ("noise", "extreme")
    matrix = _data(rng, (rows, n_in + units), "extreme" if kind == "extreme" else "")
    sums = [np.abs(part.astype(np.int64)).sum(axis=1) for part in (matrix[:, :n_in], matrix[:, n_in:])]
    room = 2**31 - 1 - np.array([128, 32767])[:, None] * np.array(sums)
    bias = np.where(rng.random((2, rows)) < 0.5, room, -room) if limits else rng.integers(-2000, 2000, (2, rows))
    if limits:
        factors = rng.choice(np.array([0, 1, 2**29, 2**30 - 1]), (2, rows))
        shifts = rng.choice(np.array([1, 2, 31, 46, 60]), rows)
    else:
        factors = rng.integers(2**28, 2**30, (2, rows)) >> np.array([[0], [7]])  # a hidden state counts in 128ths
        shifts = rng.integers(28, 31, rows)
    largest = 2**31 - 1
    peep = rng.integers(-(2**29), 2**29, 3 * units)
    if limits:
        peep = rng.choice(np.array([-largest - 1, 0, largest]), 3 * units)
    terms = [bias.reshape(-1), factors.reshape(-1), *([peep] if peepholes else [])]
    return {
        "matrix": matrix,
        "terms": np.concatenate(terms).astype(np.int64).astype(np.int32),
        "shifts": shifts.astype(np.int8),
    } | _tables(rng, cell, kind)


# time, batch, inputs, units
SIZES = ((1, 1, 1, 1), (5, 1, 3, 4), (4, 3, 2, 5), (2, 2, 17, 1), (12, 1, 6, 16))


def recurrences() -> Iterator[Case]:
    """Every cell at every size, forward and backward, all states and the last, with and without initial states."""
    for cell, (time, batch, n_in, units), kind in (
        (cell, size, kind) for cell in range(4) for size in SIZES for kind in ("", "noise", "extreme")
    ):
        lstm = cell == 1
        for k, (reverse, last, initial) in enumerate(((0, 0, 0), (1, 0, 1), (0, 1, 2), (1, 1, 0))):
            name = f"{CELLS[cell]} {time} {batch} {n_in} {units} {kind} {k}"
            rng = _rng(name)
            initial = min(initial, 2 if lstm else 1)
            peepholes, coupled, result = lstm and k in (1, 3), lstm and k == 3, lstm and k in (2, 3)
            constants = _constants(rng, cell, n_in, units, peepholes, kind)
            zero = int(rng.choice([-128, 0, 0, 127])) if kind else int(rng.integers(-4, 5))
            xs = [_data(rng, (time, batch, n_in), "extreme" if kind else "")]
            xs += [_data(rng, (1, batch, units), "extreme" if kind else "") for _ in range(initial)]
            p = {
                "cell": cell, "reverse": reverse, "result": int(result), "coupled": int(coupled),
                "peepholes": int(peepholes),
                "cell_shift": int(rng.choice([0, 15])) if kind else int(rng.integers(0, 3)), "hidden_zero": zero,
                "output_shift": int(rng.choice([0, 13])) if kind else int(rng.integers(0, 2)),
                "in_mult": 2**31 - 1 if kind else 2**30, "in_shift": int(rng.choice([-30, 31])) if kind else -6,
                "out_mult": 2**31 - 1 if kind else 2**30, "out_shift": int(rng.choice([-30, 31])) if kind else 6,
            }  # fmt: skip
            if carried := k in (2, 3) and cell != 0 and not (lstm and kind == "extreme"):
                p["result"], result = 2, False
                for i in range(1, 1 + initial):
                    xs[i] = _data(rng, (1, batch, 2 * units), "extreme" if kind else "")
            rows = 1 if last or result else time
            rows += (4 if lstm else 2) if carried else 0
            y_zero = int(rng.integers(-128, 128)) if result or carried else zero
            q = Output((rows, batch, units), 0, y_zero, int(rng.integers(-128, 128)))
            yield Case(name, "recurrent_s8", xs, p, q, constants, rows=1)
