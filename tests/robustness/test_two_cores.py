"""Two cores of a virtual Pico in trouble: a short form of `scripts/soak --cores`."""

from __future__ import annotations

import collections

import pytest
import troubling
from targets import VIRTUAL, nightly

SESSIONS, RUNS = 4, 84


@pytest.mark.parametrize("target", VIRTUAL)
def test_hundreds_of_runs(target: str) -> None:
    """336 runs of the digits, while timers compute, collect, write files and start threads; sessions end in Ctrl-C or
    leave a thread running."""
    figures: collections.Counter[str] = collections.Counter()
    with troubling.board_with_digits(target) as board:
        for seed in range(SESSIONS):
            figures.update(troubling.cores(board, seed, RUNS))
    assert figures["runs on two cores"] + figures["runs on one"] >= SESSIONS * RUNS
    assert figures["runs on two cores"] > SESSIONS * RUNS / 4 and figures["runs on one"] > SESSIONS
    assert figures["interrupts"] > SESSIONS * RUNS and figures["threads"] > SESSIONS and figures["files"] > SESSIONS


@nightly
@pytest.mark.parametrize("target", VIRTUAL)
def test_soft_resets_end_threads_that_allocate(target: str) -> None:
    """A thread may be at the heap's mutex when it is ended: core 0 gets it back, and nothing of the thread goes on."""
    with troubling.board_with_digits(target) as board:
        for seed in range(1, 90, 3):  # those that leave a thread running
            troubling.cores(board, seed, 8)
