"""RAM budgets: `--ram N[K]`, and strips for a board that a model does not fit layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mica.errors import MicaError

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.compiler import Compiled, Ram

CORE = "m0plus"  # whose costs count where no board is named: the slowest


def parse(text: str, board: BoardSpec | None) -> Ram:
    """N or NK, and what steps cost on the board's core. Raises MicaError."""
    number, kilo = (text[:-1], 1024) if text[-1:] in ("K", "k") else (text, 1)
    if not number.isdecimal() or int(number) * kilo < 1:
        raise MicaError(f"--ram {text}: expected a number of bytes such as 32000 or 31K")
    return budget(int(number) * kilo, board)


def budget(size: int, board: BoardSpec | None) -> Ram:
    """`size` bytes on a board."""
    from mica.compiler import Ram
    from mica.cost.table import Table

    table = Table.read()
    core = table.core_of(board) if board else CORE
    return Ram(size, table.price(core or CORE))


def for_board(compiled: Compiled, board: BoardSpec) -> tuple[Compiled, int] | None:
    """The model in strips and the bytes it was given, where it does not fit the board's RAM otherwise and does so then."""
    from mica.compiler import within
    from mica.cost.prediction import predict, room
    from mica.cost.table import Table

    before = predict(compiled.model, compiled.data, board, Table.read())
    if before.fits or compiled.model.strips or not any(reason.startswith("RAM") for reason in before.reasons):
        return None
    size = room(before, compiled.model)
    try:
        found = within(compiled, budget(size, board), board.scratch)
    except MicaError:
        return None
    return found, size
