"""Scales of states that recurrent layers hand on in 16 bits: a power of two, the same from input to output."""

from collections.abc import Mapping

from mica.ir.graph import Graph, Quant
from mica.kernels.recurrent import STATE_MOST
from mica.passes.wide import MOVES
from mica.quantise.histogram import Range
from mica.reference.functions import ceil_log2
from mica.reference.recurrent import bounded

ROOM = 1.5  # of a state beyond what was seen


def quants(g: Graph, ranges: Mapping[str, Range]) -> dict[str, Quant]:
    """Return the grids of all values that are carried. ranges: of those layers."""
    layers = [n for n in g.nodes if "carried" in n.attrs]
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    most: dict[str, float] = {}
    for n in layers:
        for name, first, r in zip(n.outputs[2:], n.inputs[1:-5], _reach(g, n.outputs, ranges), strict=True):
            parent[find(first)] = find(name)
            most[name] = STATE_MOST / 2.0**15 if name == n.outputs[2] and bounded(n.attrs) else r * ROOM
        for source, result in n.attrs["carried"]:
            parent[find(source)] = find(result)
    size = -1
    while layers and size != len(parent):
        size = len(parent)
        for n in g.nodes:
            ends = [i for i in (*n.inputs, *n.outputs) if not g.is_const(i)]
            if n.op in MOVES and any(i in parent for i in ends):
                for i in ends:
                    parent[find(i)] = find(ends[0])
    needed: dict[str, float] = {}
    for name, r in most.items():
        needed[find(name)] = max(needed.get(find(name), 1e-6), r)
    return {name: Quant(2.0 ** ceil_log2(needed[find(name)] / STATE_MOST), 0, 16) for name in parent}


def _reach(g: Graph, outputs: list[str], ranges: Mapping[str, Range]) -> list[float]:
    """The largest hidden state that was seen, and the largest cell state; of a GRU its candidates count, too."""
    found = []
    for name in outputs[:2]:
        q = g.value(name).quant
        found.append(max(-ranges[name].low, ranges[name].high) if q is None else q.scale * (q.limits[1] - q.zero_point))
    return found if len(outputs) == 4 else [max(found)]
