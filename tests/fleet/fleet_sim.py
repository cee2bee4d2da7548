"""A fleet on a virtual clock: the real dispatcher, boards that take as long as they are told to, and faults.

    Simulation(Plan(boards=[0.02] * 8, requests=2000, kill_every=0.5)).run() -> Report

A board works on one request at a time, in the order of coming. Every message takes `hop` seconds;
the coordinator is busy for `coordinator` seconds with each answer (80 us were measured with a prototype in Python).
What a simulation leaves out: the load of the machine that the broker and the coordinator run on, and the radio.
"""

import gc
import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet_returns import returns

from mica_fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica_fleet.stages import UNDER_WAY
from mica_fleet.wire import Answer, Key, Request, Status

Event = Callable[..., None]

_MODEL = 1
_AUDIT = 0.001  # seconds that one takes, beside the coordinator's work


@dataclass(frozen=True)
class Plan:
    """Seconds and counts. `boards` are the seconds that each takes for a run. `liars` answer one bit wrong."""

    boards: Sequence[float]
    requests: int
    hop: float = 0.0006
    overhead: float = 0.0004  # of a board, for each request
    coordinator: float = 0.00008
    broker: float = 0.000012  # of the broker, for each message: a request is two
    kill_every: float = 0.0  # a random board loses power so often
    revive: float = 1.0  # and is back after so long
    start: float = 0.12  # from power to the first request
    begin: float = 0.0  # when the requests come
    hang: Sequence[tuple[int, float, float]] = ()  # (board, from, until): it stops, and goes on
    parts: bool = False  # each board has a part of one model, in order; a request passes all of them
    restart: tuple[float, float] | None = None  # the broker dies then, and is away for so long
    liars: Sequence[int] = ()
    seed: int = 0
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Report:
    """Results of a simulation. `seconds` are of the virtual clock, latencies from the first sending to the first
    answer."""

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
    __slots__ = ("boot", "free_at", "hung", "liar", "name", "number", "seconds", "session", "up")

    def __init__(self, number: int, seconds: float, liar: bool) -> None:
        self.name = f"b{number}"
        self.number = number
        self.seconds = seconds
        self.liar = liar
        self.boot = 0
        self.session = 1
        self.up = False
        self.hung = False
        self.free_at = 0.0  # when it has done what it was sent


def right_answer(inputs: bytes) -> bytes:
    """The answer of the simulated model."""
    return bytes(b ^ 0x55 for b in inputs)


