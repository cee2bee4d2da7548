"""Waits for flash: what the cost model counts, which weights it puts into RAM,
and that firmware and engine do the same."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mica.boards import load_board
from mica.cost import waits
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.file.codec import ModelFile, StepRecord, decode, encode

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "usermod"))

from usermod_models import coded, deep, small  # noqa: E402

PICO = load_board("RPI_PICO")


def told(model: ModelFile, board: str = "RPI_PICO", **how: int | str) -> dict[str, float]:
    data = encode(model)
    prediction = predict(decode(data), data, load_board(board), Table.read(), **how)  # type: ignore[arg-type]
    assert prediction.time is not None
    return {**prediction.time, **prediction.ram}


@pytest.mark.parametrize("board", ["RPI_PICO", "RPI_PICO2"])
def test_weights_in_ram_are_not_waited_for(board: str) -> None:
    """52 kB of dense weights: most of the time in flash, none of it in RAM; the copies are counted as heap."""
    flash, ram = told(deep(), board), told(deep(), board, weights="auto")
    assert flash["flash"] > 0.5 * flash["total"]
    assert ram["flash"] < 0.25 * flash["flash"] and ram["total"] < 0.6 * flash["total"]
    assert ram["total"] - ram["flash"] == pytest.approx(flash["total"] - flash["flash"], abs=2)
    copied = 3 * (16 + 128 * 128 + 128 * 9)
    assert ram["weights"] == ram["heap_needed"] - flash["heap_needed"] == copied


def test_budget() -> None:
    """Whole layers in order, as many as fit; the file's own order, where it has one."""
    model = decode(encode(deep()))
    one = 16 + 128 * 128 + 128 * 9
    assert waits.held(model, one - 1) == {}
    assert waits.held(model, 2 * one) == {0: one, 1: one}
    model.metadata[waits.KEY] = "2 0"
    assert waits.held(model, one) == {2: one} and waits.held(model, 1 << 20) == {2: one, 0: one}
    codes = decode(encode(coded()))  # half a byte each
    assert waits.stored_bytes(codes.steps[0])["weights"] == 16 + 10 * 32


def test_order() -> None:
    """A layer that is read twice goes before those that are read once; one without products is not copied."""
    model = decode(encode(small()))
    conv = [i for i, step in enumerate(model.steps) if step.macs]

    def misses(step: StepRecord, in_ram: bool) -> float:
        words = sum(waits.stored_bytes(step).values()) / 4
        return 0.0 if in_ram else words * (2 if step is model.steps[conv[-1]] else 1)

    assert waits.order(model) == conv
    assert waits.best_order(model, misses) == [conv[-1], *conv[:-1]]


def test_again() -> None:
    """Weights larger than the cache are read in each pass; those that fit stay."""
    step = decode(encode(deep())).steps[0]
    large = replace(step, blobs={**step.blobs, "weights": np.zeros((512, 128), np.int8)})
    found = [waits.counts(s, {"passes": n}, False)["again"] for s in (step, large) for n in (1.0, 3.0)]
    words = sum(waits.stored_bytes(large).values()) / 4
    assert found[0] == found[2] == 0 and found[3] == 2 * words and found[1] < 2 * 3000
    assert waits.counts(large, {"passes": 3.0, "pair_passes": 1.0}, True)["again"] == 0


def test_streamed() -> None:
    """Two blocks of some rows in scratch; no stream for a layer of one block, for several rows of x,
    or without room."""
    step = decode(encode(deep())).steps[0]
    assert waits.streamed(step, 1, 16 << 10) == (128 * 128 / 4, 11)
    assert waits.streamed(step, 2, 16 << 10) == waits.streamed(step, 1, 1000) == (0.0, 1)
    assert waits.streamed(decode(encode(coded())).steps[0], 1, 16 << 10) == (0.0, 1)
    assert waits.overlapped(40000, 10, 4000) == 40000 + 400 - 4000
    assert waits.overlapped(40000, 10, 90000) == 4000 and waits.overlapped(0, 1, 100) == 0


def test_the_same_numbers() -> None:
    """Host and board have the same numbers."""
    engine = (ROOT / "usermod_c" / "runtime" / "op_dense.c").read_text()
    for name in ("OWN", "BLOCK", "OUTPUTS"):
        (number,) = re.findall(rf"#define {name} \((\d+)\)", engine)
        assert int(number) == getattr(waits, name), name
    (left,) = re.findall(r"^_LEFT = (.*?)  #", (ROOT / "firmware" / "mica" / "weights.py").read_text(), re.MULTILINE)
    assert eval(left) == waits.LEFT
    assert PICO.mcu in waits.STREAMS and PICO.flash_miss == 40


def test_other_boards() -> None:
    """A board whose misses nobody has measured has no waits."""
    assert told(deep(), "MPS2_AN385")["flash"] == 0
    assert (
        told(deep(), "ADAFRUIT_FEATHER_RP2040")["flash"] > 5 * told(deep())["flash"]
    )  # four times the clocks, one wire
