"""Decides when each board takes a new model, and when to stop. No I/O: events in, actions out, the clock is given.

    up, verdict, tick  ->  Tell, Restore, Ended

Boards are told in waves, the next one when all of a wave have answered.
Names and numbers are AWS IoT Jobs': a rate (boards a minute), abort (a share of failures among the executed,
from a minimum number on), a timeout in progress, retries, and the states of an execution.
A wave has a gate as well: at its end the share counts without the minimum, so a small fleet has one too.

Boards that are off are not told in a wave, so they hold nothing up;
they are told at the end, and take it when they come. A board that goes off after it was told is waited for,
up to the timeout, unless such boards are fewer than the share that may fail: it may be the model that keeps it from
coming back. Where a rollout is stopped, all boards that were told are told to go back.
"""

import enum
import heapq
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mica.errors import MicaError


class State(enum.StrEnum):
    """Names the state of one board, as AWS IoT Jobs does."""

    QUEUED = "queued"  # not told yet
    IN_PROGRESS = "in progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # its trial
    REJECTED = "rejected"  # the board refuses what it was told: it was not signed as the board expects
    TIMED_OUT = "timed out"
    CANCELED = "canceled"
    LEFT_OUT = "left out"  # before it began: by its own report the board has no room for it


_BAD = (State.FAILED, State.REJECTED, State.TIMED_OUT)


