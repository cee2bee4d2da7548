"""Imports between the rooms of the host package keep to the list, and no file imports in a circle.

A room is a folder of `mica`, or a module at its top level. Data flows from left to right;
a stage looks only to its left.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "host_tools" / "mica"
RUNTIME = ROOT / "firmware" / "mica"
BESIDE = "mica_fleet"  # a package that may import mica, and of which mica knows nothing

# Everybody may: errors, where files lie, a board's own code, and switches for who works on mica.
LEAVES = {"board_code", "errors", "resources", "notes", "printable", "whole", "__version__"}

# The compiler. It never sees a board, nor a compiler for one.
_BYTES = {"format", "kernels", "file"}
_GRAPH = _BYTES | {"ir"}
# What makes, reaches and writes boards.
_BOARDS = _BYTES | {"boards"}

MAY_IMPORT: Mapping[str, set[str]] = {
    # the bytes, and what they mean
    "format": set(),
    "kernels": {"format"},
    "file": {"format", "kernels"},
    "images": set(),
    "custom": _BYTES,
    "engine": _BYTES | {"custom", "reference"},
    # from a file to an integer graph, and to bytes
    "ir": _BYTES,
    # to know which operators the passes will refuse, and for tables of sound
    "importer": _GRAPH | {"custom", "passes", "reference"},
    "reference": _GRAPH | {"custom"},
    "passes": _GRAPH | {"reference"},
    "quantise": _GRAPH | {"passes", "reference"},
    "plan": _GRAPH,
    "packing": _GRAPH | {"plan"},
    "exporter": _GRAPH,  # for the function that it writes and the importer reads
    # files of samples: arrays, tables, sounds, pictures
    "data": _GRAPH | {"engine"},
    # front ends: their words, their place in a graph, and those that a graph brings
    "sound": _GRAPH | {"passes", "reference"},
    # boards
    "boards": _BYTES,
    "cost": _BOARDS | {"images"},
    "toolchain": _BOARDS | {"images"},
    # a model as a C program: the engine's files, and the tables that the engine here has loaded
    "c_program": _BOARDS | {"engine", "toolchain"},
    "link": _BOARDS | {"images", "toolchain"},
    "flash": _BOARDS | {"images", "link", "toolchain"},
    # a .mica on any target
    "run": _GRAPH | {"boards", "custom", "data", "engine", "importer", "link", "reference"},
    # a head that learns on a board, as it does here
    "learn": _BYTES | {"reference"},
    # data of a board's microphone and motion sensor, and a model's events from it
    "listen": _GRAPH | {"boards", "data", "link", "run"},
    # the whole compile: from a model file to a .mica, for a board
    "compile": _GRAPH
    | {"boards", "cost", "custom", "data", "engine", "importer", "packing", "passes", "plan"}
    | {"quantise", "reference", "report", "run", "sound"},
    # from recordings to a network, and to the board that it is for
    "training": {
        "boards",
        "compile",
        "cost",
        "data",
        "format",
        "ir",
        "kernels",
        "listen",
        "reference",
        "report",
        "run",
        "sound",
    },
    "report": _BYTES | {"boards", "cost"},
    # the page for browsers
    "web": {"boards", "cost", "file", "flash", "format", "images", "link", "report", "toolchain"},
    # doors
    "demo": set(),
    "backend": _BYTES | {"compile", "run"},
    "cli": {"*"},
    "__main__": {"cli"},
}


def _imports(path: Path, package: str, top: Path) -> Iterable[tuple[str, ...]]:
    """Modules of `package` that a file imports, in functions too, as paths below `top`: ("link", "board")."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            here = ".".join([package, *path.relative_to(top).parts[: -node.level]])
            base = f"{here}.{node.module}" if node.module else here
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == package and rest:
                yield tuple(rest)


def _file(top: Path, parts: tuple[str, ...]) -> Path | None:
    """The file that a dotted path is, or is a name in; None for a name of the package itself."""
    for n in range(len(parts), 0, -1):
        path = top.joinpath(*parts[:n])
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
        if (path / "__init__.py").is_file():
            return path / "__init__.py"
    return None


def _circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """One circle of the graph, or an empty list."""
    done: set[str] = set()

    def walk(node: str, trail: list[str]) -> list[str]:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return []
        for following in sorted(arrows.get(node, ())):
            if found := walk(following, [*trail, node]):
                return found
        done.add(node)
        return []

    for node in sorted(arrows):
        if found := walk(node, []):
            return found
    return []


def _arrows(top: Path, package: str) -> dict[str, set[str]]:
    """File -> the files it imports. A package's own __init__ does not count: it is imported with any of its modules."""
    arrows: dict[str, set[str]] = {}
    for path in top.rglob("*.py"):
        found = {_file(top, parts) for parts in _imports(path, package, top)}
        name = path.relative_to(top).as_posix()
        arrows[name] = {f.relative_to(top).as_posix() for f in found if f and f != path and f != top / "__init__.py"}
    return arrows


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = []
    seen = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if room == "__init__":
            continue
        seen.add(room)
        allowed = MAY_IMPORT.get(room)
        if room in LEAVES or allowed is None:
            allowed = set() if allowed is None else allowed
        for parts in _imports(path, "mica", PACKAGE):
            other = parts[0]
            if other != room and other not in LEAVES and other not in allowed and "*" not in allowed:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {'.'.join(parts)}: {room} may not import {other}")
    assert not wrong, "\n".join(wrong)
    assert set(MAY_IMPORT) == seen - LEAVES, "the table names rooms that do not exist, or misses some"


