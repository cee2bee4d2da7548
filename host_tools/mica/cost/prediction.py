"""Prediction, before anything is flashed, if a model fits a board, and of the RAM, flash and time it takes there.

RAM and flash are sums of what the file says and what the board's table says. Time comes from `table.py`; for boards
with MicroPython measured in an emulator also what the interpreter's loop adds. Nothing here opens a port.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mica.boards import BoardSpec
from mica.cost import waits
from mica.cost.table import StepCost, Table
from mica.file.codec import ModelFile, StepRecord
from mica.file.order import CALL_COST, call_dims, is_image
from mica.images import romfs


@dataclass
class Prediction:
    """The keys of `mica fit --json`. Sizes in bytes; None where nothing is known. `reasons`: why it does not fit."""

    board: str
    fits: bool
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ram: dict[str, Any] = field(default_factory=dict)
    flash: dict[str, Any] = field(default_factory=dict)
    time: dict[str, Any] | None = None
    layers: list[dict[str, Any]] = field(default_factory=list)


def predict(
    model: ModelFile, data: bytes, board: BoardSpec, table: Table, weights: int | str | None = None
) -> Prediction:
    """Predict RAM, flash and time of the file `data`, decoded as `model`, on a board.
    weights: as of the board's `mica.Model`."""
    p = Prediction(board.name, True)
    copied = _flash(p, data, board)
    scratch = _ram(p, model, data, board, table, copied)
    in_ram = set(range(len(model.steps))) if copied else _held(p, model, weights)
    _time(p, model, board, table, scratch, in_ram)
    if weights is None and not copied and p.time and p.time["flash"]:
        _advise(p, model, board, table, scratch)
    if board.module:
        taken = f"take {board.module:,} bytes of its heap" if board.module > 0 else "were never measured there"
        p.notes.append(f"RAM: mica is a native module on stock MicroPython here; module, runtime and arena {taken}")
    if board.emulator is None and board.port.name:
        p.notes.append(f"{board.name} was never run, on a desk or in an emulator")
    p.fits = not p.reasons
    return p


def _flash(p: Prediction, data: bytes, board: BoardSpec) -> bool:
    """Find the place of the file on the board. Returns True if it is copied into RAM."""
    window = board.romfs.size if board.romfs else 0
    image = len(romfs.build({"model.mica": data}))
    push_room = romfs.half_size(window) - romfs.BLOCK if window else 0
    p.flash = {
        "file": len(data),
        "romfs": window or None,
        "push_room": push_room or None,
        "storage": board.storage or None,
    }
    if image <= window:
        p.flash["place"] = "romfs"
        if board.port.stock:
            p.notes.append(
                "flash: mpremote romfs deploy puts it into the ROMFS; mica push makes a file, which is copied into RAM"
            )
        elif len(romfs.half_image({"model.mica": data})) > push_room:
            p.notes.append(
                f"flash: it takes more than half of the ROMFS ({push_room:,} bytes): mica flash --with puts it there, "
                "mica push cannot"
            )
        return False
    if board.storage and len(data) <= board.storage:
        p.flash["place"] = "files"
        p.notes.append("the file lies in the file system and is copied into RAM when it is loaded")
        return True
    p.flash["place"] = None
    if window or board.storage:
        p.reasons.append(
            f"flash: the file has {len(data):,} bytes; models on {board.name} have {max(window, board.storage):,}. Try "
            "fewer channels"
        )
        return False
    p.flash["place"] = "files"  # of a computer
    return True


