"""Builds the engine as a native module, `_mica.mpy`, for boards that keep their firmware.

    names in the binding -> qstrs.h -> the compiler, by a generated Makefile -> MicroPython's mpy_ld.py -> _mica.mpy

The sources are those of the user module: the engine, the kernels of the instruction set, the binding, and
usermod_c/natmod in between. Everything happens in the cache.
"""

import ast
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from mica.boards.isa import Native, natives
from mica.errors import MicaError
from mica.kernels import left_out
from mica.resources import data_dir
from mica.toolchain import native_image, sources, xtensa_cc
from mica.toolchain.cache import Progress, cache_dir, locked, quiet
from mica.toolchain.micropython import MicroPython, choose
from mica.toolchain.process import clean_environment, need_program, run_logged, telling_lines
from mica.toolchain.source_lists import engine, listed

ARM = "arm-none-eabi-"
WINDOWED = "xtensawin-"  # its compiler is put together here, see xtensa_cc.py

# By the name that MicroPython's mpy_ld.py has for them.
ARCHS = natives()

# Member of libgcc -> the file of usermod_c/natmod in its place.
_OWN = {"divsf3.o": "fdiv.c", "_floatdisf.o": "l2f.c"}

# A package is made for these unless told otherwise: their compiler is installed, not fetched, and they were loaded.
USUAL = tuple(name for name, arch in ARCHS.items() if arch.prefix != WINDOWED)

_FLAGS = ("-fno-common", "-U_FORTIFY_SOURCE", "-DNDEBUG")
# Jump tables are tables of pointers, but on Cortex-M0, where they are bytes behind a call of libgcc.
# Only that is built as a whole.
_NO_TABLES = ("-fpic", "-fno-jump-tables", "-fno-tree-switch-conversion")
# The module is in RAM: for size, where what stays the same in a loop is not kept in registers that there are too few
# of. What the compiler calls by itself is no part of the program that it sees.
_WHOLE = ("-fno-pic", "-ffunction-sections", "-fdata-sections", "-DMICA_PACKED_TEXTS")
_SMALL = ("-Os", "-fno-move-loop-invariants", "-fno-tree-loop-im", "-fno-inline-small-functions")
# As if for a fixed address, every relocation kept for native_image.py.
_FIXED = (
    *("-Os", "-flto", "-flto-partition=one", "-nostdlib", "-static"),
    "-Wl,-q,--gc-sections,-e,mp_native_at_start,-T,fixed.ld",
    "-Wl,--unresolved-symbols=ignore-all",  # those of MicroPython, which native_image.py knows
)
_APART = ("libc.c", "fdiv.c", "l2f.c", "native.c", "start.c")
TREES = "tree_code.c"  # in the folder of the build
_WARNINGS = ("-Wall", "-Wextra", "-Werror")


# What the firmware was built with as far as it shows in the layout of objects, and what the binding uses.
_CONFIG = """\
#include <stdint.h>
typedef uintptr_t mp_uint_t;
typedef intptr_t mp_int_t;
typedef uintptr_t mp_off_t;
#define MICROPY_ENABLE_DYNRUNTIME (1)
#define MICROPY_FLOAT_IMPL (MICROPY_FLOAT_IMPL_FLOAT)
#define MICROPY_MODULE_BUILTIN_INIT (0)
#define MICROPY_PY_ATTRTUPLE (1)
#define MICROPY_PY_BUILTINS_MEMORYVIEW (1)
#define MICROPY_PY_BUILTINS_STR_UNICODE (1)
#define MICROPY_ENABLE_SOURCE_LINE (1)
#define MICA_ARENA_BYTES (16384)
"""


@dataclass(frozen=True)
class NativeModule:
    """A native module that was built. Bytes: `size` in the file; on the board `text` (with constants) and `bss`."""

    arch: Native
    file: Path
    size: int
    text: int
    bss: int
    kernels: str  # folder of usermod_c/kernels/isa
    without: tuple[str, ...]  # kernels that are left out
    compiler: str  # its first line of --version
    micropython: str  # version
    seconds: float


