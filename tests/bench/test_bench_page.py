"""`scripts/bench/run --page` finds each core's table in usermod_c/BENCH.md, and says so where there are none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mica.errors import MicaError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import bench_page


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
