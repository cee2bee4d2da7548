"""Places of tensors in the arena at each step, read back from a finished model, and as lines for a terminal.

    0                                 arena 49,152
    |aaaaaaaaaaaaaaaa................................|   3,072  input
    |aaaaaaaaaaaaaaaaBBBBBBBBBBBBBBBB................|  19,456  conv1

A line is a step; a character is a part of the arena, a letter is a tensor: capital where the step writes it, small
where it is kept for later, `.` where nothing lies. `svg.py` draws the same blocks as a picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mica.file.codec import ModelFile, TensorRecord
from mica.format.schema import ALIGN

WIDTH = 64  # characters for the arena
NAMES = 28  # characters for the name of a step


@dataclass
class Block:
    """Bytes `offset` to `offset + bytes` of the arena hold `name` from step `first` to step `last`, both included."""

    name: str  # of the tensor
    label: str  # the step that writes it; its own name for a model input
    maker: str  # kernel of that step; "" for a model input
    dims: tuple[int, ...]
    offset: int
    bytes: int
    first: int
    last: int
    joined: bool = False  # filled by several steps (a concat without a step of its own), whose blocks lie inside

    @property
    def end(self) -> int:
        return self.offset + self.bytes


@dataclass
class Chart:
    """The blocks of a model, by step and offset."""

    title: str
    arena_bytes: int
    steps: list[str]  # names
    kernels: list[str]
    blocks: list[Block]

    def alive(self, k: int) -> list[Block]:
        return [b for b in self.blocks if b.first <= k <= b.last]

    def in_use(self, k: int) -> int:
        """Bytes that step k cannot do without, each block rounded up to where the next may begin."""
        used, reached = 0, 0
        for b in sorted(self.alive(k), key=lambda b: b.offset):
            end = -(-b.end // ALIGN) * ALIGN
            used += max(0, end - max(b.offset, reached))
            reached = max(reached, end)
        return used

    @property
    def peak(self) -> int:
        """The first step with most bytes in use."""
        return max(range(len(self.steps)), key=self.in_use, default=0)


def chart(model: ModelFile) -> Chart:
    """Replays a model's steps over the arena. What no step writes is another name for bytes that one wrote."""
    blocks: list[Block] = []
    owners: list[Block] = []  # blocks that hold their bytes now

    def born(t: TensorRecord, k: int, label: str, maker: str = "") -> None:
        owners[:] = [b for b in owners if b.end <= t.offset or t.offset + t.bytes <= b.offset]
        for b in blocks:
            if maker and b.last == k and b.offset < t.offset + t.bytes and t.offset < b.end:
                b.last = k - 1  # written in place
        blocks.append(Block(t.name, label, maker, t.dims, t.offset, t.bytes, k, k))
        owners.append(blocks[-1])

    def read(t: TensorRecord, k: int) -> None:
        parts = [b for b in owners if b.offset < t.offset + t.bytes and t.offset < b.end]
        for b in parts:
            b.last = max(b.last, k)
        if len(parts) > 1:
            first = min(b.first for b in parts)
            whole = Block(t.name, t.name, "concat", t.dims, t.offset, t.bytes, first, k, True)
            known = next((b for b in blocks if b.joined and (b.name, b.first) == (whole.name, whole.first)), None)
            if known is None:
                blocks.append(whole)
            else:
                known.last = k

    def in_arena(ids: tuple[int, ...] | list[int]) -> list[TensorRecord]:
        return [model.tensors[i] for i in ids if model.tensors[i].space == "arena"]

    n = len(model.steps)
    for t in in_arena(model.inputs):
        born(t, 0, t.name)
    for k, s in enumerate(model.steps):
        for t in in_arena(s.inputs):
            read(t, k)
        for t in in_arena(s.outputs):
            born(t, k, s.name, s.kernel)
    for t in in_arena(model.outputs):
        read(t, max(n - 1, 0))
    blocks = [b for b in blocks if b.last >= b.first]
    return Chart(
        model.metadata.get("name", ""),
        model.arena_bytes or 0,
        [s.name for s in model.steps],
        [s.kernel for s in model.steps],
        sorted(blocks, key=lambda b: (b.first, not b.joined, b.offset)),
    )


def lines(c: Chart, width: int = WIDTH) -> str:
    """The chart for a terminal."""
    if not c.steps or not c.arena_bytes:
        return "(no step writes to the arena)"
    letters = {id(b): chr(ord("a") + k % 26) for k, b in enumerate(b for b in c.blocks if not b.joined)}
    left, right = "0", f"{c.arena_bytes:,} bytes"
    rows = [f" {left}{right.rjust(width - len(left))}"]
    for k, name in enumerate(c.steps):
        cells = ["."] * width
        for b in c.alive(k):
            low = b.offset * width // c.arena_bytes
            high = max(low + 1, -(-b.end * width // c.arena_bytes))
            if b.joined:  # what is not written yet, but taken
                cells[low:high] = [":" if cell == "." else cell for cell in cells[low:high]]
                continue
            letter = letters[id(b)]
            written = b.first == k and b.maker
            for at in range(low, min(high, width)):
                if cells[at] in ".:" or written:
                    cells[at] = letter.upper() if written else letter
        mark = "  <- peak" if k == c.peak else ""
        shown = name if len(name) <= NAMES else f"{name[: NAMES - 1]}…"
        rows.append(f"|{''.join(cells)}| {c.in_use(k):>9,}  {shown}{mark}")
    return "\n".join(rows)


def peak_row(layers: Sequence[Mapping[str, Any]], peak_step: str | None) -> int | None:
    """The place of the step at the peak: of several with its name the one with most bytes in use."""
    named = [k for k, layer in enumerate(layers) if layer["name"] == peak_step]
    return max(named, key=lambda k: layers[k]["live_bytes"], default=None)
