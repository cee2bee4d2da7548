"""The README's table of boards, from the outcomes that tests/conftest.py notes.

    scripts/test --all && scripts/matrix    write the table
    scripts/matrix --check                  compare only; exit code 1 where the README says something else
    scripts/matrix --check --part           compare the cells whose tests ran, as after scripts/test

A test marked @pytest.mark.matrix(column, ...) fills the cells of its board. A cell is `yes` when all its tests passed,
`NO` when one failed, `not run` when none ran, which a skipped test did not.
The last row counts boards without another cell.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from mica.boards import BoardSpec, all_boards, stock_boards

README = Path(__file__).resolve().parent.parent / "README.md"
RESULTS = Path(os.environ["MICA_CACHE"]) / "matrix.jsonl" if "MICA_CACHE" in os.environ else None
BEGIN = "<!-- the table of boards: written by scripts/matrix -->\n"
END = "<!-- end of the table of boards -->\n"
COLUMNS = ("image builds", "boots", "native module", "equal bytes")
YES, NO, NOT_RUN = "yes", "NO", "not run"


def main() -> int:
    parser = argparse.ArgumentParser(description="the README's table of boards, from the tests' outcomes")
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--part", action="store_true", help="leave the cells as they are whose tests did not run")
    args = parser.parse_args()
    if RESULTS is None or not RESULTS.exists():
        print("matrix: the tests have not run; run scripts/test --all first", file=sys.stderr)
        return 1
    text = README.read_text(encoding="utf-8")
    found = cells(RESULTS.read_text(encoding="utf-8"))
    if args.part:
        found = noted(text) | {key: cell for key, cell in found.items() if cell != NOT_RUN}
    new = replaced(text, table([*all_boards(), *stock_boards().values()], found))
    if new == text:
        return 0
    if args.check:
        print("matrix: the README's table of boards is not what the tests found; run scripts/matrix", file=sys.stderr)
        return 1
    README.write_text(new, encoding="utf-8")
    print(f"{README}: the table of boards has changed")
    return 0


def cells(lines: str) -> dict[tuple[str, str], str]:
    """(board, column) to cell. Each line is the outcome of one test; of several lines of a test the last holds."""
    latest = {record["test"]: record for record in map(json.loads, lines.splitlines())}
    found: dict[tuple[str, str], set[str]] = {}
    for record in latest.values():
        for column in record["columns"]:
            found.setdefault((record["board"], column), set()).add(record["outcome"])
    return {key: _cell(outcomes) for key, outcomes in found.items()}


def noted(readme: str) -> dict[tuple[str, str], str]:
    """The cells that the README has."""
    lines = readme.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return {
        (name, column): cell for name, core, *row in rows if core for column, cell in zip(COLUMNS, row, strict=True)
    }


def _cell(outcomes: set[str]) -> str:
    if "failed" in outcomes:
        return NO
    return YES if outcomes == {"passed"} else NOT_RUN


def table(boards: list[BoardSpec], found: dict[tuple[str, str], str]) -> str:
    rows = [("board", "core", *COLUMNS), *(("---",) * (2 + len(COLUMNS)),)]
    for board in boards:
        rows.append((f"`{board.name}`", board.core, *(found.get((board.name, c), NOT_RUN) for c in COLUMNS)))
    ran = [row for row in rows if set(row[2:]) != {NOT_RUN}]
    if others := len(rows) - len(ran):
        ran.append((f"{others} more of `mica boards`", "", *(NOT_RUN for _ in COLUMNS)))
    return "".join(f"| {' | '.join(row)} |\n" for row in ran)


def replaced(readme: str, new: str) -> str:
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"matrix: {README} has lost the lines that mark its table of boards")
    return f"{before}{begin}\n{new}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