class Simulation:
    def __init__(self, plan: Plan) -> None:
        if plan.parts and plan.liars:
            raise ValueError("what is withdrawn of a model in parts is not simulated")
        self.plan = plan
        self.now = 0.0
        self.dispatcher = Dispatcher(plan.settings, plan.seed)
        self._random = random.Random(plan.seed)
        self._events: list[tuple[float, int, Event, tuple[Any, ...]]] = []
        self._number = 0
        liars = frozenset(plan.liars)
        self._boards = [_Board(i, s, i in liars) for i, s in enumerate(plan.boards)]
        self._by_name = {b.name: b for b in self._boards}
        self._first: dict[Key, float] = {}
        self._answers: dict[Key, bytes] = {}
        self._latency: dict[Key, float] = {}
        self._failed: dict[Key, str] = {}
        self._quarantined: list[str] = []
        # What has come to the coordinator, and when it has dealt with that: it does one thing after the other.
        self._inbox: deque[tuple[float, Event, tuple[Any, ...]]] = deque()
        self._coordinator_free = 0.0
        self._broker_free = 0.0
        self._submitted = 0
        self._broker_back = 0.0  # until then it is away
        self._tick_at: float | None = None

    def run(self, give_up: float = 60.0) -> Report:
        """Until every request has an answer, or nothing has come for `give_up` seconds."""
        collects = gc.isenabled()
        gc.disable()  # nothing here refers to itself, and looking for what does takes a third of the time
        try:
            return self._run(give_up)
        finally:
            if collects:
                gc.enable()

    def _run(self, give_up: float) -> Report:
        p = self.plan
        for board in self._boards:
            self._power(board)
        if p.begin:
            self._at(p.begin, self._submit)
        else:
            self._submit()
        if p.kill_every:
            self._at(p.start + p.kill_every, self._kill)
        if p.restart is not None:
            self._at(p.restart[0], self._broker_dies)
        for number, begin, end in p.hang:
            self._at(begin, self._hang, self._boards[number], True)
            self._at(end, self._hang, self._boards[number], False)
        events, inbox, dispatcher, answers, failed = (
            self._events,
            self._inbox,
            self.dispatcher,
            self._answers,
            self._failed,
        )
        progress, done = p.begin, 0
        while (events or inbox) and (len(answers) + len(failed) < p.requests or dispatcher.audits_open()):
            if inbox and (not events or inbox[0][0] <= events[0][0]):
                self.now, event, given = inbox.popleft()
            else:
                self.now, _, event, given = heapq.heappop(events)
            event(*given)
            if len(answers) != done:
                progress, done = self.now, len(answers)
            if self.now - progress > give_up:
                break
        return self._report(progress)

    def _report(self, end: float) -> Report:
        p = self.plan
        seconds = max(end - max(p.start, p.begin), 1e-9)
        latencies = sorted(self._latency.values()) or [0.0]
        wrong = sum(1 for k, y in self._answers.items() if y != self._right(k.seq))

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

    def _right(self, seq: int) -> bytes:
        y = seq.to_bytes(4, "little")
        for _ in range(len(self._boards) if self.plan.parts else 1):
            y = right_answer(y)
        return y

    # ---- events

    def _at(self, time: float, event: Event, *given: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, event, given))

    def _coordinator(self, seconds: float, event: Event, *given: Any) -> None:
        """This has come to the coordinator, which is busy with it for so long when its turn is."""
        self._coordinator_free = max(self.now, self._coordinator_free) + seconds
        self._inbox.append((self._coordinator_free, event, given))

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(name, request):
                    if request.key not in self._first:
                        self._first[request.key] = self.now
                    self._send(self._by_name[name], request)
                case Done(key, outputs, _) if self.plan.parts and key.stage + 1 < len(self._boards):
                    after = Key(key.job, key.seq, key.stage + 1)
                    actions += self.dispatcher.submit(self.now, after, _MODEL + after.stage, outputs)
                case Done(key, outputs, _):
                    self._answers[key] = outputs
                    if key not in self._latency:
                        self._latency[key] = self.now - self._first[key]
                case Withdrawn(key):
                    self._answers.pop(key, None)
                case Failed(key, reason):
                    self._failed[key] = reason
                case Audit():
                    self._at(self.now + _AUDIT, self._audit, action)
                case Quarantined(name, _):
                    self._quarantined.append(name)
        if self._submitted and self.plan.parts:
            self._submit()
        due = self.dispatcher.next_due()
        if due is not None and (self._tick_at is None or (due < self._tick_at and self.now < self._tick_at)):
            self._tick_at = max(due, self.now)
            self._at(self._tick_at, self._tick, self._tick_at)

    def _submit(self) -> None:
        """All requests; of a model in parts as many as boards have use for (coordinator.py)."""
        p = self.plan
        while self._submitted < p.requests and (
            not p.parts or self._submitted - len(self._answers) < UNDER_WAY + 4 * len(self._boards)
        ):
            seq = self._submitted
            self._submitted += 1
            self._do(self.dispatcher.submit(self.now, Key(1, seq), _MODEL, seq.to_bytes(4, "little")))

    def _audit(self, audit: Audit) -> None:
        self._do(self.dispatcher.audited(self.now, audit.key, right_answer(audit.inputs)))

    def _tick(self, at: float) -> None:
        """After all that had come by then, as the coordinator does it."""
        if at == self._tick_at:  # else an earlier one has come between
            self._coordinator(0.0, self._tick_now, at)

    def _tick_now(self, at: float) -> None:
        self._tick_at = None
        self._do(self.dispatcher.tick(at))

    def _broker(self) -> float:
        """When the broker has passed on what comes to it now."""
        self._broker_free = max(self.now, self._broker_free) + self.plan.broker
        return self._broker_free

    def _send(self, b: _Board, request: Request) -> None:
        """It is on its way, and the board works on what it gets in the order of coming."""
        if b.up and self.now >= self._broker_back:
            b.free_at = max(self._broker() + self.plan.hop, b.free_at) + b.seconds + self.plan.overhead
            self._at(b.free_at, self._finish, b, request, b.boot, b.session)

    def _finish(self, b: _Board, request: Request, boot: int, session: int) -> None:
        if not b.up or b.boot != boot or b.session != session:
            return
        if b.hung:  # it stands still here, and ends when it goes on
            b.free_at = max(b.free_at, self.now + 0.05)
            self._at(self.now + 0.05, self._finish, b, request, boot, session)
            return
        y = right_answer(request.inputs)
        if b.liar:
            y = bytes([y[0] ^ 1]) + y[1:]
        answer = Answer(request.key, request.model, request.attempt, Status.OK, boot, int(b.seconds * 1e6), y)
        self._at(self._broker() + self.plan.hop, self._arrive, b.name, answer)

    def _arrive(self, name: str, answer: Answer) -> None:
        self._coordinator(self.plan.coordinator, self._answer, name, answer)

    def _answer(self, name: str, answer: Answer) -> None:
        self._do(self.dispatcher.answer(self.now, name, answer))

    def _power(self, b: _Board) -> None:
        b.boot += 1
        b.session = 1
        self._at(self.now + self.plan.start, self._ready, b, b.boot, b.session)

    def _ready(self, b: _Board, boot: int, session: int) -> None:
        if self.now < self._broker_back:
            self._at(self._broker_back, self._ready, b, boot, session)
            return
        b.up = True
        b.free_at = 0.0
        self._coordinator(self.plan.coordinator, self._birth, b.name, boot, session)

    def _birth(self, name: str, boot: int, session: int) -> None:
        model = _MODEL + (self._by_name[name].number if self.plan.parts else 0)
        self._do(self.dispatcher.birth(self.now, name, boot, session, [model]))

    def _death(self, name: str, boot: int, session: int) -> None:
        self._do(self.dispatcher.death(self.now, name, boot, session))

    def _kill(self) -> None:
        alive = [b for b in self._boards if b.up]
        if alive:
            b = self._random.choice(alive)
            b.up = False
            self._coordinator(self.plan.coordinator, self._death, b.name, b.boot, b.session)
            self._at(self.now + self.plan.revive, self._power, b)
        self._at(self.now + self.plan.kill_every, self._kill)

    def _broker_dies(self) -> None:
        """Messages on their way are lost. Boards live on, and come back as they can, each with its next session."""
        assert self.plan.restart is not None
        self._broker_back = self.now + self.plan.restart[1]
        away = [b for b in self._boards if b.up]
        self._random.shuffle(away)
        for b, seconds in zip(away, returns(len(away), self.plan.restart[1], coordinator=0.0), strict=False):
            b.session += 1
            b.free_at = 0.0
            self._at(self._broker_back + seconds, self._back, b, b.boot, b.session)

    def _back(self, b: _Board, boot: int, session: int) -> None:
        if b.up and b.boot == boot:
            self._coordinator(self.plan.coordinator, self._birth, b.name, boot, session)

    def _hang(self, b: _Board, hung: bool) -> None:
        b.hung = hung
