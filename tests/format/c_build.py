"""Compilers at hand, and builds of the portable engine for the tests of the format."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mica.toolchain.cache import cache_dir
from mica.toolchain.source_lists import listed

ROOT = Path(__file__).resolve().parents[2]
USERMOD = ROOT / "usermod_c"
HAS_32_BIT = platform.machine() == "x86_64"  # there scripts/setup installs gcc-multilib; other architectures have none


SOURCES = [str(path) for path in listed(USERMOD / "sources.txt")]


@dataclass(frozen=True)
class Build:
    """The engine as programs of this computer can hold it: width of a size_t, and kernels."""

    name: str
    flags: tuple[str, ...] = ()
    isa: str = "ref"

    @property
    def sources(self) -> list[str]:
        more = USERMOD / "kernels" / "isa" / self.isa / "sources.txt"
        return SOURCES + ([str(path) for path in listed(more)] if more.exists() else [])

    @property
    def include(self) -> list[str]:
        return [f"-I{USERMOD / d}" for d in ("include", "kernels", f"kernels/isa/{self.isa}")]


# This computer's own, as `mica` runs it. Boards have 32 bits;
# those without kernels of their own run c32, whose scratch and inner loops are others.
BUILDS = (
    Build("x86", isa="x86"),
    *((Build("ref 32 bit", ("-m32",)), Build("c32 32 bit", ("-m32",), "c32")) if HAS_32_BIT else (Build("ref"),)),
)
INCLUDE = Build("ref").include
DEBUG = ("-std=c99", "-O1", "-g1")  # lines for a report; all of -g takes a fifth of the compiler's time
# One set of options for all that gives the engine damaged files, so that it is compiled once for them.
# Each edge calls a function: the fuzzer's own, else that of no_coverage.c.
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fsanitize-coverage=trace-pc")
KEPT_SECONDS = 3 * 24 * 3600  # of object files in the cache
STRICT = [
    *("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-Wfloat-conversion", "-Wconversion"),
    *("-Wsign-conversion", "-Wshadow", "-Wstrict-prototypes"),
]


def compiler(*names: str) -> str | None:
    """The first of these compilers that is installed."""
    return next((found for name in names if (found := shutil.which(name))), None)


def gcc() -> str:
    """gcc, which scripts/setup installs."""
    cc = compiler("gcc")
    assert cc is not None, "gcc is not installed; scripts/setup installs it"
    return cc


def run(*command: str, cwd: Path) -> None:
    """Run a compiler; its complaints become the test's."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def _includes(text: bytes, names: Iterable[str]) -> bool:
    return re.search(rb'#\s*include "(?:' + "|".join(map(re.escape, names)).encode() + rb')"', text) is not None


def objects(build: Build, sources: Iterable[str], *flags: str) -> list[str]:
    """Object files in the cache, each compiled where it, a header or the flags are new.
    What a change of them left goes later.

    Builds with other kernels share what does not see which those are.
    """
    folder = cache_dir() / "objects"
    folder.mkdir(exist_ok=True, parents=True)
    common = hashlib.sha256(repr((gcc(), build.flags, flags)).encode())
    headers = {path: path.read_bytes() for path in sorted(USERMOD.rglob("*.h"))}
    for path, content in (*headers.items(), *((p, p.read_bytes()) for p in sorted(Path(__file__).parent.glob("*.c")))):
        common.update(path.name.encode() + content)
    selecting = {"mica_select.h"}
    while more := {p.name for p, content in headers.items() if _includes(content, selecting)} - selecting:
        selecting |= more

    def one(source: str) -> str:
        digest, content = common.copy(), Path(source).read_bytes()
        digest.update(content)
        if f"{os.sep}isa{os.sep}" in source or _includes(content, selecting):
            digest.update(build.isa.encode())
        made = folder / f"{Path(source).parent.name}-{Path(source).stem}-{digest.hexdigest()[:16]}.o"
        with contextlib.suppress(FileNotFoundError):  # another process may tidy it up: touch() would make an empty one
            os.utime(made)
            return str(made)
        half = made.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        run(gcc(), *DEBUG, *build.flags, *flags, *build.include, "-c", source, "-o", str(half), cwd=folder)
        half.replace(made)
        return str(made)

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(one, sources))
    for old in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process tidies up too
            if old.stat().st_mtime < time.time() - KEPT_SECONDS:
                old.unlink()
    return made


def sanitized(build: Build, *flags: str, replaced: Mapping[str, str] | None = None) -> list[str]:
    """The engine's object files with these options, SANITIZED by default; of other files where some are replaced."""
    sources = [(replaced or {}).get(source, source) for source in build.sources]
    # A file that takes the place of another lies elsewhere.
    return objects(build, sources, *(flags or SANITIZED), f"-I{USERMOD / 'runtime'}")


def link(program: Path, build: Build, objects: Iterable[str], *flags: str) -> Path:
    run(gcc(), *build.flags, *flags, *objects, "-o", str(program), cwd=program.parent)
    return program


@functools.cache
def whole_engine() -> ctypes.CDLL:
    """This computer's engine with all its functions: the module that `mica` imports shows Python's entry alone."""
    build = BUILDS[0]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "engine.so"
        link(library, build, objects(build, build.sources, "-fPIC"), "-shared")
        return ctypes.CDLL(str(library))
