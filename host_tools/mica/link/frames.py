"""Requests and answers in frames over a board's serial line, while one program runs there (`on_board/frames.py`).

    a frame is a line: u8 kind, u16 number, u32 place, data, u32 crc32 of what is before it;
    little-endian, with these bytes replaced: 3 (Ctrl-C), 4 (ends a program's output), \\n (ends a line),
    \\r and 16 (begins a replacement)

    to the board    R  a piece of a request's inputs; place: where in them it lies
                    S  answer with this number     Q  end
    from the board  H  ready (number: 1)   A  outputs (place: their size)   E  an exception's text
                    +  that piece is here; data: u32 how much of the request is
                    N  a line that was no frame                        S  as asked

A request that is longer than a piece is sent piece by piece, each when the one before is there.
Up to two requests are on their way, as long as both fit into the receive buffer of every port. Where something was
damaged or does not come, the host asks for a sign (S): the board takes lines in order, so what has no answer when the
sign comes was lost, and is asked again. So models whose answers depend on what ran before are not for frames.

The board is not believed: a frame whose CRC-32 is right and that answers nothing that was asked is a BoardError.
"""

import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

from mica.link.board import SILENCE, BoardError, board_exception

CREDIT = 2  # requests on their way
ROOM = 192  # bytes of frames on their way: with some signs they fit into the receive buffer of every port we know
_PIECE = 180  # bytes of inputs in a frame, at most
_SIGN = 2.0  # seconds of silence until the board is asked for a sign, doubled for the next
_READY = 10.0  # seconds until the program on the board says that it is there
_TRIES = 6  # of one request
_EXCEPTION = 4000  # bytes of an exception's text
_HEAD = struct.Struct("<BHI")
_CODES = ((b"\x10", b"\x10P"), (b"\x03", b"\x10C"), (b"\x04", b"\x10D"), (b"\n", b"\x10J"), (b"\r", b"\x10M"))
ENDED = 4


class Line(Protocol):
    """A byte stream that carries frames."""

    def write(self, data: bytes) -> object: ...

    def read_some(self) -> bytes:
        """Return the bytes that have come, else wait for the next ones; b"" after a short time."""

    def push_back(self, data: bytes) -> None: ...


@dataclass(frozen=True)
class Frame:
    kind: str
    number: int
    place: int
    data: bytes = b""

    def encode(self) -> bytes:
        body = _HEAD.pack(ord(self.kind), self.number, self.place) + self.data
        body += struct.pack("<I", crc32(body))
        for byte, code in _CODES:
            body = body.replace(byte, code)
        return body + b"\n"


def decode(line: bytes) -> Frame | None:
    """A line without its end; None where it is no frame, or a damaged one."""
    body = line.rstrip(b"\r")  # a port that changes line ends
    for byte, code in reversed(_CODES):
        body = body.replace(code, byte)
    if len(body) < _HEAD.size + 4 or struct.unpack("<I", body[-4:])[0] != crc32(body[:-4]):
        return None
    kind, number, place = _HEAD.unpack_from(body)
    return Frame(chr(kind), number, place, body[_HEAD.size : -4])


@dataclass
class _Asked:
    number: int
    inputs: bytes
    sent: int = 0
    tries: int = 0
    on_its_way: int = 0  # bytes of the line, of frames that the board has not spoken of
    answer: bytes | None = None


