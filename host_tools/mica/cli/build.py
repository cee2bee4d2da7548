"""mica build: MicroPython firmware for a board, with mica in it."""

import argparse
import shutil
from functools import partial
from pathlib import Path

from mica.boards import BoardSpec, load_board, parse_size
from mica.cli import options, outputs, text
from mica.cli.text import say
from mica.errors import MicaError, Unsupported, writing
from mica.link import on_board
from mica.link.emulated import EmulatedBoard
from mica.toolchain import build as builder
from mica.toolchain import contents, notices
from mica.toolchain.micropython import RELEASES, choose

JSON_KEYS = (
    "board, image, elf, uf2, notices (null without -o), text, data, bss, arena, kernels[], before (text, "
    "data, bss of the whole; null without --for), free_heap (at the prompt, of emulated boards), "
    "micropython, compiler, built, seconds"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        """
        --board B         a board's name (see mica boards), or its folder, with a slash: ./MY_BOARD
        -o --output FILE  copy the image there as well, and beside it the notices of what is in it: FILE.NOTICES.txt
        --arena SIZE      RAM for activations, such as 48K (default: the board's)
        --manifest FILE   freeze what this manifest names, too
        """,
        board={"required": True},
        manifest={"action": "append", "default": []},
    )
    add_with(parser)
    add_for(parser)
    add_micropython(parser)
    parser.add_argument("-j", "--jobs", metavar="N", type=int, help="compilers at a time (default: one for each core)")


def add_with(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--with",
        dest="extras",
        metavar="NAME",
        action="append",
        default=[],
        help="put this in, too: fleet, which a board needs to join a fleet, fallback, the kernels in MicroPython, or "
        "what --for leaves out",
    )


def add_for(parser: argparse.ArgumentParser) -> None:
    """`--for`, of which contents.chosen() makes something."""
    parser.add_argument(
        "--for",
        dest="models",
        metavar="M.mica",
        nargs="+",
        default=[],
        help="leave out all kernels and all of the runtime that these models don't need",
    )


def add_micropython(parser: argparse.ArgumentParser) -> None:
    """The options that say which MicroPython, for this command and for mica natmod."""
    known = ", ".join(RELEASES)
    options.add(
        parser,
        f"""
        --micropython WHICH  a release that is fetched ({known}) or a folder with a tree, of any release since 1.25
            (default: $MICA_MICROPYTHON, else the first of these)
        --unpinned           build also with archives whose hash mica does not know (or MICA_UNPINNED=1)
        """,
    )


def run(args: argparse.Namespace) -> int:
    mp = choose(args.micropython, unpinned=args.unpinned)
    board = load_board(args.board)
    if board.port.stock:
        raise Unsupported(
            f"{board.name} keeps its MicroPython; mica has no firmware for it",
            todo=f"add mica to it: mica natmod --board {board.name} --package DIR",
        )
    arena = parse_size(args.arena, "--arena") if args.arena else None
    packages = contents.check_names(args.extras)
    parts = set(args.extras) - set(packages)
    inside = contents.chosen(args.models, parts) if args.models or parts else contents.usual(board)
    if args.output:
        read = [("a model of --for", path) for path in args.models]
        outputs.check("-o", Path(args.output), [*read, *(("a manifest", path) for path in args.manifest)])

    manifests = [Path(path) for path in args.manifest]
    build = partial(
        builder.build,
        board,
        arena=arena,
        manifests=manifests,
        extras=packages,
        micropython=mp,
        jobs=args.jobs,
        progress=say,
    )
    before = build() if args.models else None
    result = build(contents=inside)
    image = result.image
    noted = None
    if args.output:
        image = Path(args.output)
        with writing(image):
            shutil.copyfile(result.image, image)
            shutil.copymode(result.image, image)
        noted = notices.write(board, result, image)
    heap = free_heap(board, result.image)
    if args.json:
        paths = {"image": str(image), "elf": str(result.elf), "uf2": str(result.uf2) if result.uf2 else None}
        sizes = {"text": before.text, "data": before.data, "bss": before.bss} if before else None
        more = {"notices": str(noted) if noted else None, "before": sizes, "free_heap": heap}
        facts = {key: value for key, value in vars(result).items() if key != "tree"}
        text.emit_json({**facts, **paths, **more, "seconds": round(result.seconds, 1)})
        return 0
    how = f"built in {result.seconds:.1f} s" if result.built else "up to date"
    print(f"{result.board}: {how}")
    print(
        f"text {text.count(result.text)}  data {text.count(result.data)}  bss {text.count(result.bss)}"
        f"  (arena {text.count(result.arena)})"
    )
    if before:
        print(saved(before, result))
    if heap is not None:
        print(f"free heap at the prompt: {text.count(heap)} bytes")
    print(f"MicroPython {result.micropython}, {result.compiler}")
    print(image)
    if noted:
        print(noted)
    return 0


def saved(before: builder.BuildResult, after: builder.BuildResult) -> str:
    """A table of both builds' sizes in bytes, and what is in the smaller one."""
    rows: list[tuple[object, ...]] = []
    for name, pick in (("text", lambda r: r.text), ("data", lambda r: r.data), ("bss", lambda r: r.bss)):
        a, b = pick(before), pick(after)
        rows.append((name, text.count(a), text.count(b), text.count(a - b), text.percent(1 - b / a)))
    left_out = [name for name in before.kernels if name not in after.kernels]
    lines = [text.table(("", "whole", "this", "saved", ""), rows, right=" rrrr")]
    if left_out:
        lines.append(f"kernels: {', '.join(after.kernels) or 'none'}")
        lines.append(f"left out: {', '.join(left_out)}")
    return "\n".join(lines)


def free_heap(board: BoardSpec, image: Path) -> int | None:
    """Bytes that a program finds free when the board has started: measured, where the board can be emulated here."""
    if board.emulator is None or board.port.program:
        return None
    try:
        with EmulatedBoard(board, image, rom_files={"there.txt": b"is"}, progress=say) as running:
            return int(running.exec(on_board.source("free_heap")))
    except MicaError as error:
        say(f"free heap: not measured: {error}")
        return None
