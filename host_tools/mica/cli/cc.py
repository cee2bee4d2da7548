"""mica cc: a model as a C program.

The folder has the engine's kernels that the model needs, for the core that the compiler builds for, the model as constants, and what make,
CMake, Arduino and Zephyr ask for. It needs no MicroPython, allocates nothing and gives the bytes that boards give.
"""

import argparse
from pathlib import Path

from mica.c_program import folder, sources
from mica.cli import options, outputs, target, text
from mica.errors import found_at

JSON_KEYS = "folder, name, files[], ram (arena, scratch, state), constants, golden"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="M.mica", help="a packed model")
    options.add(
        parser,
        f"""
        -o --output DIR  the folder to write, a new one
        --name NAME      of its functions and its header (default: that of the file)
        --core C         the kernels of this core alone: {", ".join(sources.CORES)} (default: all, the compiler's macros choose)
        --checked        with the loader, which looks at the whole model each time the program begins
        """,
        output={"required": True},
        core={"action": "append", "choices": sources.CORES},
    )


def run(args: argparse.Namespace) -> int:
    where = Path(args.output)
    outputs.check_folder("-o", where, new=True)
    data = target.read_model(args.model)
    name = folder.identifier(args.name or Path(args.model).stem)
    with found_at(args.model):
        program = folder.Program(data, name, args.core or sources.CORES, args.checked)
        files = program.files()
    for path, content in files.items():
        (where / path).parent.mkdir(parents=True, exist_ok=True)
        outputs.write(where / path, content.encode())
    m = program.memory
    n = text.count
    facts = {"folder": args.output, "name": name, "files": sorted(files), **vars(m)}
    text.show(
        args,
        facts,
        f"{where}: {len(files)} files; RAM {n(m.ram)} bytes (activations {n(m.arena)}, scratch {n(m.scratch)}, states {n(m.state)}), "
        f"constants {n(m.constants)}, golden vectors {n(m.golden)}",
    )
    return 0
