"""mica boards: the boards that mica knows, real and emulated."""

import argparse
from typing import Any

from mica.boards import BoardSpec, all_boards
from mica.cli import text

JSON_KEYS = "boards[]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    boards = all_boards()
    if args.json:
        text.emit_json({"boards": [facts(board) for board in boards]})
        return 0
    rows = [
        (
            board.name,
            board.core,
            _size(board.ram),
            _size(board.flash),
            _size(board.arena),
            _size(board.romfs.size if board.romfs else 0),
            board.target if board.emulator else "-",
            board.description,
        )
        for board in boards
    ]
    head = ("board", "core", "RAM", "flash", "arena", "ROMFS", "emulated", "what it is")
    print(text.table(head, rows, "  rrrr"))
    return 0


def facts(board: BoardSpec) -> dict[str, Any]:
    """The keys of a board in `mica boards --json`. Sizes in bytes, clock in Hz; null means not applicable."""
    romfs = {"base": board.romfs.base, "size": board.romfs.size} if board.romfs else None
    keys = ("name", "description", "mcu", "core", "isa", "ram", "arena", "flasher")
    return {
        **{key: getattr(board, key) for key in keys},
        **{key: getattr(board, key) or None for key in ("clock", "flash", "storage")},
        "port": board.port.name,
        "romfs": romfs,
        "emulated": board.emulator is not None,
        "target": board.target if board.emulator else None,
    }


def _size(size: int) -> str:
    """4194304 -> 4 MB (of 1024 kB, as memories are made)."""
    if size == 0:
        return "-"
    return f"{size >> 20} MB" if size % (1 << 20) == 0 else f"{size >> 10} kB"