def build(
    name: str,
    *,
    kernels: Collection[str] | None = None,
    code: str = "",
    micropython: MicroPython | None = None,
    jobs: int = 2,
    progress: Progress = quiet,
) -> NativeModule:
    """Build `_mica.mpy` for the architecture `name`, or find that it is up to date.
    `micropython` is choose()'s by default.

    kernels: names of those to build in (None: all); a model that needs another runs it in Python, or is refused.
    code: of some models' decision trees (tree_code.py), to build in.

    The version of native code has been the same since 1.23, so one build is loaded by every release since.

    Raises MicaError for an unknown architecture, a tool that is missing, and with the compiler's telling lines.
    """
    begun = time.monotonic()
    if name not in ARCHS:
        raise MicaError(f"no architecture is called {name!r}", todo=f"known are {', '.join(ARCHS)}")
    without = left_out(kernels)
    arch = ARCHS[name]
    need_program("make", "make")
    if arch.prefix != WINDOWED:
        compiler = need_program(f"{arch.prefix}gcc", arch.packages)
    for module, package in (("elftools", "pyelftools"), ("ar", "ar")):
        if importlib.util.find_spec(module) is None:
            raise MicaError(f"MicroPython's linker needs the Python package {package}: pip install {package}")
    mp = micropython or choose()
    tree = sources.fetch(mp, jobs=jobs, progress=progress)
    key = hashlib.sha256(repr((str(data_dir("usermod_c")), mp.key, code, *without)).encode()).hexdigest()[:8]
    folder = cache_dir() / "natmod" / f"{name}-{key}"
    with locked(f"natmod/{folder.name}", progress):
        (folder / "obj").mkdir(parents=True, exist_ok=True)
        log = folder / "build.log"
        log.unlink(missing_ok=True)
        if arch.prefix == WINDOWED:
            compiler = xtensa_cc.compiler(folder, progress, unpinned=mp.unpinned)
        _write(folder / "types.h", _CONFIG)
        _write_names(folder, tree, [compiler, *arch.flags])
        _write(folder / "texts.json", json.dumps(_messages(), indent=0))
        _write(folder / "fixed.ld", native_image.SCRIPT)
        _write(folder / TREES, code)
        _write(folder / "Makefile", _makefile(arch, folder, tree, compiler, without, bool(code)))
        progress(f"building the native module for {name}")
        run_logged(["make", "-C", folder, f"-j{jobs}"], f"building for {name}", log, progress=progress)
        linked = (folder / "link.log").read_text(encoding="utf-8")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    file = folder / "_mica.mpy"
    return NativeModule(
        arch=arch,
        file=file,
        size=file.stat().st_size,
        text=_linked_size(linked, "text") + _linked_size(linked, "rodata"),
        bss=_linked_size(linked, "bss"),
        kernels=arch.isa,
        without=without,
        compiler=version.partition("\n")[0],
        micropython=mp.version,
        seconds=time.monotonic() - begun,
    )


def _linked_size(log: str, what: str) -> int:
    return sum(int(n) for n in re.findall(rf"^{what} size: +(\d+)$", log, flags=re.M))


