"""The notices that a firmware image must travel with, found from what was linked into it.

    linker's map -> objects and members of archives -> the files that each was compiled of -> their licences

No library is known by name. A file's licence is what its own comments say and the LICENSE files of the folders above
it; that of a compiler's library is what its Debian package says. What cannot be found out is named at the end.
"""

import functools
import importlib.metadata
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mica.boards import BoardSpec
from mica.errors import MicaError, writing
from mica.resources import data_dir
from mica.toolchain.build import BuildResult
from mica.toolchain.process import clean_environment

_LICENCE_FILE = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE)(\b|_)", re.I)
_SPEAKS = re.compile(r"copyright|SPDX-|licen[cs]e|public domain", re.I)
_HOLDER = re.compile(r"copyright\b.*\d{4}|copyright *(\(c\)|©)|^(\(c\)|©)", re.I)
_COMMENT = re.compile(r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+", re.S | re.M)
_HASH_COMMENT = re.compile(r"(?:^[ \t]*#[^\n]*\n)+", re.M)
_WIDTH = 100


@dataclass
class _Notice:
    """One text that stands in files, which differ in whose copyright it is."""

    text: str
    holders: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


@dataclass
class Linked:
    """Files in an image: those that were compiled, the toolchain's own, and objects of unknown origin."""

    sources: set[Path] = field(default_factory=set)
    toolchain: set[Path] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


def write(board: BoardSpec, result: BuildResult, image: Path) -> Path:
    """Write the notices of a firmware that was built beside `image`, a copy of it, and return the file."""
    path = image.with_name(f"{image.name}.NOTICES.txt")
    found = linked(result.elf.parent, result.tree / "ports" / board.port.name, result.tree)
    with writing(path):
        path.write_text(
            notices(f"{board.name}, MicroPython {result.micropython}", found, result.tree), encoding="utf-8"
        )
    return path


# --- what was linked ------------------------------------------------------------------------------------


def linked(obj: Path, port: Path, tree: Path) -> Linked:
    """Files named by the linker's maps below `obj`, the build's folder. The port's makefile runs in `port`."""
    maps = sorted(obj.rglob("*.map"))
    if not maps:
        raise MicaError(
            f"{obj} has no linker map, which the notices are made of", todo="remove the folder and build again"
        )
    found = Linked()
    commands = _compile_commands(obj)
    for path in maps:
        text = path.read_text(encoding="utf-8", errors="replace")
        for name in re.findall(r"^LOAD (\S+\.(?:o|obj))$", text, flags=re.M):
            _add(found, name, [port, path.parent, obj], commands, tree)
        for archive, member in re.findall(r"^(\S+\.a)\(([^)\s]+)\)", text, flags=re.M):
            place = Path(archive) if Path(archive).is_absolute() else obj / archive
            if member in commands:
                found.sources |= commands[member]
            elif _is_below(place, obj):
                found.unknown.add(f"{place.name}({member})")
            else:
                found.toolchain.add(place)
    found.sources |= _frozen(obj, port, tree)
    found.sources = {path for path in found.sources if not _is_below(path, obj)}  # those are made of the others
    return found


def _add(found: Linked, name: str, folders: list[Path], commands: dict[str, set[Path]], tree: Path) -> None:
    place = next((folder / name for folder in folders if (folder / name).exists()), Path(name))
    for depends in (place.with_suffix(".P"), place.with_suffix(".d"), Path(f"{place}.d")):
        if depends.is_file():
            words = depends.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ").split()
            names = {word for word in words if not word.endswith(":")}
            files = {_first_file(folders, word) for word in names}
            found.sources |= {path for path in files if path and not _is_below(path, Path("/usr"))}
            return
    assembly = _assembly(place, [*folders, tree])
    if place.name in commands:
        found.sources |= commands[place.name]
    elif assembly:
        found.sources.add(assembly)
    elif place.is_file() and not any(_is_below(place, folder) for folder in folders):
        found.toolchain.add(place)
    else:
        found.unknown.add(place.name)


def _assembly(place: Path, folders: list[Path]) -> Path | None:
    """The file that an object was assembled of. The builds note none, but the object's path has the source's in it.

    Of make it is OBJ/py/x.o for py/x.s, and OBJ/mica/... for usermod_c;
    of CMake OBJ/.../CMakeFiles/TARGET.dir/PATH.S.o, whose
    PATH is absolute without its first slash, or begins where CMakeFiles lies: in the build's folder or pico-sdk's.
    """
    *_, obj, tree = folders
    if not place.is_relative_to(obj):
        return None
    parts = place.relative_to(obj).parts
    if "CMakeFiles" in parts:
        at = parts.index("CMakeFiles")
        before, source = Path(*parts[:at]), Path(*parts[at + 2 :]).with_suffix("")
        tried = [base / source for base in (Path("/"), obj / before, tree / "lib" / before)]
    else:
        own = data_dir("usermod_c").joinpath(*parts[1:])
        tried = [base.with_suffix(suffix) for base in (tree.joinpath(*parts), own) for suffix in (".s", ".S")]
    return next((path.resolve() for path in tried if path.is_file()), None)


def _first_file(folders: list[Path], name: str) -> Path | None:
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path.resolve()
    return None


def _compile_commands(obj: Path) -> dict[str, set[Path]]:
    """Object name to source files, where the build keeps a list instead of notes beside its objects (ESP-IDF)."""
    found: dict[str, set[Path]] = {}
    for path in obj.glob("compile_commands.json"):
        for entry in json.loads(path.read_text(encoding="utf-8")):
            output = re.search(r" -o (\S+)", entry.get("command", ""))
            if output:
                source = Path(entry["directory"]) / entry["file"]
                found.setdefault(Path(output[1]).name, set()).add(source.resolve())
    return found


def _frozen(obj: Path, port: Path, tree: Path) -> set[Path]:
    """The Python files that are frozen in: of each module all that could be it."""
    names = {p.relative_to(f).with_suffix(".py").as_posix() for f in obj.glob("frozen_mpy") for p in f.rglob("*.mpy")}
    roots = [
        port / "modules",
        tree / "extmod",
        tree / "lib" / "micropython-lib",
        data_dir("firmware"),
        data_dir("boards"),
    ]
    found = set()
    for root in roots:
        for path in root.rglob("*.py"):
            whole = "/" + path.as_posix()
            if any(whole.endswith("/" + name) for name in names if path.name == name.rpartition("/")[2]):
                found.add(path.resolve())
    return found


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


# --- what that says -------------------------------------------------------------------------------------


def notices(name: str, found: Linked, tree: Path) -> str:
    """The whole text, for the firmware of the board `name`."""
    tree = tree.resolve()
    ours = [data_dir(part).resolve() for part in ("usermod_c", "firmware", "boards")]

    def short(path: Path) -> str:
        for folder in ours:
            if path.is_relative_to(folder):
                return f"mica/{folder.name}/{path.relative_to(folder).as_posix()}"
        return path.relative_to(tree).as_posix() if path.is_relative_to(tree) else "/".join(path.parts[-3:])

    parts = [
        f"NOTICES for the firmware {name}\n\nThe firmware contains mica, MicroPython and parts of other projects. "
        "This file has the copyright notices and licences\nof all that was linked into it. It was made from the "
        "linker's map: see host_tools/mica/toolchain/notices.py.\n",
        _titled("mica", own_licence()),
    ]
    theirs = [path for path in sorted(found.sources) if not any(path.is_relative_to(folder) for folder in ours)]
    for path in _licence_files(theirs, tree):
        parts.append(_titled(short(path), path.read_text(encoding="utf-8", errors="replace")))
    for notice in _notices_in(found.sources, short):
        where = _wrapped(sorted(notice.files))
        who = "".join(f"{line}\n" for line in sorted(notice.holders))
        parts.append(_titled(f"in {len(notice.files)} files", f"{where}\n{who}\n{notice.text}"))
    identifiers = sorted(set(re.findall(r"SPDX-License-Identifier: *([\w.+-]+)", "\n".join(parts))))
    if identifiers:
        text = "".join(f"{name}: https://spdx.org/licenses/{name}.html\n" for name in identifiers)
        parts.append(_titled("licences that files above name by their SPDX identifier", text))
    unknown = set(found.unknown)
    packages: dict[Path, set[str]] = {}
    for path in sorted(found.toolchain):
        licence = _package_licence(path)
        if licence:
            packages.setdefault(licence, set()).add(path.name)
        else:
            unknown.add(path.name)
    for licence, names in packages.items():
        title = f"{', '.join(sorted(names))} of the compiler (package {licence.parent.name})"
        parts.append(_titled(title, licence.read_text(encoding="utf-8", errors="replace")))
    if unknown:
        parts.append(_titled("linked in too, of unknown licence here: see their packages", _wrapped(sorted(unknown))))
    return "\n".join(parts)


def _titled(title: str, text: str) -> str:
    return f"{'=' * _WIDTH}\n{title}\n{'=' * _WIDTH}\n\n{text.strip()}\n"


def _wrapped(names: Iterable[str]) -> str:
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > _WIDTH:
            lines.append("")
        lines[-1] += f"{name}  "
    return "".join(f"{line.rstrip()}\n" for line in lines)


def own_licence() -> str:
    path = data_dir("usermod_c").parent / "LICENSE"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    known = importlib.metadata.distribution("mica-mcu")
    return known.read_text("licenses/LICENSE") or known.read_text("LICENSE") or str(known.metadata["License"])


def _licence_files(sources: Iterable[Path], tree: Path) -> list[Path]:
    """The LICENSE files in the folders of these files and above: up to the tree's root, outside of it the first."""
    found: set[Path] = set()
    for folder in {path.parent for path in sources}:
        inside = folder.is_relative_to(tree)
        for place in (folder, *folder.parents):
            here = _licences_in(place)
            found.update(here)
            if place == tree or (here and not inside):
                break
    return sorted(found)


@functools.cache
def _licences_in(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(path for path in folder.iterdir() if _LICENCE_FILE.match(path.name) and path.is_file())
    except OSError:
        return ()


def _notices_in(sources: Iterable[Path], short: Callable[[Path], str]) -> list[_Notice]:
    """Copyright notices in the comments of these files; equal texts are merged."""
    found: dict[str, _Notice] = {}
    for path in sorted(sources):
        for comment in comments(path.read_text(encoding="utf-8", errors="replace"), path.suffix):
            lines = comment.split("\n")
            holders = {" ".join(line.split()) for line in lines if _HOLDER.search(line)}
            rest = "\n".join(line for line in lines if not _HOLDER.search(line)).strip()
            notice = found.setdefault(" ".join(rest.split()).lower(), _Notice(rest))
            notice.holders |= holders
            notice.files.add(short(path))
    return sorted(found.values(), key=lambda notice: (-len(notice.files), notice.text))


def comments(text: str, suffix: str) -> Iterator[str]:
    """The comments of a source file that speak of copyright or licences, without what marks them as comments."""
    pattern = _HASH_COMMENT if suffix == ".py" else _COMMENT
    for match in pattern.finditer(text):
        if _SPEAKS.search(match[0]):
            lines = [re.sub(r"^\s*(/\*+|\*+/|//+|\*|#+)?", "", line).rstrip("*/ \t") for line in match[0].splitlines()]
            lines = [line[1:] if line.startswith(" ") else line for line in lines]
            yield re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


@functools.cache
def _package_licence(path: Path) -> Path | None:
    """The licence file of the Debian package that a file belongs to; None if there is none."""
    if shutil.which("dpkg") is None:
        return None
    command = ["dpkg", "-S", str(path.resolve())]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    if done.returncode:
        return None
    package = done.stdout.split(":")[0].split(",")[0].strip()
    licence = Path("/usr/share/doc") / package / "copyright"
    return licence if licence.is_file() else None
