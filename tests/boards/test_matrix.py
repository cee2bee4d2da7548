"""The README's table of boards: a row for every board there is, and cells that tests can have filled."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

from mica.boards import all_boards, board_names

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_matrix", ROOT / "scripts" / "matrix.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix = load()


def readme_rows() -> list[list[str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    body = text.split(matrix.BEGIN)[1].split(matrix.END)[0].strip()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]


def test_readme_has_every_board_and_column() -> None:
    head, _, *rows = readme_rows()
    assert tuple(head) == ("board", "core", *matrix.COLUMNS), "run scripts/test --all, then scripts/matrix"
    assert [row[0].strip("`") for row in rows] == board_names(), "run scripts/test --all, then scripts/matrix"
    for row, board in zip(rows, all_boards(), strict=True):
        assert row[1] == board.core
        assert set(row[2:]) <= {matrix.YES, matrix.NO, matrix.NOT_RUN}, row


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
    assert set(noted) == {(name, column) for name in board_names() for column in matrix.COLUMNS}
    assert matrix.replaced(text, matrix.table(all_boards(), noted)) == text
    worse = noted | matrix.cells(record("a", "UNIX", "failed", "boots"))
    assert matrix.replaced(text, matrix.table(all_boards(), worse)) != text


def record(test: str, board: str, outcome: str, *columns: str) -> str:
    return json.dumps({"test": test, "board": board, "columns": columns, "outcome": outcome}) + "\n"


def test_cells() -> None:
    lines = (
        record("a", "A", "passed", "boots", "models equal")
        + record("b", "A", "failed", "models equal")
        + record("c", "B", "failed", "boots")
        + record("c", "B", "passed", "boots")  # run again
        + record("d", "B", "passed", "kernels equal")
        + record("e", "B", "skipped", "kernels equal")
    )
    assert matrix.cells(lines) == {
        ("A", "boots"): "yes",
        ("A", "models equal"): "NO",
        ("B", "boots"): "yes",
        ("B", "kernels equal"): "not run",
    }
    rows = matrix.table(all_boards()[:1], {(all_boards()[0].name, "boots"): "yes"}).splitlines()
    assert len(rows) == 3
    assert rows[2].count("not run") == len(matrix.COLUMNS) - 1
    assert (
        matrix.replaced(f"x\n{matrix.BEGIN}old\n{matrix.END}y\n", "new\n")
        == f"x\n{matrix.BEGIN}\nnew\n\n{matrix.END}y\n"
    )
