"""Requests of clients that wait for boards, and which sample goes next. No I/O.

The client with the fewest samples at boards goes first. Of its requests the one with the fewest samples sent goes
first, and of those the smallest. So a client that asks for much takes what others leave.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Result:
    outputs: bytes
    board: str


@dataclass(eq=False)
class Request:
    """Samples of one client for one model. `waiting`: index and inputs of those not sent yet;
    `sent`: numbers of those at boards."""

    name: str
    client: str
    waiting: deque[tuple[int, bytes]]
    future: Future[list[Result]]
    results: dict[int, Result] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)

    @property
    def bytes(self) -> int:
        return sum(len(inputs) for _, inputs in self.waiting)


_Entry = tuple[int, int, int, Request]  # samples sent, samples waiting, number


class Turns:
    """At most so many samples wait, and so many bytes of them."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._number = 0
        self._bytes = 0
        self._waiting: Counter[str] = Counter()  # samples of each client
        self._at_boards: Counter[str] = Counter()  # samples of each client
        self._requests: dict[Request, int] = {}  # with samples that wait -> their numbers, in the order of coming
        self._heaps: dict[str, dict[str, list[_Entry]]] = {}  # model -> client -> requests

    def add(self, request: Request) -> list[Request]:
        """The requests that have to go, so that there is room: the youngest of the largest of the client with the most
        samples."""
        self._number += 1
        self._requests[request] = self._number
        self._waiting[request.client] += len(request.waiting)
        self._bytes += request.bytes
        clients = self._heaps.setdefault(request.name, {})
        heapq.heappush(clients.setdefault(request.client, []), (0, len(request.waiting), self._number, request))
        dropped = []
        while self._waiting.total() > self._most or self._bytes > self._most_bytes:
            victim = max(self._requests, key=lambda r: (self._waiting[r.client], len(r.waiting), self._requests[r]))
            self.drop(victim)
            dropped.append(victim)
        return dropped

    def drop(self, request: Request) -> None:
        """None of its samples waits any more."""
        if self._requests.pop(request, None) is not None:
            _take(self._waiting, request.client, len(request.waiting))
            self._bytes -= request.bytes
            request.waiting.clear()

    def waits(self, name: str) -> bool:
        """True if a sample of this model may be waiting."""
        return bool(self._heaps.get(name))

    def next(self, name: str) -> tuple[Request, int, bytes] | None:
        """The sample of this model that is to be sent now: its request, its index there and its inputs."""
        clients = self._heaps.get(name, {})
        while clients:
            client = min(clients, key=lambda c: self._at_boards[c])
            heap = clients.pop(client)
            sent, _, number, request = heapq.heappop(heap)
            if request not in self._requests:
                if heap:
                    clients[client] = heap
                continue
            index, inputs = request.waiting.popleft()
            self._bytes -= len(inputs)
            _take(self._waiting, client, 1)
            if request.waiting:
                heapq.heappush(heap, (sent + 1, len(request.waiting), number, request))
            else:
                del self._requests[request]
            if heap:
                clients[client] = heap  # behind others with as many samples at boards
            self._at_boards[client] += 1
            return request, index, inputs
        return None

    def back(self, clients: Iterable[str]) -> None:
        """A sample of each of these is no longer at a board."""
        for client in clients:
            _take(self._at_boards, client, 1)


def _take(counts: Counter[str], key: str, n: int) -> None:
    counts[key] -= n
    if not counts[key]:
        del counts[key]