def _ram(p: Prediction, model: ModelFile, data: bytes, board: BoardSpec, table: Table, copied: bool) -> int:
    """The arena and the heap; returns the bytes of scratch that the kernels get."""
    tensors = model.arena_bytes or 0
    given = max(model.scratch_min, min(model.scratch_want, board.scratch))
    least, want = tensors + model.scratch_min, tensors + given
    borrows = want > board.arena >= given > model.scratch_min  # the static arena as scratch
    facts = table.board(board)
    heap, exact = table.heap(board)
    python = tables_in_heap(model, facts)
    state = model.state_bytes or 0
    around = python + state + (len(data) if copied else 0)
    p.ram = {
        "tensors": tensors,
        "scratch_want": given,
        "scratch_min": model.scratch_min,
        "state": state,
        "tables": python,
        "copy": len(data) if copied else 0,
        "arena": board.arena,
        "heap": heap,
        "heap_measured": exact,
    }
    if want <= board.arena:
        arena_block, scratch = 0, board.arena - tensors
    elif borrows and (heap is None or around + least <= heap):
        arena_block, scratch = least, board.arena
    elif heap is None or around + want <= heap:
        arena_block, scratch = want, given
    elif least <= board.arena:
        arena_block, scratch = 0, board.arena - tensors
        p.notes.append("the heap has no room for the scratch it wants: layers run slower, in the static arena")
    else:
        arena_block, scratch = least, model.scratch_min
        p.notes.append("the heap has no room for the scratch it wants: layers run slower")
    needed = around + arena_block
    p.ram |= {"arena_on_heap": arena_block, "heap_needed": needed}
    if heap is not None and needed > heap:
        parts = [f"{arena_block:,} for tensors and scratch"] * bool(arena_block)
        parts += [f"{len(data):,} for the file"] * copied + [f"{python + state:,} for the rest"]
        p.reasons.append(
            f"RAM: needs {needed:,} bytes of heap ({', '.join(parts)}); {board.name} has {heap:,}. "
            + (
                "Try mica natmod --for this file, and --native with its bytes"
                if board.module
                else "Try a smaller input or fewer channels"
            )
        )
    elif heap is None and least > board.ram:
        p.reasons.append(
            f"RAM: needs {least:,} bytes for its tensors; {board.name} has {board.ram:,}. Try a smaller input"
        )
    elif heap is None and arena_block:
        p.notes.append(
            f"the free heap of {board.name} was never measured: whether {needed:,} bytes are there is not known"
        )
    return scratch


