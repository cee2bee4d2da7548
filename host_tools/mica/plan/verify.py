"""Proves a plan, without trusting how it was made: replays the steps over a map of bytes to their owners.

Each step must find every byte of its inputs still owned by the value it reads, and may only write over bytes whose
owner nobody reads any more. Written apart from `lifetimes.py` and `arena.py` on purpose; it shares nothing with them
but the result.
"""

from __future__ import annotations

from collections.abc import Mapping

from mica.ir.graph import Graph, Node


class PlanError(AssertionError):
    """A plan that would let one tensor destroy another. A bug of the planner, never of a model."""


def verify(g: Graph, offsets: Mapping[str, int], arena_bytes: int, in_place: Mapping[str, tuple[int, ...]]) -> None:
    """g: integer graph in execution order; offsets: byte offset of every activation in the arena."""
    readers: dict[str, int] = {}
    for node in g.nodes:
        for i in node.inputs:
            if not g.is_const(i):
                readers[i] = readers.get(i, 0) + 1
    for o in g.outputs:
        readers[o] = readers.get(o, 0) + 1
    live: dict[str, tuple[int, int]] = {}

    def span(name: str) -> tuple[int, int]:
        low = offsets[name]
        high = low + g.value(name).bytes
        if low < 0 or low % 4 or high > arena_bytes:
            raise PlanError(f"'{name}' at bytes {low}..{high} of an arena of {arena_bytes}")
        return low, high

    def born(name: str, may_share: set[str], by: str) -> None:
        low, high = span(name)
        for other, (a, b) in live.items():
            if low < b and a < high and not (other in may_share and a == low and b == high):
                raise PlanError(
                    f"{by}: writes '{name}' at bytes {low}..{high} over '{other}' at {a}..{b}, "
                    f"which {readers.get(other, 0)} more readers need"
                )
        if readers.get(name, 0):
            live[name] = (low, high)

    def renamed(node: Node) -> None:
        """A View begins `offset` bytes into its input; the inputs of a Join fill its output, one behind the other."""
        low, high = span(node.outputs[0])
        if node.op == "Join":
            for i in node.inputs:
                if span(i)[0] != low:
                    raise PlanError(f"node '{node.name}' (Join): its input '{i}' is not at byte {low} of the arena")
                low = span(i)[1]
            if low != high:
                raise PlanError(f"node '{node.name}' (Join): its inputs end at byte {low}, its output at {high}")
        else:
            begin, end = span(node.inputs[0])
            if low != begin + node.attrs.get("offset", 0) or high > end:
                raise PlanError(f"node '{node.name}' ({node.op}): moves its input")
            if node.op == "Reshape" and high != end:
                raise PlanError(f"node '{node.name}' (Reshape): is shorter than its input")

    for name in g.inputs:
        born(name, set(), "model input")
    for node in g.nodes:
        active = [i for i in node.inputs if not g.is_const(i)]
        for i in active:
            if i not in live or live[i] != span(i):
                raise PlanError(f"node '{node.name}' ({node.op}): its input '{i}' is gone")
        if node.op in ("Reshape", "View", "Join"):
            # The same bytes under another name: nothing is written, both names may live on.
            renamed(node)
            if readers.get(node.outputs[0], 0):
                live[node.outputs[0]] = span(node.outputs[0])
        else:
            share = {node.inputs[k] for k in in_place.get(node.op, ()) if readers.get(node.inputs[k], 0) == 1}
            born(node.outputs[0], share, f"node '{node.name}' ({node.op})")
        for i in active:
            readers[i] -= 1
            if readers[i] == 0:
                live.pop(i, None)
    for o in g.outputs:
        if o not in live or live[o] != span(o):
            raise PlanError(f"model output '{o}' does not survive the run")
