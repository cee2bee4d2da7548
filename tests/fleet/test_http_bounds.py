"""Slow, broken, greedy, rude and many clients of `mica fleet serve` keep no good client from its answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import queue
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import crowd
import numpy as np
import pytest

from mica.file import codec
from mica_fleet import door, inference_api
from mica_fleet.inference_api import ApiError, largest_body, parse
from mica_fleet.links import Answered, Birth, Events, Link
from mica_fleet.metrics import Metrics
from mica_fleet.server import Server
from mica_fleet.service import Service, Unavailable
from mica_fleet.turns import Request, Turns
from mica_fleet.wire import Answer, Status
from mica_fleet.wire import Request as Asked

CREDIT = 2


@pytest.fixture(scope="module")
def model(digits_file: Path) -> codec.ModelFile:
    return codec.decode(digits_file.read_bytes())


class Fake(Link):
    """A board that answers with zeros, as long as `go` is set. `asked`: the requests, in their order.

    Where `go` is cleared, each release of `one` is one answer.
    """

    name = "b1"

    def __init__(self, events: Events, model: int) -> None:
        self._events = events
        self.asked: list[Asked] = []
        self.go = threading.Event()
        self.go.set()
        self.one = threading.Semaphore(0)
        self._waiting: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        events.put(Birth(self.name, 1, 1, frozenset({model})))

    def send(self, board: str, request: Asked) -> None:
        self.asked.append(request)
        self._waiting.put(request)

    def _live(self) -> None:
        while (r := self._waiting.get()) is not None:
            while not self.go.is_set() and not self.one.acquire(timeout=0.02):
                pass
            self._events.put(Answered(self.name, Answer(r.key, r.model, r.attempt, Status.OK, 1, 1, bytes(10))))

    def close(self) -> None:
        self.go.set()
        self._waiting.put(None)
        self._thread.join()


@dataclass
class Running:
    service: Service
    board: Fake
    port: int
    said: list[str] = field(default_factory=list)


@pytest.fixture
def running(digits_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Running]]:
    """running(most_samples) starts a server in this process, whose board's answers are not compared with the host's."""
    import zlib

    from mica_fleet.dispatch import Settings

    data = digits_file.read_bytes()
    with contextlib.ExitStack() as stack:

        def start(most: int = 10_000) -> Running:
            links: list[Fake] = []

            def open_links(events: Events) -> list[Link]:
                links.append(Fake(events, zlib.crc32(data)))
                return list(links)

            settings = Settings(audit=0, first_audits=0, credit=CREDIT, least_lease=60)
            service = Service({"digits": [data]}, open_links, lambda line: None, settings, most=most)
            stack.callback(service.close)
            said: list[str] = []
            server = Server("127.0.0.1", 0, None, said.append)
            thread = threading.Thread(target=server.run, args=(service, Metrics(), 20.0), daemon=True)
            thread.start()
            stack.callback(thread.join, 30)
            stack.callback(server.stop)
            port = int(server.url.rpartition(":")[2])
            found = Running(service, links[0], port, said)
            until(lambda: service.is_ready("digits"))
            return found

        interval = sys.getswitchinterval()
        yield start
    sys.setswitchinterval(interval)


def until(what: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


# ---- bodies


def test_no_list_of_a_client_multiplies_what_is_answered(model: codec.ModelFile) -> None:
    assert len(parse(model, crowd.body_of(model, 1, outputs=1), None).samples) == 1
    for n in (2, 1000):
        with pytest.raises(ApiError, match="outputs: one is there twice"):
            parse(model, crowd.body_of(model, 1, outputs=n), None)
    deep = b'{"inputs": [], "parameters": ' + b'{"a": [' * 20_000 + b"]}" * 20_000 + b"}"
    for body in (
        b'{"inputs": [' + b"[]," * 30_000 + b"[]]}",
        deep,
        b'{"inputs": [{"data": [1]}' + b',{"data":[1]}' * 99,
    ):
        with pytest.raises(ApiError, match="no JSON of a request") as e:
            parse(model, body, None)
        assert e.value.status == 400


def test_numbers_take_little_memory_whatever_they_are(model: codec.ModelFile) -> None:
    """A body of the largest size takes less memory than it has bytes: Python's objects for all its numbers, or lists,
    took 20 times that."""
    t = model.tensors[model.inputs[0]]
    n = inference_api.MOST_SAMPLES * math.prod(t.dims)
    head = json.dumps({"name": t.name, "shape": [inference_api.MOST_SAMPLES, *t.dims[1:]], "datatype": "FP32"})[:-1]
    inside = largest_body(model) - 65536
    kinds = {
        "as it should be": "0.12345678901234567890, " * (n - 1) + "0.5",
        "too many": "1," * (inside // 2) + "1",
        "empty lists": "[]," * (inside // 3) + "[]",
        "deep": "[" * (inside // 2) + "]" * (inside // 2),
        "one long number": "1" * inside,
    }
    for kind, data in kinds.items():
        body = f'{{"inputs": [{head}, "data": [{data}]}}]}}'.encode()
        tracemalloc.start()
        try:
            samples = parse(model, body, None).samples
        except ApiError as e:
            assert kind != "as it should be" and str(e).endswith(f"data is not {n} numbers")
        else:
            assert kind == "as it should be" and len(samples) == inference_api.MOST_SAMPLES
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 2 * len(body), kind


def test_nested_numbers_and_flat_ones_are_the_same(model: codec.ModelFile) -> None:
    x = np.random.default_rng(0).normal(0, 1, (300, 1, 8, 8)).astype(np.float32)
    t = model.tensors[model.inputs[0]]

    def samples(data: object, n: int = 300) -> list[bytes]:
        entry = {"name": t.name, "shape": [n, 1, 8, 8], "datatype": "FP32", "data": data}
        return parse(model, json.dumps({"inputs": [entry]}, indent=1).encode(), None).samples

    assert samples(x.tolist()) == samples(x.reshape(-1).tolist()) == samples(x.reshape(300, 64).tolist())
    assert samples(x[:1].tolist(), 1) == samples(x[0].tolist(), 1) == samples(x[0].reshape(-1).tolist(), 1)
    bad: list[object] = [[*x[0, 0, :7].tolist(), [1.0] * 9], "1", ["1"] * 64, {"a": 1}, None, [], [[]] * 64, 1]
    for data in bad:
        with pytest.raises(ApiError, match="data is not 64 numbers"):
            samples(data, 1)


def test_how_large_a_body_may_be_follows_from_the_model(
    model: codec.ModelFile, running: Callable[..., Running]
) -> None:
    most = largest_body(model)
    assert most == 1024 * 64 * 24 + 65536
    r = running()
    assert crowd.one(r.port, b"{" + b" " * (most - 2) + b"}")[0] == 400
    status, said = crowd.one(r.port, b" " * (most + 1))
    assert status == 413 and json.loads(said) == {"error": f"a body of this model has at most {most:,} bytes"}
    # without a length, in chunks
    with socket.create_connection(("127.0.0.1", r.port), 20) as s:
        s.sendall(f"POST {crowd.INFER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(most // 65536 + 2):
            s.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 413 ")
    large = codec.decode(codec.encode(model))
    for t in (*large.inputs, *large.outputs):
        large.tensors[t].dims = (1, 100, 100, 10)
    assert inference_api.most_samples(large) == 5 and largest_body(large) == 5 * 100_000 * 24 + 65536


def test_bodies_share_a_bounded_memory() -> None:
    bodies = door.Bodies(1000)
    with contextlib.ExitStack() as stack:
        old, add_old, _ = stack.enter_context(bodies.body())
        whole, add_whole, is_whole = stack.enter_context(bodies.body())
        add_old(bytes(400))
        add_whole(bytes(400))
        is_whole()
        new, add_new, _ = stack.enter_context(bodies.body())
        add_new(bytes(300))  # the oldest that is not whole goes
        assert (len(old), len(whole), len(new)) == (0, 400, 300)
        with pytest.raises(door.TooMuch):
            add_old(b"x")
        with pytest.raises(door.TooMuch):
            add_new(bytes(301))
    with bodies.body() as (found, add, _):
        add(bytes(1000))
        assert len(found) == 1000, "all else was given back"


# ---- connections


def test_a_request_that_is_not_whole_in_time_is_closed(
    model: codec.ModelFile, running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    r = running()
    r.board.go.clear()
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        good = pool.submit(crowd.one, r.port, crowd.body_of(model, 1))
        until(lambda: r.board.asked)  # it is whole, and waits for longer
        monkeypatch.setattr(door, "WHOLE_SECONDS", 1.0)
        slow = [stack.enter_context(s) for s in crowd.half_requests(r.port, 9)]
        over = threading.Event()

        def drip() -> None:
            """A byte now and then, to all of them."""
            while not over.wait(0.1):
                for s in slow[3:]:
                    with contextlib.suppress(OSError):
                        s.sendall(b"A")

        thread = threading.Thread(target=drip)
        thread.start()
        for s in slow:
            s.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert s.recv(1) == b""
        over.set()
        thread.join()
        time.sleep(1.0)
        r.board.go.set()
        assert good.result()[0] == 200
    assert len(r.said) == 1 and "not whole" in r.said[0]


def test_connections_are_bounded_and_the_next_one_gets_in(
    model: codec.ModelFile, running: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_CONNECTIONS", 20)
    r = running()
    for halves in (60, 60):
        open_ones = crowd.half_requests(r.port, halves)
        assert crowd.one(r.port, crowd.body_of(model, 1))[0] == 200
        still = 0
        for s in open_ones:
            s.settimeout(0.01)
            try:
                s.recv(1)
            except TimeoutError:
                still += 1
            except OSError:
                pass
        assert still <= 20
        for s in open_ones:
            s.close()
    assert len(r.said) == 1 and "more than 20 connections" in r.said[0]


class Untaken:
    """A connection whose answer lies in the transport: so many bytes of it."""

    def __init__(self, size: int) -> None:
        self.size, self.aborted, self.cycle = size, False, None
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.aborted = True


def test_answers_that_are_not_taken_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(door.time, "monotonic", lambda: clock[0])
    said: list[str] = []
    connections = door.Connections(100, door.Remarks(said.append))
    some = [Untaken(1000), Untaken(0), Untaken(20 << 20), Untaken(20 << 20)]
    for c in some:
        connections.came(c)
        connections.answered(c)
    asyncio.run(connections.look())
    assert [c.aborted for c in some] == [False] * 4
    clock[0] += 20
    for c in some:
        connections.answered(c)  # requests come all the time, and no answer is taken
    connections.came(more := Untaken(20 << 20))
    asyncio.run(connections.look())
    assert [c.aborted for c in some] == [True, False, True, False], "the oldest go where memory is short"
    clock[0] += 20
    some[3].size = 0
    connections.answered(some[1])
    connections.answered(some[3])
    asyncio.run(connections.look())
    assert [some[1].aborted, some[3].aborted, more.aborted] == [False, False, False]
    clock[0] += 20
    asyncio.run(connections.look())
    assert more.aborted and len(said) == 1


def test_few_files_and_rude_clients_cost_a_line_of_log(digits_file: Path, model: codec.ModelFile) -> None:
    """128 open files, 300 half requests, 200 clients that go in mid-body, 100 that speak no HTTP."""
    with crowd.serving("fleet:host", str(digits_file), files=128) as (process, port, said):
        until(lambda: crowd.one(port, crowd.body_of(model, 1))[0] == 200)
        for i in range(200):
            for s in crowd.half_requests(port, 3)[2:]:
                s.close()
            if i % 2:
                with socket.create_connection(("127.0.0.1", port), 10) as s, contextlib.suppress(OSError):
                    s.sendall(b"\x00\x01\x02\r\n\r\n")
                    s.recv(100)
        open_ones = crowd.half_requests(port, 300)
        for _ in range(5):
            assert crowd.one(port, crowd.body_of(model, 1))[0] == 200
        for s in open_ones:
            s.close()
        lines = said.read_text().splitlines()
        assert process.poll() is None
    assert len(lines) <= 4 and all(line.startswith("mica: ") for line in lines), lines


# ---- shares


def request(name: str, client: str, samples: int) -> Request:
    from collections import deque
    from concurrent.futures import Future

    return Request(name, client, deque((i, bytes(10)) for i in range(samples)), Future())


def test_who_has_least_at_boards_is_next() -> None:
    turns = Turns(1000, 10_000)
    busy, small = request("m", "a", 5), request("m", "a", 2)
    assert turns.add(busy) == []
    first = [turns.next("m"), turns.next("m")]
    assert turns.add(small) == [] and turns.add(other := request("m", "b", 2)) == []
    order = [turns.next("m") for _ in range(7)]
    assert [t[0] for t in first + order if t] == [busy, busy, other, other, small, small, busy, busy, busy]
    assert [t[1] for t in first + order if t and t[0] is busy] == [0, 1, 2, 3, 4]
    assert turns.next("m") is None and turns.next("x") is None


def test_where_there_is_no_room_the_largest_goes() -> None:
    turns = Turns(600, 1_000_000)
    many = [request("m", "a", 250) for _ in range(3)]
    assert [turns.add(r) for r in many] == [[], [], [many[2]]]
    small = request("m", "a", 60)
    assert turns.add(small) == []
    assert turns.add(request("m", "b", 60)) == [many[1]]
    assert turns.add(request("m", "b", 200)) == []
    turns.drop(small)
    by_bytes = Turns(600, 1000)
    assert by_bytes.add(request("m", "a", 90)) == [] and len(by_bytes.add(request("m", "b", 11))) == 1


def test_a_busy_client_leaves_a_share(model: codec.ModelFile, running: Callable[..., Running]) -> None:
    """A client leaves after 60 requests of 256 samples, more than may wait; another is answered next, without a 503."""
    r = running()
    r.board.go.clear()
    sample = bytes(64)
    busy = [r.service.submit("digits", [sample] * 256, "a") for _ in range(60)]
    until(lambda: busy[-1].done())
    with pytest.raises(Unavailable, match="10000 samples are waiting already"):
        busy[-1].result()
    assert sum(f.done() for f in busy) == 60 - 10_000 // 256
    until(lambda: len(r.board.asked) == CREDIT)
    for client in ("a", "b"):
        good = r.service.submit("digits", [bytes([1]) * 64], client)
        before = len(r.board.asked)
        for answers in range(1, CREDIT + 2):  # to what the board had; the last is the good one's
            r.board.one.release()
            until(lambda n=before + answers: len(r.board.asked) == n)
        assert [a.inputs == bytes([1]) * 64 for a in r.board.asked[before:]] == [True] + [False] * CREDIT, client
        assert len(good.result(20)) == 1
    for future in busy:
        r.service.abandon(future)
    r.board.go.set()
    assert len(r.service.submit("digits", [sample], "a").result(20)) == 1
    time.sleep(0.2)
    assert len(r.board.asked) < 5000, "boards are not asked for those who went"


def test_a_client_that_goes_away_is_not_worked_for(model: codec.ModelFile, running: Callable[..., Running]) -> None:
    r = running()
    r.board.go.clear()
    body = crowd.body_of(model, 1000)
    with socket.create_connection(("127.0.0.1", r.port)) as s:
        s.sendall(
            f"POST {crowd.INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        until(lambda: len(r.board.asked) == CREDIT)
    until(lambda: not r.service._requests)
    r.board.go.set()
    assert crowd.one(r.port, crowd.body_of(model, 1))[0] == 200
    assert len(r.board.asked) <= CREDIT + 1 and not r.said


def test_a_crowd_costs_a_good_client_at_most_the_double(digits_file: Path) -> None:
    """crowd.py has the full form: scaled down here, against the host as a board. What else works on this machine slows
    the client down now and then; a server that is not fair does it each time."""
    with crowd.serving("fleet:host", str(digits_file)) as (process, port, _):
        for _ in range(5):
            found = crowd.compare(port, process.pid, digits_file, halves=300, bodies=2, seconds=1.5)
            assert found["MB"] < 150
            if found["invalid"]["ratio"] < 4 and found["valid"]["ratio"] < 4:  # 2 where nothing else works
                return
    raise AssertionError(found)