def _held(p: Prediction, model: ModelFile, weights: int | str | None) -> set[int]:
    """The steps whose weights `mica.Model` copies into the heap, whose bytes it counts."""
    p.ram["weights"] = 0
    if weights is None:
        return set()
    room = (p.ram["heap"] or 0) - p.ram["heap_needed"]
    room = max(0, room - max(waits.LEFT, room // 4)) if weights == waits.AUTO else min(int(weights), room)
    held = waits.held(model, room)
    p.ram["weights"] = sum(held.values())
    p.ram["heap_needed"] += p.ram["weights"]
    return set(held)


def _advise(p: Prediction, model: ModelFile, board: BoardSpec, table: Table, scratch: int) -> None:
    """Note what copies of weights would bring, where that is a tenth of the time."""
    other = Prediction(p.board, True, ram=dict(p.ram))
    _time(other, model, board, table, scratch, _held(other, model, waits.AUTO))
    if p.time and other.time and other.time["total"] < 0.9 * p.time["total"]:
        p.notes.append(
            f'time: mica.Model(..., weights="auto") copies {other.ram["weights"]:,} bytes of weights into RAM: '
            f"{other.time['total'] / p.time['total']:.0%} of the time"
        )


def tables_in_heap(model: ModelFile, facts: Mapping[str, float]) -> int:
    """Bytes of heap of a loaded model without its state. facts: `Table.board`."""
    strips = _strip_tables(model) if model.strips else 0
    return round(facts["heap_fixed"] + facts["heap_step"] * len(model.steps)) + strips


def _strip_tables(model: ModelFile) -> int:
    """Bytes of heap that the engine's tables of rows take for a model in strips, on a board with 32 bits."""
    return 192 + 28 * len(model.steps) + 20 * len(model.tensors)


def room(p: Prediction, model: ModelFile, feed: bool = False) -> int:
    """Bytes of tensors and scratch that would fit beside the rest and the caller's inputs, were the model in strips.

    feed: its picture comes row by row, as from a sensor, and the caller has none of it.
    """
    if p.ram["heap"] is None:
        return int(p.ram["arena"])
    rest = p.ram["tables"] + p.ram["state"] + p.ram["copy"] + _strip_tables(model)
    fed = next((t for t in model.inputs if feed and is_image(model.tensors[t].dims)), None)
    rest += sum(model.tensors[t].bytes for t in model.inputs if t != fed)
    return max(int(p.ram["arena"]), int(p.ram["heap"]) - rest - SPARE)


SPARE = 2048  # bytes of heap that no plan takes


def _time(
    p: Prediction, model: ModelFile, board: BoardSpec, table: Table, scratch: int, in_ram: Collection[int] = ()
) -> None:
    """Costs by layer, and their sum. in_ram: steps whose constants lie in RAM."""
    core = table.core_of(board)
    costs: list[StepCost | None] = [table.step(core, model, s, scratch) if core else None for s in model.steps]
    if core:
        _add_calls(costs, model, core, table, scratch)
    facts = table.board(board)
    each = facts["cycles"] or 1.0
    if facts["cycles"]:
        costs = [cost and replace(cost, cost=cost.cycles or cost.cost * each) for cost in costs]
    cache = waits.Cache(model, in_ram)
    flash = [
        _waits(table, board, model, s, scratch, i in in_ram, cache, cost.cost if cost else 0.0)
        + facts["layer_misses"] * board.flash_miss
        for i, (s, cost) in enumerate(zip(model.steps, costs, strict=True))
    ]
    for i, (step, cost) in enumerate(zip(model.steps, costs, strict=True)):
        p.layers.append(
            {
                "index": i,
                "name": step.name,
                "kernel": step.kernel,
                "macs": step.macs,
                "cost": round(cost.cost + facts["call"] * each + flash[i]) if cost else None,
                "flash": round(flash[i]),
                "error": cost.error if cost else None,
            }
        )
    if any(s.kernel == "attend_s8" for s in model.steps):
        p.notes.append("time: attention over all rows of its cache; over fewer tokens it takes less")
    if core is None:
        p.notes.append(f"time: no costs were measured for {board.core} with the kernels {board.isa!r}")
        return
    known = [c for c in costs if c is not None]
    strange = sorted({f"'{s.name}' ({s.kernel})" for s, c in zip(model.steps, costs, strict=True) if c is None})
    if strange:
        p.notes.append(f"time: without {', '.join(strange)}, which were never measured on this core")
    n = len(model.steps)
    outside = facts["run_misses"] * board.flash_miss
    overhead = (facts["run"] + facts["layer"] * n) * each + outside
    steps = sum(c.cost for c in known)
    waited = sum(flash) + outside
    total = steps + facts["call"] * n * each + overhead + sum(flash)
    if facts["cycles"]:
        p.notes.append("time: cycles are the emulator's estimate, the average of a kind of layer for its instructions")
    p.time = {
        "unit": "cycles" if facts["cycles"] else table.unit(core),
        "total": round(total),
        "overhead": round(overhead),
        "error": round(sum(c.cost * c.error for c in known) / total, 3) if total else 0.0,
        "complete": not strange,
        "clock": board.clock or None,
        "milliseconds": 1000 * total / board.clock if board.clock else None,
        "flash": round(waited),
        "flash_milliseconds": 1000 * waited / board.clock if board.clock else None,
        "revision": table.revision(core),
    }


def _waits(
    table: Table,
    board: BoardSpec,
    model: ModelFile,
    step: StepRecord,
    scratch: int,
    in_ram: bool,
    cache: waits.Cache,
    cost: float,
) -> float:
    """Cycles that a step waits for flash, beside its `cost`."""
    core = table.core_of(board)
    if core is None or not board.flash_miss:
        return 0.0
    words, blocks = 0.0, 1
    if board.mcu in waits.STREAMS and not in_ram:
        x = model.tensors[step.inputs[0]].dims
        words, blocks = waits.streamed(step, math.prod(x[:-1]), scratch)
    missed = table.misses(core, model, step, scratch, math.inf if in_ram else words, cache)
    stream = words * waits.STREAMS.get(board.mcu, 0.0) * board.flash_miss
    return missed * board.flash_miss + waits.overlapped(stream, blocks, cost)


def unhindered(model: ModelFile, board: BoardSpec, table: Table) -> dict[str, Any] | None:
    """The time it would take if it fitted, with all the scratch it wants; None where nothing was measured."""
    p = Prediction(board.name, True)
    _time(p, model, board, table, min(model.scratch_want, board.scratch))
    return p.time


def _add_calls(costs: list[StepCost | None], model: ModelFile, core: str, table: Table, scratch: int) -> None:
    """Add up steps in strips: the sum of their calls, each a picture of its own."""
    price = table.price(core)
    known: dict[tuple[int, int], float] = {}

    def call(step: int, rows: int) -> float:
        s = model.steps[step]
        y = model.tensors[s.outputs[0]]
        tensors = [
            replace(t, dims=call_dims(s.kernel, t.dims, y.dims, s.params, rows)[k])
            for k, ids in enumerate((s.inputs, s.outputs))
            for t in (model.tensors[i] for i in ids)
        ]
        part = s.params | ({"pad_top": 0} if "pad_top" in s.params else {})
        record = replace(s, params=part, macs=s.macs * rows // y.dims[1])
        return price(s.kernel, record, tensors[:-1], tensors[-1], scratch) + CALL_COST

    for strip in model.strips:
        for i in range(strip.first, strip.first + strip.steps):
            if (whole := costs[i]) is not None:
                total = 0.0
                for c in strip.calls:
                    if c.step == i:
                        if (i, c.rows) not in known:
                            known[i, c.rows] = call(i, c.rows)
                        total += known[i, c.rows]
                costs[i] = replace(whole, cost=total, cycles=whole.cycles * total / whole.cost)
