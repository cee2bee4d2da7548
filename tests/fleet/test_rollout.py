"""Rollout of a model to boards, and its stop: the state machine alone, with boards that lose power in every phase."""

from __future__ import annotations

import random

import pytest

from mica.errors import MicaError
from mica_fleet.rollout import Action, Ended, Restore, Rollout, State, Tell, Terms

NAMES = [f"b{i}" for i in range(1, 13)]
PHASES = ("fetching", "trying", "telling", "never")


class Boards:
    """Simulated boards on a virtual clock. Each gets a model, works on it, and may lose power once in a phase of it."""

    def __init__(self, rollout: Rollout, names: list[str], bad: set[str], cut: dict[str, str], off: set[str]) -> None:
        self.rollout, self.bad, self.cut = rollout, bad, dict(cut)
        self.model = dict.fromkeys(names, "old")
        self.answered = dict.fromkeys(names, "")  # what it was told last, where it has answered that
        self.desired = dict.fromkeys(names, "old")
        self.is_up = {name: name not in off for name in names}
        self.events: list[tuple[float, int, str, str]] = []
        self.touched: set[str] = set()
        self.reason: str | None = None
        self.number = 0

    def later(self, now: float, seconds: float, board: str, what: str) -> None:
        self.number += 1
        self.events.append((now + seconds, self.number, board, what))

    def do(self, now: float, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Tell(board):
                    self.want(now, board, "new")
                case Restore(board):
                    self.want(now, board, "old")
                case Ended(reason):
                    assert self.reason is None, "it ends twice"
                    self.reason = reason

    def want(self, now: float, board: str, model: str) -> None:
        self.desired[board] = model
        self.answered[board] = ""
        if self.is_up[board]:
            if model == "new":
                self.touched.add(board)
            self.later(now, 5.0, board, "fetched")

    def run(self, seconds: float = 10000.0) -> None:
        now = 0.0
        for board, up in self.is_up.items():
            self.do(now, self.rollout.up(now, board, up))
        while now < seconds:
            due = self.rollout.next_due()
            times = [t for t in (due, min(self.events)[0] if self.events else None) if t is not None]
            if not times:
                return
            now = max(now, min(times))
            while self.events and min(self.events)[0] <= now:
                event = min(self.events)
                self.events.remove(event)
                self.happens(now, event[2], event[3])
            self.do(now, self.rollout.tick(now))
        raise AssertionError("it does not end")

    def happens(self, now: float, board: str, what: str) -> None:
        phase = {"fetched": "fetching", "tried": "trying", "told": "telling"}.get(what)
        if what == "back":
            self.is_up[board] = True
            self.do(now, self.rollout.up(now, board, True))
            self.later(now, 5.0, board, "told" if self.answered[board] else "fetched")  # it says what it has
        elif not self.is_up[board]:
            return
        elif phase is not None and self.cut.get(board) == phase:
            del self.cut[board]
            self.is_up[board] = False
            if phase == "trying":  # as slots.py and the board's push.py have it
                self.answered[board] = "rejected"
            self.do(now, self.rollout.up(now, board, False))
            self.later(now, 60.0, board, "back")
        elif what == "fetched":
            self.later(now, 2.0, board, "tried")
        elif what == "tried":
            failed = board in self.bad and self.desired[board] == "new"
            self.answered[board] = "rejected" if failed else "confirmed"
            if not failed:
                self.model[board] = self.desired[board]
            self.later(now, 1.0, board, "told")
        elif what == "told" and self.answered[board]:
            self.do(now, self.rollout.verdict(now, board, self.answered[board], "layer 3"))


def play(
    terms: Terms,
    bad: set[str] | None = None,
    cut: dict[str, str] | None = None,
    off: set[str] | None = None,
) -> Boards:
    boards = Boards(Rollout(NAMES, terms), NAMES, bad or set(), cut or {}, off or set())
    boards.run()
    return boards


def test_all_goes_well() -> None:
    boards = play(Terms())
    assert boards.reason == "" and set(boards.model.values()) == {"new"}
    assert {s for s, _ in boards.rollout.states().values()} == {State.SUCCEEDED}


def test_a_model_that_fails_on_three_of_twelve_is_stopped() -> None:
    for seed in range(20):
        bad = set(random.Random(seed).sample(NAMES, 3))
        boards = play(Terms(waves=("1", "25%", "100%")), bad)
        assert boards.reason and "failed in wave" in boards.reason
        assert set(boards.model.values()) == {"old"}, "what was stopped is taken back"
        first = NAMES.index(min(bad, key=NAMES.index))
        touched = 1 if first == 0 else 3 if first < 3 else 12
        assert len(boards.touched) == touched


@pytest.mark.parametrize("phase", PHASES)
def test_power_is_cut(phase: str) -> None:
    """A board that loses power in its trial rejects the model, so the gate stops the rollout, unless it may retry."""
    for board in NAMES:
        boards = play(Terms(waves=("1", "25%", "100%"), timeout=300.0, retry=1), cut={board: phase})
        assert boards.reason == "" and set(boards.model.values()) == {"new"}, (board, boards.reason)
        boards = play(Terms(waves=("1", "25%", "100%"), timeout=300.0), cut={board: phase})
        assert set(boards.model.values()) == {"old" if phase == "trying" else "new"}


def test_power_is_cut_everywhere_while_three_fail() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        bad = set(chance.sample(NAMES, 3))
        cut = {board: chance.choice(PHASES) for board in NAMES}
        terms = Terms(waves=("1", "25%", "100%"), timeout=300.0, retry=chance.randrange(2))
        boards = play(terms, bad, cut)
        assert boards.reason and set(boards.model.values()) == {"old"}, seed


def test_boards_that_are_off_hold_nothing_up_and_get_it_later() -> None:
    off = set(NAMES[:5])
    boards = play(Terms(), off=off)
    assert boards.reason == ""
    assert {b for b, m in boards.model.items() if m == "new"} == set(NAMES) - off
    assert {boards.desired[b] for b in off} == {"new"}, "they find it when they come"


def test_a_board_that_never_comes_back_is_a_failure() -> None:
    rollout = Rollout(NAMES, Terms(timeout=100.0))
    actions = [a for n in NAMES for a in rollout.up(0.0, n, True)]
    assert actions == [Tell("b1")]
    assert rollout.up(1.0, "b1", False) == [] and rollout.tick(99.0) == [] and rollout.next_due() == 100.0
    actions = rollout.tick(100.0)
    assert actions[0] == Restore("b1") and isinstance(actions[1], Ended)
    assert rollout.states()["b1"] == (State.TIMED_OUT, "nothing for 100 s")


def test_of_many_a_few_that_go_off_are_not_waited_for() -> None:
    names = [f"b{i}" for i in range(200)]
    rollout = Rollout(names, Terms(waves=("50%", "100%")))
    told = {a.board for n in names for a in rollout.up(0.0, n, True) if isinstance(a, Tell)}
    assert len(told) == 100
    rollout.up(1.0, "b0", False)
    rollout.up(1.0, "b1", False)
    second = [a for n in sorted(told - {"b0", "b1"}) for a in rollout.verdict(2.0, n, "confirmed")]
    assert len(second) == 100


def test_a_rate_and_a_minimum() -> None:
    rollout = Rollout(NAMES, Terms(waves=("100%",), rate=6.0, least=2, abort=0.4))
    actions = [a for n in NAMES for a in rollout.up(0.0, n, True)]
    assert actions == [Tell("b1")] and rollout.next_due() == 10.0
    assert rollout.tick(9.9) == [] and rollout.tick(10.0) == [Tell("b2")]
    assert rollout.verdict(11.0, "b1", "rejected", "no") == [], "one has answered, of two that it takes"
    assert rollout.verdict(12.0, "b2", "confirmed")[-1] == Ended("1 of 2 boards failed in wave 1, more than 40 %")
    assert rollout.tick(1e6) == [] and rollout.next_due() is None


def test_a_refusal_is_not_tried_again() -> None:
    rollout = Rollout(["b1"], Terms(retry=3))
    rollout.up(0.0, "b1", True)
    assert isinstance(rollout.verdict(1.0, "b1", "refused", "not signed")[-1], Ended)
    assert rollout.states()["b1"] == (State.REJECTED, "not signed")


@pytest.mark.parametrize(
    "bad",
    [
        {"waves": ("0",)},
        {"waves": ("101%",)},
        {"waves": ("x",)},
        {"waves": ()},
        {"abort": 2.0},
        {"least": 0},
        {"timeout": 0.0},
        {"retry": -1},
        {"rate": -1.0},
    ],
)
def test_terms_that_cannot_be(bad: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(MicaError):
        Terms(**bad)


def test_waves_are_cumulative() -> None:
    assert Terms(waves=("1", "10%", "100%")).targets(12) == [1, 2, 12]
    assert Terms(waves=("5", "2", "50%")).targets(4) == [4, 4, 4]


def test_a_wave_without_boards_of_its_own_is_none() -> None:
    """`fleet push` printed "wave 1 of 3, wave 3 of 3" of three boards."""
    terms = Terms(waves=("1", "10%", "100%"))
    assert Rollout(["b1", "b2", "b3"], terms).waves == 2
    assert Rollout([f"b{i}" for i in range(100)], terms).waves == 3
