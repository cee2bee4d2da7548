"""Builds and runs fuzz.c: for a few seconds as a test, for hours by scripts/soak."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import c_build
from models import MODELS

from mica.format import codec

HERE = Path(__file__).parent
FOUND = ("crash.mica", "slow.mica")  # what fuzz.c leaves behind when it dies
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Outcome:
    """What a run of the fuzzer found: its line of figures, or how it died and on which file."""

    figures: dict[str, int]
    report: str
    found: Path | None


def compile_engine(folder: Path, sources: list[str]) -> None:
    """Object files with sanitizers, that tell the fuzzer of every edge."""
    _compile(folder, "-fsanitize-coverage=trace-pc", f"-I{c_build.USERMOD / 'runtime'}", *sources)


def link(folder: Path) -> Path:
    """The fuzzer of the object files in `folder`."""
    _compile(folder, "-D_DEFAULT_SOURCE", str(HERE / "fuzz.c"))
    c_build.run(_gcc(), *SANITIZE, *sorted(str(p) for p in folder.glob("*.o")), "-o", "fuzz", cwd=folder)
    return folder / "fuzz"


def _compile(folder: Path, *arguments: str) -> None:
    c_build.run(_gcc(), "-std=c99", "-O1", "-g", *SANITIZE, *c_build.INCLUDE, "-c", *arguments, cwd=folder)


def _gcc() -> str:
    cc = c_build.compiler("gcc")
    assert cc is not None, "gcc is not installed; scripts/setup installs it"
    return cc


def run(fuzz: Path, folder: Path, *, seed: int, inputs: int = 0, seconds: int = 0, corpus: str = "") -> Outcome:
    """Fuzz from the files of `folder`, or from the format's models where it has none."""
    folder.mkdir(exist_ok=True, parents=True)
    if not any(folder.iterdir()):
        for make in MODELS:
            (folder / f"{make.__name__}.mica").write_bytes(codec.encode(make()))
    for name in FOUND:
        (folder / name).unlink(missing_ok=True)
    command = [str(fuzz), str(folder), str(seed), str(inputs), str(seconds), corpus]
    # A leak is a mistake of the driver's at most; what is asked for in vain is refused, not the end.
    env = os.environ | {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, check=False)
    found = [folder / name for name in FOUND if (folder / name).exists()]
    figures = json.loads(done.stdout) if done.returncode == 0 else {}
    return Outcome(figures, done.stderr, found[0] if found else None)
