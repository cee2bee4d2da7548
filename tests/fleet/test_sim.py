"""The dispatcher on a virtual clock. The figures beside it were measured with a prototype: up to 16 MicroPython
processes and mosquitto."""

from __future__ import annotations

import pytest

from mica.fleet.dispatch import Settings
from mica.fleet.sim import Plan, Simulation


@pytest.mark.parametrize(("boards", "measured"), [(1, 10.0), (4, 39.7), (8, 79.7), (16, 159.5)])
def test_the_rate_is_that_of_real_boards_of_100_ms(boards: int, measured: float) -> None:
    report = Simulation(Plan([0.1] * boards, 60 * boards)).run()
    assert report.lost == report.wrong == 0
    assert report.rate == pytest.approx(measured, rel=0.05)


def test_a_slow_board_does_not_set_the_pace() -> None:
    report = Simulation(Plan([0.02, 0.02, 0.02, 0.2], 600)).run()
    assert report.lost == 0 and report.rate > 135


def test_boards_that_die_lose_nothing() -> None:
    for seed in range(3):
        report = Simulation(Plan([0.02] * 8, 2000, kill_every=0.5, seed=seed)).run()
        assert report.counts["lost_boards"] >= 10
        assert (report.lost, report.wrong, report.failed) == (0, 0, 0)
        assert report.p99 < 0.25 and report.rate > 0.7 * 400


def test_a_board_that_hangs_costs_itself() -> None:
    report = Simulation(Plan([0.02] * 4, 800, hang=[(0, 1.0, 1e9)])).run()
    assert report.lost == 0 and report.rate > 0.95 * 150


def test_a_lying_board_is_found_and_its_answers_are_asked_again() -> None:
    settings = Settings(audit=0.05, first_audits=0)
    report = Simulation(Plan([0.02] * 4, 2000, liars=[1], settings=settings)).run()
    assert report.quarantined == ["b1"]
    assert (report.lost, report.wrong) == (0, 0)
    assert report.counts["asked_again"] <= 3 / settings.audit
