"""Compilers at hand, and builds of the portable engine for the tests of the format."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from mica.source_lists import listed

ROOT = Path(__file__).resolve().parents[2]
USERMOD = ROOT / "usermod_c"
SOURCES = [str(path) for path in listed(USERMOD / "sources.txt")]
INCLUDE = [f"-I{USERMOD / d}" for d in ("include", "kernels", "kernels/isa/ref")]
STRICT = [
    *("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-Wfloat-conversion", "-Wconversion"),
    *("-Wsign-conversion", "-Wshadow", "-Wstrict-prototypes"),
]


def compiler(*names: str) -> str | None:
    """The first of these compilers that is installed."""
    return next((found for name in names if (found := shutil.which(name))), None)


def run(*command: str, cwd: Path) -> None:
    """Run a compiler; its complaints become the test's."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
