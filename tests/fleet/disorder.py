"""Any order of events through the dispatcher: a world driven by a list of numbers, and the rules that must hold in it.

The world knows the true state of boards and messages: a board that is up holds requests, messages are on their way
until they are delivered, lost, or delivered twice; wills may come late. `Disorder(numbers).run()` plays the numbers,
then lets the faults end and everything arrive. It raises AssertionError if a request is not answered exactly once, or a
credit is out of range. It also does so if an answer is wrong though every answer was audited, or if nothing goes on
while a board lives.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from mica_fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica_fleet.wire import Answer, Key, Request, Status

MODEL, OTHER = 7, 8
CREDIT = 2


def right(inputs: bytes) -> bytes:
    return bytes(b ^ 0xA5 for b in inputs)


@dataclass
class Board:
    name: str
    liar: bool = False
    up: bool = False
    boot: int = 0
    session: int = 0
    has_model: bool = True
    inbox: list[Request] = field(default_factory=list)


class Disorder:
    def __init__(self, numbers: Sequence[int], boards: int = 4, liars: int = 1) -> None:
        self.numbers = list(numbers)
        self.at = 0
        self.now = 0.0
        self.dispatcher = Dispatcher(Settings(credit=CREDIT, audit=1.0))
        # The first board is honest, and nothing but power is taken from it: a board lives.
        self.boards = [Board(f"b{i}", liar=0 < i <= liars) for i in range(boards)]
        self.by_name = {b.name: b for b in self.boards}
        self.to_coordinator: list[tuple[str, Answer]] = []
        self.wills: list[tuple[str, int, int]] = []
        self.audits: list[Audit] = []
        self.submitted: dict[Key, bytes] = {}
        self.answers: dict[Key, bytes] = {}
        self.failed: dict[Key, str] = {}
        self.quarantined: set[str] = set()

    def draw(self, below: int) -> int:
        if self.at >= len(self.numbers) or below < 1:
            return 0
        self.at += 1
        return self.numbers[self.at - 1] % below

    # ---- what happens

    def run(self) -> None:
        steps = (
            self._submit,
            self._submit,
            self._deliver,
            self._deliver,
            self._answer,
            self._answer,
            self._answer,
            self._lose_answer,
            self._twice,
            self._crash,
            self._start,
            self._start,
            self._reconnect,
            self._will,
            self._audit,
            self._time,
            self._busy,
            self._forget_model,
        )
        while self.at < len(self.numbers):
            steps[self.draw(len(steps))]()
            self._check()
        self._calm()

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(name, request):
                    board = self.by_name[name]
                    assert name not in self.quarantined, "a request to a board in quarantine"
                    if board.up:
                        board.inbox.append(request)
                case Done(key, outputs, _):
                    assert key not in self.answers, f"{key} is answered twice"
                    assert key not in self.failed
                    self.answers[key] = outputs
                case Withdrawn(key):
                    del self.answers[key]
                case Failed(key, reason):
                    assert key not in self.answers and key not in self.failed
                    self.failed[key] = reason
                case Audit():
                    self.audits.append(action)
                case Quarantined(name, _):
                    assert self.by_name[name].liar, f"{name} is honest"
                    self.quarantined.add(name)

    def _submit(self) -> None:
        key = Key(1, len(self.submitted), self.draw(2))
        self.submitted[key] = key.seq.to_bytes(2, "little")
        self._do(self.dispatcher.submit(self.now, key, MODEL, self.submitted[key]))

    def _reply(self, board: Board, request: Request) -> Answer:
        y = right(request.inputs)
        if board.liar and self.draw(2):
            y = bytes([y[0] ^ 1]) + y[1:]
        status, data = (Status.OK, y) if board.has_model else (Status.NO_MODEL, b"")
        return Answer(request.key, request.model, request.attempt, status, board.boot, 5, data)

    def _working(self) -> list[Board]:
        return [b for b in self.boards if b.up and b.inbox]

    def _deliver(self) -> None:
        """A board works on its oldest request; the answer is on its way."""
        if working := self._working():
            board = working[self.draw(len(working))]
            self.to_coordinator.append((board.name, self._reply(board, board.inbox.pop(0))))

    def _answer(self) -> None:
        if self.to_coordinator:
            name, answer = self.to_coordinator.pop(self.draw(len(self.to_coordinator)))
            self._do(self.dispatcher.answer(self.now, name, answer))

    def _lose_answer(self) -> None:
        if self.to_coordinator:
            self.to_coordinator.pop(self.draw(len(self.to_coordinator)))

    def _twice(self) -> None:
        if self.to_coordinator:
            self.to_coordinator.append(self.to_coordinator[self.draw(len(self.to_coordinator))])

    def _crash(self) -> None:
        board = self.boards[self.draw(len(self.boards))]
        if board.up:
            board.up = False
            board.inbox.clear()
            self.wills.append((board.name, board.boot, board.session))

    def _start(self) -> None:
        board = self.boards[self.draw(len(self.boards))]
        if not board.up:
            board.up, board.boot, board.session, board.has_model = True, board.boot + 1, 1, True
            self._birth(board)

    def _reconnect(self) -> None:
        board = self.boards[self.draw(len(self.boards))]
        if board.up:
            self.wills.append((board.name, board.boot, board.session))
            board.session += 1
            board.inbox.clear()
            self._birth(board)

    def _birth(self, board: Board) -> None:
        models = [MODEL] if board.has_model else [OTHER]
        self._do(self.dispatcher.birth(self.now, board.name, board.boot, board.session, models))

    def _will(self) -> None:
        if self.wills:
            self._do(self.dispatcher.death(self.now, *self.wills.pop(self.draw(len(self.wills)))))

    def _audit(self) -> None:
        if self.audits:
            audit = self.audits.pop(self.draw(len(self.audits)))
            self._do(self.dispatcher.audited(self.now, audit.key, right(audit.inputs)))

    def _time(self) -> None:
        self.now += (0.01, 0.1, 0.6, 3.0)[self.draw(4)]
        self._do(self.dispatcher.tick(self.now))

    def _busy(self) -> None:
        if working := self._working():
            board = working[self.draw(len(working))]
            r = board.inbox.pop(0)
            self.to_coordinator.append((board.name, Answer(r.key, r.model, r.attempt, Status.BUSY, board.boot, 0, b"")))

    def _forget_model(self) -> None:
        board = self.boards[self.draw(len(self.boards))]
        if board is not self.boards[0]:
            board.has_model = False

    # ---- what must hold

    def _check(self) -> None:
        for board in self.boards:
            if board.name in self.dispatcher.boards():
                assert 0 <= self.dispatcher.load(board.name) <= CREDIT

    def _calm(self) -> None:
        """No more faults: everything arrives, and the first board is there. Then all must be answered, soon."""
        if not self.boards[0].up:
            self.boards[0].up, self.boards[0].boot, self.boards[0].session = True, self.boards[0].boot + 1, 1
            self._birth(self.boards[0])
        for _ in range(20 * len(self.submitted) + 400):
            while self.wills:
                self._will()
            while self._working():
                self._deliver()
            while self.to_coordinator:
                self._answer()
            while self.audits:
                self._audit()
            self._check()
            if not self._working() and not self.to_coordinator:
                due = self.dispatcher.next_due()
                if due is None:
                    break
                self.now = max(self.now, due)
                self._do(self.dispatcher.tick(self.now))
        left = set(self.submitted) - set(self.answers) - set(self.failed)
        assert not left, f"never answered: {sorted(left)}"
        assert self.dispatcher.unanswered() == 0
        wrong = [k for k, y in self.answers.items() if y != right(self.submitted[k])]
        assert not wrong, f"wrong: {wrong}"
        assert all("set aside" in reason for reason in self.failed.values()), self.failed


def orders(n: int, seed: int) -> None:
    """Play n random orders, of up to 400 events, five boards and two liars. Raises AssertionError with a faulty one."""
    chance = random.Random(seed)
    for k in range(n):
        numbers = [chance.randrange(1 << 16) for _ in range(chance.randrange(20, 400))]
        boards, liars = chance.randrange(1, 6), chance.randrange(3)
        try:
            Disorder(numbers, boards, liars).run()
        except AssertionError as e:
            raise AssertionError(f"seed {seed}, order {k}, {boards} boards, {liars} liars: {e}") from None
