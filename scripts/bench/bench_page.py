"""Writes the cost of whole models on a core into usermod_c/BENCH.md, where its line of the command stands."""

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


def without(table: str, names: tuple[str, ...]) -> str:
    """The table of columns without those of these names."""
    lines = table.splitlines()
    places = [match.span() for match in re.finditer("-+", lines[1])]
    kept = [(a, b) for a, b in places if lines[0][a:b].strip() not in names]
    return "\n".join("  ".join(line.ljust(places[-1][1])[a:b] for a, b in kept).rstrip() for line in lines)


def updated(page: str, core: str, revision: str, models: str) -> str:
    """The page with a core's table of models in place of the one below its line. Raises MicaError where it has none."""
    models = without(models, ("goal", "trial"))
    line = rf"(?m)^(`scripts/bench/run --core {core} --page`), revision \S+:\n\n```\n.*?\n```\n"
    found, n = re.subn(line, lambda m: f"{m[1]}, revision {revision}:\n\n```\n{models}\n```\n", page, flags=re.S)
    if n != 1:
        raise MicaError(
            f"{PAGE.name}: expected one line `scripts/bench/run --core {core} --page` with a table, found {n}"
        )
    return found


def write(core: str, models: str) -> None:
    """Put the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(updated(page, core, engine_revision(), models), encoding="utf-8")
