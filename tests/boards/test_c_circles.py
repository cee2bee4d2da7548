"""No C file of a firmware needs itself, as nm says; tests/format/test_c_shape.py asks the same of all sources."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from c_arrows import Arrows, circles

from mica.toolchain.build import BuildResult


def symbols(path: Path, *options: str) -> set[str]:
    done = subprocess.run(
        ["nm", "--format=just-symbols", *options, str(path)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def arrows_of(folder: Path) -> Arrows:
    """File -> the files that define its functions and data from elsewhere; names below `folder`."""
    objects = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.o")}
    home = {s: name for name, path in objects.items() for s in symbols(path, "--extern-only", "--defined-only")}
    return {
        name: {home[s] for s in symbols(path, "--undefined-only") if s in home} - {name}
        for name, path in objects.items()
    }


def test_no_circles(firmware: Callable[[str], BuildResult]) -> None:
    """In the engine, in the kernels and in the binding; a kernel and its reference are two files of different names."""
    arrows = arrows_of(firmware("UNIX").elf.parent / "mica")
    assert len(arrows) > 40 and {"runtime/load.o", "runtime/execute.o", "binding/values.o"} <= set(arrows)
    assert circles(arrows) == []
