"""Boards, the requests that they hold or wait for, and who is free for which. dispatch.py takes the events."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from mica_fleet.actions import Settings
from mica_fleet.wire import Key

_SAVED = 16.0  # answers of a board's share that it may save up


@dataclass(slots=True, eq=False)
class Work:
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
class Held:
    work: Work
    attempt: int
    sent: float
    lease: float
    late: int = 0


@dataclass(slots=True)
class Share:
    """Unaudited answers that a board may give to a model: 1/N of all that came since, at most _SAVED at once."""

    left: float = 0.0
    seen: int = 0  # answers to the model, when `left` was true

    def take_unaudited(self, m: Model) -> bool:
        """Use one of the board's unaudited answers. False if none is left."""
        self.left = min(_SAVED, self.left + (m.answers - self.seen) / max(1, m.owners))
        self.seen = m.answers
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(slots=True, eq=False)
class Board:
    name: str
    boot: int
    session: int
    models: set[int]
    up: bool = True
    quarantined: bool = False
    suspect: bool = False
    busy_until: float = 0.0
    held: dict[tuple[Key, int], Held] = field(default_factory=dict)  # in the order of sending
    answered: int = 0
    audited: int = 0
    unaudited: set[Key] = field(default_factory=set)
    owns: frozenset[int] = frozenset()  # models that it is counted for in Model.owners
    shares: dict[int, Share] = field(default_factory=dict)  # by model
    alone: bool = False  # it holds a request that two boards did not survive
    places: list[OrderedDict[str, None]] = field(default_factory=list)  # lists of free boards that it stands in
    state: str = ""  # as counted in Pool.states


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


class Model:
    """Requests that wait for one model, boards that are free for it, and its time."""

    def __init__(self, credit: int) -> None:
        self.queue: list[tuple[tuple[int, int, int], Work]] = []
        self.waiting = 0
        # Taken from the front all the time, which a dict is slow at: it looks at every place that was emptied.
        # By load; in the order of coming.
        self.free: list[OrderedDict[str, None]] = [OrderedDict() for _ in range(credit)]
        self.once: OrderedDict[Key, Work] = OrderedDict()  # asked of one board only, oldest first
        self.owners = 0  # boards at work that have it
        self.answers = 0
        self.latencies = _Latencies()


class Pool:
    """`states`: how many boards are up, down, suspect or quarantined; `changes` grows with each change of one.
    `up`: boards that are there."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.states: Counter[str] = Counter()
        self.changes = 0
        self.boards: dict[str, Board] = {}
        self.models: dict[int, Model] = {}
        self.up = 0

    def begin_model(self, now: float, crc: int) -> None:
        """Somebody asks for it the first time: from now on boards that have it are counted, and stand ready."""
        self.models[crc] = Model(self.settings.credit)
        for b in self.boards.values():
            if crc in b.models:
                self.reindex(b, now)

    def _limit(self, b: Board, now: float) -> int:
        """Number of requests that the board may hold."""
        if not b.up or b.quarantined or b.alone or now < b.busy_until:
            return 0
        return 1 if b.suspect else self.settings.credit

    def reindex(self, b: Board, now: float) -> None:
        """Move the board to the free list of its load, or out of all lists."""
        state = "quarantined" if b.quarantined else "down" if not b.up else "suspect" if b.suspect else "up"
        if state != b.state:
            self.states[b.state] -= bool(b.state)
            self.states[state] += 1
            b.state = state
            self.changes += 1
        owns = frozenset(b.models & self.models.keys()) if b.up and not b.quarantined else frozenset()
        if owns != b.owns:
            for model in owns ^ b.owns:
                self.models[model].owners += 1 if model in owns else -1
            b.owns = owns
        for place in b.places:
            place.pop(b.name, None)
        b.places = []
        load = len(b.held)
        if load < self._limit(b, now):
            # A suspect board gets work only if no other board is free.
            b.places = [self.models[model].free[-1 if b.suspect else load] for model in owns]
            for place in b.places:
                place[b.name] = None

    def pick(self, m: Model, work: Work) -> Board | None:
        """The free board with the least to do that has not this very request.
        One that has killed boards wants an idle one, which a suspect may be, too.
        One that a board has failed at waits for another board, where there is one."""
        failed = work.failed if work.failed and self._others(work) else ()
        dangerous = work.deaths >= self.settings.deaths - 1
        for free in m.free:
            for name in free:
                b = self.boards[name]
                if not (name in failed or (dangerous and b.held) or any(h.work is work for h in b.held.values())):
                    return b
        return None

    def _others(self, work: Work) -> bool:
        """Return True if a board has the model that has not failed at this request."""
        among = (b for b in self.boards.values() if work.model in b.owns and not b.suspect)
        return any(b.name not in work.failed for b in among)

    def hedge_due(self, m: Model) -> float | None:
        """When the oldest of the last requests is asked of a second board: as soon as nothing else is left to ask."""
        if m.waiting or not m.once or len(m.once) > 2 * self.up or not any(m.free):
            return None
        oldest = next(iter(m.once.values()))
        if self.pick(m, oldest) is None:
            return None
        return oldest.sent + self.settings.hedge_of_p99 * m.latencies.p99 if m.latencies.p99 else None

    def by_need(self) -> list[int]:
        """Models in the order in which a board that has several is to be asked: as requests of one are."""
        heads = sorted((m.queue[0][0], crc) for crc, m in self.models.items() if m.queue)
        return [crc for _, crc in heads] + [crc for crc, m in self.models.items() if not m.queue]
