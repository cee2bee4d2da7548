"""Proves a plan, without trusting how it was made: replays the steps over a map of bytes to their owners.

Each step must find every byte of its inputs still owned by the value it reads, and may only write over bytes whose
owner nobody reads any more. Written apart from `lifetimes.py` and `arena.py` on purpose; it shares nothing with them
but the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mica.format.order import Strip
from mica.format.schema import FEED
from mica.ir.graph import Graph, Node


class PlanError(AssertionError):
    """A plan that would let one tensor destroy another. A bug of the planner, never of a model."""


def verify(g: Graph, offsets: Mapping[str, int], arena_bytes: int, in_place: Mapping[str, tuple[int, ...]]) -> None:
    """g: integer graph in execution order; offsets: byte offset of every activation in the arena."""
    held = {name for name, value in g.values.items() if value.held >= 0}  # states, which lie elsewhere
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
        if name not in held:
            born(name, set(), "model input")
    for node in g.nodes:
        if node.op in ("Reshape", "View") and node.inputs[0] in held:
            held.add(node.outputs[0])
            continue
        active = [i for i in node.inputs if not g.is_const(i) and i not in held]
        for i in active:
            if i not in live or live[i] != span(i):
                raise PlanError(f"node '{node.name}' ({node.op}): its input '{i}' is gone")
        if node.op in ("Reshape", "View", "Join"):
            # The same bytes under another name: nothing is written, both names may live on.
            renamed(node)
            if readers.get(node.outputs[0], 0):
                live[node.outputs[0]] = span(node.outputs[0])
        elif node.outputs[0] not in held:
            share = {node.inputs[k] for k in in_place.get(node.op, ()) if readers.get(node.inputs[k], 0) == 1}
            born(node.outputs[0], share, f"node '{node.name}' ({node.op})")
        for i in active:
            readers[i] -= 1
            if readers[i] == 0:
                live.pop(i, None)
    for o in g.outputs:
        if o not in held and (o not in live or live[o] != span(o)):
            raise PlanError(f"model output '{o}' does not survive the run")


class _Owners:
    """For each byte of the arena which byte of which value lies there: number of the value * 2**32 + its byte."""

    def __init__(self, g: Graph, offsets: Mapping[str, int], arena_bytes: int) -> None:
        self.g = g
        self.offsets = offsets
        self.bytes = np.full(arena_bytes, -1, np.int64)
        self.number = {name: k for k, name in enumerate(g.values)}
        self.gone: dict[str, int] = {}  # rows that have left
        self.have: dict[str, int] = {}  # rows that were made

    def row_bytes(self, name: str) -> int:
        shape = self.g.value(name).shape
        rows = shape[1] if len(shape) == 4 else 1
        return self.g.value(name).bytes // rows

    def span(self, name: str, low: int, high: int, by: str) -> slice:
        """Where bytes [low, high) of a value lie."""
        at = self.offsets[name] - self.gone.get(name, 0) * self.row_bytes(name)
        if at + low < 0 or at + high > self.bytes.size or self.offsets[name] % 4:
            raise PlanError(f"{by}: '{name}' at bytes {at + low}..{at + high} of an arena of {self.bytes.size}")
        return slice(at + low, at + high)

    def content(self, name: str, low: int, high: int) -> np.ndarray:
        return np.arange(low, high, dtype=np.int64) + (self.number[name] << 32)

    def write(self, name: str, low: int, high: int, by: str) -> None:
        self.bytes[self.span(name, low, high, by)] = self.content(name, low, high)

    def read(self, name: str, low: int, high: int, by: str) -> None:
        found = self.bytes[self.span(name, low, high, by)]
        wrong = np.flatnonzero(found != self.content(name, low, high))
        if wrong.size:
            owner = int(found[wrong[0]]) >> 32
            other = list(self.g.values)[owner] if owner >= 0 else "nothing"
            raise PlanError(f"{by}: byte {low + wrong[0]} of its input '{name}' is gone; '{other}' lies there")


def verify_strips(
    g: Graph,
    steps: Sequence[Node],
    offsets: Mapping[str, int],
    arena_bytes: int,
    strips: Sequence[Strip],
    in_place: Mapping[str, tuple[int, ...]],
    fed: str | None = None,
) -> None:
    """The same as `verify` for a plan with strips, by the owner of each byte of each row. fed: the input that comes by rows.

    Every call has to find the rows that it reads, where the window of its kernel wants them, and what it writes is then
    there. Two names of the same bytes (a reshape) are followed to the name that was written.
    """
    owners = _Owners(g, offsets, arena_bytes)
    alias: dict[str, list[tuple[str, int, int]]] = {}  # name -> parts: (written name, its first byte, bytes)

    def parts(name: str) -> list[tuple[str, int, int]]:
        return alias.get(name, [(name, 0, g.value(name).bytes)])

    def apart(node: Node, i: str, source: slice, target: slice, by: str) -> None:
        """A kernel still reads while it writes."""
        if source.start < target.stop and target.start < source.stop and not (node.op in in_place and source == target):
            raise PlanError(
                f"{by}: writes bytes {target.start}..{target.stop}, and reads '{i}' at {source.start}..{source.stop}"
            )

    def read(name: str, low: int, high: int, by: str) -> None:
        """Bytes [low, high) of a value, whatever names they were written under."""
        at = 0
        place = offsets[name]
        for written, first, size in parts(name):
            a, b = max(low, at), min(high, at + size)
            if a < b:
                if name != written and offsets[written] + first != place + at:
                    raise PlanError(f"{by}: '{name}' is not where '{written}' was written")
                owners.read(written, first + a - at, first + b - at, by)
            at += size

    def renamed(node: Node) -> None:
        y = node.outputs[0]
        if node.op == "Join":
            alias[y] = [part for i in node.inputs for part in parts(i)]
            return
        skip, left = node.attrs.get("offset", 0), g.value(y).bytes
        found = []
        for written, first, size in parts(node.inputs[0]):
            n = min(size - skip, left)
            if n > 0:
                found.append((written, first + skip, n))
                left -= n
            skip = max(0, skip - size)
        alias[y] = found

    def whole(node: Node) -> None:
        by = f"node '{node.name}' ({node.op})"
        y = node.outputs[0]
        target = owners.span(y, 0, g.value(y).bytes, by)
        for i in node.inputs:
            if not g.is_const(i):
                read(i, 0, g.value(i).bytes, by)
                apart(node, i, owners.span(i, 0, g.value(i).bytes, by), target, by)
        owners.write(y, 0, g.value(y).bytes, by)

    def leave(y: str, drop: int, by: str) -> None:
        """The oldest rows of y make room."""
        row = owners.row_bytes(y)
        if drop:
            kept = owners.have[y] - owners.gone.get(y, 0) - drop
            if kept < 0:
                raise PlanError(f"{by}: {drop} rows leave, {kept + drop} are there")
            here = owners.span(y, (owners.gone.get(y, 0) + drop) * row, owners.have[y] * row, by)
            moved = owners.bytes[here].copy()
            owners.bytes[offsets[y] : offsets[y] + kept * row] = moved
            owners.gone[y] = owners.gone.get(y, 0) + drop

    def feed(rows: int, drop: int) -> None:
        if fed is None:
            raise PlanError(f"{rows} rows are fed, and no input is")
        by = f"the fed input '{fed}', row {owners.have[fed]}"
        row, end = owners.row_bytes(fed), owners.have[fed] + rows
        leave(fed, drop, by)
        if end * row > g.value(fed).bytes:
            raise PlanError(f"{by}: there are not {rows} more")
        owners.write(fed, owners.have[fed] * row, end * row, by)
        owners.have[fed] = end

    def call(node: Node, rows: int, drop: int) -> None:
        y = node.outputs[0]
        by = f"node '{node.name}' ({node.op}), row {owners.have[y]}"
        row = owners.row_bytes(y)
        leave(y, drop, by)
        begin, end = owners.have[y], owners.have[y] + rows
        a = node.attrs
        target = owners.span(y, begin * row, end * row, by)
        for i in node.inputs:
            if g.is_const(i):
                continue
            shape, size = g.value(i).shape, owners.row_bytes(i)
            low, high = begin, end
            if "kernel_h" in a:
                low = max(0, begin * a["stride_h"] - a["pad_top"])
                high = (end - 1) * a["stride_h"] - a["pad_top"] + (a["kernel_h"] - 1) * a["dilation_h"] + 1
                high = min(shape[1], high)
            elif len(shape) != 4 or shape[1] == 1:
                low, high = 0, 1
            read(i, low * size, high * size, by)
            apart(node, i, owners.span(i, low * size, high * size, by), target, by)
        owners.write(y, begin * row, end * row, by)
        owners.have[y] = end

    begins = {s.first: s for s in strips}
    inside = {k for s in strips for k in range(s.first, s.first + s.steps)}
    number = {id(node): k for k, node in enumerate(steps)}
    for name in g.inputs:
        if name == fed:
            owners.have[name] = 0
        else:
            owners.write(name, 0, g.value(name).bytes, "model input")
    for node in g.nodes:
        k = number.get(id(node))
        if k is None:
            renamed(node)
        elif k in begins:
            for i in range(k, k + begins[k].steps):
                owners.have[steps[i].outputs[0]] = 0
            for c in begins[k].calls:
                if c.step == FEED:
                    feed(c.rows, c.drop)
                else:
                    call(steps[c.step], c.rows, c.drop)
            for i in range(k, k + begins[k].steps):
                y = steps[i].outputs[0]
                if owners.have[y] * owners.row_bytes(y) != g.value(y).bytes:
                    raise PlanError(f"node '{steps[i].name}': {owners.have[y]} rows of '{y}' are made")
        elif k not in inside:
            whole(node)
    for o in g.outputs:
        read(o, 0, g.value(o).bytes, "model output")
