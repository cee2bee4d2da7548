"""Who gets which request, and what happens when nobody answers. No I/O: events in, actions out, the clock is given.

    submit, birth, death, answer, audited, tick  ->  Send, Done, Withdrawn, Failed, Audit, Quarantined

Every board has an inbox of its own and a credit of two requests, so that the next one is there when one ends. The answer is the
acknowledgement. A request is asked again, before all others, when its board is lost, has a new session, or is late; the first
right answer of a board that was asked counts. Since one file gives the same bytes everywhere, a second answer must be equal, and
the host can compute any answer itself: a share is audited so, and a board that differs is put in quarantine and its unaudited
answers are asked again. Of N boards with a model none gives more than 1/N of its answers unaudited, however fast it is. A late
answer is compared for a while after its request was forgotten.

A late board keeps its credit until it answers, says goodbye or is born again, so a board that hangs costs two requests, not
1/N of all. After three leases it is suspect, and is tried with one request at a time. Credit ends with the session, not with
the time-out; a will of an older session says nothing.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from mica.errors import MicaError
from mica.fleet.wire import Answer, Key, Request, Status
from mica.printable import printable

# ---- actions


@dataclass(frozen=True)
class Send:
    board: str
    request: Request


@dataclass(frozen=True)
class Done:
    """The answer of a request. `board` is "host" where an audit has replaced a wrong one."""

    key: Key
    outputs: bytes
    board: str


@dataclass(frozen=True)
class Withdrawn:
    """What Done said of this request does not hold: it came from a board that lies. Another Done follows."""

    key: Key


@dataclass(frozen=True)
class Failed:
    """The request is given up; `reason` is for people."""

    key: Key
    reason: str


@dataclass(frozen=True)
class Audit:
    """Compute this on the host, and call `audited` with the outputs."""

    key: Key
    model: int
    inputs: bytes


@dataclass(frozen=True)
class Quarantined:
    board: str
    asked_again: int  # its answers that nobody had audited


Action = Send | Done | Withdrawn | Failed | Audit | Quarantined


@dataclass(frozen=True)
class Settings:
    """Seconds, and counts. `audit` is the share of answers that the host computes again."""

    credit: int = 2
    least_lease: float = 0.5
    lease_of_expected: float = 4.0  # times the seconds that the caller expects
    lease_of_p99: float = 3.0  # times the 99th percentile of what was measured
    hedge_of_p99: float = 1.5
    audit: float = 0.01
    first_audits: int = 3  # of each board, whatever `audit` says
    late_leases: int = 3  # until a board is suspect, and gets one request at a time
    deaths: int = 3  # boards lost while they worked on one request: it is set aside
    most_deaths: int = 8  # for each board lost on something else meanwhile one more is allowed, up to so many
    failures: int = 3  # answers that say FAILED or BAD_REQUEST
    busy_seconds: float = 0.05  # until a board that was busy is asked again

    def __post_init__(self) -> None:
        if self.credit < 1 or not 0 <= self.audit <= 1:
            raise MicaError(f"credit {self.credit}, audit {self.audit}: expected 1 or more, and a share from 0 to 1")


# ---- state

_LONGEST_TEXT = 500  # bytes of a board's reason
_SAVED = 16.0  # answers of a board's share that it may save up
_MOST_OPEN = 64  # attempts of one request that may still be answered
_MOST_PAST, _PAST_SECONDS = 1000, 60.0  # requests that were forgotten, and late answers may be compared with


@dataclass(slots=True, eq=False)
class _Work:
    """A request. It is waiting (`queued`), asked (`asked` has boards), answered (`outputs`), or given up."""

    key: Key
    model: int
    inputs: bytes
    expected: float
    number: int
    deadline: int
    size: int | None = None  # of the outputs, where it is known
    asked: dict[str, int] = field(default_factory=dict)  # board -> attempt, of those that may still answer in time
    open: dict[tuple[str, int], None] = field(default_factory=dict)  # board and attempt, of those that may still answer
    attempts: int = 0
    sent: float = 0.0  # when it was last sent
    queued: bool = False
    outputs: bytes | None = None
    by: str = ""
    given_up: bool = False
    deaths: int = 0  # boards lost that were at work on it
    crashes: int = -1  # boards that the fleet had lost when it was first sent
    failures: int = 0
    failed: set[str] = field(default_factory=set)  # boards that said so
    last_text: str = ""
    others: dict[str, bytes] = field(default_factory=dict)  # later answers that differ, until the audit
    auditing: bool = False


@dataclass(slots=True, eq=False)
class _Held:
    work: _Work
    attempt: int
    sent: float
    lease: float
    late: int = 0


@dataclass(slots=True)
class _Share:
    """How many answers to a model a board may give unaudited: 1/N of all that came since, and no more than _SAVED at once."""

    left: float = 0.0
    seen: int = 0  # answers to the model, when `left` was true


@dataclass(slots=True, eq=False)
class _Board:
    name: str
    boot: int
    session: int
    models: set[int]
    up: bool = True
    quarantined: bool = False
    suspect: bool = False
    busy_until: float = 0.0
    held: dict[tuple[Key, int], _Held] = field(default_factory=dict)  # in the order of sending
    answered: int = 0
    audited: int = 0
    unaudited: set[Key] = field(default_factory=set)
    owns: frozenset[int] = frozenset()  # models that it is counted for in _Model.owners
    shares: dict[int, _Share] = field(default_factory=dict)  # by model
    alone: bool = False  # it holds a request that two boards did not survive
    places: list[OrderedDict[str, None]] = field(default_factory=list)  # lists of free boards that it stands in
    state: str = ""  # as counted in Dispatcher.states


class _Latencies:
    """The 99th percentile of the last answers' seconds, from sending to answer."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=256)
        self._new = 0
        self._p99 = 0.0

    def add(self, seconds: float) -> None:
        self._last.append(seconds)
        self._new += 1
        if self._new >= 32 or len(self._last) <= 32:
            self._new = 0
            self._p99 = sorted(self._last)[int(0.99 * (len(self._last) - 1))]

    @property
    def p99(self) -> float:
        """Seconds; 0 before the first answer."""
        return self._p99


