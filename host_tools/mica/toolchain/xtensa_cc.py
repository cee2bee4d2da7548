"""A compiler for the ESP32's core with register windows, of parts that Debian has: `python -m mica.toolchain.xtensa_cc`.

    GCC's cc1, told about the core by a library -> assembly -> what LLVM's assembler takes -> an object for mpy_ld.py

Debian's GCC for the ESP8266 takes, from release 13 on, another core's description at run time, but its assembler does not;
LLVM's does, though it neither widens branches that reach too far nor knows where mpy_ld.py looks for addends. Both are of
the Debian release that MicroPython's sources are taken from: fetched through this machine's mirror, kept in the cache,
run by their own C library's loader, installed nowhere.
"""

import io
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mica.errors import MicaError, Unsupported
from mica.resources import data_dir
from mica.toolchain import pins, sources
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.process import need_program, run_logged

_GCC = Path("usr/lib/gcc/xtensa-lx106-elf/13.3.0")
_LLVM = Path("usr/lib/llvm-22")
_HEADERS = Path("/usr/lib/xtensa-lx106-elf/include")  # picolibc's
VERSION = "xtensa-lx106-elf-gcc 13.3.0 for windowed cores, LLVM 22's assembler"
LIBRARY = [
    data_dir("usermod_c") / "natmod" / name for name in ("xtensawin.c", "l2f.c", "fdiv.c")
]  # what it calls by itself
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")

# GCC's include/xtensa-dynconfig.h names what the numbers of each table mean, in this order. Of what matters here: little
# endian, density, sign extension, minimum and maximum, products of 16 and 32 bits, loops, windows of 64 registers, a float
# unit. The 12th number says whether it has the high half of a product (MULUH): no core of QEMU's has it.
_CORE = """\
const int xtensa_config_v1[] = { 0,1,0,1,1,1,0,0, 1,1,1,%d,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1, 0,0,0,0,0, 1,64,0,0,
    0,0,4,4,2,2,0, 0,1, 1,2,2,6, 3,4, 0,0,1 };
const int xtensa_config_v2[] = { 3, 260003, 260003 };
const int xtensa_config_v3[] = { 1,0,0,0 };
const int xtensa_config_v4[] = { 1,1 };
int plugin_is_GPL_compatible;
const char *const xtensa_config_strings[] = { "__XCHAL_HAVE_WINDOWED=1", 0 };
"""

_OPPOSITES = "beq bne,bge blt,bgeu bltu,beqi bnei,bgei blti,bgeui bltui,beqz bnez,bgez bltz,bany bnone,ball bnall,bbc bbs,bbci bbsi,bf bt"
_FAR = "\t.literal .Lfar{0}, {1}\n\tl32r\ta8, .Lfar{0}\n\tcallx8\ta8"
_LONG_LOOP = (
    "\tloop\t{0}, {2}; rsr\t{0}, lend; wsr\t{0}, lbeg; .literal {2}end, {1}; l32r\t{0}, {2}end; wsr\t{0}, lend; isync; "
    "rsr\t{0}, lcount; addi\t{0}, {0}, 1; {2}:"
)
_OPPOSITE = {x: y for pair in _OPPOSITES.split(",") for x, y in (pair.split(), pair.split()[::-1])}


