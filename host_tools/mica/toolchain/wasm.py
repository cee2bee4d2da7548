"""The engine as WebAssembly: what host_tools/web/engine lists, compiled by clang and linked by wasm-ld, in the cache.

The kernels, checks, messages and the format are those of the boards: the same C files, by the same lists.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mica
from mica.resources import data_dir
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged
from mica.toolchain.source_lists import listed

# Each module: the folder of its kernels, and more words for its compiler. mica.mjs takes the first where there is SIMD.
MODULES = {"mica.wasm": ("vector", ["-msimd128", "-mbulk-memory"]), "mica-plain.wasm": ("c32", [])}
_FLAGS = [
    *("--target=wasm32", "-std=c99", "-ffreestanding", "-fno-builtin", "-ffunction-sections", "-fdata-sections"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-sign-compare"),
]
# Small where no time is spent, fast where all of it is.
_SMALL, _FAST = "-Os", "-O3"
# By itself: clang would call wasm-opt, which does not know the features.
_LINK = ["--no-entry", "--gc-sections", "--strip-all", "-z", "stack-size=65536"]


def engine(progress: Progress = quiet) -> Path:
    """Return the folder with the modules, mica.mjs and its types: an npm package, made if missing. Raises MicaError."""
    source, usermod = data_dir("host_tools/web") / "engine", data_dir("usermod_c")
    digest = hashlib.sha256(repr((MODULES, _FLAGS, _LINK, mica.__version__)).encode())
    for path in sorted([*source.iterdir(), *usermod.rglob("*.[ch]"), *usermod.rglob("sources.txt"), Path(__file__)]):
        digest.update(path.read_bytes())
    folder = cache_dir() / "build" / f"web-engine-{digest.hexdigest()[:12]}"
    if not folder.is_dir():
        with locked("web-engine", progress):
            if not folder.is_dir():
                progress("building the engine as WebAssembly")
                _build(source, usermod, folder)
    return folder


def _build(source: Path, usermod: Path, folder: Path) -> None:
    clang, link = need_program("clang", "clang"), need_program("wasm-ld", "lld")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="web-engine-", dir=folder.parent) as work:
        half, log = Path(work) / "package", cache_dir() / "build" / "web-engine.log"
        half.mkdir()
        for name, (isa, more) in MODULES.items():
            kernels = usermod / "kernels"
            folders = (usermod / "include", kernels, kernels / "isa" / isa)
            flags: list[str | Path] = [*_FLAGS, *more, "-isystem", source, *(f"-I{path}" for path in folders)]
            for k, (speed, files) in enumerate(_groups(source, usermod, isa)):
                objects = Path(work) / name / str(k)  # apart, since files of different kernels have one name
                objects.mkdir(parents=True)
                run_logged([clang, *flags, speed, "-c", *files], "building the engine", log, cwd=objects)
            made = sorted((Path(work) / name).rglob("*.o"))
            target: list[str | Path] = ["-o", half / name]
            run_logged([link, *_LINK, *made, *target], "linking the engine", log)
            os.chmod(half / name, 0o644)
        for name in ("mica.mjs", "mica.d.ts", "README.md"):
            shutil.copyfile(source / name, half / name)
        facts = json.loads((source / "package.json").read_text(encoding="utf-8")) | {"version": mica.__version__}
        (half / "package.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        half.rename(folder)


def _groups(source: Path, usermod: Path, isa: str) -> Iterator[tuple[str, list[Path]]]:
    """Files with different names, and how they are optimised."""
    files = [*sorted(source.glob("*.c")), *listed(usermod / "sources.txt")]
    fast = listed(usermod / "kernels" / "isa" / isa / "sources.txt")
    for parent in sorted({path.parent.resolve() for path in files}):
        yield _SMALL, [path for path in files if path.parent.resolve() == parent]
    for parent in sorted({path.parent.resolve() for path in fast}):
        yield _FAST, [path.resolve() for path in fast if path.parent.resolve() == parent]