def _write(path: Path, text: str) -> None:
    """Write a file unless it holds this already: make goes by its time."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _listed(name: str) -> list[Path]:
    """The files that a list of sources in usermod_c names."""
    return listed(data_dir("usermod_c") / name)


def _binding() -> list[Path]:
    """The files that see MicroPython. What asks the heap itself has its likeness in natmod/native.c."""
    own = [data_dir("usermod_c") / "natmod" / name for name in ("native.c", "start.c", "libc.c")]
    return [path for path in _listed("sources-micropython.txt") if path.name != "heap.c"] + own


def _engine(arch: Native) -> list[Path]:
    files = engine(data_dir("usermod_c"), arch.isa)
    files += [data_dir("usermod_c") / "natmod" / _OWN[member] for member in arch.own]
    return files + (xtensa_cc.LIBRARY if arch.prefix == WINDOWED else [])


def _includes(arch_isa: str) -> list[str]:
    root = data_dir("usermod_c")
    return [f"-I{root / part}" for part in ("include", "kernels", f"kernels/isa/{arch_isa}", "natmod")]


def _seen_by_micropython(folder: Path, tree: Path, config: str) -> list[str]:
    root = data_dir("usermod_c")
    return [
        f"-I{folder}",
        *_includes("ref"),
        f"-isystem{tree}",
        "-DNO_QSTR",
        f"-DMP_CONFIGFILE=<{config}>",
        f"-include{root / 'natmod' / 'native.h'}",
    ]


def _write_names(folder: Path, tree: Path, compiler: Sequence[str]) -> None:
    """Write names.h, for the linker, and qstrs.h, for the compiler: every MP_QSTR_ the binding uses (see native.h)."""
    command = [*compiler, "-E", "-P", *_seen_by_micropython(folder, tree, "types.h"), "-DNATIVE_NAMES_COUNT=0"]
    seen = ""
    for source in _binding():
        result = subprocess.run(
            [*command, str(source)], capture_output=True, text=True, env=clean_environment(), check=False
        )
        if result.returncode != 0:
            raise MicaError("the binding does not compile:\n  " + "\n  ".join(telling_lines(result.stderr)))
        seen += result.stdout
    used = sorted(set(re.findall(r"\bMP_QSTR_\w+", seen)))
    spelled = folder / "names.c"
    _write(spelled, "\n".join(used) + "\n")
    made = folder / "names.new"
    linker = [sys.executable, str(tree / "tools" / "mpy_ld.py"), "--preprocess", "-o", str(made), str(spelled)]
    result = subprocess.run(linker, capture_output=True, text=True, env=clean_environment(), check=False)
    if result.returncode != 0:
        raise MicaError("mpy_ld.py failed:\n  " + "\n  ".join(telling_lines(result.stderr)))
    text = made.read_text(encoding="utf-8")
    made.unlink()
    _write(folder / "names.h", text)
    constants, n = re.subn(r"\(mp_native_qstr_table\[(\d+)\]\)", r"(0x4000 + \1)", text)
    constants = "".join(line for line in constants.splitlines(keepends=True) if line.startswith(("#define", "extern")))
    _write(folder / "qstrs.h", f'#include "types.h"\n{constants}#define NATIVE_NAMES_COUNT ({n + 1})\n')


def _messages() -> list[str]:
    """The texts that runtime/message.c and natmod/native.c put together: those of the engine that have a space,
    and the binding's errors."""
    found: set[str] = set()
    literal = r'"(?:[^"\\\n]|\\.)*"'
    for source in _listed("sources.txt"):
        found.update(re.findall(rf"{literal}(?:\s*{literal})*", source.read_text(encoding="utf-8")))
    for source in _binding():
        found.update(re.findall(rf"MP_ERROR_TEXT\(({literal}(?:\s*{literal})*)\)", source.read_text(encoding="utf-8")))
    texts = {"".join(ast.literal_eval(part) for part in re.findall(literal, words)) for words in found}
    return sorted(text for text in texts if " " in text and "\n" not in text and text.isascii())  # assembly has lines