@dataclass
class Exchange:
    """The host's side. `send_program` has started the board's.
    Any BoardError ends it: the board's program may run still."""

    line: Line
    name: str  # what errors call the board
    size: int  # bytes of a request
    answer_size: int
    silence: float = SILENCE
    ended: bool = False  # the board's program is
    _asked: deque[_Asked] = field(default_factory=deque)
    _number: int = 0
    _token: int = 0  # of the last sign that was asked for
    _sign_from: int = 0  # the first token that counts; 0: none is awaited
    _text: bytes = b""
    _bad: bool = False  # the last line was no frame

    def ready(self) -> None:
        """Wait for the board's first word. Raises BoardError."""
        end = time.monotonic() + _READY
        while time.monotonic() < end:
            frame = self._next()
            if frame is not None:
                if frame != Frame("H", 1, 0):
                    self._lies(frame)
                return
        raise BoardError(f"{self.name}: the program that takes requests does not start")

    @property
    def under_way(self) -> int:
        return len(self._asked)

    def begin(self, inputs: bytes) -> None:
        """Ask; it is sent as soon as there is room for it."""
        if len(inputs) != self.size:
            raise ValueError(f"{len(inputs)} bytes; a request has {self.size}")
        self._number = (self._number + 1) & 0xFFFF
        self._asked.append(_Asked(self._number, inputs))
        self._send()

    def finish(self) -> bytes:
        """The answer to what was asked first. Raises BoardError."""
        first = self._asked[0]
        last_byte = asked = time.monotonic()
        wait, damaged = _SIGN, 0
        while first.answer is None:
            frame = self._next()
            now = time.monotonic()
            if frame is not None:
                damaged = 0 if frame.kind in "A+" else damaged + (frame.kind == "N")
                self._take(frame)
                last_byte = asked = now
                wait = _SIGN
            elif self._damaged():
                damaged += 1
                self._resync()
            elif now - last_byte > self.silence:
                raise BoardError(f"{self.name} was silent for {self.silence:g} s; its program was interrupted")
            elif now - asked > wait:
                self._ask_for_a_sign()
                asked = now
                wait *= 2
            if damaged > 4 * _TRIES:
                raise BoardError(f"{self.name}: {damaged} frames were damaged on their way", todo="try again")
        self._asked.popleft()
        self._send()
        return first.answer

    def end(self) -> None:
        """Tell the board's program to end; whoever called it reads what it says last."""
        self.line.write(b"\n" + Frame("Q", 0, 0).encode())

    # ---- inside

    def _next(self) -> Frame | None:
        """The next frame. None after a short silence, or for a damaged line, which _damaged says once."""
        at = self._text.find(b"\n")
        if at < 0:
            self._text += self.line.read_some()
            at = self._text.find(b"\n")
        stop = self._text.find(ENDED)
        if stop >= 0 and (at < 0 or stop < at):
            self.ended = True
            self.line.push_back(self._text[stop + 1 :])
            raise BoardError(f"{self.name}: the program that takes requests has ended")
        if at < 0:
            if len(self._text) > 2 * (max(self.answer_size, _EXCEPTION) + _HEAD.size + 4):
                raise BoardError(f"{self.name}: sent {len(self._text):,} bytes that are no frame")
            return None
        line, self._text = self._text[:at], self._text[at + 1 :]
        frame = decode(line)
        self._bad = frame is None
        return frame

    def _damaged(self) -> bool:
        bad, self._bad = self._bad, False
        return bad

    def _lies(self, frame: Frame) -> None:
        raise BoardError(
            f"{self.name}: sent a frame {frame.kind!r} with number {frame.number}, {len(frame.data)} bytes, that "
            "nobody asked for"
        )

    def _take(self, frame: Frame) -> None:
        if frame.kind == "N" and (frame.number, frame.place, frame.data) == (0, 0, b""):
            self._resync()
            return
        if frame.kind == "S":
            if not 0 < frame.number <= self._token:
                self._lies(frame)
            if self._sign_from and frame.number >= self._sign_from:
                self._sign_from = 0
                self._lost()
            return
        asked = next((a for a in self._asked if a.number == frame.number and a.sent and a.answer is None), None)
        if asked is None:
            self._lies(frame)
            return
        whole = asked.sent == self.size
        if frame.kind == "A" and whole and len(frame.data) == frame.place == self.answer_size:
            asked.answer, asked.on_its_way = frame.data, 0
        elif frame.kind == "E" and whole and len(frame.data) == frame.place <= _EXCEPTION:
            raise board_exception(frame.data.decode(errors="replace"))
        elif frame.kind == "+" and len(frame.data) == 4 and frame.data == struct.pack("<I", asked.sent) and not whole:
            asked.on_its_way = 0
        else:
            self._lies(frame)
        self._send()

    def _resync(self) -> None:
        if not self._sign_from:
            self._ask_for_a_sign()

    def _ask_for_a_sign(self) -> None:
        """An answer to it says that nothing from before is on its way."""
        if self._token >= 0xFFFF:
            raise BoardError(f"{self.name}: {self._token} signs were asked for", todo="try again")
        self._token += 1
        self._sign_from = self._sign_from or self._token
        self.line.write(b"\n" + Frame("S", self._token, 0).encode())

    def _lost(self) -> None:
        """Send all requests without an answer again, from the beginning."""
        for asked in self._asked:
            if asked.answer is None and asked.sent:
                asked.tries += 1
                if asked.tries >= _TRIES:
                    raise BoardError(f"{self.name}: a request was lost {asked.tries} times", todo="try again")
                asked.sent = asked.on_its_way = 0
        self._send()

    def _send(self) -> None:
        """Send as much of the first CREDIT requests, in order, as may be on its way."""
        if self._sign_from:
            return  # nothing is sent until it is known what has come
        room = ROOM - sum(a.on_its_way for a in self._asked)
        for asked in list(self._asked)[:CREDIT]:
            if asked.answer is not None:
                continue
            if asked.on_its_way == 0 and asked.sent < self.size:
                piece = asked.inputs[asked.sent : asked.sent + _PIECE]
                frame = Frame("R", asked.number, asked.sent, piece).encode()
                while len(frame) > ROOM:  # of bytes that are replaced
                    piece = piece[: len(piece) // 2]
                    frame = Frame("R", asked.number, asked.sent, piece).encode()
                if len(frame) > room:
                    return
                self.line.write(frame)
                asked.sent += len(piece)
                asked.on_its_way = len(frame)
                room -= len(frame)
            if asked.sent < self.size:
                return  # the board takes one request after the other
