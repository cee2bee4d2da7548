"""`scripts/bench/run --page` finds each core's tables in usermod_c/BENCH.md, and says so where there are none."""

from __future__ import annotations

import bench_page
import pytest

from mica.errors import MicaError


def test_tables_in_their_place() -> None:
    page = bench_page.PAGE.read_text(encoding="utf-8")
    for core in ("m0plus", "m3", "m33", "m55", "rv32"):
        new = bench_page.updated(page, core, "abc1234", "the models", "the layers")
        line = f"`scripts/bench/run --core {core} --page`, revision "
        head, _, rest = page.partition(line)
        tables, end = rest.split("\n```\n", 4)[:4], rest.split("\n```\n", 4)[4]
        assert len(tables) == 4 and tables[1].startswith("model ") and tables[3].startswith("layer ")
        assert new == f"{head}{line}abc1234:\n\n```\nthe models\n```\n\n```\nthe layers\n```\n{end}"
    with pytest.raises(MicaError, match="expected one line `scripts/bench/run --core m7 --page`"):
        bench_page.updated(page, "m7", "abc1234", "", "")
