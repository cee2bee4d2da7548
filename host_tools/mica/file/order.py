"""Strips: the section ORDER as calls, and whether each call reads and writes what is there (SPEC.md, "ORDER").

The same rules stand in C, in `usermod_c/runtime/strip.c`; a test gives both thousands of damaged files and expects the
same verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mica.format import schema
from mica.kernels import IN_PLACE
from mica.kernels.base import Dims, Tensor
from mica.kernels.rules import Broken, require

BY_WINDOW = ("conv2d_s8", "depthwise_conv2d_s8", "max_pool2d_s8", "average_pool2d_s8")
CALL_COST = 350.0  # cycles that a call adds, about: the loop, and the copy of a step's parameters
BY_ROW = ("add_s8", "mul_s8", "minmax_s8", "div_s8", "lut_s8", "concat_s8")


class Placed(Tensor, Protocol):
    """A tensor with its place."""

    name: str
    space: str
    offset: int

    @property
    def bytes(self) -> int:
        """Size in bytes."""


class Record(Protocol):
    """A step."""

    kernel: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: dict[str, int]


@dataclass(frozen=True)
class Call:
    """`rows` more rows of the output of step `step`; before that its `drop` oldest rows leave the memory.

    Of step FEED: rows of the fed input, which the caller delivers.
    """

    step: int
    rows: int
    drop: int


@dataclass(frozen=True)
class Strip:
    """`steps` steps from step `first` on, run by the calls."""

    first: int
    steps: int
    calls: tuple[Call, ...]


def is_image(dims: Dims) -> bool:
    """True if a shape has rows: [1, H, W, C]."""
    return len(dims) == 4 and dims[0] == 1


def rows_of(dims: Dims) -> int:
    """H of [1, H, W, C]; 1 of another shape."""
    return dims[1] if is_image(dims) else 1


def moves(x: Dims, y: Dims) -> bool:
    """True if an elementwise step reads x row by row, as it writes y."""
    return is_image(x) and rows_of(x) == rows_of(y)


def one_for_all(x: Dims) -> bool:
    """True if x, which an elementwise step reads, is the same for all rows."""
    return rows_of(x) == 1 if is_image(x) else len(x) < 3 or (len(x) == 3 and x[0] == 1)


def can_stream(kernel: str, xs: Sequence[Dims], y: Dims, p: Mapping[str, int]) -> bool:
    """True if a step of these shapes can be part of a strip."""
    if not is_image(y):
        return False
    if kernel in BY_WINDOW:
        return is_image(xs[0])
    if kernel == "concat_s8":
        return p["axis"] == 3 and all(moves(x, y) for x in xs)
    return kernel in BY_ROW and all(moves(x, y) or one_for_all(x) for x in xs)


def reads(kernel: str, x: Dims, y: Dims, p: Mapping[str, int], begin: int, end: int) -> tuple[int, int]:
    """Rows [a, b) of x that rows [begin, end) of y are made of; those outside of [0, H) are padding."""
    if kernel in BY_WINDOW:
        first = begin * p["stride_h"] - p["pad_top"]
        last = (end - 1) * p["stride_h"] - p["pad_top"]
        return first, last + (p["kernel_h"] - 1) * p["dilation_h"] + 1
    return (begin, end) if moves(x, y) else (0, rows_of(x))


def call_dims(kernel: str, x: Dims, y: Dims, p: Mapping[str, int], rows: int) -> tuple[Dims, Dims]:
    """Shapes of an input and the output in a call that makes `rows` rows in the middle of a picture."""
    low, high = reads(kernel, x, y, p, 0, rows)
    return (1, min(x[1], high - low), *x[2:]) if is_image(x) else x, (1, rows, *y[2:])


class _Memory:
    """The rows of each tensor that are in memory."""

    def __init__(self, tensors: Sequence[Placed], arena_bytes: int, fed: int | None) -> None:
        self.tensors = tensors
        self.arena_bytes = arena_bytes
        self.fed = fed
        self.first = [0] * len(tensors)
        self.have = [0] * len(tensors)

    def forget(self, t: int) -> None:
        self.first[t] = self.have[t] = 0

    def place(self, t: int, begin: int, end: int) -> tuple[str, int, int]:
        """Space and bytes of rows [begin, end)."""
        about = self.tensors[t]
        row = about.bytes // rows_of(about.dims)
        low = about.offset + (begin - self.first[t]) * row
        return "arena" if about.space == "rows" else about.space, low, low + (end - begin) * row

    def make(self, t: int, rows: int, drop: int) -> tuple[str, int, int]:
        """Place for `rows` more rows of tensor t, after `drop` have left; they are not counted yet. Raises Broken."""
        y = self.tensors[t]
        begin, end = self.have[t], self.have[t] + rows
        require(rows >= 1 and end <= rows_of(y.dims), f"makes {rows} rows, {begin} of {rows_of(y.dims)} are there")
        require(
            drop <= begin - self.first[t] and (drop == 0 or y.space == "rows"),
            f"drops {drop} rows of {begin - self.first[t]}",
        )
        self.first[t] += drop
        out = self.place(t, begin, end)
        require(y.space != "rows" or out[2] <= self.arena_bytes, f"writes up to {out[2]}, behind the arena's end")
        return out

    def feed(self, rows: int, drop: int) -> None:
        """Raises Broken."""
        if self.fed is None:
            raise Broken("feeds rows, and no input is fed")
        self.make(self.fed, rows, drop)
        self.have[self.fed] += rows

    def call(self, s: Record, rows: int, drop: int) -> None:
        """Raises Broken."""
        t = s.outputs[0]
        y = self.tensors[t]
        out = self.make(t, rows, drop)
        begin, end = self.have[t], self.have[t] + rows
        for i in s.inputs:
            x = self.tensors[i]
            a, b = reads(s.kernel, x.dims, y.dims, s.params, begin, end)
            low, high = max(a, 0), min(b, rows_of(x.dims))
            there = x.space != "rows" or (self.first[i] <= low and high <= self.have[i])
            require(low < high and there, f"reads rows {low} to {high} of '{x.name}', which are not there")
            source = self.place(i, low, high)
            if source == out and s.kernel in IN_PLACE:
                continue
            apart = source[0] != out[0] or source[2] <= out[1] or out[2] <= source[1]
            require(apart, f"reads bytes of '{x.name}' that it writes")
        self.have[t] = end


def check(
    strips: Sequence[Strip],
    tensors: Sequence[Placed],
    steps: Sequence[Record],
    arena_bytes: int,
    fed: int | None = None,
) -> None:
    """Raises Broken if a strip is not sound; each step by itself is. fed: the input that is kept by rows, or None."""
    inside: set[int] = set()
    behind = 0
    for s in strips:
        require(
            behind <= s.first and s.steps >= 1 and s.first + s.steps <= len(steps),
            f"strip of {s.steps} steps from step {s.first} on, behind step {behind}: the model has {len(steps)}",
        )
        behind = s.first + s.steps
        inside.update(range(s.first, behind))
    for i, step in enumerate(steps):
        xs, y = [tensors[t] for t in step.inputs], tensors[step.outputs[0]]
        if i not in inside:
            require(
                all(t.space != "rows" for t in (*xs, y)), f"step {i}: a tensor that is kept by rows, outside of a strip"
            )
            continue
        sound = y.space in ("arena", "rows") and can_stream(step.kernel, [x.dims for x in xs], y.dims, step.params)
        # What is the same for all rows is read whole.
        whole = step.kernel not in BY_WINDOW and any(not moves(x.dims, y.dims) and x.space == "rows" for x in xs)
        require(sound and not whole, f"step {i} ({step.kernel}) cannot be part of a strip")
    memory = _Memory(tensors, arena_bytes, fed)
    for s in strips:
        _replay(s, memory, steps)


def _replay(s: Strip, memory: _Memory, steps: Sequence[Record]) -> None:
    own = range(s.first, s.first + s.steps)
    outputs = [steps[i].outputs[0] for i in own]
    for t in outputs:
        memory.forget(t)
    for n, c in enumerate(s.calls):
        what = f"call {n} of the strip from step {s.first} on"
        fed = c.step == schema.FEED
        require(fed or c.step in own, f"{what}: step {c.step} is not in it")
        try:
            if fed:
                memory.feed(c.rows, c.drop)
            else:
                memory.call(steps[c.step], c.rows, c.drop)
        except Broken as e:
            raise Broken(f"{what}, {'the fed input' if fed else f'step {c.step}'}: {e}") from None
    for i, t in zip(own, outputs, strict=True):
        expected = rows_of(memory.tensors[t].dims)
        require(
            memory.have[t] == expected, f"strip from step {s.first} on: {memory.have[t]} of {expected} rows of step {i}"
        )


def moved(s: Strip, steps: int) -> Strip:
    """The strip where so many steps come before it."""
    calls = (c if c.step == schema.FEED else Call(c.step + steps, c.rows, c.drop) for c in s.calls)
    return Strip(s.first + steps, s.steps, tuple(calls))


def to_records(strips: Sequence[Strip]) -> list[dict[str, int]]:
    """The records of ORDER."""
    out = []
    for s in strips:
        out.append({"step": schema.NEW_STRIP, "rows": s.first, "drop": s.steps})
        out += [{"step": c.step, "rows": c.rows, "drop": c.drop} for c in s.calls]
    return out


def from_records(records: Sequence[Mapping[str, int]]) -> list[Strip]:
    """The strips. Raises Broken where a call stands before the first."""
    heads: list[tuple[int, int]] = []
    calls: list[list[Call]] = []
    for r in records:
        if r["step"] == schema.NEW_STRIP:
            heads.append((r["rows"], r["drop"]))
            calls.append([])
        else:
            require(bool(heads), "ORDER does not begin with a strip")
            calls[-1].append(Call(r["step"], r["rows"], r["drop"]))
    return [Strip(first, steps, tuple(own)) for (first, steps), own in zip(heads, calls, strict=True)]
