"""Builds a board's firmware: MicroPython with the user module `_mica` and the runtime `mica` frozen in.

    fetch sources -> generated manifest and module folder -> the port's own make or CMake -> image (and UF2)

Everything happens in the cache: the MicroPython tree is never written to by a build, nor is the project. Which MicroPython
it is says one value, micropython.MicroPython.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from mica.boards import BoardSpec
from mica.boards.isa import toolchain
from mica.errors import MicaError, Unsupported
from mica.images import uf2
from mica.kernels import KERNELS, PARTS
from mica.resources import data_dir
from mica.toolchain import esp_idf, sources
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.micropython import MicroPython, choose, version_of
from mica.toolchain.process import Command, need_program, run_logged

# A change in one of these can change compiler flags or the list of files, which the ports' makefiles do not track.
_RULE_SUFFIXES = {".mk", ".cmake", ".txt", ".ld", ".csv", ".inc"}


@dataclass(frozen=True)
class BuildResult:
    """What a build left behind. `image` is what the board or emulator gets; sizes in bytes."""

    board: str
    image: Path
    elf: Path
    uf2: Path | None
    text: int
    data: int
    bss: int
    arena: int
    kernels: tuple[str, ...]  # that are in the image
    log: Path
    compiler: str  # its first line of --version
    micropython: str  # version
    tree: Path  # its sources
    built: bool  # False: everything was up to date
    seconds: float


@dataclass(frozen=True)
class _Job:
    """One firmware to build: the board, its settings and its folder in the cache."""

    board: BoardSpec
    arena: int
    manifests: tuple[Path, ...]
    without: tuple[str, ...]  # kernels that are left out
    fallback: bool  # whether the kernels in MicroPython are frozen in
    extras: tuple[str, ...]
    folder: Path
    micropython: MicroPython
    usermod: bool = True

    @property
    def obj(self) -> Path:
        return self.folder / "obj"

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    @property
    def stamp(self) -> Path:
        return self.folder / "built.json"

    @property
    def elf(self) -> Path:
        names = {"unix": "micropython", "esp32": "micropython.elf"}
        return self.obj / names.get(self.board.port, "firmware.elf")

    @property
    def uf2(self) -> Path | None:
        return self.obj / "firmware.uf2" if self.board.uf2 else None

    @property
    def image(self) -> Path:
        if self.board.port == "esp32":
            return self.obj / "firmware.bin"  # boot loader, partition table and program in one
        return self.uf2 or self.elf


class Settings(TypedDict, total=False):
    """Of a firmware. Each choice has a folder of its own."""

    arena: int | None  # bytes for activations, in the place of the board's
    manifests: Sequence[Path]  # of MicroPython, to freeze as well
    kernels: Collection[str] | None  # the only ones that go in, by their names in `mica.kernels`; None: all
    fallback: bool  # False: no kernels in MicroPython, so a model that needs one that was left out is refused
    extras: Collection[str]  # of known_extras(), to freeze as well
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
    mp.check(board.port, board.submodules)
    job = _make_job(board, mp, **settings)
    with locked(f"build/{job.folder.name}", progress):
        rules, contents = _fingerprints(job)
        stamp = _read_stamp(job)
        fresh = stamp.get("rules") == rules and stamp.get("contents") == contents and job.image.exists()
        if not fresh:
            compiler = _need_tools(board, mp)
            why = "its sources have changed" if stamp else "there is none yet"
            progress(f"building the firmware of {board.name} first: {why}. It takes minutes; later commands use it")
            tree = _fetch(board, mp, jobs, progress)
            if stamp.get("rules") != rules or stamp.get("compiler") != compiler:
                shutil.rmtree(job.obj, ignore_errors=True)
            job.stamp.unlink(missing_ok=True)
            job.log.unlink(missing_ok=True)
            _prepare(job)
            progress(f"building {board.name} with {compiler}")
            _PORT_BUILDS[board.port](job, tree, jobs, progress)
            sizes = _sizes(job)
            _check_room(board, sizes)
            stamp = {
                "rules": rules,
                "contents": contents,
                "compiler": compiler,
                "sizes": sizes,
                "tree": str(tree),
            }
            # Written half, then renamed: an interrupt must not leave a stamp that cannot be read.
            half = job.stamp.with_suffix(".new")
            half.write_text(json.dumps(stamp), encoding="utf-8")
            half.replace(job.stamp)
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
        log=job.log,
        compiler=stamp["compiler"],
        micropython=version_of(Path(stamp["tree"])) if mp.unpinned else mp.version,
        tree=Path(stamp["tree"]),
        built=not fresh,
        seconds=time.monotonic() - begun,
    )


def _fetch(board: BoardSpec, mp: MicroPython, jobs: int, progress: Progress) -> Path:
    try:
        rp2 = board.port == "rp2"
        return sources.fetch(mp, rp2=rp2, submodules=board.submodules, jobs=jobs, progress=progress)
    except Unsupported as error:
        raise error.at(board.name) from None


def _make_job(
    board: BoardSpec,
    mp: MicroPython,
    arena: int | None = None,
    manifests: Sequence[Path] = (),
    kernels: Collection[str] | None = None,
    fallback: bool = True,
    extras: Collection[str] = (),
    usermod: bool = True,
) -> _Job:
    """Choose the folder: one for each board and setting, and for each checkout of the project."""
    size = board.arena if arena is None else arena
    if size > board.ram:
        raise MicaError(f"an arena of {size:,} bytes: {board.name} has {board.ram:,} bytes of RAM in all")
    paths = tuple(path.resolve() for path in manifests)
    for path in paths:
        if not path.is_file():
            raise MicaError(f"{path} is not there", todo="expected a MicroPython manifest (a .py file)")
    unknown = set(kernels or ()) - set(PARTS)
    if unknown:
        raise MicaError(f"{sorted(unknown)[0]} is no kernel")
    check_extras(extras)
    if extras and not board.network:
        raise MicaError(f"{board.name} has no network, which {', '.join(extras)} needs")
    more = tuple(sorted(set(extras)))
    without = tuple(name for name in PARTS if kernels is not None and name not in kernels)
    places = (str(board.folder), str(data_dir("firmware")), str(data_dir("usermod_c")))
    key = repr((*places, size, paths, without, fallback, mp.key))
    if more:
        key += f" with {more}"
    if not usermod:
        key += " without mica"
    name = f"{board.name}-{mp.version}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    return _Job(board, size, paths, without, fallback, more, cache_dir() / "build" / name, mp, usermod)


def known_extras() -> list[str]:
    """Packages of MicroPython that a firmware has only where they are asked for: "fleet" is firmware/mica_fleet."""
    return sorted(p.name.removeprefix("mica_") for p in data_dir("firmware").glob("mica_*") if p.is_dir())


def check_extras(extras: Collection[str]) -> None:
    """Raises MicaError where one of them is not known."""
    if unknown := set(extras) - set(known := known_extras()):
        raise MicaError(f"--with {min(unknown)}", todo=f"known are {', '.join(known)}")


def _fingerprints(job: _Job) -> tuple[str, str]:
    """Digests of the files that are rules of the build, and of all others that go into the image."""
    rules, contents = hashlib.sha256(), hashlib.sha256()
    rules.update(Path(__file__).read_bytes())
    # Of board.toml what goes into the image: neither its description nor how it is emulated.
    rules.update(repr(dataclasses.replace(job.board, description="", emulator=None)).encode())
    shared = data_dir("boards") / "common" / job.board.port
    folders = [job.board.folder, shared]
    if job.usermod:
        folders += [data_dir("usermod_c"), data_dir("firmware")]
    files = [path for folder in folders for path in source_files(folder) if path.name != "board.toml"]
    for path in sorted([*files, *job.manifests]):
        digest = rules if path.suffix in _RULE_SUFFIXES else contents
        digest.update(str(path).encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for digest, state in zip((rules, contents), job.micropython.state(job.board.port), strict=True):
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


def _read_stamp(job: _Job) -> dict:
    try:
        return dict(json.loads(job.stamp.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _prepare(job: _Job) -> None:
    """Write what the ports want to be given: one manifest, and a folder that has the user module in it."""
    job.folder.mkdir(parents=True, exist_ok=True)
    runtime = data_dir("firmware") / "manifest.py"
    included = [job.board.folder / "manifest.py", *([runtime] if job.usermod else []), *job.manifests]
    options = {runtime: f", fallback={job.fallback}, extras={','.join(job.extras)!r}"}
    text = "".join(f"include({str(path)!r}{options.get(path, '')})\n" for path in included)
    manifest = job.folder / "manifest.py"
    if not manifest.exists() or manifest.read_text(encoding="utf-8") != text:
        manifest.write_text(text, encoding="utf-8")
    modules = job.folder / "modules"
    modules.mkdir(exist_ok=True)
    link = modules / "mica"
    if not job.usermod:
        link.unlink(missing_ok=True)
    elif not link.is_symlink() or Path(os.readlink(link)) != data_dir("usermod_c"):
        link.unlink(missing_ok=True)
        link.symlink_to(data_dir("usermod_c"))


# --- tools ----------------------------------------------------------------------------------------------


def _prefix(board: BoardSpec) -> str:
    """What the names of the board's compiler and binutils begin with."""
    return toolchain(board.isa).prefix


