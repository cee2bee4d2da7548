"""Gives requests to boards, and asks again where no answer comes. No I/O: events in, actions out, the clock is given.

    submit, birth, death, answer, audited, tick  ->  Send, Done, Withdrawn, Failed, Audit, Quarantined

Every board has an inbox of its own and a credit of two requests, so that the next one is there when one ends. The
answer is the acknowledgement. A request is asked again, before all others, when its board is lost, has a new session,
or is late; the first right answer of a board that was asked counts. Since one file gives the same bytes everywhere, a
second answer must be equal, and the host can compute any answer itself: a share is audited so, and a board that differs
is put in quarantine and its unaudited answers are asked again. Of N boards with a model none gives more than 1/N of its
answers unaudited, however fast it is. A late answer is compared for a while after its request was forgotten.

A late board keeps its credit until it answers, says goodbye or is born again, so a board that hangs costs two requests,
not 1/N of all. After three leases it is suspect, and is tried with one request at a time.
Credit ends with the session, not with the time-out; a will of an older session says nothing.
"""

import heapq
import random
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable

from mica.errors import MicaError
from mica.printable import printable
from mica_fleet.actions import Action, Audit, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica_fleet.pool import Board, Held, Pool, Share, Work
from mica_fleet.wire import Answer, Key, Request, Status

_LONGEST_TEXT = 500  # bytes of a board's reason
_MOST_OPEN = 64  # attempts of one request that may still be answered
_MOST_PAST, _PAST_SECONDS = 1000, 60.0  # requests that were forgotten, and late answers may be compared with


