"""Streaming: a sliding window as a state, and the states that calibration samples meet.

window():  x [.., T, ..] -> ...      becomes      x' [.., N, ..], s [.., T-N, ..]: x = Concat(s, x'); s' = x[N:]

s and s' are a state pair. So each run gets N new rows, and the board keeps the T-N rows before them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.ir.graph import Graph, Node, Value
from mica.reference import float_ops


@dataclass(frozen=True)
class Window:
    """`rows` new ones of an input's `axis` a run; None is the first axis that is longer than 1."""

    name: str
    axis: int | None
    rows: int


def window(g: Graph, w: Window) -> tuple[str, str]:
    """Rewrites the graph, as it was imported; returns the state pair. Raises MicaError."""
    what = f"--window {w.name}={w.rows}"
    if w.name not in g.inputs:
        raise MicaError(f"{what}: the model has no input '{w.name}'", todo=f"its inputs are {', '.join(g.inputs)}")
    whole = g.value(w.name)
    axis = next((i for i, n in enumerate(whole.shape) if n > 1), 0) if w.axis is None else w.axis
    if not 0 <= axis < len(whole.shape):
        raise MicaError(f"{what}: axis {axis} of an input of shape {list(whole.shape)}")
    length = whole.shape[axis]
    if not 0 < w.rows < length:
        raise MicaError(
            f"{what}: the input has {length} rows on axis {axis}", todo=f"expected 1 to {length - 1} new ones a run"
        )

    def part(rows: int) -> tuple[int, ...]:
        return (*whole.shape[:axis], rows, *whole.shape[axis + 1 :])

    # The new rows keep the input's name, so calibration data and programs need no other.
    joined, old = g.fresh(f"{w.name}.window"), g.fresh(f"{w.name}.before")
    g.values[joined] = Value(joined, whole.shape, whole.dtype, None, whole.quant)
    g.values[w.name] = Value(w.name, part(w.rows), whole.dtype, None, whole.quant, whole.weight_scale, whole.whole)
    g.values[old] = Value(old, part(length - w.rows), whole.dtype, None, whole.quant)
    after = g.new_value(f"{w.name}.after", part(length - w.rows), whole.dtype)
    for node in g.nodes:
        node.inputs = [joined if i == w.name else i for i in node.inputs]
    g.outputs = [joined if o == w.name else o for o in g.outputs]
    slide = {"starts": [w.rows], "ends": [length], "axes": [axis]}
    g.nodes.insert(0, Node("Concat", f"{w.name}.join", [old, w.name], [joined], {"axis": axis}))
    g.nodes.insert(1, Node("Slice", f"{w.name}.slide", [joined], [after], slide))
    g.inputs.append(old)
    g.outputs.append(after)
    return old, after


def check(g: Graph, pairs: Sequence[tuple[str, str]]) -> None:
    """Raises MicaError for state pairs with names that the graph does not have, or with unlike shapes."""
    for source, result in pairs:
        for role, name, names in (("input", source, g.inputs), ("output", result, g.outputs)):
            if name not in names:
                raise MicaError(
                    f"--state {source}={result}: the model has no {role} '{name}'",
                    todo=f"its {role}s are {', '.join(names)}",
                )
        a, b = g.value(source).shape, g.value(result).shape
        if a != b:
            raise MicaError(f"--state {source}={result}: the input has shape {list(a)}, the output {list(b)}")
    for side in zip(*pairs, strict=True):
        if len(set(side)) < len(side):
            raise MicaError("--state: an input or output is named twice")


def play(g: Graph, samples: Sequence[dict[str, np.ndarray]], pairs: Sequence[tuple[str, str]]) -> None:
    """Gives consecutive samples the states that a float run of the core graph comes to, the first of them 0."""
    state = {source: np.zeros(g.value(source).shape, np.float32) for source, _ in pairs}
    expected = {result: source for source, result in pairs}
    for sample in samples:
        sample.update(state)
        for name, array in float_ops.stream(g, sample):
            if name in expected:
                state[expected[name]] = np.array(array, np.float32).reshape(state[expected[name]].shape)
