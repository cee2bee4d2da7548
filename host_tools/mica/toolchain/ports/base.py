"""Code that all ports share: a firmware to build, the compiler it needs, and the port's Makefile."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from mica.boards import BoardSpec
from mica.boards.isa import REFERENCE, toolchain
from mica.boards.ports import PORTS
from mica.errors import MicaError
from mica.resources import data_dir
from mica.toolchain.cache import Progress
from mica.toolchain.contents import Contents
from mica.toolchain.micropython import MicroPython
from mica.toolchain.process import Command, need_program, run_logged

# Prefix of a compiler -> what finds its C library, which is a package of its own on Debian: what lacks it fails late,
# with a long log.
_HEADER = ("-x", "c", "-E", "-")
_LIBRARY = {
    "arm-none-eabi-": _HEADER,
    "xtensa-lx106-elf-": ("-isystem", "/usr/lib/xtensa-lx106-elf/include", *_HEADER),
    "riscv64-unknown-elf-": ("--print-file-name=picolibc.specs",),  # without it, the bare name
}


@dataclass(frozen=True)
class Job:
    """One firmware to build: the board, its settings and its folder in the cache."""

    board: BoardSpec
    port: "PortBuild"
    arena: int
    manifests: tuple[Path, ...]
    without: tuple[str, ...]  # kernels that are left out
    contents: Contents
    extras: tuple[str, ...]  # packages beside mica
    folder: Path
    micropython: MicroPython
    usermod: bool = True

    @property
    def obj(self) -> Path:
        return self.folder / "obj"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.py"

    @property
    def elf(self) -> Path:
        return self.obj / self.port.elf

    @property
    def uf2(self) -> Path | None:
        return self.obj / "firmware.uf2" if self.board.uf2 else None

    @property
    def image(self) -> Path:
        """The file that is flashed, or that the emulator runs."""
        return self.obj / self.port.image if self.port.image else self.uf2 or self.elf

    def engine(self, separator: str = " ") -> dict[str, object]:
        """Make variables for usermod_c; `separator` stands between kernels that are left out."""
        without = separator.join(self.without)
        sizes = {"MICA_ARENA_BYTES": self.arena, "MICA_SCRATCH_BYTES": self.board.scratch}
        return {**sizes, "MICA_ISA": kernels_of(self.board), "MICA_WITHOUT": without}

    def run(self, command: Command, progress: Progress, **env: str) -> None:
        if self.micropython.folder:  # of a user's tree, mpy-cross lies elsewhere
            env["MICROPY_MPYCROSS"] = str(self.micropython.mpy_cross)
        run_logged(command, f"building {self.board.name}", self.folder / "build.log", env=env, progress=progress)


class PortBuild:
    """A port: what its build is called with, needs and leaves behind.
    Its Makefile takes everything as variables, unless it says otherwise."""

    elf = "firmware.elf"
    image = ""  # of the file that is run or flashed; "" where that is the UF2 or ELF file
    libraries: tuple[str, ...] = ()  # of MicroPython's git repository, that every board of the port needs
    packages = ""  # of apt, beside those that have the compiler

    def __init__(self, name: str) -> None:
        self.facts = PORTS[name]

    @property
    def common(self) -> Path:
        """Folder of the files that the port's boards share."""
        return data_dir("boards") / "common" / self.facts.name

    def prefix(self, board: BoardSpec) -> str:
        """Prefix of the names of the board's compiler and binutils."""
        return toolchain(board.isa).prefix

    def need_tools(self, board: BoardSpec, mp: MicroPython) -> str:
        """Check that the programs of a build are there; return the compiler's first line of --version."""
        need_program("make", "make")
        need_program("gcc", "gcc libc6-dev")
        prefix, package = self.prefix(board), toolchain(board.isa).packages + self.packages
        compiler = need_program(f"{prefix}gcc", package)
        if prefix in _LIBRARY:
            found = _output(compiler, *_LIBRARY[prefix])
            if found.returncode or "/" not in found.stdout:
                raise MicaError(
                    f"{Path(compiler).name} has no C library", todo=f"on Debian and Ubuntu: sudo apt install {package}"
                )
        return _output(compiler, "--version").stdout.partition("\n")[0]

    def settings(self, job: Job, progress: Progress) -> dict[str, object]:
        """Return the variables that name the board, and what its port adds."""
        return {"BOARD": job.board.name, "BOARD_DIR": job.board.folder, "MICA_PORT_DIR": self.common}

    def build(self, job: Job, port: Path, jobs: int, progress: Progress) -> None:
        """Make job.elf and job.image from MicroPython's folder of the port; `jobs` compilers at a time."""
        modules = job.folder / "modules"
        settings = {"BUILD": job.obj, "FROZEN_MANIFEST": job.manifest, "USER_C_MODULES": modules, **job.engine()}
        assignments = [f"{key}={value}" for key, value in {**settings, **self.settings(job, progress)}.items()]
        job.run(["make", "-C", port, f"-j{jobs}", *assignments], progress)


def kernels_of(board: BoardSpec) -> str:
    """The folder of usermod_c/kernels/isa for a board's instruction set; "ref" where there is none."""
    folder = data_dir("usermod_c") / "kernels" / "isa" / board.isa
    return board.isa if (folder / "mica_select.h").is_file() else REFERENCE


def _output(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input="#include <stdio.h>\n", capture_output=True, text=True, check=False)
