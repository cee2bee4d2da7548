"""Model files that follow one another become one graph: what the first gives, the second takes.

Where the second takes more rows than the first gives in a run, its input becomes a window that slides: the board keeps
the rows before.
"""

from math import prod

import numpy as np

from mica.errors import MicaError
from mica.ir.graph import Graph, Node
from mica.passes import streaming

_REMEDY = "expected one, with as many numbers as the other or rows of them; join the networks where they were trained"


def join(first: Graph, second: Graph, names: tuple[str, str]) -> Graph:
    """Both graphs are used up. names: of the files, for errors. Raises MicaError where they do not fit."""
    results = {result for _, result in first.states}
    sources = {source for source, _ in second.states}
    given = [o for o in first.outputs if o not in results]
    taken = [i for i in second.inputs if i not in sources]
    if len(given) != 1 or len(taken) != 1:
        raise MicaError(
            f"{names[0]} has the outputs {', '.join(given)}, and {names[1]} takes {', '.join(taken)}", todo=_REMEDY
        )
    renamed = apart(first, second)
    taken = [renamed.get(t, t) for t in taken]
    there, here = first.value(given[0]), second.value(taken[0])
    if prod(there.shape) != prod(here.shape) or long_axes(there.shape) != long_axes(here.shape):
        axis, rows = _rows(there.shape, here.shape)
        if not rows:
            raise MicaError(
                f"{names[0]} gives '{there.name}' {list(there.shape)}, and {names[1]} takes '{here.name}' "
                f"{list(here.shape)}",
                todo=_REMEDY,
            )
        second.states.append(streaming.window(second, streaming.Window(here.name, axis, rows)))
    return _together(first, second, there.name, taken[0])


def apart(first: Graph, second: Graph) -> dict[str, str]:
    """Rename values of the second graph whose names the first one has. Return the new names by the old ones."""
    renamed = {}
    for name in [name for name in second.values if name in first.values]:
        new = name
        while new in first.values or new in second.values:
            new += ".2"
        second.rename_value(name, new)
        second.states = [(new if a == name else a, new if b == name else b) for a, b in second.states]
        renamed[name] = new
    return renamed


def long_axes(shape: tuple[int, ...]) -> list[int]:
    """Return the sizes above 1."""
    return [n for n in shape if n > 1]


def _rows(there: tuple[int, ...], here: tuple[int, ...]) -> tuple[int, int]:
    """The first long axis of what is taken, and how many of its rows are given; 0 rows if the others do not fit."""
    axis = next((i for i, n in enumerate(here) if n > 1), 0)
    rest = long_axes(here[axis + 1 :])
    rows = prod(there) // prod(rest)
    fits = rows < here[axis] and long_axes(there) == [*([rows] if rows > 1 else []), *rest]
    return axis, rows if fits else 0


def _together(first: Graph, second: Graph, given: str, taken: str) -> Graph:
    shape = second.value(taken).shape
    size = first.new_const(f"{taken}.shape", np.array(shape, np.int64))
    first.nodes.append(Node("Reshape", f"{taken}.join", [given, size], [taken]))
    first.values |= second.values
    first.nodes += second.nodes
    first.inputs += [i for i in second.inputs if i != taken]
    first.outputs = [o for o in first.outputs if o != given] + second.outputs
    first.outputs.sort(key=lambda o: o not in second.outputs)  # the answer comes first
    first.states += second.states
    first.labels = second.labels
    first.warnings += second.warnings
    first.coarser += second.coarser
    return first
