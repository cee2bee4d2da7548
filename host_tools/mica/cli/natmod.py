"""mica natmod: the engine for boards that keep their firmware.

A native module, _mica.mpy, that a stock MicroPython of 1.25 or later loads;
with --package also the runtime and what `mip` needs, so that

    mica natmod --package FOLDER
    mpremote mount FOLDER run FOLDER/install.py

puts mica onto the board at USB, whichever it is. `mpremote mip install FOLDER/armv6m.json` does the same for one
architecture.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from mica.boards import load_board, native_of
from mica.cli import outputs, text
from mica.cli.build import add_for, add_micropython, add_with
from mica.cli.text import say
from mica.errors import MicaError
from mica.toolchain import contents, mip_package, natmod
from mica.toolchain.micropython import choose

JSON_KEYS = "package, modules[] (arch, file, size, text, bss: bytes of RAM, kernels, without, compiler, micropython)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = "; ".join(f"{arch.name}: {arch.boards}" for arch in natmod.ARCHS.values())
    parser.add_argument(
        "--arch", metavar="A", action="append", help=f"architecture, more than one with --package ({known})"
    )
    parser.add_argument("--board", metavar="B", action="append", default=[], help="the architecture of this board")
    parser.add_argument("-o", "--output", metavar="DIR", help="put _mica.mpy there (default: the current folder)")
    parser.add_argument(
        "--package", metavar="DIR", help="make a folder that mpremote installs from (default: all --arch but xtensawin)"
    )
    add_with(parser)
    add_for(parser)
    parser.add_argument(
        "--tables", action="store_true", help="with --for: leave decision trees as tables, which are smaller and slower"
    )
    parser.add_argument(
        "--family", metavar="F", help=f"leave out what these models don't need: {', '.join(contents.FAMILY)}"
    )
    add_micropython(parser)
    parser.add_argument("-j", "--jobs", metavar="N", type=int, help="compilers at a time (default: one for each core)")


def run(args: argparse.Namespace) -> int:
    jobs = args.jobs or os.cpu_count() or 2
    mp = choose(args.micropython, unpinned=args.unpinned)
    packages = contents.check_names(args.extras)
    inside = contents.chosen(args.models, args.extras, args.family)
    if args.tables:
        inside = replace(inside, code="")
    kernels = inside.kernels
    asked = [*(args.arch or ()), *(native_of(load_board(name)) for name in args.board)]
    archs = list(dict.fromkeys(asked or (natmod.USUAL if args.package else ())))
    if args.package:
        if args.output:
            raise MicaError("give either --package or -o: a package has its own place for each file")
        folder = Path(args.package)
        outputs.check_folder("--package", folder)
        modules = mip_package.write(
            folder, archs, contents=inside, extras=packages, micropython=mp, jobs=jobs, progress=say
        )
        files = [folder / module.arch.name / "_mica.mpy" for module in modules]
    else:
        if packages:
            raise MicaError(f"--with {packages[0]} needs --package")
        if len(archs) != 1:
            raise MicaError("give one --arch, or --package for several", todo=f"known are {', '.join(natmod.ARCHS)}")
        folder = Path(args.output or ".")
        outputs.check_folder("-o", folder)
        modules = [natmod.build(archs[0], kernels=kernels, code=inside.code, micropython=mp, jobs=jobs, progress=say)]
        files = [_copy(modules[0].file, folder)]
    if args.json:
        text.emit_json(
            {"package": args.package, "modules": [_facts(m, f) for m, f in zip(modules, files, strict=True)]}
        )
        return 0
    for module, file in zip(modules, files, strict=True):
        print(
            f"{file}: {text.count(module.size)} bytes; takes {text.count(module.text + module.bss)} of a board's RAM"
            f" ({module.arch.boards}; kernels: {module.kernels})"
        )
    if kernels is not None:
        others = "other plain int8 layers run in Python" if inside.fallback else "models of others are refused"
        print(f"kernels: {', '.join(sorted(kernels))}; {others}")
    if inside.code:
        print("decision trees of these models: compiled; --tables makes the module smaller and them slower")
    print(f"MicroPython {modules[0].micropython}")
    for module in modules if args.package else ():
        print(f"mpremote mip install {Path(args.package) / (module.arch.name + '.json')}")
    if args.package:
        print(f"whichever board it is: mpremote mount {args.package} run {Path(args.package) / 'install.py'}")
    return 0


def _facts(module: natmod.NativeModule, file: Path) -> dict[str, Any]:
    keys = ("size", "text", "bss", "kernels", "without", "compiler", "micropython")
    return {"arch": module.arch.name, "file": str(file), **{key: getattr(module, key) for key in keys}}


def _copy(file: Path, folder: Path) -> Path:
    target = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MicaError(f"cannot write {error.filename or target}: {error.strerror}") from None
    outputs.write(target, file.read_bytes())
    return target
