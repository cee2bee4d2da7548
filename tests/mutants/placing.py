"""Small mistakes at places that a seed picks: a comparison, a constant, a statement left out."""

from __future__ import annotations

import ast
import random
import re
import tokenize
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

# Where, and the tests of named.SETS that should see it. Each area gets as many as the others.
AREAS: dict[str, tuple[tuple[str, str], ...]] = {
    "runtime": (("usermod_c/runtime/*.c", "load"), ("firmware/mica/*.py", "board"), ("firmware/mica_fleet/*.py",
        "fleet")),
    "kernels": (("usermod_c/kernels/*.c", "kernels"), ("usermod_c/kernels/ref/*.c", "kernels"),
                ("usermod_c/kernels/isa/c32/*.c", "c32")),
    "slots": (("firmware/mica/slots.py", "slots"), ("firmware/mica/remote_push.py", "push")),
    "push": (("host_tools/mica/link/push.py", "push"), ("host_tools/mica/images/romfs.py", "push")),
}  # fmt: skip
# Files of an area that other tests are about.
OTHERS = {
    **{f"usermod_c/kernels/picture{part}.c": "pictures" for part in ("", "_area", "_means")},
    "usermod_c/runtime/encode.c": "tokens",
    "usermod_c/runtime/words.c": "tokens",
    "usermod_c/runtime/tokens.c": "tokens",
    **dict.fromkeys((f"firmware/mica/{name}.py" for name in ("audio", "wav")), "sound"),
    "firmware/mica/pio_i2s.py": "microphone",
    **dict.fromkeys((f"firmware/mica/{name}.py" for name in ("motion", "analog")), "motion"),
}
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARISON = re.compile(r"(?<![-<>=!+*/&|^%])(<=|>=|==|!=|<|>)(?![<>=])")
CONSTANT = re.compile(r"(?<![\w.])\d+(?=[uU]?(?![\w.]))")
# One line: an assignment, or a call for what it does. A declaration without a value stays.
STATEMENT = re.compile(r"^(\s+)(?!return|goto|break|continue|case|default|else|typedef|static|const)[\w*(][^;{}]*;$")
DECLARES = re.compile(r"^\s+(?:const )?(?:\w+_t|int|bool|size_t|char|float|double)\b[ *]")


@dataclass(frozen=True)
class Place:
    """Characters [begin, end) of a file and their replacement."""

    file: str
    kind: str
    begin: int
    end: int
    after: str
    tests: str

    def apply(self, text: str) -> str:
        return text[: self.begin] + self.after + text[self.end :]


def c_code(text: str) -> str:
    """The file with comments, texts and preprocessor lines blanked, character for character."""
    blank = re.compile(
        r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M
    )
    return blank.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def c_places(file: str, text: str, tests: str) -> list[Place]:
    """Places inside functions: lines at the margin are declarations."""
    code = c_code(text)
    found = []
    at = 0
    for line in code.splitlines(keepends=True):
        if line[:1].isspace():
            for m in COMPARISON.finditer(line.replace("->", "  ")):
                found.append(Place(file, "comparison", at + m.start(), at + m.end(), SWAPS[m[0]], tests))
            for m in CONSTANT.finditer(line):
                found.append(Place(file, "constant", at + m.start(), at + m.end(), str(int(m[0]) + 1), tests))
            bare = line.rstrip()
            if (m := STATEMENT.match(bare)) and not DECLARES.match(bare) and not bare.lstrip().startswith("(void)"):
                found.append(Place(file, "statement", at + len(m[1]), at + len(bare), ";", tests))
        at += len(line)
    return found


def python_places(file: str, text: str, tests: str) -> list[Place]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()
    found = []
    for t in tokenize.generate_tokens(StringIO(text).readline):
        begin, end = starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1]
        if t.type == tokenize.OP and t.string in SWAPS:
            found.append(Place(file, "comparison", begin, end, SWAPS[t.string], tests))
        elif t.type == tokenize.NUMBER and t.string.isdigit():
            found.append(Place(file, "constant", begin, end, str(int(t.string) + 1), tests))
    for node in ast.walk(ast.parse(text)):
        drops = isinstance(node, (ast.Assign, ast.AugAssign)) or (
            isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        )
        if drops and node.col_offset and lines[node.lineno - 1].isascii():
            begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            found.append(Place(file, "statement", begin, end, "pass", tests))
    return found


def places(root: Path, seed: int, count: int) -> list[Place]:
    """`count` and as many in reserve, for those that do not compile or change nothing: area by area in turn."""
    rng = random.Random(seed)
    areas = []
    for globs in AREAS.values():
        by_kind: dict[str, list[Place]] = {}
        for glob, tests in globs:
            for path in sorted(root.glob(glob)):
                file = path.relative_to(root).as_posix()
                find = python_places if path.suffix == ".py" else c_places
                for place in find(file, path.read_text(encoding="utf-8"), OTHERS.get(file, tests)):
                    by_kind.setdefault(place.kind, []).append(place)
        areas.append(by_kind)
    kinds = ("comparison", "constant", "statement")
    picked: list[Place] = []
    while len(picked) < 3 * count:
        turn = len(picked)
        of_kind = areas[turn % len(areas)][kinds[turn // len(areas) % len(kinds)]]
        picked.append(of_kind.pop(rng.randrange(len(of_kind))))
    return picked
