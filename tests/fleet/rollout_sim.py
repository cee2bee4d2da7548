"""A rollout on a virtual clock: the real Rollout, and boards that fetch, try and answer.

    roll_out(Push(100_000)) -> Course

The broker sends so many bytes a second and no more; a board takes so many.
What is left out: the radio, and boards that lose power meanwhile (tests/fleet/test_rollout.py has those).
"""

import heapq
import random
from dataclasses import dataclass, field

from mica_fleet.rollout import Action, Ended, Rollout, State, Tell, Terms


@dataclass(frozen=True)
class Push:
    """Bytes, seconds and shares. `off`: boards that are not there; `bad`: boards on which the model fails."""

    boards: int
    size: int = 48_000
    board_rate: float = 50e3
    broker_rate: float = 100e6
    trial: float = 3.0  # golden vectors, and a reset
    coordinator: float = 0.00008  # for what it says and what it is told
    off: float = 0.02
    bad: float = 0.0
    terms: Terms = field(default_factory=Terms)
    seed: int = 0


@dataclass(frozen=True)
class Course:
    """`reached`: seconds at which boards had the model, in order. `touched`: boards that were on and got an order."""

    reached: list[float]
    touched: int
    seconds: float
    reason: str


def roll_out(push: Push) -> Course:
    """Until it ends by itself, or nothing more happens."""
    chance = random.Random(push.seed)
    names = [f"b{i}" for i in range(push.boards)]
    off = {name for name in names if chance.random() < push.off}
    bad = {name for name in names if chance.random() < push.bad}
    rollout = Rollout(names, push.terms)
    events: list[tuple[float, str]] = []  # heap: when the coordinator has a verdict
    reached: list[float] = []
    now = coordinator = broker = 0.0
    touched, reason = 0, ""

    def do(actions: list[Action]) -> None:
        nonlocal coordinator, broker, touched, reason
        for action in actions:
            if isinstance(action, Tell):
                coordinator = max(coordinator, now) + push.coordinator
                if action.board not in off:
                    touched += 1
                    broker = max(broker, coordinator) + push.size / push.broker_rate
                    fetched = max(broker, coordinator + push.size / push.board_rate)
                    heapq.heappush(events, (fetched + push.trial, action.board))
            elif isinstance(action, Ended):
                reason = action.reason

    for name in names:
        if name not in off:
            do(rollout.up(0.0, name, True))
    while not rollout.ended:
        due = rollout.next_due()
        if events and (due is None or events[0][0] <= due):
            at, board = heapq.heappop(events)
            now = coordinator = max(coordinator, at) + push.coordinator
            do(rollout.verdict(now, board, "rejected" if board in bad else "confirmed"))
            if rollout.state(board)[0] is State.SUCCEEDED:
                reached.append(now)
        elif due is not None:
            now = max(now, due)
            do(rollout.tick(now))
        else:
            break
    return Course(reached, touched, now, reason)
