"""RAM budgets: `--ram N[K]` and `--feed`, and strips for a board that a model does not fit layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mica.errors import MicaError

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.compiler import Compiled, Ram

CORE = "m0plus"  # whose costs count where no board is named: the slowest


def given(text: str | None, feed: bool, board: BoardSpec | None) -> Ram | None:
    """What --ram and --feed say; None where neither was given. Raises MicaError."""
    if text is None:
        return budget(None, board, feed) if feed else None
    return parse(text, board, feed)


def parse(text: str, board: BoardSpec | None, feed: bool = False) -> Ram:
    """N or NK, and what steps cost on the board's core. Raises MicaError."""
    number, kilo = (text[:-1], 1024) if text[-1:] in ("K", "k") else (text, 1)
    if not number.isdecimal() or int(number) * kilo < 1:
        raise MicaError(f"--ram {text}: expected a number of bytes such as 32000 or 31K")
    return budget(int(number) * kilo, board, feed)


def budget(size: int | None, board: BoardSpec | None, feed: bool = False) -> Ram:
    """`size` bytes on a board; feed: the input comes row by row."""
    from mica.compiler import Ram
    from mica.cost.table import Table

    table = Table.read()
    core = table.core_of(board) if board else CORE
    return Ram(size, table.price(core or CORE), feed)


@dataclass(frozen=True)
class InStrips:
    """A model in strips, the bytes of tensors and scratch that it was given, and its time against layer by layer with all its scratch (1.04: 4 % more)."""

    compiled: Compiled
    bytes: int
    time: float | None
    feed: bool = False


def for_board(compiled: Compiled, board: BoardSpec, feed: bool = False) -> InStrips | None:
    """The model in strips, where it does not fit the board's RAM otherwise and does so then; with `feed`, its input fed, too."""
    from mica.compiler import within
    from mica.cost.prediction import predict, room, unhindered
    from mica.cost.table import Table

    table = Table.read()
    before = predict(compiled.model, compiled.data, board, table)
    if before.fits or not any(reason.startswith("RAM") for reason in before.reasons):
        return None
    if compiled.model.strips and compiled.model.fed is None:
        return None
    size = room(before, compiled.model, feed)
    try:
        found = within(compiled, budget(size, board, feed), board.scratch, say_least=False)
    except MicaError:
        return None
    after = predict(found.model, found.data, board, table)
    whole = unhindered(compiled.model, board, table)
    time = after.time["total"] / whole["total"] if after.time and whole else None
    return InStrips(found, size, time, feed)
