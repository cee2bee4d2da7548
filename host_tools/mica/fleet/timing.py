"""How fast a fleet is: `mica fleet bench`."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.fleet.coordinator import FleetRunner
from mica.fleet.dispatch import Action, Done, Send
from mica.fleet.wire import Key
from mica.run.golden import random_input
from mica.run.runner import Inputs

_SAMPLES = 32  # different ones
_LEAST = 64  # requests of a measurement
_MOST = 200_000


class TimedRunner(FleetRunner):
    """Notes when each request was first sent, how long its answer took, and who gave it. start() begins anew."""

    def start(self) -> None:
        self.first: dict[Key, float] = {}
        self.took: dict[Key, float] = {}
        self.by: Counter[str] = Counter()
        self.before = Counter(self._dispatcher.counts)

    @property
    def counts(self) -> Counter[str]:
        """The dispatcher's, since start()."""
        return Counter(self._dispatcher.counts) - self.before

    def boards_up(self) -> int:
        return sum(state == "up" for state in self._dispatcher.boards().values())

    def _one(self, action: Action, failed: dict[Key, str]) -> list[Action]:
        now = time.monotonic()
        if isinstance(action, Send):
            self.first.setdefault(action.request.key, now)
        elif isinstance(action, Done) and action.key in self.first:
            self.took.setdefault(action.key, now - self.first[action.key])
            self.by[action.board] += 1
        return super()._one(action, failed)


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
    )


def made_up(runner: FleetRunner) -> list[Inputs]:
    rng = np.random.default_rng(0)
    model = runner.model
    return [[random_input(model, model.tensors[t], rng) for t in model.inputs] for _ in range(_SAMPLES)]
