"""Runs the programs that fetch and build, with a log, and explains their failures in a few lines."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mica.errors import MicaError
from mica.toolchain.cache import Progress, cache_dir, quiet

Command = Sequence[str | Path]

# What a user's shell may have set for other builds, and would change or break this one.
_UNWANTED = ("CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "AFLAGS", "MAKEFLAGS", "MFLAGS", "CC", "LD", "CROSS_COMPILE")

_DATE = "1735689600"  # seconds since 1970: 1 January 2025

_TELLING = re.compile(
    r"error|undefined reference|multiple definition|overflowed|no rule to make|cannot find|not found|no space", re.I
)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, in English and without compiler settings.

    git may not look for a repository above the cache: MicroPython's build asks it for a version, and a cache inside
    some other checkout would give that one's. Python's compiled files stay out of MicroPython's tree,
    which may be the user's.
    The date in a firmware is always the same, so that two people get the same bytes.
    """
    env = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    own = {"LC_ALL": "C", "GIT_CEILING_DIRECTORIES": str(cache_dir() / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**env, **own, "SOURCE_DATE_EPOCH": _DATE, **(extra or {})}


def need_program(program: str, package: str) -> str:
    """Return the path of `program`, or say which apt package has it."""
    path = shutil.which(program)
    if path is None:
        raise MicaError(f"{program} is not installed", todo=f"on Debian and Ubuntu: sudo apt install {package}")
    return path


def telling_lines(text: str, count: int = 6) -> list[str]:
    """The lines of a log that say what went wrong: the first that look like errors, else the last."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    # "Command '[...]'" is MicroPython's string collector repeating a whole command line; one compiles errorhandler.c.
    noise = ("make", "Command '[", "CC ")
    found = [line for line in lines if _TELLING.search(line) and not line.startswith(noise)]
    return [line[:500] for line in found[:count] or lines[-count:]]


class ProgramFailed(MicaError):
    """A program ended badly. `lines`: those of its output that tell why."""

    def __init__(self, what: str, lines: Sequence[str], log: Path) -> None:
        super().__init__("\n  ".join([f"{what} failed:", *lines, f"the whole log: {log}"]))
        self.lines = tuple(lines)


def _share(log: Path, start: int) -> str:
    """Return how far CMake is, by the last "[ 12%]" of the output that begins at byte `start`; "" where it has none."""
    with log.open("rb") as file:
        file.seek(max(start, file.seek(0, 2) - 10_000))
        found = re.findall(rb"^\[ *(\d+)%\]", file.read(), flags=re.M)
    return f", {int(found[-1])} %" if found else ""


def run_logged(
    command: Command,
    what: str,
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    progress: Progress = quiet,
) -> None:
    """Run a command with its output appended to `log`; on failure raise ProgramFailed with the telling lines.

    After 5, 10, 20 and 40 s, then each 30 s, `progress` is told that work goes on,
    with its share where the output has one.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        start = file.tell()
        # A group of its own, so that an interrupt here ends make and all compilers it has started.
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env=clean_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        seconds, pause = 0, 5
        try:
            while True:
                try:
                    process.wait(pause)
                    break
                except subprocess.TimeoutExpired:
                    seconds += pause
                    progress(f"{what}: {seconds} s{_share(log, start)}")
                    pause = min(seconds, 30)
        except BaseException:
            os.killpg(process.pid, 15)
            process.wait()
            raise
    if process.returncode != 0:
        with log.open("rb") as file:
            file.seek(start)
            text = file.read().decode(errors="replace")
        raise ProgramFailed(what, telling_lines(text), log)
