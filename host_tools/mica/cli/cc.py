"""mica cc: a model as a C program.

The folder has the kernels that the model needs, for each core, the model as constants, and the files of make, CMake,
Arduino and Zephyr. It needs no MicroPython, allocates nothing and gives the same bytes as a board.
"""

import argparse
from pathlib import Path

from mica.c_program import folder, sources
from mica.cli import options, outputs, target, text
from mica.errors import found_at

JSON_KEYS = "folder, name, files[], arena, scratch, state, constants, golden (bytes)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica", help="a packed model")
    options.add(
        parser,
        f"""
        -o --output DIR  the folder to write, a new one
        --name NAME      of its functions (default: that of the file)
        --core C         kernels of one core: {", ".join(sources.CORES)} (default: the compiler's macros choose)
        --example NAME   mlperf: also a program that speaks MLPerf Tiny's protocol
        --url URL        of its page, for Arduino's library.properties
        --checked        with the loader, which validates the model each time the program begins
        """,
        output={"required": True},
        example={"choices": ("mlperf",)},
        url={"default": ""},
        core={"action": "append", "choices": sources.CORES},
    )


def run(args: argparse.Namespace) -> int:
    where = Path(args.output)
    outputs.check_folder("-o", where, new=True)
    data = target.read_model(args.model)
    name = folder.identifier(args.name or Path(args.model).stem)
    with found_at(args.model):
        program = folder.Program(data, name, args.core or sources.CORES, args.checked, args.url)
        files = program.files() | ({"mlperf.c": program.mlperf()} if args.example else {})
    for path, content in files.items():
        (where / path).parent.mkdir(parents=True, exist_ok=True)
        outputs.write(where / path, content.encode())
    m, n = program.memory, text.count
    ram = f"RAM {n(m.ram)} bytes (arena {n(m.arena)}, scratch {n(m.scratch)}, states {n(m.state)})"
    said = f"{where}: {len(files)} files; {ram}, constants {n(m.constants)}, golden vectors {n(m.golden)}"
    text.show(args, {"folder": args.output, "name": name, "files": sorted(files), **vars(m)}, said)
    return 0