def unpacked(name: str, packages: Sequence[str], progress: Progress = quiet, *, unpinned: bool = False) -> Path:
    """The folder of the cache where Debian packages, with what they need, are unpacked; fetched when they are not there.

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
    if not _HEADERS.is_dir():
        raise Unsupported(f"{why}: sudo apt install picolibc-xtensa-lx106-elf")
    try:
        gcc = unpacked("xtensa-gcc", ["gcc-xtensa-lx106"], progress, unpinned=unpinned)
        llvm = unpacked("llvm-22", ["llvm-22"], progress, unpinned=unpinned)
    except Unsupported as error:
        raise error.at(why) from None
    for path in (gcc / _GCC / "cc1", gcc / _LIBRARIES, llvm / _LLVM / "bin" / "llvm-mc", llvm / _LIBRARIES):
        if not path.exists():
            raise Unsupported(f"{why}: {path} is not among Debian's packages here")
    core = folder / "core.so"
    if not core.exists():
        (folder / "core.c").write_text(_CORE % (linker != "ld"), encoding="utf-8")
        command: list[str | Path] = [need_program("gcc", "gcc libc6-dev"), "-shared", "-fPIC"]
        run_logged([*command, folder / "core.c", "-o", core], "describing the core", folder / "build.log")
    script = folder / "xtensawin-gcc"
    words = [sys.executable, "-m", "mica.toolchain.xtensa_cc", str(gcc), str(llvm), str(core), linker]
    script.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + ' "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def _program(root: Path, libraries: str, binary: Path) -> list[str]:
    """A command that runs a program with the C library it came with."""
    return [str(root / _LIBRARIES / "ld-linux-x86-64.so.2"), "--library-path", libraries, str(root / binary)]


def main(arguments: Sequence[str]) -> int:
    """Do as GCC does: -E to stdout, -c with -o, --version; else link by Debian's linker.

    arguments: the folders of GCC and LLVM, the core's description, what links ("mpy_ld.py" or "ld"), and GCC's.
    """
    gcc, llvm, core, linker, *words = arguments
    if words == ["--version"]:
        print(VERSION)
        return 0
    if words[0].startswith("--print-file-name="):
        print(words[0].partition("=")[2])  # as GCC says of a file that it has not
        return 0
    if "-E" not in words and "-c" not in words:
        link = ["xtensa-lx106-elf-ld", *(word.removeprefix("-Wl,") for word in words)]
        return subprocess.run(link, check=False).returncode
    os.environ["XTENSA_GNU_CONFIG"] = core
    cc1 = _program(Path(gcc), str(Path(gcc) / _LIBRARIES), _GCC / "cc1")
    include = ["-nostdinc", "-isystem", f"{Path(gcc) / _GCC / 'include'}", "-isystem", str(_HEADERS)]
    common = [*cc1, "-quiet", "-mlongcalls", *include]
    with_value = {w for i, w in enumerate(words) if words[i - 1] in ("-o", "-MF")}
    rest = [w for w in words if w not in ("-c", "-o", "-MMD", "-MD", "-MF") and w not in with_value]
    sources = [w for w in rest if w == "-" or (w.endswith((".c", ".S")) and not w.startswith("-"))]
    if "-E" in words:  # cc1 takes one file at a time
        options = [w for w in rest if w not in sources]
        return max((subprocess.run([*common, *options, w], check=False).returncode for w in sources), default=1)
    target = Path(words[words.index("-o") + 1])
    assembly = target.with_suffix(".s")
    if sources[0].endswith(".S"):
        shutil.copy(sources[0], assembly)
    else:
        depends = ["-MMD", str(target.with_suffix(".d")), "-MT", str(target)]
        done = subprocess.run([*common, *depends, *rest, "-o", str(assembly)], check=False)
        if done.returncode != 0:
            return done.returncode
    libraries = f"{Path(llvm) / _LIBRARIES}:{Path(llvm) / _LLVM / 'lib'}"
    failure = _assemble(
        _program(Path(llvm), libraries, _LLVM / "bin" / "llvm-mc"), assembly, target, far=linker == "ld"
    )
    if failure:
        print(failure, file=sys.stderr)
        target.unlink(missing_ok=True)
        return 1
    objcopy = _program(Path(llvm), libraries, _LLVM / "bin" / "llvm-objcopy")
    return _fit(objcopy, target) if linker == "mpy_ld.py" else 0


def _field(shift: re.Match[str]) -> str:
    return f"\textui\t{shift[1]}, {shift[2]}, {shift[3]}, {32 - int(shift[3])}"


def _assemble(llvm_mc: list[str], assembly: Path, target: Path, *, far: bool) -> str:
    """Assemble. Branches that reach too far become their opposites over a jump, and long loops set the end themselves,
    as GNU's assembler has it. With `far`, a call loads its address, as Debian's linker does not know CALL8."""
    text = assembly.read_text(encoding="utf-8").replace("@PLT", "")
    text = re.sub(r"^\t\.word\b", "\t.long", text, flags=re.M)
    text = re.sub(r"^\t\.hword\b", "\t.short", text, flags=re.M)
    # GNU's assembler takes shifts that the instruction has no room for.
    text = re.sub(r"^\tsrli\t(\w+), (\w+), (1[6-9]|[23]\d)$", _field, text, flags=re.M)
    if far:
        number = itertools.count()
        text = re.sub(r"^\tcall8\t(\S+)", lambda call: _FAR.format(next(number), call[1]), text, flags=re.M)
    lines = re.sub(r"\b(bnez|beqz)\.n\b", r"\1", text).split("\n")
    while True:
        assembly.write_text("\n".join(lines), encoding="utf-8")
        command = [*llvm_mc, "-triple=xtensa", "-mcpu=esp32", "-filetype=obj", str(assembly), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ""
        wrong = [int(n) for n in re.findall(r":(\d+):\d+: error: (?:loop )?fixup value out of range", done.stderr)]
        if not wrong:
            return done.stderr
        for n in wrong:
            found = re.match(r"\t(\w+)\t(.*), *(\S+)$", lines[n - 1])
            label = f".Lnear{n}"
            if found and found[1] == "loop":
                lines[n - 1] = _LONG_LOOP.format(found[2], found[3], label)
            elif found and found[1] in _OPPOSITE:
                lines[n - 1] = f"\t{_OPPOSITE[found[1]]}\t{found[2]}, {label}; j {found[3]}; {label}:"
            else:
                return done.stderr


def _fit(objcopy: list[str], target: Path) -> int:
    """Change an object so that mpy_ld.py can link it.

    mpy_ld.py finds a section by its name, so names must differ between objects. It expects the addends of literals in
    the literals. It adds to the offset in an l32r, which LLVM has set.
    """
    from elftools.elf.elffile import ELFFile
    from elftools.elf.relocation import RelocationSection

    with target.open("rb") as file:
        names = {s.name for s in ELFFile(file).iter_sections()}
    own = [n for n in names if n.startswith((".text", ".rodata", ".data.rel.ro", ".bss"))]
    renames = [f"--rename-section={name}={name}.{target.stem}" for name in sorted(own)]
    done = subprocess.run([*objcopy, *renames, str(target)], check=False)
    if done.returncode != 0:
        return done.returncode
    data = bytearray(target.read_bytes())
    elf = ELFFile(io.BytesIO(bytes(data)))
    for table in elf.iter_sections():
        if not isinstance(table, RelocationSection):
            continue
        section: Any = elf.get_section(table["sh_info"])
        symbols: Any = elf.get_section(table["sh_link"])
        for i, relocation in enumerate(table.iter_relocations()):
            at = section["sh_offset"] + relocation["r_offset"]
            kind = symbols.get_symbol(relocation["r_info_sym"])["st_info"]["type"]
            if relocation["r_info_type"] == 20:  # R_XTENSA_SLOT0_OP
                data[at + 1 : at + 3] = b"\0\0"
            elif section.name.startswith(".literal") and kind == "STT_SECTION":
                struct.pack_into("<i", data, at, relocation["r_addend"])
                struct.pack_into("<i", data, table["sh_offset"] + 12 * i + 8, 0)
    target.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