def test_every_arrow_of_the_table_is_used() -> None:
    """An arrow without any import is taken out of the table."""
    used: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).with_suffix("").parts[0]
        used.setdefault(room, set()).update(parts[0] for parts in _imports(path, "mica", PACKAGE))
    unused = [
        f"{room} -> {other}"
        for room, allowed in MAY_IMPORT.items()
        for other in sorted(allowed - {"*"} - used.get(room, set()))
    ]
    # Families of rooms share a set: what they may import is what the family may.
    shared = _GRAPH | _BOARDS
    assert not [arrow for arrow in unused if arrow.split(" -> ")[1] not in shared], unused


def test_no_file_imports_in_a_circle() -> None:
    assert _circle(_arrows(PACKAGE, "mica")) == []


def test_no_file_of_the_runtime_imports_in_a_circle() -> None:
    assert _circle(_arrows(RUNTIME, "mica")) == []


def _script_arrows(files: Iterable[Path]) -> tuple[dict[str, set[str]], list[str]]:
    """Script -> the scripts it imports; and imports of tests, by name or by a folder that is put on sys.path."""
    stems = {path.stem: path for path in files}
    tests = {path.stem for path in (ROOT / "tests").rglob("*.py")} - stems.keys() - sys.stdlib_module_names
    arrows, back = {}, []
    for path in stems.values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        arrows[path.stem] = names & stems.keys()
        back += [f"{path.name} imports {name}" for name in sorted(names & tests)]
        back += [
            f"{path.name}: {ast.unparse(n)}"
            for n in tree.body
            if "sys.path" in (t := ast.unparse(n)) and "'tests'" in t
        ]
    return arrows, back


def test_scripts_import_no_tests_and_not_in_a_circle(tmp_path: Path) -> None:
    arrows, back = _script_arrows((ROOT / "scripts").rglob("*.py"))
    assert len(arrows) > 20 and back == []
    assert _circle(arrows) == []
    (tmp_path / "a.py").write_text("import sys\nsys.path.append(ROOT / 'tests')\nimport b, nets\n")
    (tmp_path / "b.py").write_text("def f():\n    from a import x\n")
    arrows, back = _script_arrows(tmp_path.glob("*.py"))
    assert back == ["a.py imports nets", "a.py: sys.path.append(ROOT / 'tests')"] and _circle(arrows) == ["a", "b", "a"]


def _named(tree: ast.AST) -> bool:
    """True if code names the package beside: in an import, a name, or a text that could be imported. Docstrings may."""
    said = {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    return any(
        (isinstance(n, ast.Constant) and n not in said and BESIDE in str(n.value))
        or (isinstance(n, ast.alias) and n.name.split(".")[0] == BESIDE)
        or (isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] == BESIDE)
        or (isinstance(n, ast.Name) and n.id == BESIDE)
        for n in ast.walk(tree)
    )


@pytest.mark.parametrize("package", [PACKAGE, RUNTIME], ids=["host", "runtime"])
def test_mica_knows_nothing_of_the_package_beside(package: Path) -> None:
    files = sorted(package.rglob("*.py"))
    assert files and not [str(path) for path in files if _named(ast.parse(path.read_text("utf-8")))]


@pytest.mark.parametrize(
    "code", ["import mica_fleet", "from mica_fleet.open import x", "f('mica_fleet.open')", "import mica_fleet.cli as c"]
)
def test_the_check_finds_the_package_beside(code: str) -> None:
    assert _named(ast.parse(code)) and not _named(ast.parse('"""As mica_fleet does."""\nfrom mica.errors import x'))


@pytest.mark.parametrize("folder", ["host_tools", "firmware"])
def test_the_package_beside_imports_in_no_circle(folder: str) -> None:
    arrows = _arrows(ROOT / folder / BESIDE, BESIDE)
    assert arrows and _circle(arrows) == []


def test_the_check_finds_a_circle() -> None:
    assert _circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert _circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def _named_twice(tree: ast.AST) -> list[str]:
    """Attributes that a dict has twice, under different names."""
    found = []
    for table in (node for node in ast.walk(tree) if isinstance(node, ast.Dict)):
        values = Counter(ast.unparse(value) for value in table.values if isinstance(value, ast.Attribute))
        found += [f"line {table.lineno}: {value}" for value, n in values.items() if n > 1]
    return found


def test_an_object_of_json_has_one_name_for_a_fact() -> None:
    """`kernel` stood beside `op`, `scratch_want` beside `scratch_bytes`."""
    wrong = {str(p): found for p in PACKAGE.rglob("*.py") if (found := _named_twice(ast.parse(p.read_text("utf-8"))))}
    assert not wrong, wrong
    assert _named_twice(ast.parse("{'kernel': s.kernel, 'op': s.kernel, 'b': 1, 'c': 1}")) == ["line 1: s.kernel"]
