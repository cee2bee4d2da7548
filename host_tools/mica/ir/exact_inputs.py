"""Inputs of a model that are not quantised: features in units of their own stay float32 in its file, samples of sound int16."""

from __future__ import annotations

from mica.ir.graph import Graph
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
