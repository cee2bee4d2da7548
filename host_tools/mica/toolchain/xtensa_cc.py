"""A compiler for the ESP32's core with register windows, of parts that Debian has.

    GCC's cc1, told about the core by a library -> assembly -> what LLVM's assembler takes -> an object for mpy_ld.py

Debian's GCC for the ESP8266 takes, from release 13 on, another core's description at run time,
but its assembler does not;
LLVM's does, though it neither widens branches that reach too far nor knows where mpy_ld.py looks for addends.
Both are of the Debian release that MicroPython's sources are taken from: fetched through this machine's mirror,
kept in the cache, run by their own C library's loader, installed nowhere.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mica.errors import MicaError, Unsupported
from mica.resources import data_dir
from mica.toolchain import pins, sources, xtensa_gcc
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged
from mica.toolchain.xtensa_gcc import GCC, HEADERS, LIBRARIES, LLVM

# What it calls by itself.
LIBRARY = [data_dir("usermod_c") / "natmod" / name for name in ("xtensawin.c", "l2f.c", "fdiv.c")]

# GCC's include/xtensa-dynconfig.h names what the numbers of each table mean, in this order.
# Of what matters here: little endian, density, sign extension, minimum and maximum, products of 16 and 32 bits, loops,
# windows of 64 registers, a float unit. The 12th number says whether it has the high half of a product (MULUH): no core
# of QEMU's has it.
_CORE = """\
const int xtensa_config_v1[] = { 0,1,0,1,1,1,0,0, 1,1,1,%d,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1, 0,0,0,0,0, 1,64,0,0,
    0,0,4,4,2,2,0, 0,1, 1,2,2,6, 3,4, 0,0,1 };
const int xtensa_config_v2[] = { 3, 260003, 260003 };
const int xtensa_config_v3[] = { 1,0,0,0 };
const int xtensa_config_v4[] = { 1,1 };
int plugin_is_GPL_compatible;
const char *const xtensa_config_strings[] = { "__XCHAL_HAVE_WINDOWED=1", 0 };
"""


def unpacked(name: str, packages: Sequence[str], progress: Progress = quiet, *, unpinned: bool = False) -> Path:
    """Return the cache's folder with Debian packages and what they need; they are fetched when they are not there.

    Raises Unsupported where they cannot be had, or are others than those we know and not `unpinned`.
    """
    root = cache_dir() / name
    with locked(name, progress):
        if root.is_dir():
            return root
        missing = f"{', '.join(packages)} of Debian {sources.TOOLS_SUITE}"
        need_program("dpkg-deb", "dpkg")
        mirror = sources.debian_mirror() if shutil.which("apt-get") else None
        if mirror is None:
            raise Unsupported(f"{missing} would be needed: apt knows no Debian mirror here")
        root.parent.mkdir(parents=True, exist_ok=True)
        log = cache_dir() / f"{name}.log"
        with tempfile.TemporaryDirectory(dir=root.parent, prefix=".deb-") as folder:
            options = sources.apt_options(Path(folder), mirror, sources.TOOLS_SUITE)
            progress(f"fetching {missing}")
            expected = ["--no-install-recommends", "--download-only", "install", *packages]
            try:
                run_logged(["apt-get", *options, "-qq", "update"], "fetching lists", log, progress=progress)
                get = ["apt-get", *options, "-qq", "-y", "-o", "Debug::NoLocking=1", *expected]
                run_logged(get, f"fetching {name}", log, progress=progress)
            except MicaError:
                raise Unsupported(f"{missing} could not be fetched; the log is {log}") from None
            new = Path(folder) / "root"
            archives = sorted((Path(folder) / "cache" / "archives").glob("*.deb"))
            if not unpinned:
                pins.check_all(archives, f"Debian {sources.TOOLS_SUITE}")
            for package in archives:
                run_logged(["dpkg-deb", "-x", package, new], f"unpacking {package.name}", log)
            new.rename(root)
    return root


def compiler(folder: Path, progress: Progress = quiet, *, unpinned: bool = False, linker: str = "mpy_ld.py") -> str:
    """Write a program `xtensawin-gcc` into `folder`, which takes GCC's arguments, and return its path.

    The program links objects for `linker`: "mpy_ld.py" makes native modules, for an ESP32, "ld" firmware for QEMU.
    Raises Unsupported, which says what is missing, where its parts cannot be had.
    """
    why = "xtensawin needs a compiler with register windows"
    if not HEADERS.is_dir():
        raise Unsupported(f"{why}: sudo apt install picolibc-xtensa-lx106-elf")
    try:
        gcc = unpacked("xtensa-gcc", ["gcc-xtensa-lx106"], progress, unpinned=unpinned)
        llvm = unpacked("llvm-22", ["llvm-22"], progress, unpinned=unpinned)
    except Unsupported as error:
        raise error.at(why) from None
    for path in (gcc / GCC / "cc1", gcc / LIBRARIES, llvm / LLVM / "bin" / "llvm-mc", llvm / LIBRARIES):
        if not path.exists():
            raise Unsupported(f"{why}: {path} is not among Debian's packages here")
    core = folder / "core.so"
    if not core.exists():
        (folder / "core.c").write_text(_CORE % (linker != "ld"), encoding="utf-8")
        command: list[str | Path] = [need_program("gcc", "gcc libc6-dev"), "-shared", "-fPIC"]
        run_logged([*command, folder / "core.c", "-o", core], "describing the core", folder / "build.log")
    script = folder / "xtensawin-gcc"
    words = [sys.executable, xtensa_gcc.__file__, str(gcc), str(llvm), str(core), linker]
    script.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + ' "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)
