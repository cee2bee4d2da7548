"""Inputs of a model that stay as they are: features in units of their own float32, samples of sound int16."""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME


def exact_inputs(g: Graph) -> dict[str, str]:
    """Inputs of a core graph that only operators read which take them as they are, and their element types."""
    readers = g.consumers()
    found = {}
    for name in g.inputs:
        types = {CORE_BY_NAME[n.op].reads for n in readers.get(name, ())}
        if name not in g.outputs and len(types) == 1 and "" not in types:
            found[name] = types.pop()
    return found


def takes_missing(g: Graph, name: str) -> np.ndarray:
    """bool [last dimension]: the features of an input that may be NaN, because the model has learnt what a missing one
    means."""
    taken = np.full(g.value(name).shape[-1:] or 1, exact_inputs(g).get(name) == "float32")
    for node in g.consumers().get(name, ()) if taken.any() else ():
        taken &= _taken(g, node, len(taken))
    return taken


def _taken(g: Graph, node: Node, n: int) -> np.ndarray:
    if node.op == "Ranks":
        source, missing = (np.asarray(g.data(i)) for i in node.inputs[3:])
        return ~np.isin(np.arange(n), source[np.isnan(missing)])
    missing = node.attrs["vectors"].missing if "vectors" in node.attrs else np.asarray(g.data(node.inputs[3]))
    return ~np.isnan(missing)
