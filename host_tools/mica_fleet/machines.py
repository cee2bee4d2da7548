"""Finds the known board that a fleet's board is, and predicts the time of a model there."""

from functools import cache

from mica.boards import BoardSpec, board_names, emulated_boards, load_board
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.file import codec


@cache
def board_called(machine: str) -> BoardSpec | None:
    """Find a board by what MicroPython calls it ("Raspberry Pi Pico W with RP2040"), or a target of `--on` that is
    emulated; None where it is none of ours."""
    if machine in (emulated := emulated_boards()):
        return emulated[machine]
    if machine.startswith(("linux", "darwin")):
        return load_board("UNIX")
    line = f'MICROPY_HW_BOARD_NAME "{machine.partition(" with ")[0]}"'
    for name in board_names():
        header = load_board(name).folder / "mpconfigboard.h"
        if header.is_file() and line in header.read_text(encoding="utf-8"):
            return load_board(name)
    return None


@cache
def _table() -> Table:
    return Table.read()


def predicted_ms(data: bytes, machine: str) -> float | None:
    """Milliseconds of a run of the file `data`; None if the board is not known, or nothing was measured on its core."""
    board = board_called(machine)
    time = None if board is None else predict(codec.decode(data), data, board, _table()).time
    return None if time is None else time["milliseconds"]
