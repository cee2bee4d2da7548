"""Files and functions of the C are short, and none needs one that needs it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import c_build
import lizard  # type: ignore[import-untyped]
import pytest
from c_arrows import Arrows, circles

from mica.toolchain.source_lists import listed

MOST_LINES = 500
GENERATED = ("include/mica_format.h",)
MOST_COMPLEX = 20
MOST_PARAMETERS = 8
# Functions above these limits, with their numbers. A row goes when its function has become simpler; none comes.
COMPLEX = {
    "see": 22,
    "text.__init__": 28,
    "decode": 21,
    "_go_on": 21,
    "mica_read_tensor": 25,
    "mica_load_strip_step": 23,
    "check_places": 21,
    "mica_scan": 24,
    "small": 22,
    "mica_axes_s8_check": 22,
    "mica_norm_s8_check": 23,
    "mica_recurrent_s8_check": 25,
    "mica_picture_means": 21,
    "mica_picture_area_rows": 21,
    "mica_conv2d_s8_armv6m": 30,  # each further part takes 50 to 140 bytes of code on a Cortex-M0+
    "mica_conv2d_paired_armv6m": 25,
    "mica_depthwise_conv2d_s8_armv6m": 22,
    "mica_conv2d_s8_armv7em": 25,
    "mica_conv2d_winograd_armv7em": 24,
    "mica_depthwise_conv2d_s8_armv7em": 23,
    "unpack_copies": 24,
    "mica_depthwise_conv2d_s8_armv81m": 24,
    "mica_conv2d_s8_rv32imc": 22,
    "mica_conv2d_winograd_rv32imc": 25,
    "mica_depthwise_conv2d_s8_rv32imc": 21,
}
PARAMETERS = {
    "mica_load": 10,  # usermod_c/include/mica.h
    "mica_load_with": 11,
    "read_operands": 9,
    "put": 9,
    "put_lane": 10,
    "means_of_bytes": 9,
    "between": 10,
    "mqtt.__init__": 9,
    "text.__init__": 9,
    "learn.__init__": 9,
    "supervisor.__init__": 10,
    "API( see)": 15,  # host_tools/web/engine/engine.c: numbers from JavaScript
}
HOST = c_build.ROOT / "host_tools"
# Who may need whom: only what comes after it. Of natmod, start.c makes the module;
# the others stand in for MicroPython and its C library.
LAYERS = (
    "natmod/start.c natmod/entry.c",
    "binding",
    "natmod/native.c natmod/libc.c natmod/native.h natmod/mphalport.h binding/heap.h",
    "runtime",
    "kernels natmod",
    "include",
)
NAME = re.compile(r"\b(?:mp_)?mica_\w+")
FUNCTION = re.compile(r"^(?!static|typedef|extern|return)\w[\w *]*?((?:mp_)?mica_\w+)\([^;{}]*\) \{", re.MULTILINE)
OBJECT = re.compile(
    r"^(?:const )?\w[\w *]*?(mp_mica_\w+|mica_\w+)(?:\[[^\]]*\])?(?: =|;)|^MP_DEFINE_CONST_\w+\(\s*(mp_mica_\w+)",
    re.MULTILINE,
)
LABEL = re.compile(
    r"^\s*(?:FUNCTION|ENTER|ENTER_ALONE|\.glob[a]?l)\s+(mica_\w+)|^ +[A-Z_0-9]+ (mica_\w+)", re.MULTILINE
)


def _text(path: Path) -> str:
    """A file without comments and strings."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', "", path.read_text(), flags=re.DOTALL)


def _files(*kinds: str) -> dict[str, Path]:
    return {p.relative_to(c_build.USERMOD).as_posix(): p for p in c_build.USERMOD.rglob("*") if p.suffix in kinds}


def _defined(path: Path, text: str) -> set[str]:
    patterns = (LABEL,) if path.suffix == ".S" else (FUNCTION, OBJECT)
    found = (match for pattern in patterns for match in pattern.finditer(text))
    return {name for match in found for name in match.groups() if name}


def calls(files: Mapping[str, Path]) -> Arrows:
    """File -> the files that define what it names. Files that define the same stand in for one another,
    in other builds."""
    texts = {name: _text(path) for name, path in files.items()}
    homes: defaultdict[str, set[str]] = defaultdict(set)
    for name, path in files.items():
        for symbol in _defined(path, texts[name]):
            homes[symbol].add(name)
    used = {name: set(NAME.findall(text)) & set(homes) for name, text in texts.items()}
    return {name: {h for s in used[name] if name not in homes[s] for h in homes[s]} for name in files}


