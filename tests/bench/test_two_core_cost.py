"""Cycles of the reference models on two cores of the virtual Picos: never more than on one."""

from __future__ import annotations

from pathlib import Path

import pytest
import two_core_bench
from reference_models import compiled_models
from targets import ALL

from mica.errors import MicaError

MODELS = Path(__file__).resolve().parents[2].parent / "shared" / "models"
BOTH = two_core_bench.BOARDS
MORE = 1.03  # what asking for the second core may cost
# In place and in RAM, where they fit: all with `scripts/test --all`, by day what reads most weights for its products.
CASES = [(b, m, r) for b in BOTH for m in ("kws", "res", "vww", "ad") for r in (False, True)]
BY_DAY = [("RPI_PICO2", "ad", False), ("RPI_PICO2", "ad", True), ("RPI_PICO", "ad", False)]


@pytest.mark.skipif(not MODELS.is_dir(), reason="the folder ../shared/models is missing")
@pytest.mark.parametrize(("board", "model", "in_ram"), CASES if ALL else BY_DAY)
def test_two_cores_take_no_longer(board: str, model: str, in_ram: bool) -> None:
    """Weights in RAM take about half; those of ad in flash, each read once, are for one core of a Pico 2."""
    chosen = [pair for pair in compiled_models(MODELS) if pair[0] == model]
    try:
        (row,) = two_core_bench.run(board, chosen, in_ram)
    except MicaError as e:
        if in_ram and "MemoryError" in str(e):
            pytest.skip(f"{model} does not fit into the RAM of {board}")
        raise
    assert row.ratio <= MORE, row
    if in_ram:
        assert row.ratio < 0.65, row
