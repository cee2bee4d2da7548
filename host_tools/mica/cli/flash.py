"""mica flash: put firmware onto a real board.

A Raspberry Pi Pico in BOOTSEL mode, or one that runs MicroPython (--on its port); a board of the ESP32 family at its
port. Files on the board are kept: where the new firmware would format them they are copied to this computer first and
put back afterwards.
"""

import argparse
import dataclasses
from pathlib import Path

from mica.boards import BoardSpec, load_board
from mica.cli import outputs, text
from mica.cli.text import say
from mica.errors import Unsupported

JSON_KEYS = (
    "board, image, bytes, port, mica, files (kept, restored, erased, unseen or none), restored, backup, "
    "models[], selftest (passed or none of each), seconds"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--board", metavar="B", required=True, help="a board's name (see mica boards), or its folder")
    parser.add_argument(
        "--on",
        metavar="T",
        help="the port of a board that runs MicroPython, or auto (default: a board in BOOTSEL mode; for "
        "an ESP32: auto)",
    )
    parser.add_argument("--image", metavar="F", help="the firmware (default: what mica build makes)")
    parser.add_argument(
        "--with", metavar="M.mica", nargs="+", action="extend", default=[], dest="models", help="models for its /rom"
    )
    parser.add_argument(
        "--erase-files", action="store_true", help="go on where files on the board will be lost, or cannot be seen"
    )
    parser.add_argument("--erase", action="store_true", help="erase all of the flash first (ESP32)")
    parser.add_argument("--drive", metavar="FOLDER", help="where the drive of the board in BOOTSEL mode is mounted")
    parser.add_argument(
        "--backup", metavar="FOLDER", help="copy the board's files there, and keep the copies (default: until restored)"
    )


def run(args: argparse.Namespace) -> int:
    from mica.flash import flash
    from mica.flash.writer import FlashCallbacks

    board = load_board(args.board.removesuffix("@emu"))
    if board.port.stock:
        raise Unsupported(
            f"{board.name} keeps its MicroPython",
            todo=f"there is nothing to flash: mica natmod --board {board.name} --package DIR",
        )
    if board.flasher == "none" or args.board.endswith("@emu"):
        raise Unsupported(
            f"{args.board} is emulated, and runs what mica builds",
            todo=f"there is nothing to flash: mica repl --on {args.board}",
        )
    if args.backup:
        outputs.check_folder("--backup", Path(args.backup), new=True)
    drive = Path(args.drive) if args.drive else None
    if not args.image:
        flash.look_for(board, args.on, drive)  # a build takes minutes
    request = flash.FlashRequest(
        board=board,
        target=args.on,
        image=Path(args.image) if args.image else _build(board),
        models=[Path(name) for name in args.models],
        erase_files=args.erase_files,
        erase_all=args.erase,
        drive=drive,
        backup=Path(args.backup) if args.backup else None,
    )
    result = flash.flash(request, FlashCallbacks(say, text.Progress))
    if args.json:
        text.emit_json(dataclasses.asdict(result))
        return 0
    print(
        f"{board.name}: {text.count(result.bytes)} bytes in {result.seconds} s; mica {result.mica} answers "
        f"at {result.port}"
    )
    told = {
        "kept": "the files on the board are where they were",
        "restored": f"{result.restored} files put back and compared",
        "erased": "the files that were on the board are gone",
        "unseen": "files that were on the board are there still if its firmware had the same layout",
    }
    if result.files in told:
        print(told[result.files])
    told = {"passed": ": passes its self-test", "none": ": has no golden vectors to test itself with"}
    for name in result.models:
        print(f"/rom/{name}{told.get(result.selftest.get(name, ''), '')}")
    return 0


def _build(board: BoardSpec) -> Path:
    from mica.toolchain.build import build

    return build(board, progress=say).image
