"""Requests and answers in frames: the board's own program, run here, behind a line that loses and changes bytes;
and boards that lie."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

import pytest
from fake_board import FakeBoard

from mica.link import frames, on_board
from mica.link.board import BoardError
from mica.link.frames import Exchange, Frame, decode
from mica.link.serial_board import SerialBoard

Spoil = Callable[[bytes], bytes]


def as_it_is(data: bytes) -> bytes:
    return data


class Model:
    """A mica.Model, as far as the program needs it: answers inputs backwards, and fails on what begins with 255."""

    def __init__(self, sizes: list[int]) -> None:
        self._m = self
        self.sizes = sizes
        self.inputs = list(range(len(sizes)))
        self.info = types.SimpleNamespace(n_outputs=1)
        self.x = [b""] * len(sizes)
        self.runs = 0

    def tensor(self, t: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(nbytes=self.sizes[t])

    def write(self, i: int, data: memoryview) -> None:
        self.x[i] = bytes(data)

    def run(self) -> None:
        self.runs += 1
        if self.x[0][0] == 255:
            raise ValueError("255 is too much")

    def output(self, i: int) -> bytes:
        return b"".join(self.x)[::-1]


class Board:
    """The program of on_board/frames.py in a thread; `spoil_in` and `spoil_out` damage its bytes on the line."""

    def __init__(self, sizes: list[int]) -> None:
        self.model = Model(sizes)
        self.spoil_in: Spoil = as_it_is
        self.spoil_out: Spoil = as_it_is
        self.waiting = 0  # bytes that the board has not read
        self.most = 0
        self._to_board: SimpleQueue[int] = SimpleQueue()
        self._to_host: SimpleQueue[bytes] = SimpleQueue()
        self._pending = b""
        board_sys = types.ModuleType("sys")
        board_sys.stdin = types.SimpleNamespace(buffer=types.SimpleNamespace(readline=self._readline))
        board_sys.stdout = types.SimpleNamespace(buffer=types.SimpleNamespace(write=self._write))
        board_sys.print_exception = lambda e, to: to.write("".join(traceback.format_exception_only(e)))
        names: dict[str, object] = {}
        text = on_board.source("frames")
        text = text.replace("    import sys\n", "").replace("    from _mica import Quantised\n", "")
        exec(compile(text, "on_board/frames.py", "exec"), names)
        names |= {"sys": board_sys, "Quantised": bytes}

        def live() -> None:
            names["_mica_frames"](self.model, sum(sizes), frames.ROOM)  # type: ignore[operator]
            self._to_host.put(b"\x04")

        self._thread = threading.Thread(target=live, daemon=True)
        self._thread.start()

    # the board's side
    def _readline(self, most: int) -> bytes:
        line = b""
        while len(line) < most and not line.endswith(b"\n"):
            line += bytes([self._to_board.get()])
            self.waiting -= 1
        return line

    def _write(self, data: bytes) -> None:
        assert not set(data) & {3, 4, 13}
        self._to_host.put(self.spoil_out(data))

    # the host's
    def write(self, data: bytes) -> None:
        assert not set(data) & {3, 4, 13}
        for byte in self.spoil_in(data):
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            self._to_board.put(byte)

    def read_some(self) -> bytes:
        pending, self._pending = self._pending, b""
        try:
            return pending or self._to_host.get(timeout=0.02)
        except Empty:
            return b""

    def push_back(self, data: bytes) -> None:
        self._pending = data + self._pending


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    monkeypatch.setattr(frames, "_SIGN", 0.1)
    yield Board([40, 24])


def exchange(board: Board, size: int = 64) -> Exchange:
    found = Exchange(board, "B", size, size, silence=20.0)
    found.ready()
    return found


def play(e: Exchange, requests: list[bytes]) -> list[bytes]:
    answers = []
    for k, x in enumerate(requests):
        e.begin(x)
        if k:
            answers.append(e.finish())
    return [*answers, e.finish()]


def test_frames_have_no_byte_that_a_terminal_takes_for_its_own() -> None:
    for data in (bytes(range(256)), b"\x10\x10C\x10", b"", b"\n" * 9):
        frame = Frame("R", 3, 0x040A, data)
        line = frame.encode()
        assert line.endswith(b"\n") and not set(line[:-1]) & {3, 4, 10, 13}
        assert decode(line[:-1]) == decode(line[:-1] + b"\r") == frame
        for at in range(len(line) - 1):
            assert decode(line[:at] + bytes([line[at] ^ 0x20]) + line[at + 1 : -1]) is None
            assert decode(line[:at]) is None


def test_requests_are_answered_in_turn_and_two_are_on_their_way(board: Board) -> None:
    e = exchange(board)
    requests = [bytes([k]) + bytes(63) for k in range(100)]
    assert play(e, requests) == [x[::-1] for x in requests]
    assert board.model.runs == 100 and board.most <= 256
    e.begin(requests[1])
    e.begin(requests[2])
    end = time.monotonic() + 60
    while board.model.runs < 102:
        assert time.monotonic() < end, "the second is sent after the first was answered"
        time.sleep(0.01)


def test_what_is_longer_than_a_piece() -> None:
    board = Board([1000, 7])
    chance = random.Random(0)
    requests = [chance.randbytes(1007) for _ in range(10)] + [b"\x03" * 1007, b"\n" * 1007]
    requests = [b"\0" + x[1:] for x in requests]
    assert play(exchange(board, 1007), requests) == [x[::-1] for x in requests]
    assert board.most <= 256


@pytest.mark.parametrize("seed", range(6))
def test_a_line_that_loses_and_changes_bytes(board: Board, seed: int) -> None:
    chance = random.Random(seed)
    damaged = 0

    def spoil(data: bytes) -> bytes:
        nonlocal damaged
        if chance.random() > 0.04 or not data:
            return data
        damaged += 1
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                return b""
            case 1:
                return data[:at]
            case 2:
                return data[:at] + bytes([data[at] ^ 0x60]) + data[at + 1 :]
            case 3:
                return data[:at] + b"\n" + data[at:]
            case _:
                return data[:at] + b"What a board prints\r\n" + data[at:]

    e = exchange(board)
    board.spoil_in = board.spoil_out = spoil
    requests = [bytes([k]) + chance.randbytes(63) for k in range(60)]
    assert play(e, requests) == [x[::-1] for x in requests]
    assert damaged > 1


def test_an_exception_on_the_board_is_told_and_the_next_request_is_answered(board: Board) -> None:
    e = exchange(board)
    e.begin(b"\xff" * 64)
    with pytest.raises(BoardError, match="255 is too much") as found:
        e.finish()
    assert found.value.exception == "ValueError"


def test_the_program_ends_when_it_is_told(board: Board) -> None:
    e = exchange(board)
    e.end()
    board._thread.join(60)
    assert not board._thread.is_alive()
    e.begin(bytes(64))
    with pytest.raises(BoardError, match="has ended"):
        e.finish()
    assert e.ended


class Liar:
    """A board that answers everything with these bytes."""

    def __init__(self, *says: bytes) -> None:
        self._says = list(says)

    def write(self, data: bytes) -> None:
        pass

    def read_some(self) -> bytes:
        return self._says.pop(0) if self._says else b""

    def push_back(self, data: bytes) -> None:
        pass


def right(number: int = 1, data: bytes = bytes(10)) -> bytes:
    return Frame("A", number, len(data), data).encode()


HELLO = Frame("H", 1, 0).encode()


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ([right(2)], "that nobody asked for"),
        ([right(1, bytes(11))], "that nobody asked for"),
        ([right(1, b"")], "that nobody asked for"),
        ([Frame("A", 1, 11, bytes(10)).encode()], "that nobody asked for"),
        ([Frame("?", 1, 0).encode()], "that nobody asked for"),
        ([HELLO], "that nobody asked for"),
        ([Frame("S", 1, 0).encode()], "that nobody asked for"),
        ([Frame("+", 1, 4, struct.pack("<I", 64)).encode()], "that nobody asked for"),
        ([Frame("E", 1, 5000, bytes(5000)).encode()], "that nobody asked for"),
        ([b"x" * 6000, b"y" * 6000], "bytes that are no frame"),
        ([b"x\n"] * 30, "were damaged"),
        ([Frame("N", 0, 0).encode()] * 30, "were damaged"),
        ([b"\x04"], "has ended"),
        ([], "was silent for 0.3 s"),
    ],
)
def test_a_board_that_lies(says: list[bytes], message: str) -> None:
    e = Exchange(Liar(HELLO, *says), "B", 64, 10, silence=0.3)
    e.ready()
    e.begin(bytes(64))
    with pytest.raises(BoardError, match=message):
        e.finish()


def test_a_board_that_says_something_else_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BoardError, match="that nobody asked for"):
        Exchange(Liar(right()), "B", 64, 10).ready()
    monkeypatch.setattr(frames, "_READY", 0.1)
    with pytest.raises(BoardError, match="does not start"):
        Exchange(Liar(b"What a board prints\r\n"), "B", 64, 10).ready()


def test_random_frames_never_give_an_answer_of_another_size() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        says = []
        for _ in range(chance.randrange(1, 6)):
            frame = Frame(
                chance.choice("AEHNS+RQ\0"),
                chance.choice((0, 1, 2, 65535)),
                chance.choice((0, 4, 10, 2**32 - 1)),
                chance.randbytes(chance.choice((0, 4, 10, 11))),
            ).encode()
            says.append(frame[: chance.choice((len(frame), len(frame), chance.randrange(len(frame))))])
        e = Exchange(Liar(HELLO, *says), "B", 64, 10, silence=0.0)
        e.ready()
        e.begin(bytes(64))
        with contextlib.suppress(BoardError):
            assert len(e.finish()) == 10


def fake(frames_say: Callable[[], bytes | Iterator[bytes]]) -> FakeBoard:
    return FakeBoard(lambda program: frames_say() if "_mica_frames" in program else b"fine\n")


def test_a_board_without_what_frames_need_is_asked_by_programs() -> None:
    """An older firmware, or one without the room."""
    for error in (b"AttributeError: no readline", b"MemoryError: memory allocation failed"):
        with fake(lambda said=b"\x04Traceback\r\n" + error: said) as there, SerialBoard(there.port) as board:
            assert board.exchange("m", 64, 10) is None
            assert board.exec("x") == b"fine\n"


def test_a_board_that_lies_is_interrupted_and_can_be_asked_again() -> None:
    def says() -> Iterator[bytes]:
        yield HELLO
        while True:
            time.sleep(0.05)
            yield right(7)

    with fake(says) as there, SerialBoard(there.port) as board:
        e = board.exchange("m", 64, 10)
        assert e is not None
        e.begin(bytes(64))
        with pytest.raises(BoardError, match="that nobody asked for"):
            e.finish()
        assert not e.open and board.exec("x") == b"fine\n"
        with pytest.raises(BoardError, match="has ended"):
            e.begin(bytes(64))