def _makefile(arch: Native, folder: Path, tree: Path, compiler: str, without: Sequence[str], trees: bool) -> str:
    root = data_dir("usermod_c")
    how = _WHOLE if arch.whole else _NO_TABLES
    common = [*arch.flags, *_FLAGS, *how, *_WARNINGS, *(f"-DMICA_WITHOUT_{kernel.upper()}" for kernel in without)]
    # A module's constants are in RAM: the smallest table.
    engine = ["-std=c99", *common, *_includes(arch.isa), "-DMICA_CRC_TABLES=0"]
    if trees:
        engine += [f"-I{root / 'runtime'}", "-DMICA_TREE_CODE"]
    small = _SMALL if arch.whole else ("-Os",)
    binding = ["-std=gnu99", *small, *common, *_includes(arch.isa), *_seen_by_micropython(folder, tree, "qstrs.h")]
    if arch.whole:
        binding.append("-DMICA_NATIVE_FIXED")
    rules: list[str] = []
    objects: list[str] = []
    members: list[str] = []  # of engine.a, from which only what is asked for is taken: loops that several kernels share
    for source in [*_engine(arch), *[folder / TREES] * trees, *_binding()]:
        name = "_".join((source.relative_to(root) if source.is_relative_to(root) else Path(source.name)).parts)
        if source in _binding():
            flags = binding
            if source.name == "libc.c":  # or it would call itself
                flags = [*binding, "-fno-builtin", "-fno-tree-loop-distribute-patterns"]
        else:
            # It is in RAM: only what a core has of its own is for speed, and of that what computes in C.
            fast = "isa" in source.parts and source.name not in arch.small
            flags = [*engine, *(("-O2",) if fast else small)]
        if arch.whole and source.suffix == ".c" and source.name not in _APART:
            flags = [*flags, "-flto"]
        target = f"obj/{name}.o"
        (members if without and "kernels" in source.parts and not arch.whole else objects).append(target)
        command = " ".join(f"'{word}'" for word in [compiler, *flags, "-MMD", "-MP", "-c", "-o", target, str(source)])
        if source.suffix == ".S" and arch.prefix == ARM and not arch.whole:
            # Assembly loads addresses of its own labels, which mpy_ld.py relocates only in sections of this name. Both
            # kinds become one block of RAM, so the code runs there as well as anywhere.
            # Branches to other files, though, it takes only elsewhere.
            command += f" && if {arch.prefix}objdump -r {target} | grep -q R_ARM_ABS32; then "
            command += f"{arch.prefix}objcopy --prefix-alloc-sections=.data.rel.ro {target}; fi"
        rules.append(f"{target}: {source} Makefile qstrs.h\n\t@echo {source.name}; {command}\n")
    if arch.whole:
        seen = _seen_by_micropython(folder, tree, "types.h")[:-1]
        entry = [compiler, "-std=gnu99", "-Os", "-fpic", *arch.flags, *_FLAGS, *_WARNINGS, *seen]
        command = " ".join(f"'{word}'" for word in [*entry, "-c", "-o", "entry.o", str(root / "natmod" / "entry.c")])
        rules.append(f"entry.o: {root / 'natmod' / 'entry.c'} Makefile\n\t@{command}\n")
    if arch.prefix == WINDOWED:  # mpy_ld.py jumps to its function, 128 KB at most, and does not notice more
        objects.sort(key=lambda target: "natmod_start" not in target)
    libgcc = "$(shell " + " ".join([compiler, *arch.flags, "-print-libgcc-file-name"]) + ")"
    link = [
        sys.executable,
        str(tree / "tools" / "mpy_ld.py"),
        "--arch",
        arch.name,
        "--qstrs",
        "names.h",
        *(["-l", "engine.a"] if members else []),
        *(["-vvv"] if arch.prefix == WINDOWED else [] if arch.whole else ["-l", "libgcc.a"]),
    ]
    # The module's file name is among its names: so in this folder, without a path.
    linked = ["entry.o", "image.o"] if arch.whole else ["$(OBJ)"]
    link += ["-o", "_mica.mpy", *linked]
    libraries = [*(["engine.a"] if members else []), *([] if arch.prefix == WINDOWED else ["libgcc.a"])]
    lines = [
        "# written by mica natmod",
        f"OBJ = {' '.join(objects)}",
        f"MEMBERS = {' '.join(members)}",
        f"_mica.mpy: {' '.join(linked)} names.h {' '.join(libraries)} Makefile",
        f"\t@echo linking; rm -f $@; {' '.join(link)} >link.log || {{ cat link.log; rm -f $@; exit 1; }}",
        "fixed.elf: $(OBJ) libgcc.a fixed.ld Makefile",
        f"\t@echo whole; {' '.join([compiler, *arch.flags, *_FLAGS, *_WHOLE, *_FIXED])} -o $@ $(OBJ) libgcc.a",
        f"image.o: fixed.elf texts.json {native_image.__file__}",
        f"\t@{sys.executable} {native_image.__file__} fixed.elf texts.json image.S",
        f"\t@{compiler} {' '.join(arch.flags)} -c -o $@ image.S",
        f"engine.a: $(MEMBERS)\n\t@rm -f $@; {arch.prefix}ar rcs $@ $(MEMBERS)",
        "libgcc.a: Makefile",
        # Without what we have ourselves: mpy_ld.py would take both.
        f"\tcp {libgcc} $@; {arch.prefix}ar d $@ {' '.join(arch.own)}",
        *rules,
        "-include $(wildcard obj/*.d)",
    ]
    return "\n".join(lines) + "\n"
