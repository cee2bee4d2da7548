"""Networks that take the same input become one graph: its input is computed once,
and its output holds all their answers."""

from collections.abc import Sequence

import numpy as np

from mica.errors import MicaError
from mica.importer.join import apart, long_axes
from mica.ir.graph import Graph, Node

ANSWERS = "answers"


def together(graphs: Sequence[Graph], names: Sequence[str]) -> tuple[Graph, tuple[int, ...]]:
    """Return one graph, whose output is float [1, n], and how many of the n numbers each network gives.

    The graphs are used up. names: of the files, for errors. Raises MicaError where their inputs differ.
    """
    whole, parts, states = graphs[0], [], []
    (shared,) = _only(whole, names[0], "inputs")
    for graph, name in zip(graphs, names, strict=True):
        (taken,), (given,) = _only(graph, name, "inputs"), _only(graph, name, "outputs")
        mine, first = graph.value(taken), whole.value(shared)
        if long_axes(mine.shape) != long_axes(first.shape) or mine.dtype != first.dtype:
            raise MicaError(
                f"--together: {name} takes {mine.dtype} {list(mine.shape)}, and {names[0]} {first.dtype} "
                f"{list(first.shape)}",
                todo="expected networks of the same features and of as many rows a run",
            )
        if graph is not whole:
            renamed = apart(whole, graph)
            taken, given = renamed.get(taken, taken), renamed.get(given, given)
            size = graph.new_const(f"{taken}.shape", np.array(mine.shape, np.int64))
            graph.nodes.insert(0, Node("Reshape", f"{taken}.shared", [shared, size], [taken]))
            whole.values |= graph.values
            whole.nodes += graph.nodes
            whole.inputs += [i for i in graph.inputs if i != taken]
            whole.states += graph.states
            whole.warnings += graph.warnings
            whole.coarser += graph.coarser
        states += [o for o in graph.outputs if o != given]
        parts.append(given)
    widths = tuple(whole.value(part).size for part in parts)
    for k, (part, width) in enumerate(zip(parts, widths, strict=True)):
        size = whole.new_const(f"{part}.size", np.array([1, width], np.int64))
        parts[k] = whole.new_value(f"{part}.row", (1, width))
        whole.nodes.append(Node("Reshape", parts[k], [part, size], [parts[k]]))
    answers = whole.new_value(ANSWERS, (1, sum(widths)))
    whole.nodes.append(Node("Concat", ANSWERS, parts, [answers], {"axis": 1}))
    whole.outputs = [answers, *states]
    whole.labels = []
    return whole, widths


def _only(g: Graph, name: str, which: str) -> list[str]:
    """The input or output that is no state. Raises MicaError where there are several."""
    pairs = [pair[which == "outputs"] for pair in g.states]
    found = [value for value in getattr(g, which) if value not in pairs]
    if len(found) != 1:
        raise MicaError(f"--together: {name} has the {which} {', '.join(found)}", todo="expected one")
    return found
