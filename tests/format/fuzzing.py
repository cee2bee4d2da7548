"""Builds and runs fuzz.c: for a few seconds as a test, for hours by scripts/soak."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import c_build
from models import MODELS
from usermod_models import by_rows

from mica.file import codec

HERE = Path(__file__).parent
FOUND = ("crash.mica", "slow.mica")  # what fuzz.c leaves behind when it dies


@dataclass(frozen=True)
class Outcome:
    """Result of a run of the fuzzer: its line of figures, or how it died and on which file."""

    figures: dict[str, int]
    report: str
    found: Path | None


def make(folder: Path, build: c_build.Build, changed: bool = False, replaced: Mapping[str, str] | None = None) -> Path:
    """The fuzzer, linked with an engine that tells it of every edge; the engine of other files where some are replaced.

    Where the file changes after the load, UndefinedBehaviorSanitizer is left out: a shift or a sum out of range is a
    wrong number then, which is allowed.
    """
    sanitize = ("-fsanitize=address", "-fsanitize-coverage=trace-pc") if changed else c_build.SANITIZED
    engine = c_build.sanitized(build, *sanitize, replaced=replaced)
    flags = ["-D_DEFAULT_SOURCE", *(["-DRUN_CHANGED"] if changed else [])]
    own = [flag for flag in sanitize if "coverage" not in flag]  # it does not count itself
    fuzz = c_build.objects(build, [str(HERE / "fuzz.c")], *own, *flags)
    return c_build.link(folder / "fuzz", build, [*engine, *fuzz], *sanitize)


def run(fuzz: Path, folder: Path, *, seed: int, inputs: int = 0, seconds: int = 0, corpus: str = "") -> Outcome:
    """Fuzz from the files of `folder`, or from the format's models where it has none."""
    folder.mkdir(exist_ok=True, parents=True)
    if not any(folder.iterdir()):
        for make in (*MODELS, by_rows):
            (folder / f"{make.__name__}.mica").write_bytes(codec.encode(make()))
    for name in FOUND:
        (folder / name).unlink(missing_ok=True)
    command = [str(fuzz), str(folder), str(seed), str(inputs), str(seconds), corpus]
    # A leak is a mistake of the driver's at most; what is asked for in vain is refused, not the end.
    env = os.environ | {
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "abort_on_error=1",
    }
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, check=False)
    found = [folder / name for name in FOUND if (folder / name).exists()]
    figures = json.loads(done.stdout) if done.returncode == 0 else {}
    return Outcome(figures, done.stderr, found[0] if found else None)
