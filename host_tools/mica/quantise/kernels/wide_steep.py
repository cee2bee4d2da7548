"""Functions of int16 that lines over many steps of x do not follow: SQRT, RSQRT and LOG next to 0,
a bend where int16 ends.

    y = Unary(x, f)    =>    t = lut_s16(x)                      constant within the window [s, s + n)
                             w = lut_s16((x - c) * 2**m)         an entry for each x of the window, constant outside
                             y = t + w

x - c saturates outside of the window: c is its middle, n * 2**m the whole of int16.
Up to MOST_WINDOWS of them, where one table alone is not close to the function.
y is the rounded function within windows, elsewhere it has the error of lines, CLOSE or NEAR, and two roundings.
A function that rises by more than int16 within a window keeps its one table.
"""

from dataclasses import dataclass

import numpy as np

from mica.format.values import HIGH16, LOW16, clip_s16
from mica.ir.graph import Graph, Node, Quant
from mica.kernels.integers import Output
from mica.kernels.wide import LUT_BITS, lut_s16
from mica.quantise.kernels import wide
from mica.quantise.kernels.common import StepQuantiser, emit, quant
from mica.quantise.kernels.wide import CLOSE, bits_of, ideal_of, off_by, values_of
from mica.quantise.kernels.wide_composed import Stages

Array = np.ndarray
MOST_WINDOWS = 3
NEAR = 3 * CLOSE  # where it saves a window
ALL = 2**16  # integers of int16; places count from the least one on


@dataclass(frozen=True)
class Window:
    """n integers from `start` on, and n + 1 entries of int16."""

    start: int
    table: Array

    @property
    def n(self) -> int:
        return len(self.table) - 1

    @property
    def middle(self) -> int:
        return self.start + self.n // 2 + LOW16


@dataclass(frozen=True)
class Parts:
    """table: of the function outside of all windows, off by up to `near` steps and its roundings."""

    table: Array
    windows: tuple[Window, ...]
    near: float

    @property
    def cost(self) -> tuple[float, ...]:
        return len(self.windows), self.near, len(self.table) + sum(len(w.table) for w in self.windows)


def parts_of(ideal: Array) -> Parts | None:
    """ideal [2**16 + 1]: the function in steps of y. The fewest windows, of those the closest, then the smallest;
    None where there are none."""
    tried = [(bits, near) for near in (CLOSE, NEAR) for bits in range(16 - LUT_BITS[1], LUT_BITS[1] + 1)]
    found = [p for bits, near in tried if (p := _with_lines(ideal, bits, near)) is not None]
    return min(found, key=lambda p: p.cost, default=None)


def _with_lines(ideal: Array, bits: int, near: float) -> Parts | None:
    """Lines of 2**(16 - bits) integers, windows where they are not near enough."""
    at = ALL >> bits
    bad = np.abs(off_by(ideal[::at], ideal)).reshape(-1, at).max(axis=1) >= 2 * near  # half of it is left of a bend
    while True:
        values = values_of(ideal, bits, ~bad)
        more = (np.abs(off_by(values, ideal)).reshape(-1, at).max(axis=1) >= near) & ~bad
        if not more.any():
            break
        bad |= more
    jumps = np.flatnonzero(np.abs(np.diff(ideal))[at - 1 :: at] > HIGH16 // 2)
    bad[np.minimum(jumps + 1, len(bad) - 1)] = True  # a table cannot end in a jump
    places = _windows(np.flatnonzero(bad) * at, at)
    return None if places is None else _joined(ideal, values, at, places, near)


def _windows(bad: Array, at: int) -> list[tuple[int, int]] | None:
    """(start, n) of windows that hold all lines that are bad, each of `at` integers."""
    found: list[tuple[int, int]] = []
    largest = 1 << LUT_BITS[1]
    while len(bad):
        start = int(bad[0])
        last = int(bad[bad < start + largest][-1]) + at
        n = max(at, 1 << (last - start - 1).bit_length())
        start = min(start, ALL - n)
        found.append((start, n))
        bad = bad[bad >= start + n]
        if len(found) > MOST_WINDOWS or (len(found) > 1 and start < sum(found[-2])):
            return None
    return found


def _joined(ideal: Array, values: Array, at: int, places: list[tuple[int, int]], near: float) -> Parts | None:
    """Tables whose sum is the function: behind a window its own one keeps the difference between the window's ends."""
    whole = np.rint(values).astype(np.int64)
    table, windows = whole.copy(), []
    for start, n in places:
        first, end = start // at, (start + n) // at
        more = int(whole[end] - whole[first])
        entries = np.rint(ideal[start : start + n + 1]).astype(np.int64) - whole[first]
        entries[0] = 0
        entries[n] = entries[n - 1] + _beyond(more - int(entries[n - 1]), ALL // n)
        table[first:end] = table[first]
        table[end:] -= more
        windows.append(Window(start, int16(entries)))
    parts = Parts(int16(table), tuple(windows), near)
    return parts if np.abs(_sum(parts) - ideal[:-1]).max() <= 1 + near else None


def int16(x: Array) -> Array:
    return clip_s16(x).astype(np.int16)


def _beyond(rise: int, steps: int) -> int:
    """The difference of two entries that has risen by this much after all `steps` but one."""
    return -((-rise * steps + steps // 2) // (steps - 1))


def _sum(parts: Parts) -> Array:
    """Result of the steps for every int16."""
    x = np.arange(LOW16, HIGH16 + 1)
    total = _lines(x, parts.table)
    for w in parts.windows:
        total = int16(total.astype(np.int64) + _lines(int16((x - w.middle) * (ALL // w.n)), w.table))
    return total


def _lines(x: Array, table: Array) -> Array:
    return lut_s16.oracle([x], {"table": table}, {"bits": bits_of(table)}, Output(x.shape))


def _unary(g: Graph, out: Graph, node: Node) -> None:
    x, y, parts = node.inputs[0], node.outputs[0], None
    qx, qy = quant(out, x), quant(out, y)
    function, arguments = node.attrs["function"], node.attrs["arguments"]
    if function not in wide.WITHOUT_TABLE:
        ideal = ideal_of(function, arguments, qx, qy)
        _, close = wide.table_of(ideal)
        if not close:
            parts = parts_of(ideal)
    if parts is None or not parts.windows:
        wide.STEPS["Unary"](g, out, node)
        return
    s, shape = Stages(g, out, node), g.value(x).shape
    total = _looked_up(s, x, parts.table, s.value("lines", shape, qy))
    for w in parts.windows:
        part = _looked_up(s, _magnified(s, x, w), w.table, s.value("window", shape, qy))
        total = s.binary(total, part, y if w is parts.windows[-1] else s.value("sum", shape, qy), (1, 1, 0))


def _looked_up(s: Stages, x: str, table: Array, y: str) -> str:
    emit(s.out, Node("", s.node.name, [x], [y]), "lut_s16", [x], [table], {"bits": bits_of(table)})
    return y


def _magnified(s: Stages, x: str, w: Window) -> str:
    q, factor, shape = quant(s.out, x), ALL // w.n, s.g.value(x).shape
    middle = s.out.new_const(f"{s.node.outputs[0]}.middle", np.full((1,) * len(shape), w.middle, np.int16))
    s.out.value(middle).quant = q
    y = s.value("near", shape, Quant(q.scale / factor, 0, 16))
    return s.binary(x, middle, y, (factor, -factor, 0))


STEPS: dict[str, StepQuantiser] = {"Unary": _unary}
