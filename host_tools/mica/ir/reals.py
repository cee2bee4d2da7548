"""Inputs of a model that stay float32 in its file: rows of features, of which each has a unit of its own."""

from __future__ import annotations

from mica.ir.graph import Graph
from mica.ir.ops import CORE_BY_NAME


def real_inputs(g: Graph) -> set[str]:
    """Inputs of a core graph that only operators read which take float32 as it is."""
    readers = g.consumers()
    return {
        name
        for name in g.inputs
        if name not in g.outputs and readers.get(name) and all(CORE_BY_NAME[n.op].reads_reals for n in readers[name])
    }
