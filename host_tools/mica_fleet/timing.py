"""Measures the speed of a fleet, for `mica fleet bench`."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.run.golden import random_input
from mica.run.runner import Inputs
from mica_fleet.coordinator import FleetRunner
from mica_fleet.dispatch import Action, Done, Send
from mica_fleet.links import Answered, Birth, Event
from mica_fleet.machines import predicted_ms
from mica_fleet.wire import Key, Status

_SAMPLES = 32  # different ones
_LEAST = 64  # requests of a measurement
_MOST = 200_000


class TimedRunner(FleetRunner):
    """Notes when each request was first sent, how long its answer took, who gave it,
    and how long that board says that it took. start() begins anew."""

    machines: dict[str, str]  # of boards that have said what they are

    def start(self) -> None:
        if not hasattr(self, "machines"):
            self.machines = {}
        self.work: dict[tuple[int, str], list[int]] = {}  # stage and board -> microseconds of the answers
        self.sent: set[tuple[Key, str]] = set()  # and the board
        self.first: dict[Key, float] = {}
        self.took: dict[Key, float] = {}
        self.by: Counter[str] = Counter()
        self.before = Counter(self._dispatcher.counts)

    @property
    def counts(self) -> Counter[str]:
        """The dispatcher's, since start()."""
        return Counter(self._dispatcher.counts) - self.before

    def stages(self) -> list[StageTime]:
        """Time of each board for each part, measured and predicted."""
        files = self._route.files
        return [
            StageTime(
                part=stage + 1,
                board=board,
                answers=len(us),
                ms=sum(us) / len(us) / 1000,
                predicted_ms=predicted_ms(files[stage], self.machines.get(board, "")),
            )
            for (stage, board), us in sorted(self.work.items())
        ]

    def _event(self, event: Event) -> list[Action]:
        match event:
            case Birth(board, machine=machine):
                self.machines[board] = machine
            case Answered(board, answer) if answer.status == Status.OK and (answer.key, board) in self.sent:
                self.work.setdefault((answer.key.stage, board), []).append(answer.microseconds)
        return super()._event(event)

    def boards_up(self) -> int:
        return self._dispatcher.states["up"]

    def _one(self, action: Action, failed: dict[Key, str]) -> list[Action]:
        now = time.monotonic()
        if isinstance(action, Send):
            self.first.setdefault(action.request.key, now)
            self.sent.add((action.request.key, action.board))
        elif isinstance(action, Done) and action.key in self.first:
            self.took.setdefault(action.key, now - self.first[action.key])
            self.by[action.board] += 1
        return super()._one(action, failed)


@dataclass(frozen=True)
class StageTime:
    """One part of a model (1 of a whole one) on one board. `ms`: milliseconds of a run, by the board's clock;
    of a board without a broker, by ours, with what it is sent and sends. `predicted_ms`: by the cost table;
    None where it has nothing of that board."""

    part: int
    board: str
    answers: int
    ms: float
    predicted_ms: float | None


@dataclass(frozen=True)
class Times:
    """Seconds are from the first sending of a request to its answer; of a model in parts each part is a request."""

    samples: int
    seconds: float
    p50: float
    p99: float
    longest: float
    by: dict[str, int]  # requests that each board has answered
    asked_again: int
    lost_boards: int
    wrong: int
    stages: list[StageTime]


def measure(runner: TimedRunner, right: list[list[bytes]], samples: list[Inputs], seconds: float) -> Times:
    """About so many seconds of work, after some that does not count. right: the outputs of the samples."""
    runner.start()
    runner.run(samples[:1])  # a board is there
    time.sleep(0.5)  # and the others say that they are
    n = max(len(samples), 4 * runner.boards_up())
    begun = time.monotonic()
    runner.run([samples[k % len(samples)] for k in range(n)])
    rate = n / (time.monotonic() - begun)
    n = min(_MOST, max(_LEAST, round(rate * seconds)))
    runner.start()
    begun = time.monotonic()
    found = runner.run([samples[k % len(samples)] for k in range(n)])
    took = time.monotonic() - begun
    wrong = sum([y.tobytes() for y in ys] != right[k % len(samples)] for k, ys in enumerate(found))
    latencies = sorted(runner.took.values())
    if not latencies:
        raise MicaError(f"{runner.target}: no board has answered")
    return Times(
        samples=n,
        seconds=took,
        p50=latencies[len(latencies) // 2],
        p99=latencies[int(0.99 * (len(latencies) - 1))],
        longest=latencies[-1],
        by=dict(sorted(runner.by.items())),
        asked_again=runner.counts["asked_again"],
        lost_boards=runner.counts["lost_boards"],
        wrong=wrong,
        stages=runner.stages(),
    )


def made_up(runner: FleetRunner) -> list[Inputs]:
    rng = np.random.default_rng(0)
    model = runner.model
    return [[random_input(model, model.tensors[t], rng) for t in model.inputs] for _ in range(_SAMPLES)]
