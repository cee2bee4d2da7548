"""Composed functions that have a name get it: reports read better, and calibration knows some by name.

    Unary(x, composed x * clip(x + 3, 0, 6) / 6)    =>   Unary(x, hard_swish)
    Unary(x, composed 0.5 * x * (1 + erf(x * c)))   =>   Unary(x, gelu)
    Unary(x, composed clip(max(x, 0), .., 6))       =>   Unary(x, clip 0 to 6)

A name is known by its values: a function is taken for another where both agree on a fine grid around zero and far out,
and at the program's own numbers, where comparisons change.
The table is then made from the named one, which differs by less than the grid could show: 1e-6.
"""

from typing import Any

import numpy as np

from mica.ir.graph import Graph
from mica.reference import unary

GRID = np.concatenate([np.linspace(-24.0, 24.0, 6145), [-1e3, -300.0, -77.7, 77.7, 300.0, 1e3]])
CLOSE = 1e-6  # of max(1, |f|): constants in exports are float32
NAMED: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("hard_swish", ()),
    ("swish", (1.0,)),
    ("gelu", ()),
    ("gelu_tanh", ()),
    ("mish", ()),
    ("softplus", ()),
    ("sigmoid", ()),
    ("tanh", ()),
    ("hard_sigmoid", (1 / 6, 0.5)),
    ("abs", ()),
)


def run(g: Graph) -> Graph:
    for node in g.nodes:
        if node.op == "Unary" and node.attrs["function"] == "composed":
            found = name_of(*node.attrs["arguments"])
            if found is not None:
                node.attrs = {"function": found[0], "arguments": found[1]}
    return g


def name_of(program: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]] | None:
    """(function, arguments) that a program computes, or None."""
    y = unary.apply("composed", GRID, (program,))
    if not np.all(np.isfinite(y)):
        return None
    steps = _steps(program)
    there = unary.apply("composed", steps, (program,))
    for name, arguments in (*NAMED, ("clip", _bounds(y)), ("leaky_relu", (_slope(y),)), ("affine", _line(y))):
        if _close(y, unary.apply(name, GRID, arguments)) and _close(there, unary.apply(name, steps, arguments)):
            return name, arguments
    return None


def _close(y: np.ndarray, known: np.ndarray) -> bool:
    return bool(np.all(np.abs(y - known) <= CLOSE * np.maximum(1.0, np.abs(known))))


def _steps(program: tuple[Any, ...]) -> np.ndarray:
    """The numbers of a program, and what is a little below and above them."""
    found = [0.0]
    for _, attrs, operands in program:
        found += [v for v in (*operands, *attrs.get("arguments", ())) if isinstance(v, (int, float))]
    at = np.array(found)[np.isfinite(found)]
    aside = 1e-3 * np.maximum(1.0, np.abs(at))
    return np.concatenate([at, at - aside, at + aside])


def _bounds(y: np.ndarray) -> tuple[float | None, float | None]:
    """Lower and upper bound of y, rounded to float32; None if y goes on to that end of the grid."""
    with np.errstate(over="ignore"):  # of an exponential: it has no bound
        low, high = float(np.float32(y.min())), float(np.float32(y.max()))
    return (None if low <= GRID.min() else low, None if high >= GRID.max() else high)


def _slope(y: np.ndarray) -> float:
    return float(np.float32(y[GRID == -1e3][0] / -1e3))


def _line(y: np.ndarray) -> tuple[float, float]:
    shift = float(np.interp(0.0, GRID[:6145], y[:6145]))
    return (float(y[GRID == 1e3][0]) - shift) / 1e3, shift
