"""Proves a plan, without trusting how it was made: replays the steps over a map of bytes to their owners.

Each step must find every byte of its inputs still owned by the value it reads, and may only write over bytes whose
owner nobody reads any more. Written apart from `lifetimes.py` and `arena.py` on purpose; it shares nothing with them
but the result.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mica.file.order import Strip
from mica.format.schema import FEED
from mica.ir.graph import Graph, Node

Offsets = Mapping[str, int]  # byte of the arena at which each activation begins
InPlace = Mapping[str, tuple[int, ...]]  # kernel -> inputs over which it may write


class PlanError(AssertionError):
    """A plan that would let one tensor destroy another. A bug of the planner, never of a model."""


def verify(g: Graph, offsets: Offsets, arena_bytes: int, in_place: InPlace) -> None:
    """g: integer graph in execution order."""
    replay = _Replay(g, offsets, arena_bytes, in_place)
    for node in g.nodes:
        replay.step(node)
    for o in g.outputs:
        if o not in replay.held and not replay.is_there(o):
            raise PlanError(f"model output '{o}' does not survive the run")


def _named(node: Node) -> str:
    return f"node '{node.name}' ({node.op})"


class _Replay:
    """The values that later steps read, and the bytes of each, while one step after the other runs."""

    def __init__(self, g: Graph, offsets: Offsets, arena_bytes: int, in_place: InPlace) -> None:
        self.g = g
        self.offsets = offsets
        self.arena_bytes = arena_bytes
        self.in_place = in_place
        self.held = {name for name, value in g.values.items() if value.held >= 0}  # states, which lie elsewhere
        read = [i for node in g.nodes for i in node.inputs if not g.is_const(i)]
        self.readers = Counter([*read, *g.outputs])
        self.live: dict[str, tuple[int, int]] = {}
        for name in g.inputs:
            if name not in self.held:
                self._write(name, set(), "model input")

    def step(self, node: Node) -> None:
        y = node.outputs[0]
        if node.op in ("Reshape", "View") and node.inputs[0] in self.held:
            self.held.add(y)
            return
        active = [i for i in node.inputs if not self.g.is_const(i) and i not in self.held]
        for i in active:
            if not self.is_there(i):
                raise PlanError(f"{_named(node)}: its input '{i}' is gone")
        if node.op in ("Reshape", "View", "Join"):
            # The same bytes under another name: nothing is written, both names may live on.
            check = self._check_join if node.op == "Join" else self._check_view
            check(node)
            if self.readers[y]:
                self.live[y] = self._span(y)
        elif y not in self.held:
            share = {node.inputs[k] for k in self.in_place.get(node.op, ()) if self.readers[node.inputs[k]] == 1}
            self._write(y, share, _named(node))
        for i in active:
            self.readers[i] -= 1
            if self.readers[i] == 0:
                self.live.pop(i, None)

    def _span(self, name: str) -> tuple[int, int]:
        low = self.offsets[name]
        high = low + self.g.value(name).bytes
        if low < 0 or low % 4 or high > self.arena_bytes:
            raise PlanError(f"'{name}' at bytes {low}..{high} of an arena of {self.arena_bytes}")
        return low, high

    def is_there(self, name: str) -> bool:
        return name in self.live and self.live[name] == self._span(name)

    def _write(self, name: str, may_share: set[str], by: str) -> None:
        low, high = self._span(name)
        for other, (a, b) in self.live.items():
            if low < b and a < high and not (other in may_share and a == low and b == high):
                raise PlanError(
                    f"{by}: writes '{name}' at bytes {low}..{high} over '{other}' at {a}..{b}, "
                    f"which {self.readers[other]} more readers need"
                )
        if self.readers[name]:
            self.live[name] = (low, high)

    def _check_join(self, node: Node) -> None:
        """The inputs fill the output, one behind the other."""
        low, high = self._span(node.outputs[0])
        for i in node.inputs:
            if self._span(i)[0] != low:
                raise PlanError(f"{_named(node)}: its input '{i}' is not at byte {low} of the arena")
            low = self._span(i)[1]
        if low != high:
            raise PlanError(f"{_named(node)}: its inputs end at byte {low}, its output at {high}")

    def _check_view(self, node: Node) -> None:
        """The output begins `offset` bytes into the input."""
        low, high = self._span(node.outputs[0])
        begin, end = self._span(node.inputs[0])
        if low != begin + node.attrs.get("offset", 0) or high > end:
            raise PlanError(f"{_named(node)}: moves its input")
        if node.op == "Reshape" and high != end:
            raise PlanError(f"{_named(node)}: is shorter than its input")


def verify_strips(
    g: Graph,
    steps: Sequence[Node],
    offsets: Offsets,
    arena_bytes: int,
    strips: Sequence[Strip],
    in_place: InPlace,
    fed: str | None = None,
) -> None:
    """The same as `verify` for a plan with strips, by the owner of each byte of each row.
    fed: the input that comes by rows.

    Every call has to find the rows that it reads, where the window of its kernel expects them, and what it writes is
    then there. Two names of the same bytes (a reshape) are followed to the name that was written.
    """
    replay = _RowReplay(g, offsets, arena_bytes, in_place, fed)
    begins = {s.first: s for s in strips}
    inside = {k for s in strips for k in range(s.first, s.first + s.steps)}
    number = {id(node): k for k, node in enumerate(steps)}
    for node in g.nodes:
        k = number.get(id(node))
        if k is None:
            replay.rename(node)
        elif k in begins:
            replay.strip(begins[k], steps)
        elif k not in inside:
            replay.step(node)
    for o in g.outputs:
        replay.read(o, 0, g.value(o).bytes, "model output")


class _RowReplay:
    """The arena while steps and calls run: each byte of `bytes` holds the number of a value * 2**32 + its byte in that
    value."""

    def __init__(self, g: Graph, offsets: Offsets, arena_bytes: int, in_place: InPlace, fed: str | None) -> None:
        self.g = g
        self.offsets = offsets
        self.in_place = in_place
        self.fed = fed
        self.bytes = np.full(arena_bytes, -1, np.int64)
        self.number = {name: k for k, name in enumerate(g.values)}
        self.gone: Counter[str] = Counter()  # rows that have left
        self.have: dict[str, int] = {}  # rows that were made
        self.alias: dict[str, list[tuple[str, int, int]]] = {}  # name -> parts: (written name, its first byte, bytes)
        for name in g.inputs:
            if name == fed:
                self.have[name] = 0
            else:
                self._write(name, 0, g.value(name).bytes, "model input")

    def read(self, name: str, low: int, high: int, by: str) -> None:
        """Bytes [low, high) of a value, under any name that they were written with."""
        at = 0
        place = self.offsets[name]
        for written, first, size in self._parts(name):
            a, b = max(low, at), min(high, at + size)
            if a < b:
                if name != written and self.offsets[written] + first != place + at:
                    raise PlanError(f"{by}: '{name}' is not where '{written}' was written")
                self._find(written, first + a - at, first + b - at, by)
            at += size

    def rename(self, node: Node) -> None:
        """The output of a Reshape, View or Join is the bytes of its inputs."""
        y = node.outputs[0]
        if node.op == "Join":
            self.alias[y] = [part for i in node.inputs for part in self._parts(i)]
            return
        skip, left = node.attrs.get("offset", 0), self.g.value(y).bytes
        self.alias[y] = []
        for written, first, size in self._parts(node.inputs[0]):
            n = min(size - skip, left)
            if n > 0:
                self.alias[y].append((written, first + skip, n))
                left -= n
            skip = max(0, skip - size)

    def step(self, node: Node) -> None:
        """A step that makes all of its output."""
        by, y = _named(node), node.outputs[0]
        target = self._span(y, 0, self.g.value(y).bytes, by)
        for i in node.inputs:
            if not self.g.is_const(i):
                self._operand(node, i, (0, self.g.value(i).bytes), target, by)
        self._write(y, 0, self.g.value(y).bytes, by)

    def strip(self, strip: Strip, steps: Sequence[Node]) -> None:
        own = steps[strip.first : strip.first + strip.steps]
        for node in own:
            self.have[node.outputs[0]] = 0
        for c in strip.calls:
            if c.step == FEED:
                self._feed(c.rows, c.drop)
            else:
                self._call(steps[c.step], c.rows, c.drop)
        for node in own:
            y = node.outputs[0]
            if self.have[y] * self._row_bytes(y) != self.g.value(y).bytes:
                raise PlanError(f"node '{node.name}': {self.have[y]} rows of '{y}' are made")

    def _feed(self, rows: int, drop: int) -> None:
        fed = self.fed
        if fed is None:
            raise PlanError(f"{rows} rows are fed, and no input is")
        by = f"the fed input '{fed}', row {self.have[fed]}"
        row, end = self._row_bytes(fed), self.have[fed] + rows
        self._leave(fed, drop, by)
        if end * row > self.g.value(fed).bytes:
            raise PlanError(f"{by}: there are not {rows} more")
        self._write(fed, self.have[fed] * row, end * row, by)
        self.have[fed] = end

    def _call(self, node: Node, rows: int, drop: int) -> None:
        y = node.outputs[0]
        by = f"{_named(node)}, row {self.have[y]}"
        row = self._row_bytes(y)
        self._leave(y, drop, by)
        begin, end = self.have[y], self.have[y] + rows
        target = self._span(y, begin * row, end * row, by)
        for i in node.inputs:
            if not self.g.is_const(i):
                low, high = self._rows_read(node, i, begin, end)
                size = self._row_bytes(i)
                self._operand(node, i, (low * size, high * size), target, by)
        self._write(y, begin * row, end * row, by)
        self.have[y] = end

    def _rows_read(self, node: Node, i: str, begin: int, end: int) -> tuple[int, int]:
        """Rows of input i that rows [begin, end) of the output are made of."""
        shape, a = self.g.value(i).shape, node.attrs
        if "kernel_h" in a:
            low = max(0, begin * a["stride_h"] - a["pad_top"])
            high = (end - 1) * a["stride_h"] - a["pad_top"] + (a["kernel_h"] - 1) * a["dilation_h"] + 1
            return low, min(shape[1], high)
        return (0, 1) if len(shape) != 4 or shape[1] == 1 else (begin, end)

    def _operand(self, node: Node, i: str, part: tuple[int, int], target: slice, by: str) -> None:
        """Reads a part of input i, in bytes; a kernel still reads while it writes."""
        self.read(i, *part, by)
        source = self._span(i, *part, by)
        together = source.start < target.stop and target.start < source.stop
        if together and not (node.op in self.in_place and source == target):
            raise PlanError(
                f"{by}: writes bytes {target.start}..{target.stop}, and reads '{i}' at {source.start}..{source.stop}"
            )

    def _leave(self, y: str, drop: int, by: str) -> None:
        """The oldest rows of y make room."""
        row = self._row_bytes(y)
        if drop:
            kept = self.have[y] - self.gone[y] - drop
            if kept < 0:
                raise PlanError(f"{by}: {drop} rows leave, {kept + drop} are there")
            here = self._span(y, (self.gone[y] + drop) * row, self.have[y] * row, by)
            moved = self.bytes[here].copy()
            self.bytes[self.offsets[y] : self.offsets[y] + kept * row] = moved
            self.gone[y] += drop

    def _row_bytes(self, name: str) -> int:
        shape = self.g.value(name).shape
        return self.g.value(name).bytes // (shape[1] if len(shape) == 4 else 1)

    def _parts(self, name: str) -> list[tuple[str, int, int]]:
        return self.alias.get(name, [(name, 0, self.g.value(name).bytes)])

    def _span(self, name: str, low: int, high: int, by: str) -> slice:
        """Bytes of the arena that hold bytes [low, high) of a value."""
        at = self.offsets[name] - self.gone[name] * self._row_bytes(name)
        if at + low < 0 or at + high > self.bytes.size or self.offsets[name] % 4:
            raise PlanError(f"{by}: '{name}' at bytes {at + low}..{at + high} of an arena of {self.bytes.size}")
        return slice(at + low, at + high)

    def _content(self, name: str, low: int, high: int) -> np.ndarray:
        return np.arange(low, high, dtype=np.int64) + (self.number[name] << 32)

    def _write(self, name: str, low: int, high: int, by: str) -> None:
        self.bytes[self._span(name, low, high, by)] = self._content(name, low, high)

    def _find(self, name: str, low: int, high: int, by: str) -> None:
        found = self.bytes[self._span(name, low, high, by)]
        wrong = np.flatnonzero(found != self._content(name, low, high))
        if wrong.size:
            owner = int(found[wrong[0]]) >> 32
            other = list(self.g.values)[owner] if owner >= 0 else "nothing"
            raise PlanError(f"{by}: byte {low + wrong[0]} of its input '{name}' is gone; '{other}' lies there")
