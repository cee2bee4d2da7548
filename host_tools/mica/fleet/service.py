"""A fleet that answers whoever asks, at any time: the dispatcher in a thread of its own, and a Future for each sample.

An answer that is audited is given after its audit. One that was given and not audited stands, whatever is found out of its board
later: `Settings(audit=1)` is for those who cannot have that.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from mica.fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica.fleet.links import Answered, Birth, Broken, Death, Event, Events, Link, Unreachable, joined, split
from mica.fleet.wire import Key
from mica.link.board import Say
from mica.run.host import HostRunner


class Unavailable(Exception):
    """No board can answer now."""


class TooLarge(Exception):
    """No board that has the model takes so many bytes."""


class GivenUp(Exception):
    """Boards were asked, and it is theirs that there is no answer."""


@dataclass(frozen=True)
class Result:
    outputs: bytes
    board: str


@dataclass
class _Asked:
    future: Future[Result]
    done: Done | None = None


@dataclass(frozen=True)
class _Submit:
    model: int
    inputs: bytes
    future: Future[Result]


@dataclass(frozen=True)
class _Abandon:
    future: Future[Result]


class Service:
    """Of these models, name -> file. Close it when done. `broken` is called, from its thread, where it cannot go on."""

    def __init__(
        self,
        models: Mapping[str, bytes],
        open_links: Callable[[Events], Sequence[Link]],
        say: Say,
        settings: Settings | None = None,
        broken: Callable[[str], None] = lambda reason: None,
        most: int = 10_000,
    ) -> None:
        """most: samples that may be waiting for an answer."""
        self._say, self._broken, self._most = say, broken, most
        self._hosts = {zlib.crc32(data): HostRunner(data) for data in models.values()}
        self.models = {name: self._hosts[zlib.crc32(data)].model for name, data in models.items()}
        self._input_bytes = {
            crc: sum(h.model.tensors[t].bytes for t in h.model.inputs) for crc, h in self._hosts.items()
        }
        self._crcs = {name: zlib.crc32(data) for name, data in models.items()}
        self._dispatcher = Dispatcher(settings)
        self._events: Events = queue.SimpleQueue()
        self._letters: queue.SimpleQueue[_Submit | _Abandon] = queue.SimpleQueue()
        self._job, self._seq = secrets.randbits(31), 0
        self._asked: dict[Key, _Asked] = {}
        self._keys: dict[Future[Result], Key] = {}
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

    def submit(self, name: str, inputs: bytes) -> Future[Result]:
        """Its exceptions: Unavailable, TooLarge, GivenUp."""
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()  # from here on it cannot be canceled
        self._letters.put(_Submit(self._crcs[name], inputs, future))
        self._wake()
        return future

    def abandon(self, future: Future[Result]) -> None:
        """Nobody waits for it any more."""
        self._letters.put(_Abandon(future))
        self._wake()

    def is_ready(self, name: str) -> bool:
        """Whether a board is there that has the model."""
        return self._owners(self._crcs[name]) != []

    def owners(self, name: str) -> int:
        """How many boards are there that have the model."""
        return len(self._owners(self._crcs[name]))

    def boards(self) -> dict[str, str]:
        """Name -> up, down, suspect or quarantined, as it was a moment ago."""
        return self._states

    def counts(self) -> dict[str, int]:
        return dict(self._dispatcher.counts)

    # ---- inside

    def _wake(self) -> None:
        self._events.put(Unreachable("", ""))

    def _owners(self, crc: int) -> list[str]:
        states, has = self._states, self._has
        return [name for name, state in states.items() if state in ("up", "suspect") and crc in has.get(name, ())]

    def _live(self) -> None:
        try:
            while not self._closing.is_set():
                now = time.monotonic()
                due = self._dispatcher.next_due()
                actions: list[Action] = []
                with contextlib.suppress(queue.Empty):
                    event: Event | None = self._events.get(
                        timeout=1.0 if due is None else min(1.0, max(0.0, due - now))
                    )
                    while event is not None:
                        actions += self._event(event)
                        event = None if self._events.empty() else self._events.get()
                self._states = self._dispatcher.boards()
                while not self._letters.empty():
                    actions += self._letter(self._letters.get())
                self._do(actions + self._dispatcher.tick(time.monotonic()))
                if self._failure:
                    break
        finally:
            self._failure = self._failure or "the server is closing"
            while not self._letters.empty():
                letter = self._letters.get()
                self._fail(letter.future)
            for asked in list(self._asked.values()):
                self._fail(asked.future)
            if not self._closing.is_set():
                self._broken(self._failure)

    def _fail(self, future: Future[Result]) -> None:
        if not future.done():
            future.set_exception(Unavailable(self._failure))

    def _letter(self, letter: _Submit | _Abandon) -> list[Action]:
        if isinstance(letter, _Abandon):
            key = self._keys.pop(letter.future, None)
            if key is not None:
                del self._asked[key]
                self._dispatcher.abandon(key)
            return []
        owners = self._owners(letter.model)
        if not owners:
            letter.future.set_exception(Unavailable("no board that is there has this model"))
        elif all(0 < self._largest.get(b, 0) < len(letter.inputs) for b in owners):
            most = max(self._largest[b] for b in owners)
            letter.future.set_exception(TooLarge(f"a sample has {len(letter.inputs)} bytes; a board takes {most}"))
        elif len(self._asked) >= self._most:
            letter.future.set_exception(Unavailable(f"{self._most} samples are waiting already"))
        else:
            self._seq = (self._seq + 1) & 0xFFFFFFFF
            key = Key(self._job, self._seq)
            self._asked[key] = _Asked(letter.future)
            self._keys[letter.future] = key
            return self._dispatcher.submit(time.monotonic(), key, letter.model, letter.inputs)
        return []

    def _event(self, event: Event) -> list[Action]:
        now = time.monotonic()
        match event:
            case Birth(name, boot, session, models, largest):
                if name in self._unreachable:
                    self._say(f"{name} is back")
                    self._unreachable.discard(name)
                self._has[name], self._largest[name] = models, largest
                fitting = {crc for crc in models if not 0 < largest < self._input_bytes.get(crc, 0)}
                return self._dispatcher.birth(now, name, boot, session, fitting)
            case Death(name, boot, session, reason):
                self._say(f"{name} is lost: {reason}")
                self._unreachable.add(name)
                return self._dispatcher.death(now, name, boot, session)
            case Unreachable(name, reason):
                if name and name not in self._unreachable:
                    self._say(f"{name} cannot be reached: {reason}")
                    self._unreachable.add(name)
                return []
            case Broken(reason):
                self._failure = reason
                return []
            case Answered(name, answer):
                return self._dispatcher.answer(now, name, answer)

    def _do(self, actions: list[Action]) -> None:
        finished: list[Key] = []
        while actions:
            action = actions.pop(0)
            match action:
                case Send(name, request):
                    link = self._links.get(name, self._many)
                    assert link is not None
                    link.send(name, request)
                case Done(key, _, _):
                    if key in self._asked:
                        self._asked[key].done = action
                    finished.append(key)
                case Withdrawn(key):
                    if key in self._asked:
                        self._asked[key].done = None
                case Failed(key, reason):
                    if (asked := self._asked.pop(key, None)) is not None:
                        self._keys.pop(asked.future, None)
                        asked.future.set_exception(GivenUp(reason))
                    finished.append(key)
                case Audit(key, crc, inputs):
                    host = self._hosts[crc]
                    right = joined(host.run([split(host.model, host.model.inputs, inputs)])[0])
                    actions += self._dispatcher.audited(time.monotonic(), key, right)
                case Quarantined(name, _):
                    self._say(f"{name} answered wrongly and is in quarantine")
        for key in finished:  # after the audits of this turn
            asked = self._asked.get(key)
            if asked is not None and asked.done is not None:
                del self._asked[key]
                self._keys.pop(asked.future, None)
                asked.future.set_result(Result(asked.done.outputs, asked.done.board))
        self._dispatcher.forget(finished)