def _need_tools(board: BoardSpec, mp: MicroPython) -> str:
    """Check that the programs of a build are there; return the compiler's first line of --version."""
    if board.port == "esp32":
        need_program("make", "make")
        need_program("gcc", "gcc libc6-dev")
        idf = esp_idf.find(_chip(board), mp)
        return f"ESP-IDF {'.'.join(map(str, esp_idf.version(idf)))} at {idf}"
    prefix, package = toolchain(board.isa).prefix, toolchain(board.isa).packages
    if board.port == "rp2":
        package += " libstdc++-arm-none-eabi-newlib"
        need_program("cmake", "cmake")
        need_program("g++", "g++")  # pico-sdk makes a tool of its own for this computer
    need_program("make", "make")
    need_program("gcc", "gcc libc6-dev")
    compiler = need_program(f"{prefix}gcc", package)
    if prefix == "arm-none-eabi-":
        # A compiler without its C library is a package of its own on Debian, and fails late with a long log.
        _need_header(compiler, "stdio.h", package)
    elif prefix == "riscv64-unknown-elf-":
        _need_specs(compiler, package)
    elif prefix == "xtensa-lx106-elf-":
        _need_header(compiler, "stdio.h", package, "-isystem", "/usr/lib/xtensa-lx106-elf/include")
    result = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return result.stdout.partition("\n")[0]


