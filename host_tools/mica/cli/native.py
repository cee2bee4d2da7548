"""The native module for a board with stock MicroPython, which `mica push` offers to install: built here,
or from a package."""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath

from mica.cli import text
from mica.cli.text import say
from mica.errors import MicaError
from mica.flash import board_files
from mica.link import on_board
from mica.link.answers import ask, name, number
from mica.link.board import Link
from mica.toolchain import contents, mip_package, natmod

_FILE = re.compile(r"(_mica|mica(/\w+)+)\.mpy")  # that a package may put onto a board


def offer(board: Link, args: argparse.Namespace, inside: contents.Contents, missing: MicaError) -> None:
    """Install the native module, with these contents where it is built here, if the options or the user agree;
    else raise `missing`, with the option that does it."""
    answer = ask(board, on_board.source("native"))
    arch = mip_package.architecture(answer.one("native", number)[0])
    folders = answer.all("lib", name)
    if not arch or not folders:
        raise missing
    if not args.yes and not _agreed(f"{board.name} has no mica. Install its native module for {arch}?"):
        raise missing.then(f"or install the native module for {arch}: mica push --yes")
    if args.modules:
        files = _of_package(args.modules.rstrip("/"), arch)
    else:
        files = _built(arch, inside)
    _write(board, folders[0][0], files)
    board.soft_reset()


def _agreed(question: str) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _built(arch: str, inside: contents.Contents) -> dict[str, bytes]:
    jobs = os.cpu_count() or 2
    try:
        module = natmod.build(arch, kernels=inside.kernels, jobs=jobs, progress=say)
        runtime = mip_package.runtime(contents=inside, jobs=jobs, progress=say)
        return {"_mica.mpy": module.file.read_bytes(), **runtime}
    except MicaError as error:
        raise error.then("or give a package that has it with --modules URL") from None


def _of_package(package: str, arch: str) -> dict[str, bytes]:
    """The files that ARCH.json of a package names. Raises MicaError."""
    listed = f"{arch}.json"
    try:
        urls = dict(json.loads(_read(f"{package}/{listed}"))["urls"])
        if not all(_FILE.fullmatch(path) for path in urls):
            raise ValueError
        return {path: _read(f"{package}/{url}") for path, url in urls.items()}
    except (TypeError, KeyError, ValueError):
        raise MicaError(f"{package}/{listed} is no package of mica's") from None


def _read(place: str) -> bytes:
    try:
        if place.startswith(("http://", "https://")):
            with urllib.request.urlopen(place, timeout=60) as answer:
                data: bytes = answer.read()
                return data
        return Path(place).read_bytes()
    except urllib.error.HTTPError as error:
        raise MicaError(f"{place}: the server answers {error.code}") from None
    except OSError as error:
        raise MicaError(f"{place} cannot be read: {getattr(error, 'reason', None) or error.strerror}") from None


def _write(board: Link, folder: str, files: dict[str, bytes]) -> None:
    """Write the files below a folder of the board, and check each by its hash."""
    with tempfile.TemporaryDirectory() as work:
        places = {f"{folder}/{path}": data for path, data in files.items()}
        folders = dict.fromkeys(str(p) for path in places for p in [*reversed(PurePosixPath(path).parents)][1:])
        hashes = {path: hashlib.sha256(data).hexdigest() for path, data in places.items()}
        sent = board_files.Backup(Path(work), tuple(folders), hashes)
        for path, data in places.items():
            sent.local(path).parent.mkdir(parents=True, exist_ok=True)
            sent.local(path).write_bytes(data)
        with text.Progress(f"installing mica on {board.name}", "bytes") as progress:
            board_files.restore(board, sent, progress)
