"""The engine's files that a program needs, cut out of usermod_c.

A file is needed if it defines a name that a needed one uses, beginning with the kernels of a core's mica_select.h. Each
file finds its headers by relative paths, so a compiler needs no folders, and is empty for cores that don't need it.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mica.errors import MicaError
from mica.kernels import KERNEL_BY_NAME, STRIPS, left_out
from mica.toolchain.source_lists import engine

CORES = ("armv6m", "armv7m", "armv7em", "armv8m", "armv81m", "rv32imc", "xtensa", "c32", "ref")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_NAME = re.compile(r"\bmica_\w+")
_MACRO = re.compile(r"^#define (mica_\w+)\(", re.M)
_INCLUDE = re.compile(r'(#include ")([^"]+)(")')
# At the beginning of a line: a function, of which { or ; says whether it is defined here, and an object.
_FUNCTION = re.compile(r"^(?!static\b|typedef\b|extern\b)[A-Za-z_][\w \*]*?\b(mica_\w+)\([^;{]*?([;{])", re.M)
_OBJECT = re.compile(r"^(?!static\b|typedef\b|extern\b)[A-Za-z_][\w \*]*?\b(mica_\w+)(?:\[\w*\])* = ", re.M)
_LOADER = re.compile(r"^MICA_LOAD\w+\((\w+), ", re.M)  # a macro of runtime/op.h that defines mica_load_<operator>
_WITHOUT = re.compile(r"^#ifndef MICA_WITHOUT_(\w+)\n((?:(?!#).*\n)*)#endif", re.M)
# Of assembly, or a macro that begins a function.
_LABEL = re.compile(r"^ *(?:[A-Z_]+ |\.global )?(mica_\w+)(?=[:,\s])", re.M)
_STACK = '#if defined(__linux__) && defined(__ELF__)\n    .section .note.GNU-stack, "", %progbits\n#endif\n'
# What a program calls that loads its model as a board does, and one that makes tokens of a text.
LOADER = ("mica_load", "mica_run_steps", "mica_set_feed", "mica_window_cuts")
TOKENISER = ("mica_encode", "mica_tokens", "mica_token_piece")
SELECT, CORE = "mica_select.h", "mica_core.h"


@dataclass
class _File:
    """A source file, or a header."""

    path: Path
    text: str = field(init=False)

    def __post_init__(self) -> None:
        self.text = self.path.read_text(encoding="utf-8")

    @cached_property
    def plain(self) -> str:
        """The text without its comments."""
        return _COMMENT.sub(" ", self.text)

    @cached_property
    def defines(self) -> set[str]:
        """The names with external linkage that it defines."""
        if self.path.suffix == ".S":
            return set(_LABEL.findall(self.plain))
        functions = {name for name, end in _FUNCTION.findall(self.plain) if end == "{"}
        loaders = {f"mica_load_{operator}" for operator in _LOADER.findall(self.plain)}
        return functions | loaders | set(_OBJECT.findall(self.plain))


class Engine:
    """The files of usermod_c that kernels need on some cores."""

    def __init__(
        self, usermod: Path, kept: Collection[str], cores: Iterable[str], functions: Collection[str], prefix: str
    ) -> None:
        self._root, self._kept = usermod.resolve(), kept  # of mica.kernels.PARTS
        self._kernels = sorted(KERNEL_BY_NAME.keys() & set(kept))
        self._files: dict[Path, _File] = {}
        self.cores = tuple(cores)
        loaders = [f"mica_load_{kernel.removesuffix('_s8')}" for kernel in self._kernels if "mica_load" in functions]
        self._functions, self._prefix = [*functions, *loaders], prefix
        needed: dict[Path, list[str]] = {}  # by file: its cores
        for core in self.cores:
            for path in self._closure(core):
                needed.setdefault(path, []).append(core)
        self.needed = dict(sorted(needed.items()))

    def _file(self, path: Path) -> _File:
        return self._files.setdefault(path, _File(path))

    def _closure(self, core: str) -> set[Path]:
        """Return the sources that a core needs."""
        files = [path.resolve() for path in engine(self._root, core)]
        where = {name: path for path in files for name in self._file(path).defines}
        chosen = self._chosen(self._root / "kernels" / "isa" / core / SELECT)
        asked = [chosen[f"MICA_{kernel.upper()}"] for kernel in self._kernels] + self._functions
        if missing := [name for name in asked if name not in where]:
            raise MicaError(f"usermod_c: no file for {core} has {missing[0]}")
        found = set[Path]()
        while asked:
            path = where.get(asked.pop())
            if path is not None and path not in found:
                found.add(path)
                asked += self._used(path)
        return found

    def _used(self, path: Path) -> list[str]:
        """Return the names that a file uses where what is left out is not there."""
        without = {part.upper() for part in left_out(self._kept)}
        plain = _WITHOUT.sub(lambda m: "" if m[1] in without else m[2], self._file(path).plain)
        return _NAME.findall(plain)

    def _chosen(self, select: Path) -> dict[str, str]:
        """Return the winners that a mica_select.h names, and those of the one that it includes."""
        text = self._file(select).plain
        chosen: dict[str, str] = {}
        for name in re.findall(r'#include "(\.\./\w+/mica_select\.h)"', text):
            chosen |= self._chosen((select.parent / name).resolve())
        return chosen | dict(re.findall(r"#define (MICA_\w+) (mica_\w+)", text))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (path in the folder, text) of each file, headers too."""
        headers: list[Path] = []
        for path, cores in self.needed.items():
            yield self._place(path), self._wrapped(path, cores, headers)
        for core in self.cores:
            headers.append(self._root / "kernels" / "isa" / core / SELECT)
        done = set[Path]()
        while headers:
            path = headers.pop()
            if path not in done:
                done.add(path)
                yield self._place(path), self._relative(path, headers)
        yield SELECT, self._select()
        yield CORE, self._core()

    def _place(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _relative(self, path: Path, headers: list[Path]) -> str:
        """Return a file's text with the paths of its headers relative to it; appends these to `headers`."""

        def place(found: re.Match[str]) -> str:
            own = (path.parent / found[2]).resolve()
            tried = [own, *((self._root / folder / found[2]).resolve() for folder in ("include", "kernels", "runtime"))]
            header = next((p for p in tried if p.exists()), None)
            if header is None:  # chosen for a core
                header = self._root / found[2]
            else:
                headers.append(header)
            return found[1] + Path(os.path.relpath(header, path.parent)).as_posix() + found[3]

        return _INCLUDE.sub(place, self._file(path).text)

    def _wrapped(self, path: Path, cores: list[str], headers: list[Path]) -> str:
        core = Path(os.path.relpath(self._root / CORE, path.parent)).as_posix()
        asked = " || ".join(f"defined(MICA_CORE_{core})" for core in cores) if len(cores) < len(self.cores) else "1"
        end = _STACK if path.suffix == ".S" else "typedef int mica_unit_t;  // ISO C wants more than nothing\n"
        return f'#include "{core}"\n#if {asked}\n{self._relative(path, headers)}#endif\n{end}'

    def _select(self) -> str:
        """Return the mica_select.h that includes that of the core."""
        lines = [f'#include "{CORE}"', "#if 0"]
        for core in self.cores:
            lines += [f"#elif defined(MICA_CORE_{core})", f'#include "kernels/isa/{core}/{SELECT}"']
        return "\n".join([*lines, "#else", '#error "this folder was written for other cores"', "#endif", ""])

    def _core(self) -> str:
        """Return the header that names the core, by choose.inc or as the only one, and what is left out.

        It renames what is seen outside of a file: a program may have several models, or mica itself.
        """
        text = _COMMENT.sub("", (self._root / "kernels" / "isa" / "choose.inc").read_text(encoding="utf-8")).strip()
        chosen = re.sub(r"^(\w+)$", r"#define MICA_CORE_\1", text, flags=re.M)
        own = f"#define MICA_CORE_{self.cores[0]}" if len(self.cores) == 1 else chosen
        without = [f"#define MICA_WITHOUT_{p.upper()} 1" for p in left_out(self._kept)]
        texts = [] if STRIPS in self._kept else [file.text for file in self._files.values()]
        defined = {name for path in self.needed for name in self._file(path).defines}
        defined -= {name for text in texts for name in _MACRO.findall(text)}  # macros where strips are left out
        names = [f"#define {name} {self._prefix}_{name}" for name in sorted(defined)]
        return "\n".join(["#ifndef MICA_CORE_H", "#define MICA_CORE_H", own, *without, *names, "#endif", ""])