def _need_header(compiler: str, header: str, package: str, *flags: str) -> None:
    command = [compiler, *flags, "-x", "c", "-E", "-"]
    result = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise MicaError(
            f"{Path(compiler).name} has no C library", todo=f"on Debian and Ubuntu: sudo apt install {package}"
        )


def _need_specs(compiler: str, package: str) -> None:
    """Debian's RISC-V compiler knows its C library by a file of specs; without it, it prints the bare name."""
    command = [compiler, "--print-file-name=picolibc.specs"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if not Path(result.stdout.strip()).is_absolute():
        raise MicaError(
            f"{Path(compiler).name} has no C library", todo=f"on Debian and Ubuntu: sudo apt install {package}"
        )


def _chip(board: BoardSpec) -> str:
    """What ESP-IDF calls the chip: ESP32-S3 is esp32s3."""
    return board.mcu.lower().replace("-", "")


def _check_room(board: BoardSpec, sizes: tuple[int, int, int]) -> None:
    """Raises MicaError where the program reaches into the models behind it; the linker of the port does not know of them."""
    if board.uf2 is None or board.romfs is None:
        return
    text, data, _ = sizes
    room = board.romfs.base - board.uf2.base
    if text + data > room:
        raise MicaError(
            f"the firmware of {board.name} takes {text + data:,} bytes of flash; there are {room:,} before its models",
            todo="build it --for some models, or give the ROMFS another base in board.toml",
        )


def _sizes(job: _Job) -> tuple[int, int, int]:
    """Bytes of text, data and bss of the linked program."""
    # This computer's own size reads ELF files of other processors too.
    size = need_program(f"{_prefix(job.board)}size" if job.board.port != "esp32" else "size", "binutils")
    result = subprocess.run([size, job.elf], capture_output=True, text=True, check=True)
    text, data, bss = result.stdout.splitlines()[1].split()[:3]
    return int(text), int(data), int(bss)


def kernels_of(board: BoardSpec) -> str:
    """The folder of usermod_c/kernels/isa for a board's instruction set; "ref" where there is none."""
    folder = data_dir("usermod_c") / "kernels" / "isa" / board.isa
    return board.isa if (folder / "mica_select.h").is_file() else "ref"


# --- the ports ------------------------------------------------------------------------------------------


def _make(job: _Job, tree: Path, jobs: int, progress: Progress, settings: dict[str, object]) -> None:
    settings = {
        "BUILD": job.obj,
        "FROZEN_MANIFEST": job.folder / "manifest.py",
        "USER_C_MODULES": job.folder / "modules",
        "MICA_ARENA_BYTES": job.arena,
        "MICA_ISA": kernels_of(job.board),
        "MICA_WITHOUT": " ".join(job.without),
        **settings,
    }
    assignments = [f"{key}={value}" for key, value in settings.items()]
    command: Command = ["make", "-C", tree / "ports" / job.board.port, f"-j{jobs}", *assignments]
    run_logged(command, f"building {job.board.name}", job.log, env=_environment(job), progress=progress)


def _environment(job: _Job) -> dict[str, str]:
    """What MicroPython's makefiles and tools read there: of a user's tree, that mpy-cross lies elsewhere."""
    return {"MICROPY_MPYCROSS": str(job.micropython.mpy_cross)} if job.micropython.folder else {}


def _build_unix(job: _Job, tree: Path, jobs: int, progress: Progress) -> None:
    _make(job, tree, jobs, progress, {"VARIANT_DIR": job.board.folder, "VARIANT": job.board.name})


def _build_qemu(job: _Job, tree: Path, jobs: int, progress: Progress) -> None:
    settings: dict[str, object] = {"BOARD": job.board.name, "BOARD_DIR": job.board.folder}
    if job.board.romfs:
        settings |= {"MICA_ROMFS_BASE": hex(job.board.romfs.base), "MICA_ROMFS_BYTES": job.board.romfs.size}
    _make(job, tree, jobs, progress, settings)


def _build_rp2(job: _Job, tree: Path, jobs: int, progress: Progress) -> None:
    settings: dict[str, object] = {
        "MICROPY_BOARD": job.board.name,
        "MICROPY_BOARD_DIR": job.board.folder,
        "MICROPY_FROZEN_MANIFEST": job.folder / "manifest.py",
        "PICO_NO_PICOTOOL": 1,
        "MICA_ARENA_BYTES": job.arena,
        "MICA_ISA": kernels_of(job.board),
        "MICA_WITHOUT": ";".join(job.without),
        "MICA_ROMFS_BYTES": job.board.romfs.size if job.board.romfs else 0,
        "MICA_STORAGE_BYTES": job.board.storage,
    }
    if job.usermod:
        settings["USER_C_MODULES"] = data_dir("usermod_c") / "micropython.cmake"
    port = tree / "ports" / "rp2"
    what = f"building {job.board.name}"
    # MicroPython's tools run in the same Python as mica.
    assignments = [f"-D{key}={value}" for key, value in {**settings, "Python3_EXECUTABLE": sys.executable}.items()]
    env = _environment(job)
    run_logged(["cmake", "-S", port, "-B", job.obj, *assignments], what, job.log, env=env, progress=progress)
    run_logged(["make", "-C", job.obj, f"-j{jobs}"], what, job.log, env=env, progress=progress)
    if job.board.uf2 and job.uf2:
        firmware = (job.obj / "firmware.bin").read_bytes()
        job.uf2.write_bytes(uf2.build([(job.board.uf2.base, firmware)], job.board.uf2.family))


def _build_esp32(job: _Job, tree: Path, jobs: int, progress: Progress) -> None:
    """By the port's Makefile, in the environment that ESP-IDF's export.sh sets up."""
    options = {
        "USER_C_MODULES": data_dir("usermod_c") / "micropython.cmake",
        "MICA_ARENA_BYTES": job.arena,
        "MICA_ISA": kernels_of(job.board),
        "MICA_WITHOUT": ",".join(job.without),  # a semicolon would end the shell's command
    }
    settings = {
        "BOARD": job.board.name,
        "BOARD_DIR": job.board.folder,
        "BUILD": job.obj,
        "FROZEN_MANIFEST": job.folder / "manifest.py",
        # The Makefile hands on what it knows, and its variable for that takes more.
        "CMAKE_ARGS": " ".join(f"-D{key}={value}" for key, value in options.items()),
    }
    make = ["make", "-C", str(tree / "ports" / "esp32"), *(f"{key}={value}" for key, value in settings.items())]
    script = 'unset MAKELEVEL; . "$IDF_PATH/export.sh" >&2 && exec "$@"'
    idf = esp_idf.find(_chip(job.board), job.micropython)
    env = {**_environment(job), "IDF_PATH": str(idf), "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs)}
    command: Command = ["bash", "-c", script, "mica", *make]
    run_logged(command, f"building {job.board.name}", job.log, env=env, progress=progress)


_PORT_BUILDS = {"unix": _build_unix, "qemu": _build_qemu, "rp2": _build_rp2, "esp32": _build_esp32}