def includes(files: Mapping[str, Path]) -> Arrows:
    """File -> the files of ours that it includes."""
    arrows: Arrows = {}
    for name, path in files.items():
        asked = re.findall(r'^\s*#include "([^"]+)"', path.read_text(), re.MULTILINE)
        folders = (path.parent, c_build.USERMOD / "include", c_build.USERMOD / "kernels")
        found = ((folder / one).resolve() for one in asked for folder in folders)
        arrows[name] = {p.relative_to(c_build.USERMOD).as_posix() for p in found if p in files.values()}
    return arrows


def layer(name: str) -> int:
    """Place in LAYERS, by the longest entry that the name begins with."""
    parts = [(i, part) for i, parts in enumerate(LAYERS) for part in parts.split() if f"{name}/".startswith(f"{part}/")]
    return max(parts, key=lambda p: len(p[1]))[0]


def back(arrows: Arrows) -> list[str]:
    return [f"{a} -> {b}" for a in arrows for b in sorted(arrows[a]) if layer(b) < layer(a)]


@pytest.mark.parametrize(
    ("read", "endings"), ((calls, (".c", ".S")), (includes, (".c", ".h", ".S", ".inc"))), ids=("calls", "includes")
)
def test_no_circles(read: Callable[[Mapping[str, Path]], Arrows], endings: tuple[str, ...]) -> None:
    arrows = read(_files(*endings))
    assert len(arrows) > 180 and sum(map(len, arrows.values())) > 300
    assert arrows["runtime/load.c"] and arrows["binding/model.c"] and arrows["kernels/isa/armv6m/conv2d.c"]
    assert circles(arrows) == []
    assert back(arrows) == []


def test_the_checks_find_them() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert back(
        {
            "runtime/load.c": {"binding/model.c"},
            "binding/model.c": {"natmod/native.c"},
            "kernels/wide.c": {"natmod/fdiv.c"},
        }
    ) == ["runtime/load.c -> binding/model.c"]


def test_what_a_file_defines(tmp_path: Path) -> None:
    c = tmp_path / "a.c"
    c.write_text(
        "int mica_a(int x) {\n}\nstatic int mica_b(void) {\n}\n// mica_c\nconst int mica_d[] = { 1 };\nint "
        "mica_e(void);\n"
    )
    assert _defined(c, _text(c)) == {"mica_a", "mica_d"}
    s = tmp_path / "a.S"
    s.write_text("    FUNCTION mica_a\n    SUM_WORDS mica_b, 0, 14\n")
    assert _defined(s, _text(s)) == {"mica_a", "mica_b"}


def _above(files: Iterable[Path], what: str, most: int) -> dict[str, int]:
    """Return functions of which lizard counts more than `most`, an __init__ by its file."""
    found = {}
    for path in files:
        for f in lizard.analyze_file(str(path)).function_list:
            n = getattr(f, what)
            if n > most:
                found[f"{path.stem}.{f.name}" if f.name == "__init__" else f.name] = n
    return found


def test_functions_are_simple(tmp_path: Path) -> None:
    files = [*_files(".c", ".h").values(), *HOST.rglob("*.c"), *(c_build.ROOT / "firmware").rglob("*.py")]
    assert len(files) > 280
    assert _above(files, "cyclomatic_complexity", MOST_COMPLEX) == COMPLEX
    assert _above(files, "parameter_count", MOST_PARAMETERS) == PARAMETERS
    probe = tmp_path / "probe.c"
    probe.write_text("int probe(int x) {\n" + "    if (x) { x--; }\n" * MOST_COMPLEX + "    return x;\n}\n")
    assert _above([probe], "cyclomatic_complexity", MOST_COMPLEX) == {"probe": MOST_COMPLEX + 1}
    assert _above([probe], "parameter_count", 0) == {"probe": 1}


def test_files_are_short() -> None:
    files = {n: p for n, p in _files(".c", ".h", ".inc").items() if n not in GENERATED}
    files |= {str(p): p for p in HOST.rglob("*.c")}
    assert {n for n, p in files.items() if len(p.read_text().splitlines()) > MOST_LINES} == set()


def test_all_files_are_in_a_list() -> None:
    """No C file is forgotten: each is in a list of sources, or in natmod, which toolchain/natmod.py knows."""
    lists = list(c_build.USERMOD.rglob("sources*.txt"))
    named = {path for one in lists for path in listed(one)}
    assert {n for n, p in _files(".c", ".S").items() if p not in named and not n.startswith("natmod/")} == set()
