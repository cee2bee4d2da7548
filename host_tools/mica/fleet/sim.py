"""A fleet on a virtual clock: the real dispatcher, boards that take as long as they are told to, and faults.

    Simulation(Plan(boards=[0.02] * 8, requests=2000, kill_every=0.5)).run() -> Report

A board works on one request at a time, in the order of coming. Every message takes `hop` seconds; the coordinator is busy for
`coordinator` seconds with each answer (80 us were measured with a prototype in Python). What a simulation leaves out: the load of the machine
that the broker and the coordinator run on, and the radio.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mica.fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica.fleet.wire import Answer, Key, Request, Status

_MODEL = 1


@dataclass(frozen=True)
class Plan:
    """Seconds and counts. `boards` are the seconds that each takes for a run. `liars` answer one bit wrong."""

    boards: Sequence[float]
    requests: int
    hop: float = 0.0006
    overhead: float = 0.0004  # of a board, for each request
    coordinator: float = 0.00008
    kill_every: float = 0.0  # a random board loses power so often
    revive: float = 1.0  # and is back after so long
    start: float = 0.12  # from power to the first request
    hang: Sequence[tuple[int, float, float]] = ()  # (board, from, until): it stops, and goes on
    liars: Sequence[int] = ()
    seed: int = 0
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Report:
    """What came of it. `seconds` are of the virtual clock, latencies from the first sending to the first answer."""

    answered: int
    failed: int
    lost: int
    wrong: int
    seconds: float
    rate: float
    p50: float
    p99: float
    longest: float
    counts: dict[str, int]
    quarantined: list[str]


class _Board:
    def __init__(self, name: str, seconds: float, liar: bool) -> None:
        self.name = name
        self.seconds = seconds
        self.liar = liar
        self.boot = 0
        self.up = False
        self.hung = False
        self.inbox: deque[Request] = deque()
        self.busy = False


def right_answer(inputs: bytes) -> bytes:
    """What a simulated model computes."""
    return bytes(b ^ 0x55 for b in inputs)


class Simulation:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0.0
        self.dispatcher = Dispatcher(plan.settings, plan.seed)
        self._random = random.Random(plan.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._boards = [_Board(f"b{i}", s, i in plan.liars) for i, s in enumerate(plan.boards)]
        self._by_name = {b.name: b for b in self._boards}
        self._first: dict[Key, float] = {}
        self._answers: dict[Key, bytes] = {}
        self._latency: dict[Key, float] = {}
        self._failed: dict[Key, str] = {}
        self._quarantined: list[str] = []
        self._free_at = 0.0  # when the coordinator is idle
        self._tick_at: float | None = None

    def run(self, give_up: float = 60.0) -> Report:
        """Until every request has an answer, or nothing has come for `give_up` seconds."""
        p = self.plan
        for board in self._boards:
            self._after(0.0, partial(self._power, board))
        for seq in range(p.requests):
            key = Key(1, seq)
            self._do(self.dispatcher.submit(0.0, key, _MODEL, seq.to_bytes(4, "little")))
        if p.kill_every:
            self._after(p.start + p.kill_every, self._kill)
        for number, begin, end in p.hang:
            self._after(begin, partial(self._hang, self._boards[number]))
            self._after(end, partial(self._go_on, self._boards[number]))
        progress, done = 0.0, 0
        while self._events and (len(self._answers) + len(self._failed) < p.requests or self.dispatcher.audits_open()):
            at, _, event = heapq.heappop(self._events)
            self.now = at
            event()
            if len(self._answers) != done:
                progress, done = self.now, len(self._answers)
            if self.now - progress > give_up:
                break
        return self._report(progress)

    def _report(self, end: float) -> Report:
        p = self.plan
        seconds = max(end - p.start, 1e-9)
        latencies = sorted(self._latency.values()) or [0.0]
        wrong = sum(1 for k, y in self._answers.items() if y != right_answer(k.seq.to_bytes(4, "little")))

        def at(share: float) -> float:
            return latencies[min(len(latencies) - 1, int(share * len(latencies)))]

        return Report(
            answered=len(self._answers),
            failed=len(self._failed),
            lost=p.requests - len(self._answers) - len(self._failed),
            wrong=wrong,
            seconds=seconds,
            rate=len(self._answers) / seconds,
            p50=at(0.5),
            p99=at(0.99),
            longest=latencies[-1],
            counts=dict(self.dispatcher.counts),
            quarantined=self._quarantined,
        )

    # ---- events

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        self._at(self.now + seconds, event)

    def _at(self, time: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, event))

    def _coordinator(self, event: Callable[[], list[Action]]) -> None:
        """The coordinator does one thing at a time."""
        self._free_at = max(self.now, self._free_at) + self.plan.coordinator
        self._after(self._free_at - self.now, lambda: self._do(event()))

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(name, request):
                    self._first.setdefault(request.key, self.now)
                    board = self._by_name[name]
                    self._after(self.plan.hop, partial(self._deliver, board, request, board.boot))
                case Done(key, outputs, _):
                    self._answers[key] = outputs
                    self._latency.setdefault(key, self.now - self._first[key])
                case Withdrawn(key):
                    self._answers.pop(key, None)
                case Failed(key, reason):
                    self._failed[key] = reason
                case Audit():
                    self._after(0.001, partial(self._audit, action))
                case Quarantined(name, _):
                    self._quarantined.append(name)
        due = self.dispatcher.next_due()
        if due is not None and (self._tick_at is None or due < self._tick_at or self._tick_at <= self.now):
            self._tick_at = max(due, self.now)
            # Not `_after`: now + (due - now) can be a little less than due, and time would stand still.
            self._at(self._tick_at, partial(self._tick, self._tick_at))

    def _audit(self, audit: Audit) -> None:
        self._do(self.dispatcher.audited(self.now, audit.key, right_answer(audit.inputs)))

    def _tick(self, at: float) -> None:
        if at != self._tick_at:
            return  # an earlier one has come between
        self._tick_at = None
        self._do(self.dispatcher.tick(self.now))

    def _deliver(self, b: _Board, request: Request, boot: int) -> None:
        if b.up and b.boot == boot:
            b.inbox.append(request)
            self._work(b)

    def _work(self, b: _Board) -> None:
        if b.up and not b.hung and not b.busy and b.inbox:
            b.busy = True
            request = b.inbox.popleft()
            self._after(b.seconds + self.plan.overhead, lambda: self._finish(b, request, b.boot))

    def _finish(self, b: _Board, request: Request, boot: int) -> None:
        if not b.up or b.boot != boot:
            return
        if b.hung:  # it stands still here, and ends when it goes on
            self._after(0.05, lambda: self._finish(b, request, boot))
            return
        b.busy = False
        y = right_answer(request.inputs)
        if b.liar:
            y = bytes([y[0] ^ 1]) + y[1:]
        answer = Answer(request.key, request.model, request.attempt, Status.OK, boot, int(b.seconds * 1e6), y)
        self._after(
            self.plan.hop,
            lambda: self._coordinator(lambda: self.dispatcher.answer(self.now, b.name, answer)),
        )
        self._work(b)

    def _power(self, b: _Board) -> None:
        b.boot += 1
        b.inbox.clear()
        b.busy = False
        boot = b.boot

        def ready() -> None:
            b.up = True
            self._coordinator(lambda: self.dispatcher.birth(self.now, b.name, boot, 1, [_MODEL]))

        self._after(self.plan.start, ready)

    def _kill(self) -> None:
        alive = [b for b in self._boards if b.up]
        if alive:
            b = self._random.choice(alive)
            b.up = False
            boot = b.boot
            self._coordinator(lambda: self.dispatcher.death(self.now, b.name, boot, 1))
            self._after(self.plan.revive, lambda: self._power(b))
        self._after(self.plan.kill_every, self._kill)

    def _hang(self, b: _Board) -> None:
        b.hung = True

    def _go_on(self, b: _Board) -> None:
        b.hung = False
        self._work(b)
