"""mica ls: the models and files that a board keeps, and what became of the last push."""

import argparse
from typing import Any

from mica.cli import push as push_command
from mica.cli import text
from mica.printable import printable

JSON_KEYS = (
    "target, place (romfs or files), files[] (name, size, crc32), mounted, room, halves[] (state, "
    "sequence, size, reason)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    push_command.add_board(parser)


def run(args: argparse.Namespace) -> int:
    from mica.link import push

    with push_command.open_target(args) as board:
        there = push.listing(board)
        name = board.name
    result: dict[str, Any] = {
        "target": name,
        "place": there.place,
        "files": [{"name": f.name, "size": f.size, "crc32": f"{f.crc:08x}"} for f in there.files],
    }
    if there.window:
        result |= {
            "mounted": there.mounted,
            "room": there.room,
            "halves": [
                {"state": h.state, "sequence": h.sequence, "size": h.size, "reason": h.reason} for h in there.halves
            ],
        }
    if args.json:
        text.emit_json(result)
        return 0
    for f in there.files:
        print(f"{f.size:>10,}  {printable(f.name)}")
    if there.window:
        taken = there.base[0] if there.mounted == "plain" else 0
        if there.mounted in ("0", "1"):
            taken = there.halves[int(there.mounted)].size
        print(f"{taken:,} of {there.room:,} bytes taken")
        for half in there.halves:
            if half.state == "rejected":
                last = half.sequence == max(other.sequence for other in there.halves)
                print(f"what was pushed {'last' if last else 'before'} was rejected: {half.reason}")
    elif not there.files:
        print("no models")
    return 0
