"""Compilers at hand, and builds of the portable engine for the tests of the format."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mica.source_lists import listed
from mica.toolchain.cache import cache_dir

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


# This computer's own, as `mica` runs it. Boards have 32 bits; those without kernels of their own run c32, whose scratch and inner
# loops are others.
BUILDS = (
    Build("vector", isa="vector"),
    *((Build("ref 32 bit", ("-m32",)), Build("c32 32 bit", ("-m32",), "c32")) if HAS_32_BIT else (Build("ref"),)),
)
INCLUDE = Build("ref").include
DEBUG = ("-std=c99", "-O1", "-g")
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


def objects(build: Build, sources: Iterable[str], *flags: str) -> list[str]:
    """Object files in the cache, each compiled where it, a header or the flags are new. What a change of them left goes later."""
    folder = cache_dir() / "objects"
    folder.mkdir(exist_ok=True, parents=True)
    common = hashlib.sha256(repr((gcc(), build, flags)).encode())
    for path in (*sorted(USERMOD.rglob("*.h")), *sorted(Path(__file__).parent.glob("*.c"))):
        common.update(path.name.encode() + path.read_bytes())

    def one(source: str) -> str:
        digest = common.copy()
        digest.update(Path(source).read_bytes())
        made = folder / f"{Path(source).parent.name}-{Path(source).stem}-{digest.hexdigest()[:16]}.o"
        if made.exists():
            made.touch()
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


def link(program: Path, build: Build, objects: Iterable[str], *flags: str) -> Path:
    run(gcc(), *build.flags, *flags, *objects, "-o", str(program), cwd=program.parent)
    return program
