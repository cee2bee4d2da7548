"""Drives the dispatcher: events of links go in, requests go out, audits are computed here.

A FleetRunner is a fleet as a target like any other: `mica eval M D --on fleet:...` needs to know no more.
"""

import contextlib
import queue
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.link.board import Say
from mica.run.host import HostRunner
from mica.run.runner import Inputs, Runner, Times
from mica_fleet import links
from mica_fleet.dispatch import Action, Audit, Dispatcher, Done, Failed, Quarantined, Send, Settings, Withdrawn
from mica_fleet.journal import ANSWER, WITHDRAWN, Journal
from mica_fleet.links import Event, Events, Link, joined, split
from mica_fleet.stages import UNDER_WAY, Route, Stages
from mica_fleet.wire import Key

OpenLinks = Callable[[Events], Sequence[Link]]

_PATIENCE = 120.0  # seconds for a first board to be there
_STALLED = 60.0  # seconds without a board at work, or without an answer
_QUIET = 2.0  # seconds without a board until that is said
_NOWHERE = 5.0  # seconds with boards at work, none of which has the model


class FleetRunner(Runner):
    """A model on every board of a fleet; samples are shared out. They are independent: a model with state is refused.

    Of a model that was cut, boards have parts, and a sample passes them in order;
    `model` is then inputs and outputs of the whole.
    """

    def __init__(
        self,
        data: bytes,
        target: str,
        open_links: OpenLinks,
        say: Say | None = None,
        settings: Settings | None = None,
        custom: CustomOps = NO_CUSTOM,
        journal: Journal | None = None,
        others: Sequence[bytes] = (),
    ) -> None:
        """With a journal, answers that an earlier coordinator has written there are not asked for again.
        others: of a model that was cut, its other parts."""
        super().__init__(data, target)
        self._route = Route([data, *others])
        self.model = self._route.whole
        if self.model.state_bytes:
            raise MicaError(f"{target}: a model with state goes on from sample to sample", todo="run it on one board")
        self._say = say or (lambda line: None)
        self._events: Events = queue.SimpleQueue()
        route = self._route
        self._hosts = {crc: HostRunner(d, custom) for crc, d in zip(route.crcs, route.files, strict=True)}
        self._journal = journal
        self._calls = 0
        self._job = secrets.randbits(31)  # boards may still answer an older coordinator
        self._had: set[int] = set()  # models that any board had
        self._has: dict[str, set[int]] = {}  # the models of each board, also others
        self._waits = False  # it was said that boards are waited for
        self._dispatcher = Dispatcher(settings)
        self._lock = threading.Lock()  # `run` is not to be called from two threads at once
        self._reasons: dict[str, str] = {}
        links = open_links(self._events)
        self._links: Mapping[str, Link] = {link.name: link for link in links if not link.many}
        self._many = next((link for link in links if link.many), None)

    def close(self) -> None:
        links = [*self._links.values(), *([self._many] if self._many else [])]
        closers = [threading.Thread(target=link.close) for link in links]
        for thread in closers:
            thread.start()
        for thread in closers:
            thread.join()
        if self._journal is not None:
            self._journal.close()

    def run(self, samples: Sequence[Inputs]) -> list[list[np.ndarray]]:
        with self._lock:
            return self._run(samples)

    def _run(self, samples: Sequence[Inputs]) -> list[list[np.ndarray]]:
        self._job = (self._job + 1) & 0xFFFFFFFF
        self._calls += 1
        stages = self._stages = Stages(self._dispatcher, self._route, self._job)
        answers: dict[int, bytes] = {}
        failed: dict[Key, str] = {}
        actions: list[Action] = []
        waiting: deque[tuple[int, Inputs]] = deque()
        for sample, inputs in enumerate(samples):
            if self._journal is not None and (noted := self._journal.answers.get(self._in_journal(sample))) is not None:
                answers[sample] = noted
            else:
                waiting.append((sample, inputs))
        known = len(answers)
        progress, steps = time.monotonic(), 0
        while True:
            now = time.monotonic()
            # What is between two parts is kept here, so there are not more of those than boards have use for.
            while waiting and (len(self._route) == 1 or stages.under_way < UNDER_WAY + 4 * self._dispatcher.known):
                sample, inputs = waiting.popleft()
                actions += stages.begin(now, sample, joined(inputs))
            self._do(actions, failed)
            if failed:
                key, reason = next(iter(failed.items()))
                where = f", {self._route.named(self._route.crcs[key.stage])}," if len(self._route) > 1 else ""
                raise MicaError(f"{self.target}: sample {stages.sample(key)}{where} was given up: {reason}")
            if len(stages.answers) + known == len(samples) and not self._dispatcher.audits_open():
                break
            now = time.monotonic()
            if stages.steps != steps:
                progress, steps = now, stages.steps
            self._check_progress(now - progress, steps > 0 or known > 0)
            due = self._dispatcher.next_due()
            actions = self._next(min(1.0, max(0.0, due - now)) if due is not None else 1.0)
        answers |= stages.answers
        stages.forget_all()
        return [list(split(self.model, self.model.outputs, answers[sample])) for sample in range(len(samples))]

    def _in_journal(self, sample: int) -> Key:
        """Job numbers differ from one coordinator to the next; calls are made in the same order."""
        return Key(self._calls, sample)

    def _note(self, kind: int, sample: int, content: bytes = b"") -> None:
        if self._journal is not None:
            self._journal.write(kind, self._in_journal(sample), content)

    def _check_progress(self, idle: float, begun: bool) -> None:
        states = self._dispatcher.states
        never = [crc for crc in self._route.crcs if crc not in self._had]
        if idle > _NOWHERE and never and states["up"]:
            why = "".join(f"; {name}: {reason}" for name, reason in self._reasons.items())
            there = Counter(crc for crcs in self._has.values() for crc in crcs)
            has = ", ".join(f"{crc:08x} (on {n})" for crc, n in there.most_common(4)) or "none"
            raise MicaError(
                f"{self.target}: no board has {self._route.named(never[0])} (CRC-32 {never[0]:08x}){why}; "
                f"they have {has}",
                todo="mica fleet push sends a model, mica fleet ls lists them",
            )
        if idle > _QUIET and not self._dispatcher.known and not self._waits:
            self._waits = True
            self._say(f"no board of {self.target} is up yet; waiting up to {_PATIENCE:.0f} s")
        if 0 < self._dispatcher.known == states["quarantined"]:
            names = ", ".join(self._dispatcher.boards())
            raise MicaError(f"{self.target}: every board is in quarantine: {names} answered wrongly")
        if idle > (_STALLED if begun else _PATIENCE):
            why = "; ".join(f"{name}: {reason}" for name, reason in self._reasons.items()) or "no board answers"
            raise MicaError(f"{self.target}: nothing for {idle:.0f} s ({why})")

    def _next(self, seconds: float) -> list[Action]:
        """Wait for an event, and take all that are there by then."""
        actions: list[Action] = []
        with contextlib.suppress(queue.Empty):
            actions += self._event(self._events.get(timeout=seconds) if seconds else self._events.get_nowait())
        there, now = self._events.qsize(), time.monotonic()
        for _ in range(there):
            actions += self._event(self._events.get())
        return actions + self._dispatcher.tick(now)

    def _event(self, event: Event) -> list[Action]:
        now = time.monotonic()
        match event:
            case links.Birth(name, boot, session, models, largest):
                if name in self._reasons:
                    self._say(f"{name} is back")
                self._reasons.pop(name, None)
                self._has[name] = set(models)
                for crc in sorted(models):
                    if largest and (size := self._route.input_bytes(crc)) > largest:
                        self._reasons[name] = f"a request has {size} bytes, and it takes {largest}"
                        self._say(f"{name} is left out: {self._reasons[name]}")
                        models = models - {crc}
                models &= self._hosts.keys()
                self._had |= models
                return self._dispatcher.birth(now, name, boot, session, models)
            case links.Death(name, boot, session, reason):
                self._say(f"{name} is lost: {reason}")
                self._reasons[name] = reason
                return self._dispatcher.death(now, name, boot, session)
            case links.Unreachable(name, reason):
                if name not in self._reasons:
                    self._say(f"{name} cannot be reached: {reason}")
                self._reasons[name] = reason
                return []
            case links.Restored(name):
                if self._reasons.pop(name, None):
                    self._say(f"{name} is back")
                return []
            case links.Damaged(name, reason):
                self._say(f"{name}: {reason}")
                return []
            case links.Broken(reason):
                raise MicaError(f"{self.target}: {reason}")
            case links.Answered(name, answer):
                return self._dispatcher.answer(now, name, answer)

    def _do(self, actions: list[Action], failed: dict[Key, str]) -> None:
        for action in actions:  # which grows meanwhile
            actions += self._one(action, failed)
        actions.clear()

    def _one(self, action: Action, failed: dict[Key, str]) -> list[Action]:
        """Carry out one action; return those that follow from it."""
        match action:
            case Send(name, request):
                link = self._links.get(name, self._many)
                assert link is not None
                link.send(name, request)
            case Done(key, outputs, _):
                more = self._stages.done(time.monotonic(), key, outputs)
                sample = self._stages.sample(key)
                if sample is not None and (whole := self._stages.answers.get(sample)) is not None:
                    self._note(ANSWER, sample, whole)
                return more
            case Withdrawn(key):
                sample = self._stages.sample(key)
                if sample is not None and sample in self._stages.answers:
                    self._note(WITHDRAWN, sample)
                self._stages.withdrawn(key)
            case Failed(key, reason):
                if self._stages.sample(key) is not None:  # not of a job that was broken off
                    failed[key] = reason
            case Audit(key, crc, inputs):
                host = self._hosts[crc]
                right = joined(host.run([split(host.model, host.model.inputs, inputs)])[0])
                return self._dispatcher.audited(time.monotonic(), key, right)
            case Quarantined(name, n):
                self._say(f"{name} answered wrongly and is in quarantine; {n} of its answers are asked again")
        return []

    def _for_one_board(self, what: str) -> MicaError:
        return MicaError(f"{self.target}: {what} on one board at a time: --on one of {', '.join(self._links)}")

    def layer_hashes(self, inputs: Inputs) -> list[int]:
        raise self._for_one_board("layers are compared")

    def layer_output(self, inputs: Inputs, step: int) -> np.ndarray:
        raise self._for_one_board("layers are compared")

    def reset(self) -> None:
        """Nothing is kept from sample to sample."""

    def bench(self, inputs: Inputs, runs: int) -> Times:
        raise self._for_one_board("cycles are counted")
