"""Writes the costs of a core's layers and models into usermod_c/BENCH.md, below the line with the command."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from mica.errors import MicaError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "usermod_c" / "BENCH.md"


def engine_revision() -> str:
    """The last commit that changed the engine, and so the costs."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    sources = ("--", "usermod_c/include", "usermod_c/kernels", "usermod_c/runtime")
    dirty = "-dirty" if git("status", "--porcelain", *sources) else ""
    return (git("log", "-1", "--format=%h", "--abbrev=7", *sources) or "unknown") + dirty


def updated(page: str, core: str, revision: str, models: str, layers: str) -> str:
    """The page with a core's two tables in place of those that stand below its line. Raises MicaError where it has none."""
    line = rf"(?m)^(`scripts/bench/run --core {core} --page`), revision \S+:\n\n```\n.*?\n```\n\n```\n.*?\n```\n"
    tables = f", revision {revision}:\n\n```\n{models}\n```\n\n```\n{layers}\n```\n"
    found, n = re.subn(line, lambda m: m[1] + tables, page, flags=re.S)
    if n != 1:
        raise MicaError(
            f"{PAGE.name}: expected one line `scripts/bench/run --core {core} --page` with two tables below, found {n}"
        )
    return found


def write(core: str, models: str, layers: str) -> None:
    """Put the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(updated(page, core, engine_revision(), models, layers), encoding="utf-8")
