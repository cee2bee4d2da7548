"""Builds a board's firmware: MicroPython with the user module `_mica` and the runtime `mica` frozen in.

    fetch sources -> generated manifest and module folder -> the port's own make or CMake -> image (and UF2)

Everything happens in the cache: the MicroPython tree is never written to by a build, nor is the project.
Which MicroPython it is says one value, micropython.MicroPython.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from mica.boards import BoardSpec
from mica.errors import MicaError, Unsupported
from mica.kernels import KERNELS, left_out
from mica.resources import data_dir
from mica.toolchain import ports, sources
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.contents import Contents, check_names, stub, usual
from mica.toolchain.micropython import MicroPython, choose, version_of
from mica.toolchain.ports import BUILDS, Job
from mica.toolchain.process import need_program

# A change in one of these can change compiler flags or the list of files, which the ports' makefiles do not track.
_RULE_SUFFIXES = {".mk", ".cmake", ".txt", ".ld", ".csv", ".inc", ".specs"}


@dataclass(frozen=True)
class BuildResult:
    """The files and sizes of a build. `image` is what the board or emulator gets; sizes in bytes."""

    board: str
    image: Path
    elf: Path
    uf2: Path | None
    text: int
    data: int
    bss: int
    arena: int
    kernels: tuple[str, ...]  # that are in the image
    compiler: str  # its first line of --version
    micropython: str  # version
    tree: Path  # its sources
    built: bool  # False: everything was up to date
    seconds: float


class Settings(TypedDict, total=False):
    """Holds the choices for a firmware. Each has a folder of its own."""

    arena: int | None  # bytes for activations, in the place of the board's
    manifests: Sequence[Path]  # of MicroPython, to freeze as well
    contents: Contents  # what of mica goes in; by default contents.usual()
    extras: Collection[str]  # of contents.packages(), to freeze as well
    usermod: bool  # False: no mica in it at all, as in a firmware from elsewhere


def build(
    board: BoardSpec,
    *,
    micropython: MicroPython | None = None,
    jobs: int | None = None,
    progress: Progress = quiet,
    **settings: Unpack[Settings],
) -> BuildResult:
    """Build the firmware for `board`, or find that it is up to date. `micropython` is choose()'s by default.

    Raises MicaError with the compiler's telling lines when the build fails.
    """
    begun = time.monotonic()
    jobs = jobs or os.cpu_count() or 2
    mp = micropython or choose()
    port = BUILDS[board.port.name]
    mp.check(board.port.name, (*port.libraries, *board.submodules))
    job = _make_job(board, mp, **settings)
    with locked(f"build/{job.folder.name}", progress):
        rules, contents = _fingerprints(job)
        written = job.folder / "built.json"
        stamp = _read_stamp(written)
        fresh = stamp.get("rules") == rules and stamp.get("contents") == contents and job.image.exists()
        if not fresh:
            compiler = port.need_tools(board, mp)
            why = "its sources have changed" if stamp else "there is none yet"
            progress(f"building the firmware of {board.name} first: {why}. It takes minutes; later commands use it")
            tree = _fetch(board, mp, jobs, progress)
            if stamp.get("rules") != rules or stamp.get("compiler") != compiler:
                shutil.rmtree(job.obj, ignore_errors=True)
                _begin_with_another(job, {"rules": rules, "compiler": compiler, "engine": job.engine()})
            written.unlink(missing_ok=True)
            (job.folder / "build.log").unlink(missing_ok=True)
            _prepare(job)
            progress(f"building {board.name} with {compiler}")
            port.build(job, tree / "ports" / port.facts.name, jobs, progress)
            sizes = _sizes(job)
            _check_room(board, sizes)
            stamp = {"rules": rules, "contents": contents, "compiler": compiler, "sizes": sizes, "tree": str(tree)}
            stamp["engine"] = job.engine()
            # Written half, then renamed: an interrupt must not leave a stamp that cannot be read.
            half = written.with_suffix(".new")
            half.write_text(json.dumps(stamp), encoding="utf-8")
            half.replace(written)
    text, data, bss = stamp["sizes"]
    return BuildResult(
        board=board.name,
        image=job.image,
        elf=job.elf,
        uf2=job.uf2,
        text=text,
        data=data,
        bss=bss,
        arena=job.arena,
        kernels=tuple(k.name for k in KERNELS if k.name not in job.without),
        compiler=stamp["compiler"],
        micropython=version_of(Path(stamp["tree"])) if mp.unpinned else mp.version,
        tree=Path(stamp["tree"]),
        built=not fresh,
        seconds=time.monotonic() - begun,
    )


def _fetch(board: BoardSpec, mp: MicroPython, jobs: int, progress: Progress) -> Path:
    try:
        libraries = BUILDS[board.port.name].libraries
        return sources.fetch(mp, libraries=libraries, submodules=board.submodules, jobs=jobs, progress=progress)
    except Unsupported as error:
        raise error.at(board.name) from None


def _make_job(
    board: BoardSpec,
    mp: MicroPython,
    arena: int | None = None,
    manifests: Sequence[Path] = (),
    contents: Contents | None = None,
    extras: Collection[str] = (),
    usermod: bool = True,
) -> Job:
    """Choose the folder: one for each board and setting, and for each checkout of the project."""
    size = board.arena if arena is None else arena
    if size > board.ram:
        raise MicaError(f"an arena of {size:,} bytes: {board.name} has {board.ram:,} bytes of RAM in all")
    if re.search(r"\s", str(board.folder)):
        raise MicaError(
            f"{str(board.folder)!r} has white space in its path, which MicroPython's makefiles cannot read",
            todo="move the board's folder",
        )
    paths = tuple(path.resolve() for path in manifests)
    for path in paths:
        if not path.is_file():
            raise MicaError(f"{path} is not there", todo="expected a MicroPython manifest (a .py file)")
    contents = contents or usual(board)
    without = left_out(contents.kernels)
    check_names(extras)
    if extras and not board.network:
        raise MicaError(f"{board.name} has no network, which {', '.join(extras)} needs")
    more = tuple(sorted(set(extras)))
    places = (str(board.folder), str(data_dir("firmware")), str(data_dir("usermod_c")))
    key = repr((*places, size, paths, without, contents.fallback, mp.key))
    if more:
        key += f" with {more}"
    if contents.modules:
        key += f" {sorted(contents.modules.items())}"
    if not usermod:
        key += " without mica"
    name = f"{board.name}-{mp.version}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    port = BUILDS[board.port.name]
    folder = cache_dir() / "build" / name
    return Job(board, port, size, paths, without, contents, more, folder, mp, usermod)


def _fingerprints(job: Job) -> tuple[str, str]:
    """Digests of the files that are rules of the build, and of all others that go into the image."""
    rules, contents = hashlib.sha256(), hashlib.sha256()
    ours = Path(ports.__file__).with_name(f"{job.port.facts.name}.py")
    for path in (Path(__file__), ours, ours.with_name("base.py")):
        rules.update(path.read_bytes())
    # Of board.toml what goes into the image: neither its description nor how it is emulated.
    rules.update(repr(dataclasses.replace(job.board, description="", emulator=None)).encode())
    folders = [job.board.folder, job.port.common]
    if job.usermod:
        folders += [data_dir("usermod_c"), data_dir("firmware")]
    files = [path for folder in folders for path in source_files(folder) if path.name != "board.toml"]
    for path in sorted([*files, *job.manifests]):
        digest = rules if path.suffix in _RULE_SUFFIXES else contents
        digest.update(str(path).encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for digest, state in zip((rules, contents), job.micropython.state(job.port.facts.name), strict=True):
        digest.update(state.encode())
    return rules.hexdigest(), contents.hexdigest()


def source_files(folder: Path) -> list[Path]:
    """All files under `folder` but those that tools leave behind (.ruff_cache, __pycache__)."""
    found = []
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in parts):
            found.append(path)
    return found


def _read_stamp(path: Path) -> dict:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _begin_with_another(job: Job, same: dict[str, object]) -> None:
    """Take over the objects of another firmware that only freezes other files; make compiles what that changes.

    With other kernels or another arena MicroPython's table of strings is another one, which every object depends on.
    Files keep their times. What is frozen is made again: the same path may come from another, older file.
    """
    for written in sorted(job.folder.parent.glob(f"{job.board.name}-*/built.json")):
        stamp, old = _read_stamp(written), written.parent
        if {key: stamp.get(key) for key in same} != same:
            continue
        shutil.copytree(old / "obj", job.obj, symlinks=True, ignore=shutil.ignore_patterns("frozen_*", ".ninja_*"))
        for path in job.obj.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            if bytes(old) in data and b"\0" not in data:  # a list of what an object depends on, a makefile
                then = path.stat()
                path.write_bytes(data.replace(bytes(old), bytes(job.folder)))
                os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
        if _read_stamp(written) == stamp:
            return
        shutil.rmtree(job.obj)  # it was built again meanwhile


def _prepare(job: Job) -> None:
    """Write what the ports want to be given: one manifest, and a folder that has the user module in it.

    A board's own manifest takes the place of its port's, which it may include as `options.port`.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    for frozen in job.obj.rglob("frozen_content.c"):  # MicroPython keeps it where a manifest has a file less
        frozen.unlink()
    runtime = data_dir("firmware") / "manifest.py"
    own, common = job.board.folder / "manifest.py", job.port.common / "manifest.py"
    included = [own if own.is_file() else common, *([runtime] if job.usermod else []), *job.manifests]
    stubs = job.folder / "left_out" / "mica"
    shutil.rmtree(stubs.parent, ignore_errors=True)
    for module, says in job.contents.modules.items():
        stubs.mkdir(parents=True, exist_ok=True)
        (stubs / f"{module}.py").write_text(stub(says), encoding="utf-8")
    extras = f", fallback={job.contents.fallback}, extras={','.join(job.extras)!r}"
    if job.contents.modules:
        extras += f", stubs={str(stubs.parent)!r}"
    options = {runtime: extras, own: f", port={str(common)!r}"}
    text = "".join(f"include({str(path)!r}{options.get(path, '')})\n" for path in included)
    if not job.manifest.exists() or job.manifest.read_text(encoding="utf-8") != text:
        job.manifest.write_text(text, encoding="utf-8")
    modules = job.folder / "modules"
    modules.mkdir(exist_ok=True)
    link = modules / "mica"
    if not job.usermod:
        link.unlink(missing_ok=True)
    elif not link.is_symlink() or Path(os.readlink(link)) != data_dir("usermod_c"):
        link.unlink(missing_ok=True)
        link.symlink_to(data_dir("usermod_c"))


# --- the image ----------------------------------------------------------------------------------------


def _check_room(board: BoardSpec, sizes: tuple[int, int, int]) -> None:
    """Raises MicaError where the program reaches into the models behind it;
    the linker of the port does not know of them."""
    if board.uf2 is None or board.romfs is None:
        return
    text, data, _ = sizes
    room = board.romfs.base - board.uf2.base
    if text + data > room:
        raise MicaError(
            f"the firmware of {board.name} takes {text + data:,} bytes of flash; there are {room:,} before its models",
            todo="build it --for some models, or give the ROMFS another base in board.toml",
        )


def _sizes(job: Job) -> tuple[int, int, int]:
    """Bytes of text, data and bss of the linked program."""
    size = need_program(f"{job.port.prefix(job.board)}size", "binutils")
    result = subprocess.run([size, job.elf], capture_output=True, text=True, check=True)
    text, data, bss = result.stdout.splitlines()[1].split()[:3]
    return int(text), int(data), int(bss)