@dataclass(frozen=True)
class Terms:
    """waves: how many boards have been told at the end of each, as counts or shares of all ("1", "10%").
    abort: share of failures.
    least: boards that have answered before abort is looked at within a wave. timeout: seconds.
    rate: boards a minute, 0 for any."""

    waves: tuple[str, ...] = ("1", "10%", "100%")
    abort: float = 0.02
    least: int = 20
    timeout: float = 900.0
    retry: int = 0
    rate: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.abort <= 1 or self.least < 1 or self.timeout <= 0 or self.retry < 0 or self.rate < 0:
            raise MicaError(
                f"abort {self.abort:g}, least {self.least}, timeout {self.timeout:g} s, retry {self.retry}, "
                f"rate {self.rate:g}",
                todo="expected a share from 0 to 1, 1 or more, more than 0 s, and 0 or more for the others",
            )
        self.targets(100)

    def targets(self, boards: int) -> list[int]:
        """Number of boards, out of `boards`, that have been told at the end of each wave. Raises MicaError."""
        found: list[int] = []
        for wave in self.waves:
            match = re.fullmatch(r"(\d{1,9})(%?)", wave)
            if match is None or int(match[1]) < 1 or (match[2] and int(match[1]) > 100):
                raise MicaError(f"wave {wave!r}", todo="expected such as 1,10%,100%")
            n = -(-boards * int(match[1]) // 100) if match[2] else int(match[1])
            found.append(min(boards, max(n, found[-1] if found else 1)))
        if not found:
            raise MicaError("no waves", todo="expected such as 1,10%,100%")
        return found


# ---- actions


@dataclass(frozen=True)
class Tell:
    """Make the new models the desired ones of the board."""

    board: str


@dataclass(frozen=True)
class Restore:
    """Set it to what the board had before."""

    board: str


@dataclass(frozen=True)
class Ended:
    """`reason` is "" where all went well."""

    reason: str


Action = Tell | Restore | Ended


@dataclass(slots=True)
class _Board:
    name: str
    number: int  # in the order of telling
    up: bool = False
    state: State = State.QUEUED
    tries: int = 0
    reason: str = ""


class Rollout:
    """Rolls out one generation. Every method takes the time in seconds and returns what is to be done. `changed`:
    boards whose state is another since the
    caller last emptied it. An event costs what it changes, not what boards there are."""

    def __init__(self, boards: Iterable[str], terms: Terms) -> None:
        """Boards that take part, in the order in which they are told; until `up` says so they are off."""
        self.terms = terms
        self._boards = {name: _Board(name, number) for number, name in enumerate(boards)}
        self._in_order = list(self._boards.values())
        self._targets = list(dict.fromkeys(terms.targets(len(self._boards))))  # each with boards of its own
        self._wave = 0
        self._next_tell = 0.0
        self._states = Counter({State.QUEUED: len(self._boards)})
        self._told = 0  # boards, ever
        self._open_up = 0  # boards that are there and at it
        self._ready: list[int] = []  # heap of numbers; some are not ready any more
        self._due: list[tuple[float, int, int]] = []  # heap of time-out, number, try; likewise
        self._failed: list[int] = []  # numbers of those that may be told again
        self.changed: set[str] = set()
        self.ended = False

    # ---- events

    def up(self, now: float, board: str, is_up: bool) -> list[Action]:
        """A board has come or gone."""
        b = self._boards.get(board)
        if b is not None and b.up != is_up:
            b.up = is_up
            if b.state is State.IN_PROGRESS:
                self._open_up += 1 if is_up else -1
            elif b.state is State.QUEUED and is_up:
                heapq.heappush(self._ready, b.number)
        return self.tick(now)

    def verdict(self, now: float, board: str, verdict: str, reason: str = "") -> list[Action]:
        """Take a board's verdict on its last order: confirmed, rejected or refused; else it is at work."""
        b = self._boards.get(board)
        if b is None or b.state is not State.IN_PROGRESS:
            return []
        if verdict == "confirmed":
            self._becomes(b, State.SUCCEEDED)
        elif verdict in ("rejected", "refused"):
            self._becomes(b, State.FAILED if verdict == "rejected" else State.REJECTED, reason)
        return self.tick(now)

    def tick(self, now: float) -> list[Action]:
        """The time is now. Call it when `next_due` says so; more often does no harm."""
        actions: list[Action] = []
        if self.ended:
            return actions
        while self._due and self._due[0][0] <= now:
            _, number, tries = heapq.heappop(self._due)
            b = self._in_order[number]
            if b.state is State.IN_PROGRESS and b.tries == tries:
                self._becomes(b, State.TIMED_OUT, f"nothing for {self.terms.timeout:g} s")
        again, self._failed = sorted(self._failed), []
        for number in again:
            actions.append(self._tell(now, self._in_order[number]))
        while not self.ended:
            over = self._wave_is_over(now, actions)
            if reason := self._gate(over):
                return actions + self._stop(reason)
            if not over:
                return actions
            self._wave += 1
            if self._wave == len(self._targets):
                # Those that are off, and those that the waves left out; nobody waits for them.
                if self._targets[-1] == len(self._boards):
                    actions += [Tell(b.name) for b in self._in_order if b.state is State.QUEUED]
                self.ended = True
                actions.append(Ended(""))
        return actions

    def next_due(self) -> float | None:
        """When `tick` has something to do, unless another event comes first; None for never."""
        if self.ended:
            return None
        while self._due and not self._at_it(*self._due[0][1:]):
            heapq.heappop(self._due)
        found = self._due[0][0] if self._due else None
        if self._told < self._targets[self._wave] and self._first_ready() is not None:
            found = self._next_tell if found is None else min(found, self._next_tell)
        return found

    # ---- what people ask

    def states(self) -> dict[str, tuple[State, str]]:
        """Name -> state, and the reason of a failure."""
        return {name: (b.state, b.reason) for name, b in self._boards.items()}

    def state(self, board: str) -> tuple[State, str]:
        return self._boards[board].state, self._boards[board].reason

    @property
    def wave(self) -> int:
        """From 1 on."""
        return min(self._wave + 1, len(self._targets))

    @property
    def waves(self) -> int:
        return len(self._targets)

    # ---- inside

    def _becomes(self, b: _Board, state: State, reason: str = "") -> None:
        if b.up:
            self._open_up += (state is State.IN_PROGRESS) - (b.state is State.IN_PROGRESS)
        self._states[b.state] -= 1
        self._states[state] += 1
        b.state, b.reason = state, reason
        self.changed.add(b.name)
        if state in (State.FAILED, State.TIMED_OUT) and b.tries <= self.terms.retry:
            self._failed.append(b.number)

    def _at_it(self, number: int, tries: int) -> bool:
        b = self._in_order[number]
        return b.state is State.IN_PROGRESS and b.tries == tries

    def _first_ready(self) -> _Board | None:
        """The first board that is there and was not told yet."""
        while self._ready:
            b = self._in_order[self._ready[0]]
            if b.up and b.state is State.QUEUED:
                return b
            heapq.heappop(self._ready)
        return None

    def _tell(self, now: float, b: _Board) -> Tell:
        self._told += not b.tries
        b.tries += 1
        self._becomes(b, State.IN_PROGRESS)
        heapq.heappush(self._due, (now + self.terms.timeout, b.number, b.tries))
        return Tell(b.name)

    def _wave_is_over(self, now: float, actions: list[Action]) -> bool:
        """Tells who is to be told in this wave, as far as the rate allows."""
        while self._told < self._targets[self._wave] and (b := self._first_ready()) is not None:
            if self.terms.rate and now < self._next_tell:
                return False
            if self.terms.rate:
                self._next_tell = now + 60.0 / self.terms.rate
            actions.append(self._tell(now, b))
        if self._open_up:
            return False
        at_it = self._states[State.IN_PROGRESS]
        return self._told > at_it and at_it <= self.terms.abort * self._told

    def _gate(self, over: bool) -> str:
        """Why the rollout is to be stopped; "" where it is not."""
        bad = sum(self._states[s] for s in _BAD)
        executed = bad + self._states[State.SUCCEEDED]
        if bad and (over or executed >= self.terms.least) and bad > self.terms.abort * executed:
            return f"{bad} of {executed} boards failed in wave {self.wave}, more than {100 * self.terms.abort:g} %"
        return ""

    def _stop(self, reason: str) -> list[Action]:
        actions: list[Action] = []
        for b in self._in_order:
            if b.state is State.IN_PROGRESS:
                self._becomes(b, State.CANCELED, b.reason)
            if b.tries:
                actions.append(Restore(b.name))
        self.ended = True
        return [*actions, Ended(reason)]
