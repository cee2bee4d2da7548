"""Whether boards have room for a model that is to be pushed, by what they say of themselves: before the first byte is sent.

The files of a push lie in RAM when they are loaded. A board says how much of its heap was free when it was born, where models may have been loaded
already; so what is asked is less than what it takes, and what is refused here cannot be. The trial on the board decides the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mica.errors import MicaError
from mica.fleet.mqtt_link import State
from mica.fleet.store import Store
from mica.format import codec


def misfits(models: Mapping[str, bytes], states: Mapping[str, State], store: Store) -> dict[str, str]:
    """Board -> why the first model that it has no room for cannot run there; of boards that are up."""
    least = {name: len(data) + (codec.decode(data).state_bytes or 0) for name, data in models.items()}
    found: dict[str, str] = {}
    for board, state in states.items():
        room = _room(state, store) if state.up else None
        for name, size in least.items():
            if room is not None and size > room:
                found.setdefault(board, f"{name} takes {size:,} bytes of heap at least; {board} has {room:,}")
    return found


def _room(state: State, store: Store) -> int | None:
    """Bytes of heap that are free when all models are let go, at most; None where that is not known."""
    heap = state.about.get("heap")
    if type(heap) is not int or heap <= 0:
        return None
    total = heap
    for crc in state.models.values():
        size = store.size(crc)
        if size is None:
            return None
        total += size
    return total


def check(models: Mapping[str, bytes], states: Mapping[str, State], boards: Iterable[str], store: Store) -> None:
    """Raises MicaError where any of these boards has no room."""
    among = {b: states[b] for b in boards if b in states}
    found = misfits(models, among, store)
    if found:
        rest = [b for b, s in among.items() if s.up and b not in found]
        first = next(iter(found.values()))
        more = f" (and {len(found) - 1} more boards)" if len(found) > 1 else ""
        todo = (
            f"push to the others alone: --boards {','.join(rest)}"
            if rest
            else "a model with fewer channels, or mica fleet cut"
        )
        raise MicaError(f"{first}{more}", todo=todo)
