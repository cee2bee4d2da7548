"""host_tools/mica_fleet/FLEETS.md comes from `scripts/fleet_tables`; the simulators keep their promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fleet_returns import CONNECT, returns
from fleet_sim import Plan, Simulation
from rollout_sim import Push, roll_out

from mica_fleet.rollout import Terms

HERE = Path(__file__).parent


def test_page() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "fleet_tables.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_slowest_sets_the_rate() -> None:
    """The broker with two messages a request, or the coordinator with one event."""
    for plan, limit in (
        (Plan([0.001] * 200, 4000, broker=0.001, coordinator=0.0), 500.0),
        (Plan([0.001] * 200, 4000, coordinator=0.001, begin=1.0), 1000.0),
    ):
        report = Simulation(plan).run()
        assert report.lost == report.wrong == 0 and report.rate == pytest.approx(limit, rel=0.1)


def test_a_coordinator_that_is_busy_does_not_ask_again() -> None:
    """Answers that wait for it are not late, however long."""
    report = Simulation(Plan([0.001] * 300, 900, coordinator=0.005)).run()
    assert report.answered == 900 and report.counts["sent"] == 900 and report.p99 > 1.0


def test_boards_come_back() -> None:
    assert returns(0) == []
    found = returns(1000, down=1.0)
    assert len(found) == 1000 and found == sorted(found) and found[-1] < 4.0
    busy = returns(1000, connect=0.004, coordinator=0.0)
    assert len(busy) == 1000 and busy[-1] == pytest.approx(4.0, abs=0.3)
    never = returns(1000, connect=1.0, most=60.0)
    assert 5 <= len(never) < 60, "the broker works for boards that have given up"
    assert CONNECT < 0.001


def test_a_rollout_takes_what_the_links_take() -> None:
    course = roll_out(
        Push(100, size=1000, board_rate=1e9, broker_rate=1000.0, trial=0.0, off=0.0, terms=Terms(("100%",)))
    )
    assert len(course.reached) == 100 and course.seconds == pytest.approx(100.0, rel=0.01) and course.reason == ""
    course = roll_out(Push(100, board_rate=48e3, trial=2.0, off=0.1, terms=Terms(("50%", "100%"))))
    assert len(course.reached) == course.touched < 100 and course.seconds == pytest.approx(6.0, rel=0.01)
    assert "failed in wave" in roll_out(Push(100, bad=0.5)).reason
