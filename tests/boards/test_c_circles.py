"""No C files of ours need each other in a circle. nm lists the symbols that each object defines and needs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mica.toolchain.build import BuildResult


def symbols(path: Path, *options: str) -> set[str]:
    done = subprocess.run(
        ["nm", "--format=just-symbols", *options, str(path)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def arrows_of(folder: Path) -> dict[str, set[str]]:
    """File -> the files that define its functions and data from elsewhere; names below `folder`."""
    objects = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.o")}
    home = {s: name for name, path in objects.items() for s in symbols(path, "--extern-only", "--defined-only")}
    return {
        name: {home[s] for s in symbols(path, "--undefined-only") if s in home} - {name}
        for name, path in objects.items()
    }


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Groups of files of which each reaches the others."""
    reach = {a: set(b) for a, b in arrows.items()}
    for via in reach:
        for a in reach:
            if via in reach[a]:
                reach[a] |= reach[via]
    found = {frozenset({b for b in reach[a] if a in reach[b]} | {a}) for a in reach if a in reach[a]}
    return [set(c) for c in found]


def test_no_circles(firmware: Callable[[str], BuildResult]) -> None:
    """In the engine, in the kernels and in the binding; a kernel and its reference are two files of different names."""
    arrows = arrows_of(firmware("UNIX").elf.parent / "mica")
    assert len(arrows) > 40 and {"runtime/load.o", "runtime/execute.o", "binding/values.o"} <= set(arrows)
    assert circles(arrows) == []


@pytest.mark.parametrize(
    ("arrows", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, [{"b", "c"}]),
    ],
)
def test_the_check_finds_them(arrows: dict[str, set[str]], expected: list[set[str]]) -> None:
    assert circles(arrows) == expected
