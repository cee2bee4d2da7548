"""Boards as the dispatcher sees them: each has a link that takes requests, and puts events into a queue.

A link lives in a thread of its own and never ends on an error: where its board fails, it says goodbye for it,
and tries to reach it again.
"""

import abc
import queue
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mica.errors import MicaError
from mica.file.codec import DTYPE_NUMPY, ModelFile, TensorRecord
from mica.run.runner import Inputs, Runner
from mica_fleet.wire import Answer, Request, Status


@dataclass(frozen=True)
class Birth:
    board: str
    boot: int
    session: int
    models: frozenset[int]
    largest: int = 0  # bytes of inputs that it takes in one request; 0: any number
    machine: str = ""  # what it is called (machines.py)


@dataclass(frozen=True)
class Death:
    """`reason` is for people."""

    board: str
    boot: int
    session: int
    reason: str


@dataclass(frozen=True)
class Answered:
    board: str
    answer: Answer


@dataclass(frozen=True)
class Unreachable:
    """A board that could not be opened; its link goes on trying."""

    board: str
    reason: str


@dataclass(frozen=True)
class Restored:
    """A broker is back. A board says so by its Birth."""

    name: str


@dataclass(frozen=True)
class Damaged:
    """A board has sent what cannot be read; it is dropped. `reason` is a line for people."""

    board: str
    reason: str


@dataclass(frozen=True)
class Broken:
    """A link that cannot go on, with all its boards."""

    reason: str


Event = Birth | Death | Answered | Unreachable | Restored | Damaged | Broken
Events = queue.SimpleQueue[Event]


_NEXT = 0.003  # seconds that a request is waited for while the board is at work


class Link(abc.ABC):
    """`name` is the board's name in the fleet. A link of `many` boards names them in its events."""

    name: str
    many = False

    @abc.abstractmethod
    def send(self, board: str, request: Request) -> None:
        """Hand a request on. Never waits, never raises: what is lost on the way is the dispatcher's to notice."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of the board."""


class RunnerLink(Link):
    """One model on one target of `mica run`: a port, an emulated board, MicroPython on this computer, or the host."""

    def __init__(
        self, name: str, open_it: Callable[[], Runner], events: Events, retry: float = 1.0, machine: str = ""
    ) -> None:
        """`open_it` reaches the board and loads the model there; it is called again `retry` seconds after a failure."""
        self.name = name
        self._open = open_it
        self._events = events
        self._retry = retry
        self._machine = machine
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._boot = 0
        self._thread = threading.Thread(target=self._live, name=f"link to {name}", daemon=True)
        self._thread.start()

    def send(self, board: str, request: Request) -> None:
        self._requests.put(request)

    def close(self) -> None:
        self._closing.set()
        self._requests.put(None)
        self._thread.join(timeout=30)

    def _live(self) -> None:
        while not self._closing.is_set():
            self._boot += 1
            born = False
            try:
                with self._open() as runner:
                    born = True
                    self._forget_requests()
                    model = zlib.crc32(runner.data)
                    self._events.put(Birth(self.name, self._boot, 1, frozenset({model}), machine=self._machine))
                    self._work(runner, model)
                    return
            except (MicaError, OSError) as e:
                self._events.put(Death(self.name, self._boot, 1, str(e)) if born else Unreachable(self.name, str(e)))
            self._closing.wait(self._retry)

    def _forget_requests(self) -> None:
        """Drop the requests of the board's last session; other boards are asked."""
        while not self._requests.empty():
            if self._requests.get() is None:
                self._requests.put(None)
                return

    def _work(self, runner: Runner, model: int) -> None:
        under_way: deque[tuple[Request, float]] = deque()
        idle = 0.0  # since when the board has been
        while True:
            while len(under_way) < runner.ahead:
                try:
                    # The next one comes at once with the answer to the last, where there is one.
                    request = self._requests.get(timeout=_NEXT if under_way else None)
                except queue.Empty:
                    break
                if request is None:
                    return
                if request.model != model:
                    self._answer(request, Status.NO_MODEL, b"", 0.0)
                    continue
                try:
                    inputs = split(runner.model, runner.model.inputs, request.inputs)
                except ValueError as e:
                    self._answer(request, Status.BAD_REQUEST, str(e).encode(), 0.0)
                    continue
                under_way.append((request, time.monotonic()))
                runner.begin(inputs)
            request, begun = under_way.popleft()
            data = joined(runner.finish())
            now = time.monotonic()
            self._answer(request, Status.OK, data, now - max(begun, idle))
            idle = now

    def _answer(self, request: Request, status: Status, data: bytes, seconds: float) -> None:
        us = int(seconds * 1e6) & 0xFFFFFFFF
        answer = Answer(request.key, request.model, request.attempt, status, self._boot, us, data)
        self._events.put(Answered(self.name, answer))


def joined(arrays: Sequence[np.ndarray]) -> bytes:
    """Inputs or outputs one after the other, as they lie in the tensors."""
    return b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)


def split(model: ModelFile, ids: Sequence[int], data: bytes) -> Inputs:
    """The reverse of `joined`. Raises ValueError where the sizes differ."""
    tensors: list[TensorRecord] = [model.tensors[t] for t in ids]
    expected = sum(t.bytes for t in tensors)
    if len(data) != expected:
        raise ValueError(f"{len(data)} bytes of inputs; the model takes {expected}")
    arrays, at = [], 0
    for t in tensors:
        arrays.append(np.frombuffer(data[at : at + t.bytes], DTYPE_NUMPY[t.dtype]).reshape(t.dims))
        at += t.bytes
    return arrays
