"""The dispatcher on a virtual clock. The figures beside it were measured with a prototype: up to 16 MicroPython
processes and mosquitto."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from fleet_sim import Plan, Simulation

from mica_fleet.dispatch import Settings
from mica_fleet.rollout import Rollout, Tell, Terms


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


def test_a_model_in_parts_is_as_fast_as_its_slowest_part() -> None:
    plan = Plan([0.034, 0.023, 0.009], 300, parts=True)
    report = Simulation(plan).run()
    assert (report.answered, report.lost, report.wrong) == (300, 0, 0) and report.counts["sent"] == 900
    assert report.rate == pytest.approx(1 / (0.034 + plan.overhead), rel=0.02)
    report = Simulation(Plan([0.034, 0.023, 0.009], 200, parts=True, kill_every=1.0)).run()
    assert (report.lost, report.wrong) == (0, 0) and report.counts["lost_boards"] > 3


def test_a_broker_that_is_away_loses_nothing() -> None:
    """Without a session in each birth all boards stood still here."""
    quiet = Simulation(Plan([0.02] * 8, 2000)).run()
    report = Simulation(Plan([0.02] * 8, 2000, restart=(1.0, 1.0))).run()
    assert (report.lost, report.wrong, report.failed) == (0, 0, 0)
    assert report.counts["asked_again"] <= 2 * 8 + 2
    assert quiet.seconds + 0.9 < report.seconds < quiet.seconds + 3.0 and report.longest < 4.0


def test_a_board_that_hangs_costs_itself() -> None:
    report = Simulation(Plan([0.02] * 4, 800, hang=[(0, 1.0, 1e9)])).run()
    assert report.lost == 0 and report.rate > 0.95 * 150


def test_a_lying_board_is_found_and_its_answers_are_asked_again() -> None:
    settings = Settings(audit=0.05, first_audits=0)
    report = Simulation(Plan([0.02] * 4, 2000, liars=[1], settings=settings)).run()
    assert report.quarantined == ["b1"]
    assert (report.lost, report.wrong) == (0, 0)
    assert report.counts["asked_again"] <= 3 / settings.audit


def _lines(rooms: tuple[str, ...], call: Any) -> int:
    """Number of lines of these files that `call` executes: a measure of work that other programs do not change."""
    n = 0

    def inside(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal n
        n += event == "line"
        return inside

    found = sys.gettrace()
    sys.settrace(lambda frame, event, arg: inside if frame.f_code.co_filename.endswith(rooms) else None)
    try:
        call()
    finally:
        sys.settrace(found)
    return n


def test_what_an_event_costs_does_not_grow_with_the_fleet() -> None:
    def each(boards: int) -> float:
        rooms = ("fleet/dispatch.py", "fleet/pool.py", "tests/fleet/fleet_sim.py")
        return _lines(rooms, Simulation(Plan([0.1] * boards, 2 * boards)).run) / boards

    assert each(800) < 1.05 * each(200)


def test_what_a_board_of_a_rollout_costs_does_not_grow_with_the_fleet() -> None:
    def each(boards: int) -> float:
        names = [f"b{i}" for i in range(boards)]
        rollout = Rollout(names, Terms(waves=("10%", "100%")))

        def play() -> None:
            told = [a.board for name in names for a in rollout.up(0.0, name, True) if isinstance(a, Tell)]
            for now, name in enumerate(told):  # which grows
                rollout.next_due()
                told += [a.board for a in rollout.verdict(now / 1000, name, "confirmed") if isinstance(a, Tell)]
            assert rollout.ended and len(told) == boards

        return _lines(("fleet/rollout.py",), play) / boards

    assert each(800) < 1.05 * each(200)


def test_each_life_of_a_board_has_a_number_of_its_own() -> None:
    """The number tells the dispatcher that requests on their way to an earlier life are gone."""
    simulation = Simulation(Plan([0.02] * 4, 800, kill_every=0.5))
    born: dict[str, list[tuple[int, int]]] = {}
    birth = simulation.dispatcher.birth

    def noted(now: float, board: str, boot: int, session: int, models: Any, *more: Any) -> Any:
        born.setdefault(board, []).append((boot, session))
        return birth(now, board, boot, session, models, *more)

    simulation.dispatcher.birth = noted  # type: ignore[method-assign]
    report = simulation.run()
    assert report.lost == 0 and sum(len(lives) for lives in born.values()) > 6
    for lives in born.values():
        assert lives == [(boot, 1) for boot in range(1, len(lives) + 1)]
