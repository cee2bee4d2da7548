"""The README's table of boards: a row for every board there is, and cells that tests can have filled."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

from mica.boards import all_boards, stock_boards

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_matrix", ROOT / "scripts" / "matrix.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix = load()


ALL = [*all_boards(), *stock_boards().values()]


def readme_rows() -> list[list[str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    body = text.split(matrix.BEGIN)[1].split(matrix.END)[0].strip()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]


def test_readme_has_every_board_and_column() -> None:
    head, _, *rows = readme_rows()
    assert tuple(head) == ("board", "core", *matrix.COLUMNS), "run scripts/test --all, then scripts/matrix"
    boards = {board.name: board for board in ALL}
    *rows, others = rows
    for name, core, *cells in rows:
        assert core == boards[name.strip("`")].core
        assert set(cells) <= {matrix.YES, matrix.NO, matrix.NOT_RUN} and set(cells) != {matrix.NOT_RUN}, name
    more = f"{len(boards) - len(rows)} more of `mica boards`"
    assert others == [more, "", *[matrix.NOT_RUN] * len(matrix.COLUMNS)], "run scripts/test --all, then scripts/matrix"


def test_every_column_has_its_tests() -> None:
    """A column whose marks were renamed would fall back to `not run` without a word."""
    marked = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for arguments in re.findall(r"^@pytest\.mark\.matrix\((.*)\)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            marked |= set(re.findall(r'"([^"]+)"', arguments))
    assert marked == set(matrix.COLUMNS)


def test_part() -> None:
    """After a run of some boards the others keep their cells."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    noted = matrix.noted(text)
    assert ("RPI_PICO", "boots") in noted and ("TEENSY41", "boots") not in noted
    assert matrix.replaced(text, matrix.table(ALL, noted)) == text
    worse = noted | matrix.cells(record("a", "UNIX", "failed", "boots"))
    assert matrix.replaced(text, matrix.table(ALL, worse)) != text


def record(test: str, board: str, outcome: str, *columns: str) -> str:
    return json.dumps({"test": test, "board": board, "columns": columns, "outcome": outcome}) + "\n"


def test_cells() -> None:
    lines = (
        record("a", "A", "passed", "boots", "equal bytes")
        + record("b", "A", "failed", "equal bytes")
        + record("c", "B", "failed", "boots")
        + record("c", "B", "passed", "boots")  # run again
        + record("d", "B", "passed", "native module")
        + record("e", "B", "skipped", "native module")
    )
    assert matrix.cells(lines) == {
        ("A", "boots"): "yes",
        ("A", "equal bytes"): "NO",
        ("B", "boots"): "yes",
        ("B", "native module"): "not run",
    }
    rows = matrix.table(all_boards()[:1], {(all_boards()[0].name, "boots"): "yes"}).splitlines()
    assert len(rows) == 3
    assert rows[2].count("not run") == len(matrix.COLUMNS) - 1
    assert (
        matrix.replaced(f"x\n{matrix.BEGIN}old\n{matrix.END}y\n", "new\n")
        == f"x\n{matrix.BEGIN}\nnew\n\n{matrix.END}y\n"
    )