class Dispatcher:
    """Gives requests to boards. Every method takes the time in seconds, of any clock that only goes forward,
    and returns what is to be done. `counts` are for people: sent, answers, duplicates, unasked, asked_again, late,
    lost_boards, old_wills, audits.

    No event costs more the more boards there are, but for the heaps' log n.
    `states`: how many boards are up, down, suspect or quarantined;
    `changes` grows with each change of one.
    """

    def __init__(self, settings: Settings | None = None, seed: int = 0) -> None:
        self.settings = settings or Settings()
        self.counts: Counter[str] = Counter()
        self._crashes = 0  # boards lost, whatever they were at work on
        self._pool = Pool(self.settings)
        self.states, self._boards, self._models = self._pool.states, self._pool.boards, self._pool.models
        self._random = random.Random(seed)
        self._works: dict[Key, Work] = {}
        self._past: OrderedDict[Key, Work] = OrderedDict()  # forgotten; boards that were asked may still answer
        self._leases: list[tuple[float, int, str, Key, int]] = []
        self._wakes: list[tuple[float, str]] = []
        self._number = 0  # of works, and of leases: ties are broken by it
        self._auditing = 0  # works

    @property
    def changes(self) -> int:
        return self._pool.changes

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
        """A new request for the model with this CRC-32. `expected` is what one run takes, in seconds, where it is
        known; `size` the bytes of the outputs: an answer of another size is wrong."""
        if key in self._works:
            raise MicaError(f"request {key} was submitted before")
        self._number += 1
        work = Work(key, model, inputs, expected, self._number, deadline, size)
        self._works[key] = work
        self._past.pop(key, None)
        if model not in self._models:
            self._pool.begin_model(now, model)
        self._queue(work)
        return self._pump(now, [model])

    def birth(self, now: float, board: str, boot: int, session: int, models: Collection[int]) -> list[Action]:
        """A board says that it is there. A new boot or session: what was on its way to it is gone."""
        b = self._boards.get(board)
        actions: list[Action] = []
        if b is None:
            b = self._boards[board] = Board(board, boot, session, set(models))
            self._pool.up += 1
        else:
            if not b.up:
                self._pool.up += 1
            if (b.boot, b.session) != (boot, session):
                actions += self._lose(b, crashed=b.boot != boot and b.up)
                b.busy_until, b.suspect = 0.0, False
            b.boot, b.session, b.up = boot, session, True
            b.models = set(models)
        self._pool.reindex(b, now)
        return actions + self._pump(now)

    def death(self, now: float, board: str, boot: int, session: int) -> list[Action]:
        """A board's will, or its goodbye. One of another session than the current says nothing."""
        b = self._boards.get(board)
        if b is None or not b.up or (b.boot, b.session) != (boot, session):
            self.counts["old_wills"] += 1
            return []
        b.up = False
        self._pool.up -= 1
        self.counts["lost_boards"] += 1
        actions = self._lose(b, crashed=True)
        self._pool.reindex(b, now)
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
        self._pool.reindex(b, now)
        return actions + self._pump(now)

    def audited(self, now: float, key: Key, outputs: bytes) -> list[Action]:
        """Take the outputs of the host's own engine for a request that Audit named."""
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
        """The time is now. Call it when `next_due` says so; more often does no harm.
        A caller that has a queue of events gives the time up to which it has taken all of them,
        or what has been answered would be late."""
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
                # Its answer may have been lost alone, so the credit cannot be kept for ever: from now on it is tried
                # out.
                del b.held[key, attempt]
                b.suspect, b.alone = True, False
                self._pool.reindex(b, now)
        while self._past and next(iter(self._past.values())).sent < now - _PAST_SECONDS:
            self._drop_past()
        while self._wakes and self._wakes[0][0] <= now:
            _, name = heapq.heappop(self._wakes)
            self._pool.reindex(self._boards[name], now)
        return self._pump(now)

    def next_due(self) -> float | None:
        """When `tick` has something to do, unless another event comes first; None for never."""
        while self._leases and (self._leases[0][3], self._leases[0][4]) not in self._boards[self._leases[0][2]].held:
            heapq.heappop(self._leases)  # answered
        found = self._leases[0][0] if self._leases else None
        if self._wakes and (found is None or self._wakes[0][0] < found):
            found = self._wakes[0][0]
        for m in self._models.values():
            if (due := self._pool.hedge_due(m)) is not None and (found is None or due < found):
                found = due
        return found

    # ---- what people and commands ask

    def forget(self, keys: Iterable[Key]) -> None:
        """Drop requests that are answered. Later answers of other boards that were asked are compared for a while."""
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
        self._pool.reindex(b, now)
        return self._pump(now)

    def unanswered(self) -> int:
        return sum(1 for w in self._works.values() if w.outputs is None and not w.given_up)

    def audits_open(self) -> int:
        return self._auditing

    def boards(self) -> dict[str, str]:
        """Name -> up, down, suspect or quarantined."""

        return {name: b.state for name, b in self._boards.items()}

    @property
    def known(self) -> int:
        """Number of boards, in any state."""
        return len(self._boards)

    def load(self, board: str) -> int:
        """Number of requests that the board holds."""
        return len(self._boards[board].held)

    # ---- inside

    def _drop_past(self) -> None:
        _, work = self._past.popitem(last=False)
        self._auditing -= work.auditing

    def _queue(self, work: Work, again: bool = False) -> None:
        """Asked again goes before all others; then later stages, then the order of submission."""
        work.queued = True
        m = self._models[work.model]
        m.waiting += 1
        heapq.heappush(m.queue, ((0 if again else 1, -work.key.stage, work.number), work))

    def _ask_again(self, work: Work) -> None:
        if work.outputs is None and not work.given_up and not work.queued:
            self.counts["asked_again"] += 1
            self._queue(work, again=True)

    def _no_longer_once(self, work: Work) -> None:
        self._models[work.model].once.pop(work.key, None)

    def _give_up(self, work: Work, reason: str) -> list[Action]:
        work.given_up = True
        return [Failed(work.key, reason)]

    def _lose(self, b: Board, crashed: bool) -> list[Action]:
        """All that the board held is asked again. It was at work on the oldest: if it crashed, that one is to blame,
        unless boards crash without it as well."""
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

    def _take(self, now: float, b: Board, work: Work, answer: Answer, held: Held | None) -> list[Action]:
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

    def _accept(self, now: float, b: Board, work: Work, outputs: bytes, held: Held | None) -> list[Action]:
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
        if chosen or (self.settings.audit and not b.shares.setdefault(work.model, Share()).take_unaudited(m)):
            actions += self._audit(work)
        return actions

    def _differs(self, b: Board, work: Work, outputs: bytes) -> list[Action]:
        """One of two answers is wrong, or this one has a size that none has."""
        self.counts["differences"] += 1
        work.others[b.name] = outputs
        if not work.asked:
            self._ask_again(work)
        return self._audit(work)

    def _audit(self, work: Work) -> list[Action]:
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
        self._pool.reindex(b, now)
        return [Quarantined(name, asked), *actions]

    def _send(self, now: float, b: Board, work: Work) -> Send:
        work.attempts = (work.attempts + 1) & 0xFFFF
        if work.crashes < 0:
            work.crashes = self._crashes
        held = Held(work, work.attempts, now, self._lease_seconds(work))
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
        self._pool.reindex(b, now)
        self.counts["sent"] += 1
        return Send(b.name, Request(work.key, work.model, work.attempts, work.inputs, work.deadline))

    def _lease_seconds(self, work: Work) -> float:
        s = self.settings
        p99 = self._models[work.model].latencies.p99
        return max(s.least_lease, s.lease_of_expected * work.expected, s.lease_of_p99 * p99)

    def _lease(self, b: Board, held: Held, now: float) -> None:
        self._number += 1
        heapq.heappush(self._leases, (now + held.lease, self._number, b.name, held.work.key, held.attempt))

    def _pump(self, now: float, models: Collection[int] | None = None) -> list[Action]:
        """Send what can be sent."""
        actions: list[Action] = []
        for crc in self._pool.by_need() if models is None else models:
            m = self._models[crc]
            kept: list[tuple[tuple[int, int, int], Work]] = []
            while m.waiting and any(m.free):
                order, work = heapq.heappop(m.queue)
                if work.outputs is not None or work.given_up:
                    work.queued = False
                    m.waiting -= 1
                    continue
                b = self._pool.pick(m, work)
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
            while (due := self._pool.hedge_due(m)) is not None and due <= now:
                work = next(iter(m.once.values()))
                b = self._pool.pick(m, work)
                assert b is not None
                self.counts["hedged"] += 1
                actions.append(self._send(now, b, work))
        return actions
