"""mica build: MicroPython firmware for a board, with mica in it."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from mica.boards import Board, load_board, parse_size
from mica.cli import text
from mica.cli.say import say
from mica.device import build as builder
from mica.device.emulator import EmulatedBoard
from mica.errors import MicaError

NAME = "build"
HELP = "build the firmware for a board"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--board", metavar="B", required=True, help="a board's name; see mica boards")
    parser.add_argument("-o", "--output", metavar="FILE", help="copy the image there as well")
    parser.add_argument("--arena", metavar="SIZE", help="RAM for activations, such as 48K (default: the board's)")
    parser.add_argument(
        "--manifest", metavar="FILE", action="append", default=[], help="freeze what this manifest names, too"
    )
    parser.add_argument("-j", "--jobs", metavar="N", type=int, help="compilers at a time (default: one for each core)")


def run(args: argparse.Namespace) -> int:
    board = load_board(args.board)
    result = builder.build(
        board,
        arena=parse_size(args.arena, "--arena") if args.arena else None,
        manifests=[Path(path) for path in args.manifest],
        jobs=args.jobs,
        progress=say,
    )
    image = result.image
    if args.output:
        image = Path(args.output)
        try:
            shutil.copyfile(result.image, image)
            shutil.copymode(result.image, image)
        except OSError as error:
            raise MicaError(f"cannot write {image}: {error.strerror}") from None
    heap = free_heap(board, result.image)
    if args.json:
        text.emit_json(
            {
                "board": result.board,
                "image": str(image),
                "elf": str(result.elf),
                "uf2": str(result.uf2) if result.uf2 else None,
                "text": result.text,
                "data": result.data,
                "bss": result.bss,
                "arena": result.arena,
                "free_heap": heap,
                "micropython": result.micropython,
                "compiler": result.compiler,
                "built": result.built,
                "seconds": round(result.seconds, 1),
            }
        )
        return 0
    how = f"built in {result.seconds:.1f} s" if result.built else "up to date"
    print(f"{result.board}: {how}")
    print(
        f"text {text.count(result.text)}  data {text.count(result.data)}  bss {text.count(result.bss)}"
        f"  (arena {text.count(result.arena)})"
    )
    if heap is not None:
        print(f"free heap at the prompt: {text.count(heap)} bytes")
    print(f"MicroPython {result.micropython}, {result.compiler}")
    print(image)
    return 0


def free_heap(board: Board, image: Path) -> int | None:
    """Bytes that a program finds free when the board has started: measured, where the board can be emulated here."""
    if board.emulator is None or board.port == "unix":
        return None
    try:
        with EmulatedBoard(board, image, rom_files={"there.txt": b"is"}, progress=say) as running:
            return int(running.exec("import gc\ngc.collect()\nprint(gc.mem_free())"))
    except MicaError as error:
        say(f"free heap: not measured: {error}")
        return None
