"""mica boards: the boards that mica knows, by the way mica gets onto them."""

import argparse
from typing import Any

from mica.boards import BoardSpec, all_boards, native_of, stock_boards
from mica.cli import text

JSON_KEYS = "boards[]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    boards = [*all_boards(), *stock_boards().values()]
    if args.json:
        text.emit_json({"boards": [facts(board) for board in boards]})
        return 0
    for k, (way, what) in enumerate(WAYS.items()):
        print("\n" * (k > 0) + what)
        rows = [_row(board) for board in boards if way_of(board) == way]
        print(
            text.table(
                ("board", "core", "RAM", _HEAPS[way], "flash", "ROMFS", "module", "emulated", "what it is"),
                rows,
                "  rrrr",
            )
        )
    return 0


# How mica gets onto a board, by the word for it in --json.
WAYS = {
    "firmware": "Firmware image: mica build, mica flash. A board that is not emulated was never run.",
    "native": "Stock MicroPython stays: mica natmod --board BOARD --package DIR. None of these was ever run.",
    "emulated": "Emulated on this computer: --on BOARD.",
}
_HEAPS = {"firmware": "arena", "native": "heap", "emulated": "arena"}


def way_of(board: BoardSpec) -> str:
    """The key of WAYS."""
    return "native" if board.port.stock else "emulated" if board.flasher == "none" else "firmware"


def _row(board: BoardSpec) -> tuple[str, ...]:
    return (
        board.name,
        board.core,
        *(
            _size(n)
            for n in (board.ram, board.arena or board.stock_heap, board.flash, board.romfs.size if board.romfs else 0)
        ),
        native_of(board) or "-",
        board.target if board.emulator else "-",
        board.description,
    )


def facts(board: BoardSpec) -> dict[str, Any]:
    """The keys of a board in `mica boards --json`. Sizes in bytes, clock in Hz; null means not applicable."""
    romfs = {"base": board.romfs.base, "size": board.romfs.size} if board.romfs else None
    keys = ("name", "description", "mcu", "core", "isa", "ram", "arena", "flasher")
    return {
        **{key: getattr(board, key) for key in keys},
        **{key: getattr(board, key) or None for key in ("clock", "flash", "storage", "stock_heap")},
        "port": board.port.name,
        "way": way_of(board),
        "module": native_of(board) or None,
        "romfs": romfs,
        "emulated": board.emulator is not None,
        "target": board.target if board.emulator else None,
    }


def _size(size: int) -> str:
    """4194304 -> 4 MB (of 1024 kB, as memories are made)."""
    if size == 0:
        return "-"
    return f"{size >> 20} MB" if size % (1 << 20) == 0 else f"{size >> 10} kB"