class _Model:
    """What is waiting for one model, who is free for it, and how long it takes."""

    def __init__(self, credit: int) -> None:
        self.queue: list[tuple[tuple[int, int, int], _Work]] = []
        self.waiting = 0
        # Taken from the front all the time, which a dict is slow at: it looks at every place that was emptied.
        self.free: list[OrderedDict[str, None]] = [
            OrderedDict() for _ in range(credit)
        ]  # by load; in the order of coming
        self.once: OrderedDict[Key, _Work] = OrderedDict()  # asked of one board only, oldest first
        self.owners = 0  # boards at work that have it
        self.answers = 0
        self.latencies = _Latencies()


class Dispatcher:
    """Gives requests to boards. Every method takes the time in seconds, of any clock that only goes forward, and returns what
    is to be done. `counts` are for people: sent, answers, duplicates, unasked, asked_again, late, lost_boards, old_wills, audits.

    No event costs more the more boards there are, but for the heaps' log n. `states`: how many boards are up, down, suspect or quarantined;
    `changes` grows with each change of one.
    """

    def __init__(self, settings: Settings | None = None, seed: int = 0) -> None:
        self.settings = settings or Settings()
        self.counts: Counter[str] = Counter()
        self._crashes = 0  # boards lost, whatever they were at work on
        self.states: Counter[str] = Counter()
        self.changes = 0
        self._random = random.Random(seed)
        self._boards: dict[str, _Board] = {}
        self._works: dict[Key, _Work] = {}
        self._past: OrderedDict[Key, _Work] = OrderedDict()  # forgotten; boards that were asked may still answer
        self._models: dict[int, _Model] = {}
        self._leases: list[tuple[float, int, str, Key, int]] = []
        self._wakes: list[tuple[float, str]] = []
        self._number = 0  # of works, and of leases: ties are broken by it
        self._up = 0
        self._auditing = 0  # works

    # ---- events

    def submit(
        self,
        now: float,
        key: Key,
        model: int,
        inputs: bytes,
        expected: float = 0.0,
        deadline: int = 0,
        size: int | None = None,
    ) -> list[Action]:
        """A new request for the model with this CRC-32. `expected` is what one run takes, in seconds, where it is known; `size` the bytes of the
        outputs: an answer of another size is wrong."""
        if key in self._works:
            raise MicaError(f"request {key} was submitted before")
        self._number += 1
        work = _Work(key, model, inputs, expected, self._number, deadline, size)
        self._works[key] = work
        self._past.pop(key, None)
        if model not in self._models:
            self._begin_model(now, model)
        self._queue(work)
        return self._pump(now, [model])

    def birth(self, now: float, board: str, boot: int, session: int, models: Collection[int]) -> list[Action]:
        """A board says that it is there. A new boot or session: what was on its way to it is gone."""
        b = self._boards.get(board)
        actions: list[Action] = []
        if b is None:
            b = self._boards[board] = _Board(board, boot, session, set(models))
            self._up += 1
        else:
            if not b.up:
                self._up += 1
            if (b.boot, b.session) != (boot, session):
                actions += self._lose(b, crashed=b.boot != boot and b.up)
                b.busy_until, b.suspect = 0.0, False
            b.boot, b.session, b.up = boot, session, True
            b.models = set(models)
        self._place(b, now)
        return actions + self._pump(now)

    def death(self, now: float, board: str, boot: int, session: int) -> list[Action]:
        """A board's will, or its goodbye. One of another session than the current says nothing."""
        b = self._boards.get(board)
        if b is None or not b.up or (b.boot, b.session) != (boot, session):
            self.counts["old_wills"] += 1
            return []
        b.up = False
        self._up -= 1
        self.counts["lost_boards"] += 1
        actions = self._lose(b, crashed=True)
        self._place(b, now)
        return actions + self._pump(now)

    def answer(self, now: float, board: str, answer: Answer) -> list[Action]:
        b = self._boards.get(board)
        if b is None or b.quarantined:
            self.counts["ignored_answers"] += 1
            return []
        held = b.held.pop((answer.key, answer.attempt), None) if answer.boot == b.boot else None
        work = self._works.get(answer.key) or self._past.get(answer.key)
        if work is not None and (board, answer.attempt) not in work.open:
            work = None
        if work is not None:
            del work.open[board, answer.attempt]
        elif held is None:  # and not of a request that was abandoned
            self.counts["unasked"] += 1
            return []
        actions: list[Action] = []
        if held is not None:
            if work is held.work and work.asked.get(board) == answer.attempt:
                del work.asked[board]
                self._no_longer_once(work)
            if not held.late:
                b.suspect = False
            b.alone = False
        if work is not None and work.model == answer.model:
            actions = self._take(now, b, work, answer, held)
        elif work is not None and held is not None:
            self._ask_again(work)  # the board has answered of another model than it was asked for
        self._place(b, now)
        return actions + self._pump(now)

    def audited(self, now: float, key: Key, outputs: bytes) -> list[Action]:
        """What the host's own engine gives for a request that Audit named."""
        work = self._works.get(key) or self._past.pop(key, None)
        if work is None or not work.auditing:
            return []
        work.auditing = False
        self._auditing -= 1
        self.counts["audits"] += 1
        actions: list[Action] = []
        liars = [name for name, other in work.others.items() if other != outputs]
        work.others = {}
        if work.outputs is not None:
            by = self._boards.get(work.by)
            if by is not None:
                by.unaudited.discard(key)
            if work.outputs != outputs:
                liars.append(work.by)
                work.outputs, work.by = outputs, "host"
                if key in self._works:
                    actions += [Withdrawn(key), Done(key, outputs, "host")]
            elif by is not None:
                by.audited += 1
        for name in liars:
            actions += self._quarantine(now, name)
        return actions + self._pump(now)

    def tick(self, now: float) -> list[Action]:
        """The time is now. Call it when `next_due` says so; more often does no harm. A caller that has a queue of events gives the time up to which
        it has taken all of them, or what has been answered would be late."""
        while self._leases and self._leases[0][0] <= now:
            _, _, name, key, attempt = heapq.heappop(self._leases)
            b = self._boards[name]
            held = b.held.get((key, attempt))
            if held is None:
                continue
            held.late += 1
            self.counts["late"] += 1
            work = held.work
            if held.late == 1:
                if work.asked.get(name) == attempt:
                    del work.asked[name]
                    self._no_longer_once(work)
                if not work.asked:
                    self._ask_again(work)
            if held.late < self.settings.late_leases:
                self._lease(b, held, now)
            else:
                # Its answer may have been lost alone, so the credit cannot be kept for ever: from now on it is tried out.
                del b.held[key, attempt]
                b.suspect, b.alone = True, False
                self._place(b, now)
        while self._past and next(iter(self._past.values())).sent < now - _PAST_SECONDS:
            self._drop_past()
        while self._wakes and self._wakes[0][0] <= now:
            _, name = heapq.heappop(self._wakes)
            self._place(self._boards[name], now)
        return self._pump(now)

    def next_due(self) -> float | None:
        """When `tick` has something to do, unless another event comes first; None for never."""
        while self._leases and (self._leases[0][3], self._leases[0][4]) not in self._boards[self._leases[0][2]].held:
            heapq.heappop(self._leases)  # answered
        found = self._leases[0][0] if self._leases else None
        if self._wakes and (found is None or self._wakes[0][0] < found):
            found = self._wakes[0][0]
        for m in self._models.values():
            if (due := self._hedge_due(m)) is not None and (found is None or due < found):
                found = due
        return found

    # ---- what people and commands ask

    def forget(self, keys: Iterable[Key]) -> None:
        """Drop requests that are answered and no longer of interest. What others that were asked answer later is compared for a while."""
        for key in keys:
            work = self._works.get(key)
            if work is not None and (work.outputs is not None or work.given_up) and not work.auditing:
                del self._works[key]
                if work.outputs is not None and any(board != work.by for board, _ in work.open):
                    self._past[key] = work
                    if len(self._past) > _MOST_PAST:
                        self._drop_past()
                if by := self._boards.get(work.by):
                    by.unaudited.discard(key)

    def abandon(self, key: Key) -> None:
        """Drop a request that nobody waits for; boards that have it may still answer."""
        work = self._works.pop(key, None)
        if work is not None:
            work.given_up = True
            self._auditing -= work.auditing
            self._no_longer_once(work)
            if by := self._boards.get(work.by):
                by.unaudited.discard(key)

    def release(self, now: float, board: str) -> list[Action]:
        """Take a board out of quarantine: somebody has mended it."""
        b = self._boards[board]
        b.quarantined, b.answered, b.audited, b.shares = False, 0, 0, {}
        self._place(b, now)
        return self._pump(now)

    def unanswered(self) -> int:
        return sum(1 for w in self._works.values() if w.outputs is None and not w.given_up)

    def audits_open(self) -> int:
        return self._auditing

    def homeless(self) -> dict[int, int]:
        """Models that requests wait for and no board at work has -> how many wait."""
        have = {m for b in self._boards.values() if b.up and not b.quarantined for m in b.models}
        return {crc: m.waiting for crc, m in self._models.items() if m.waiting and crc not in have}

    def boards(self) -> dict[str, str]:
        """Name -> up, down, suspect or quarantined."""

        return {name: b.state for name, b in self._boards.items()}

    @property
    def known(self) -> int:
        """How many boards there are, in any state."""
        return len(self._boards)

    def load(self, board: str) -> int:
        """How many requests the board holds."""
        return len(self._boards[board].held)

    # ---- inside

    def _begin_model(self, now: float, crc: int) -> None:
        """Somebody asks for it the first time: from now on boards that have it are counted, and stand ready."""
        self._models[crc] = _Model(self.settings.credit)
        for b in self._boards.values():
            if crc in b.models:
                self._place(b, now)

    def _drop_past(self) -> None:
        _, work = self._past.popitem(last=False)
        self._auditing -= work.auditing

    def _queue(self, work: _Work, again: bool = False) -> None:
        """Asked again goes before all others; then later stages, then the order of submission."""
        work.queued = True
        m = self._models[work.model]
        m.waiting += 1
        heapq.heappush(m.queue, ((0 if again else 1, -work.key.stage, work.number), work))

    def _ask_again(self, work: _Work) -> None:
        if work.outputs is None and not work.given_up and not work.queued:
            self.counts["asked_again"] += 1
            self._queue(work, again=True)

    def _no_longer_once(self, work: _Work) -> None:
        self._models[work.model].once.pop(work.key, None)

    def _give_up(self, work: _Work, reason: str) -> list[Action]:
        work.given_up = True
        return [Failed(work.key, reason)]

    def _lose(self, b: _Board, crashed: bool) -> list[Action]:
        """All that the board held is asked again. It was at work on the oldest: if it crashed, that one is to blame, unless boards
        crash without it as well."""
        self._crashes += crashed
        held, b.held, b.alone = list(b.held.values()), {}, False
        actions: list[Action] = []
        for k, h in enumerate(held):
            work = h.work
            if work.asked.get(b.name) == h.attempt:
                del work.asked[b.name]
                self._no_longer_once(work)
            if work.outputs is not None or work.given_up:
                continue
            if k == 0 and crashed:
                work.deaths += 1
                others = self._crashes - work.crashes - work.deaths
                if work.deaths >= min(self.settings.deaths + others, self.settings.most_deaths):
                    actions += self._give_up(work, f"set aside: {work.deaths} boards were lost while they worked on it")
                    continue
            if not work.asked:
                self._ask_again(work)
        return actions

    def _take(self, now: float, b: _Board, work: _Work, answer: Answer, held: _Held | None) -> list[Action]:
        if work.given_up:
            return []
        if answer.status is Status.OK:
            if work.size is not None and len(answer.data) != work.size:
                return self._differs(b, work, answer.data)
            return self._accept(now, b, work, answer.data, held)
        if held is None or work.outputs is not None:
            return []
        if answer.status is Status.BUSY:
            b.busy_until = now + self.settings.busy_seconds
            heapq.heappush(self._wakes, (b.busy_until, b.name))
        elif answer.status is Status.NO_MODEL:
            b.models.discard(work.model)
        else:
            work.failures += 1
            work.failed.add(b.name)
            work.last_text = printable(answer.data[:_LONGEST_TEXT].decode("utf-8", "replace"))
            if work.failures >= self.settings.failures:
                return self._give_up(work, f"{b.name}: {work.last_text or answer.status.name}")
        if not work.asked:
            self._ask_again(work)
        return []

    def _accept(self, now: float, b: _Board, work: _Work, outputs: bytes, held: _Held | None) -> list[Action]:
        self.counts["answers"] += 1
        if work.outputs is not None:
            self.counts["duplicates"] += 1
            return [] if outputs == work.outputs else self._differs(b, work, outputs)
        b.answered += 1
        if held is not None:
            self._models[work.model].latencies.add(now - held.sent)
        work.outputs, work.by = outputs, b.name
        self._no_longer_once(work)
        actions: list[Action] = [Done(work.key, outputs, b.name)]
        b.unaudited.add(work.key)
        m = self._models[work.model]
        m.answers += 1
        chosen = b.answered <= self.settings.first_audits or self._random.random() < self.settings.audit
        if chosen or (self.settings.audit and not self._within_share(b, m, work.model)):
            actions += self._audit(work)
        return actions

    def _within_share(self, b: _Board, m: _Model, model: int) -> bool:
        """True: the board may give one more answer unaudited, and it counts."""
        share = b.shares.setdefault(model, _Share())
        share.left = min(_SAVED, share.left + (m.answers - share.seen) / max(1, m.owners))
        share.seen = m.answers
        if share.left < 1:
            return False
        share.left -= 1
        return True

    def _differs(self, b: _Board, work: _Work, outputs: bytes) -> list[Action]:
        """One of two answers is wrong, or this one has a size that none has."""
        self.counts["differences"] += 1
        work.others[b.name] = outputs
        if not work.asked:
            self._ask_again(work)
        return self._audit(work)

    def _audit(self, work: _Work) -> list[Action]:
        if work.auditing:
            return []
        work.auditing = True
        self._auditing += 1
        return [Audit(work.key, work.model, work.inputs)]

    def _quarantine(self, now: float, name: str) -> list[Action]:
        b = self._boards.get(name)
        if b is None or b.quarantined:
            return []
        b.quarantined = True
        self.counts["quarantined"] += 1
        actions = self._lose(b, crashed=False)
        again = sorted(b.unaudited)
        b.unaudited = set()
        asked = 0
        for key in again:
            work = self._works.get(key)
            if work is None or work.by != name or work.outputs is None or work.auditing:
                continue  # its audit is under way, and decides
            work.outputs, work.by = None, ""
            asked += 1
            actions.append(Withdrawn(key))
            self._ask_again(work)
        self._place(b, now)
        return [Quarantined(name, asked), *actions]

    def _limit(self, b: _Board, now: float) -> int:
        """How many requests the board may hold."""
        if not b.up or b.quarantined or b.alone or now < b.busy_until:
            return 0
        return 1 if b.suspect else self.settings.credit

    def _place(self, b: _Board, now: float) -> None:
        """Put the board where the free ones are, by its load; or nowhere."""
        state = "quarantined" if b.quarantined else "down" if not b.up else "suspect" if b.suspect else "up"
        if state != b.state:
            self.states[b.state] -= bool(b.state)
            self.states[state] += 1
            b.state = state
            self.changes += 1
        owns = frozenset(b.models & self._models.keys()) if b.up and not b.quarantined else frozenset()
        if owns != b.owns:
            for model in owns ^ b.owns:
                self._models[model].owners += 1 if model in owns else -1
            b.owns = owns
        for place in b.places:
            place.pop(b.name, None)
        b.places = []
        load = len(b.held)
        if load < self._limit(b, now):
            # A suspect is tried with what nobody else is free for.
            b.places = [self._models[model].free[-1 if b.suspect else load] for model in owns]
            for place in b.places:
                place[b.name] = None

    def _pick(self, m: _Model, work: _Work) -> _Board | None:
        """The free board with the least to do that has not this very request. One that has killed boards wants an idle one, which a
        suspect may be, too. One that a board has failed at waits for another board, where there is one."""
        failed = work.failed if work.failed and self._others(work) else ()
        dangerous = work.deaths >= self.settings.deaths - 1
        for free in m.free:
            for name in free:
                b = self._boards[name]
                if not (name in failed or (dangerous and b.held) or any(h.work is work for h in b.held.values())):
                    return b
        return None

    def _others(self, work: _Work) -> bool:
        """True: a board has the model that has not failed at this request."""
        among = (b for b in self._boards.values() if work.model in b.owns and not b.suspect)
        return any(b.name not in work.failed for b in among)

    def _send(self, now: float, b: _Board, work: _Work) -> Send:
        work.attempts = (work.attempts + 1) & 0xFFFF
        if work.crashes < 0:
            work.crashes = self._crashes
        held = _Held(work, work.attempts, now, self._lease_seconds(work))
        m = self._models[work.model]
        m.once.pop(work.key, None)
        if not work.asked:
            m.once[work.key] = work
        work.asked[b.name] = work.attempts
        work.open[b.name, work.attempts] = None
        if len(work.open) > _MOST_OPEN:
            del work.open[next(iter(work.open))]
        work.sent = now
        b.held[work.key, work.attempts] = held
        b.alone = work.deaths >= self.settings.deaths - 1 > 0
        self._lease(b, held, now)
        self._place(b, now)
        self.counts["sent"] += 1
        return Send(b.name, Request(work.key, work.model, work.attempts, work.inputs, work.deadline))

    def _lease_seconds(self, work: _Work) -> float:
        s = self.settings
        p99 = self._models[work.model].latencies.p99
        return max(s.least_lease, s.lease_of_expected * work.expected, s.lease_of_p99 * p99)

    def _lease(self, b: _Board, held: _Held, now: float) -> None:
        self._number += 1
        heapq.heappush(self._leases, (now + held.lease, self._number, b.name, held.work.key, held.attempt))

    def _hedge_due(self, m: _Model) -> float | None:
        """When the oldest of the last requests is asked of a second board: as soon as nothing else is left to ask."""
        if m.waiting or not m.once or len(m.once) > 2 * self._up or not any(m.free):
            return None
        oldest = next(iter(m.once.values()))
        if self._pick(m, oldest) is None:
            return None
        return oldest.sent + self.settings.hedge_of_p99 * m.latencies.p99 if m.latencies.p99 else None

    def _by_need(self) -> list[int]:
        """Models in the order in which a board that has several is to be asked: as requests of one are."""
        heads = sorted((m.queue[0][0], crc) for crc, m in self._models.items() if m.queue)
        return [crc for _, crc in heads] + [crc for crc, m in self._models.items() if not m.queue]

    def _pump(self, now: float, models: Collection[int] | None = None) -> list[Action]:
        """Send what can be sent."""
        actions: list[Action] = []
        for crc in self._by_need() if models is None else models:
            m = self._models[crc]
            kept: list[tuple[tuple[int, int, int], _Work]] = []
            while m.waiting and any(m.free):
                order, work = heapq.heappop(m.queue)
                if work.outputs is not None or work.given_up:
                    work.queued = False
                    m.waiting -= 1
                    continue
                b = self._pick(m, work)
                if b is None:
                    kept.append((order, work))
                    m.waiting -= 1  # for this loop only
                    continue
                work.queued = False
                m.waiting -= 1
                actions.append(self._send(now, b, work))
            for item in kept:
                heapq.heappush(m.queue, item)
                m.waiting += 1
            while (due := self._hedge_due(m)) is not None and due <= now:
                work = next(iter(m.once.values()))
                b = self._pick(m, work)
                assert b is not None
                self.counts["hedged"] += 1
                actions.append(self._send(now, b, work))
        return actions
