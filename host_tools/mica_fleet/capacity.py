"""Checks before a push that models fit the boards: format, kernels, flash, RAM and the size of a request.

At its birth a board reports (firmware/mica_fleet) its kernels, its static arena and the heap that is free while no
model is loaded. It also reports the free space in the half of its ROMFS or in its file system. The needs of a model
are those of `mica fit`. Boards that are off are not checked; the trial on the board decides in any case.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mica.boards import load_board
from mica.cost.prediction import tables_in_heap
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import ModelFile
from mica.kernels import CUSTOM, FAMILIES
from mica_fleet.machines import board_called
from mica_fleet.reports import State

_ROM = "/rom/"
_IN_PYTHON = frozenset(k.name for kernels in FAMILIES.values() for k in kernels)


@dataclass(frozen=True)
class _Model:
    name: str
    size: int
    crc: int
    model: ModelFile

    @property
    def request(self) -> int:
        return sum(self.model.tensors[t].bytes for t in self.model.inputs)


def misfits(models: Mapping[str, bytes], states: Mapping[str, State]) -> dict[str, str]:
    """Board -> why the models cannot run there; of boards that are up."""
    decoded = [_Model(name, len(data), zlib.crc32(data), codec.decode(data)) for name, data in models.items()]
    table = Table.read()
    found: dict[str, str] = {}
    for board, state in states.items():
        if not state.up:
            continue
        if reason := _misfit(board, state, decoded, table):
            found[board] = reason
    return found


def _misfit(board: str, state: State, models: list[_Model], table: Table) -> str | None:
    about = state.about
    for m in models:
        reason = _engine(board, m, about) or _ram(board, m, about, table)
        if reason:
            return reason
        if 0 < state.largest < m.request:
            return f"{m.name}: a request has {m.request:,} bytes of inputs; {board} takes {state.largest:,}"
    return _flash(board, state, models)


def _engine(board: str, m: _Model, about: Mapping[str, Any]) -> str | None:
    """The reason why the board's firmware cannot run the file; None if it can."""
    if "format" in about:
        major = int(about["format"].split(".")[0])
        if major != m.model.version[0]:
            version = ".".join(map(str, m.model.version))
            return f"{m.name} has the file format {version}; {board} reads {about['format']}"
    if "kernels" not in about:
        return None
    there = set(about["kernels"].split(","))
    if about.get("python"):
        there |= _IN_PYTHON
    missing = sorted({s.kernel for s in m.model.steps} - there - {CUSTOM.name})
    if missing:
        return f"{m.name} needs {', '.join(missing)}, which the firmware of {board} lacks"
    return None


def _ram(board: str, m: _Model, about: Mapping[str, Any], table: Table) -> str | None:
    heap, arena = about.get("heap"), about.get("arena")
    if not heap or arena is None:
        return None
    facts = table.board(board_called(about.get("board", "")) or load_board("RPI_PICO"))
    tensors = (m.model.arena_bytes or 0) + m.model.scratch_min
    parts = {
        "for tensors": 0 if tensors <= arena else tensors,
        "for the file": 0 if "rom" in about else m.size,
        "for the rest": tables_in_heap(m.model, facts) + (m.model.state_bytes or 0),
    }
    needed = sum(parts.values())
    if needed <= heap:
        return None
    listed = ", ".join(f"{n:,} {what}" for what, n in parts.items() if n)
    return f"{m.name} takes {needed:,} bytes of heap ({listed}); {board} has {heap:,}"


def _flash(board: str, state: State, models: list[_Model]) -> str | None:
    about = state.about
    prefix = _ROM if "rom" in about else ""
    new = [m for m in models if state.models.get(prefix + m.name) != m.crc]
    needed = sum(m.size for m in new)
    if not needed:
        return None
    names = ", ".join(m.name for m in new)
    if "rom" in about:
        room, used = about["rom"]
        # All that stays is copied to the other half.
        needed += used - sum(about.get("sizes", {}).get(prefix + m.name, 0) for m in new)
        if needed > room:
            return f"{names} and what stays have {needed:,} bytes; half of the ROMFS of {board} has {room:,}"
    elif "free" in about and needed > about["free"]:
        return f"{names}: {needed:,} bytes; {board} has {about['free']:,} free for files"
    return None


def left_out(models: Mapping[str, bytes], states: Mapping[str, State], boards: Iterable[str]) -> dict[str, str]:
    """Return which of these boards cannot take the models, and why. Raises MicaError if no board that is up can."""
    among = {b: states[b] for b in boards if b in states}
    found = misfits(models, among)
    if found and len(found) == sum(s.up for s in among.values()):
        n = len(found) - 1
        more = f" (and {n} more board{'s' if n > 1 else ''} cannot take it)" if n else ""
        todo = "a smaller model, mica fleet cut, or a firmware that has it all"
        raise MicaError(f"{next(iter(found.values()))}{more}", todo=todo)
    return found
