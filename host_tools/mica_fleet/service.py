"""A fleet that answers whoever asks, at any time: the dispatcher in a thread of its own, and a Future for each request.

The dispatcher has as many samples as boards take. All others wait here, and clients have their turns (turns.py). An
answer that is audited is given after its audit. One that was given and not audited stands, whatever is found out of its
board later: `Settings(audit=1)` is for those who cannot have that.
"""

import contextlib
import queue
import random
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from mica.link.board import Say
from mica.run.host import HostRunner
from mica_fleet import links
from mica_fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica_fleet.links import Event, Events, Link, joined, split
from mica_fleet.stages import UNDER_WAY, Route, Stages
from mica_fleet.turns import Request, Result, Turns


class Unavailable(Exception):
    """No board can answer now."""


class TooLarge(Exception):
    """No board that has the model takes so many bytes."""


class GivenUp(Exception):
    """Boards were asked, and it is theirs that there is no answer."""


@dataclass
class _Asked:
    """A sample that the dispatcher has."""

    request: Request
    index: int
    result: Result | None = None


@dataclass(frozen=True)
class _Abandon:
    future: Future[list[Result]]


_MOST_BYTES = 1 << 25  # of inputs that wait


class Service:
    """Serves these models: name -> its file, or the files of its parts. Close it when done. `broken` is called, from
    its thread, where it cannot go on."""

    def __init__(
        self,
        models: Mapping[str, Sequence[bytes]],
        open_links: Callable[[Events], Sequence[Link]],
        say: Say,
        settings: Settings | None = None,
        broken: Callable[[str], None] = lambda reason: None,
        most: int = 10_000,
        answered: Callable[[str, bytes, str], None] = lambda name, outputs, board: None,
    ) -> None:
        """most: samples that may be waiting for an answer. answered: is told each (model, outputs, board),
        in the service's thread."""
        self._say, self._broken, self._most, self._answered = say, broken, most, answered
        self._settings = settings or Settings()
        self._routes = {name: Route(files) for name, files in models.items()}
        self._hosts = {zlib.crc32(data): HostRunner(data) for route in self._routes.values() for data in route.files}
        self.models = {name: route.whole for name, route in self._routes.items()}
        self._input_bytes = {
            crc: sum(h.model.tensors[t].bytes for t in h.model.inputs) for crc, h in self._hosts.items()
        }
        self._dispatcher = Dispatcher(self._settings)
        self._events: Events = queue.SimpleQueue()
        self._letters: queue.SimpleQueue[Request | _Abandon] = queue.SimpleQueue()
        self._sample = 0
        jobs = dict(zip(random.SystemRandom().sample(range(1 << 31), len(models)), models, strict=True))
        self._stages = {job: Stages(self._dispatcher, self._routes[name], job) for job, name in jobs.items()}
        self._jobs = {name: job for job, name in jobs.items()}
        self._asked: dict[int, _Asked] = {}  # by sample
        self._under_way: Counter[str] = Counter()  # samples of each model that the dispatcher has
        self._requests: dict[Future[list[Result]], Request] = {}  # that are not answered
        self._turns = Turns(most, _MOST_BYTES)
        self._has: dict[str, frozenset[int]] = {}
        self._largest: dict[str, int] = {}
        self._states: dict[str, str] = {}  # replaced, never changed: other threads read it
        self._unreachable: set[str] = set()
        self._failure = ""
        self._closing = threading.Event()
        links = open_links(self._events)
        self._links = {link.name: link for link in links if not link.many}
        self._many = next((link for link in links if link.many), None)
        self._thread = threading.Thread(target=self._live, name="fleet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._wake()
        self._thread.join(timeout=10)
        for link in [*self._links.values(), *([self._many] if self._many else [])]:
            link.close()
        for host in self._hosts.values():
            host.close()

    # ---- for any thread

    def submit(self, name: str, samples: Sequence[bytes], client: str = "") -> Future[list[Result]]:
        """client: has a share of its own. The Future's exceptions: Unavailable, TooLarge, GivenUp."""
        future: Future[list[Result]] = Future()
        future.set_running_or_notify_cancel()  # from here on it cannot be canceled
        self._letters.put(Request(name, client, deque(enumerate(samples)), future))
        self._wake()
        return future

    def abandon(self, future: Future[list[Result]]) -> None:
        """Nobody waits for it any more."""
        self._letters.put(_Abandon(future))
        self._wake()

    def is_ready(self, name: str) -> bool:
        """True if a board is there that has the model, or one for each of its parts."""
        return self.owners(name) > 0

    def owners(self, name: str) -> int:
        """Number of boards there that have the model; of a model in parts, the part that fewest have."""
        return min(len(self._owners(crc)) for crc in self._routes[name].crcs)

    def boards(self) -> dict[str, str]:
        """Name -> up, down, suspect or quarantined, as it was a moment ago."""
        return self._states

    def counts(self) -> dict[str, int]:
        return dict(self._dispatcher.counts)

    # ---- inside

    def _wake(self) -> None:
        self._events.put(links.Unreachable("", ""))

    def _owners(self, crc: int) -> list[str]:
        states, has = self._states, self._has
        return [name for name, state in states.items() if state in ("up", "suspect") and crc in has.get(name, ())]

    def _live(self) -> None:
        changes = -1
        try:
            while not self._closing.is_set():
                now = time.monotonic()
                due = self._dispatcher.next_due()
                actions: list[Action] = []
                with contextlib.suppress(queue.Empty):
                    actions += self._event(
                        self._events.get(timeout=1.0 if due is None else min(1.0, max(0.0, due - now)))
                    )
                there, now = self._events.qsize(), time.monotonic()
                for _ in range(there):
                    actions += self._event(self._events.get())
                if changes != self._dispatcher.changes:
                    changes = self._dispatcher.changes
                    self._states = self._dispatcher.boards()
                while not self._letters.empty():
                    self._letter(self._letters.get())
                self._do(actions + self._dispatcher.tick(now))
                if self._failure:
                    break
        finally:
            self._failure = self._failure or "the server is closing"
            while not self._letters.empty():
                letter = self._letters.get()
                self._fail(letter.future)
            for future in self._requests:
                self._fail(future)
            if not self._closing.is_set():
                self._broken(self._failure)

    def _fail(self, future: Future[list[Result]]) -> None:
        if not future.done():
            future.set_exception(Unavailable(self._failure))

    def _letter(self, letter: Request | _Abandon) -> None:
        if isinstance(letter, _Abandon):
            if request := self._requests.get(letter.future):
                self._forget(request)
            return
        self._requests[letter.future] = letter
        try:
            self._check(self._routes[letter.name])
        except (Unavailable, TooLarge) as e:
            self._forget(letter, e)
            return
        for request in self._turns.add(letter):
            self._forget(request, Unavailable(f"{self._most} samples are waiting already"))

    def _forget(self, request: Request, why: Exception | None = None) -> None:
        """Drop a request. Boards may still answer it; their answers are ignored."""
        self._turns.drop(request)
        for sample in list(request.sent):
            self._over(sample)
        del self._requests[request.future]
        if why is not None:
            request.future.set_exception(why)

    def _over(self, sample: int) -> None:
        """The dispatcher need not know of this sample any more."""
        request = self._asked.pop(sample).request
        self._stages[self._jobs[request.name]].forget(sample)
        request.sent.discard(sample)
        self._under_way[request.name] -= 1
        self._turns.back([request.client])

    def _begin(self) -> list[Action]:
        """Give the dispatcher what boards take now, and no more: who asks next is to be next."""
        actions: list[Action] = []
        for name, route in self._routes.items():
            if not self._turns.waits(name):
                continue
            room = self._settings.credit * self.owners(name)
            if len(route) > 1:
                room = UNDER_WAY + 4 * len(self._states)
            while self._under_way[name] < max(1, room) and (turn := self._turns.next(name)):
                request, index, inputs = turn
                self._sample = (self._sample + 1) & 0x7FFFFFFF
                self._asked[self._sample] = _Asked(request, index)
                self._under_way[name] += 1
                request.sent.add(self._sample)
                actions += self._stages[self._jobs[name]].begin(time.monotonic(), self._sample, inputs)
        return actions

    def _check(self, route: Route) -> None:
        """Raises Unavailable and TooLarge where a sample could not get through now."""
        for crc in route.crcs:
            owners = self._owners(crc)
            size = self._input_bytes[crc]
            if not owners:
                raise Unavailable(f"no board that is there has {route.named(crc)}")
            if all(0 < self._largest.get(b, 0) < size for b in owners):
                most = max(self._largest[b] for b in owners)
                what = "a sample" if len(route) == 1 else f"a sample for {route.named(crc)}"
                raise TooLarge(f"{what} has {size} bytes; a board takes {most}")

    def _event(self, event: Event) -> list[Action]:
        now = time.monotonic()
        match event:
            case links.Birth(name, boot, session, models, largest):
                if name in self._unreachable:
                    self._say(f"{name} is back")
                    self._unreachable.discard(name)
                self._has[name], self._largest[name] = models & self._hosts.keys(), largest
                fitting = {crc for crc in self._has[name] if not 0 < largest < self._input_bytes[crc]}
                return self._dispatcher.birth(now, name, boot, session, fitting)
            case links.Death(name, boot, session, reason):
                self._say(f"{name} is lost: {reason}")
                self._unreachable.add(name)
                return self._dispatcher.death(now, name, boot, session)
            case links.Unreachable(name, reason):
                if name and name not in self._unreachable:
                    self._say(f"{name} cannot be reached: {reason}")
                    self._unreachable.add(name)
                return []
            case links.Restored(name):
                if name in self._unreachable:
                    self._say(f"{name} is back")
                    self._unreachable.discard(name)
                return []
            case links.Damaged(name, reason):
                self._say(f"{name}: {reason}")
                return []
            case links.Broken(reason):
                self._failure = reason
                return []
            case links.Answered(name, answer):
                return self._dispatcher.answer(now, name, answer)

    def _do(self, actions: list[Action]) -> None:
        while True:
            finished: list[int] = []
            for action in actions:  # which grows meanwhile
                actions += self._one(action, finished)
            for sample in finished:  # after the audits of this turn
                asked = self._asked.get(sample)
                if asked is not None and asked.result is not None:
                    self._finish(sample, asked.request, asked.index, asked.result)
            if not (actions := self._begin()):
                return

    def _finish(self, sample: int, request: Request, index: int, result: Result) -> None:
        self._over(sample)
        request.results[index] = result
        self._answered(request.name, result.outputs, result.board)
        if not request.waiting and not request.sent:
            del self._requests[request.future]
            request.future.set_result([request.results[i] for i in range(len(request.results))])

    def _one(self, action: Action, finished: list[int]) -> list[Action]:
        """Carry out one action; return those that follow from it."""
        match action:
            case Send(name, request):
                link = self._links.get(name, self._many)
                assert link is not None
                link.send(name, request)
            case Done(key, outputs, board):
                stages = self._stages[key.job]
                sample = stages.sample(key)
                more = stages.done(time.monotonic(), key, outputs)
                if sample is not None and (whole := stages.answers.get(sample)) is not None:
                    self._asked[sample].result = Result(whole, board)
                    finished.append(sample)
                return more
            case Withdrawn(key):
                stages = self._stages[key.job]
                sample = stages.sample(key)
                stages.withdrawn(key)
                if sample is not None:
                    self._asked[sample].result = None
            case Failed(key, reason):
                sample = self._stages[key.job].sample(key)
                if sample is not None:
                    self._forget(self._asked[sample].request, GivenUp(reason))
            case Audit(key, crc, inputs):
                host = self._hosts[crc]
                right = joined(host.run([split(host.model, host.model.inputs, inputs)])[0])
                return self._dispatcher.audited(time.monotonic(), key, right)
            case Quarantined(name, _):
                self._say(f"{name} answered wrongly and is in quarantine")
        return []
