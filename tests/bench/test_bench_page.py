"""`scripts/bench/run --page` finds each core's table in usermod_c/BENCH.md, and says so where there are none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import bench_page
import pytest
from targets import nightly

from mica.errors import MicaError

ROOT = Path(__file__).resolve().parents[2]


def test_tables_in_their_place() -> None:
    page = bench_page.PAGE.read_text(encoding="utf-8")
    for core in ("m0plus", "m3", "m33", "m55", "rv32"):
        new = bench_page.updated(page, core, "abc1234", "model  goal\n-----  ----\nkws       1")
        line = f"`scripts/bench/run --core {core} --page`, revision "
        head, _, rest = page.partition(line)
        _, table, end = rest.split("\n```\n", 2)
        assert table.startswith("model ")
        assert new == f"{head}{line}abc1234:\n\n```\nmodel\n-----\nkws\n```\n{end}"
    with pytest.raises(MicaError, match="expected one line `scripts/bench/run --core m7 --page`"):
        bench_page.updated(page, "m7", "abc1234", "model\n-----\nkws")


def _costs(table: str) -> dict[str, float]:
    """Cost of each model as a whole file and without dead channels."""
    lines = table.splitlines()
    columns = [(m.start(), m.end()) for m in re.finditer("-+", lines[1])]
    names = [lines[0][a:b].strip() for a, b in columns]
    rows = [dict(zip(names, (line[a:b].strip() for a, b in columns), strict=True)) for line in lines[2:]]
    return {f"{row['model']} {kind}": float(row[kind]) for row in rows for kind in ("whole file", "lean")}


@nightly
@pytest.mark.skipif(not (ROOT.parent / "shared" / "models").is_dir(), reason="needs the reference models")
@pytest.mark.parametrize("core", ["m0plus", "m3", "m33", "m55", "rv32"])
def test_figures_are_still_true(core: str) -> None:
    """Each table of models says what the bench counts today, to a per cent."""
    page = bench_page.PAGE.read_text(encoding="utf-8")
    _, _, rest = page.partition(f"`scripts/bench/run --core {core} --page`, revision ")
    command = [ROOT / "scripts" / "bench" / "run", "--core", core]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    models = printed[re.search(r"^model  +layers", printed, re.M).start() :].split("\n\n")[0]
    assert _costs(models) == pytest.approx(_costs(rest.split("```\n")[1]), rel=0.01, abs=0.01)
