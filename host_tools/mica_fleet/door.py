"""Limits for clients of the HTTP server: connections, seconds, memory and lines of log.

A request has to be whole after 30 s, and its answer has to be taken 30 s after it was given. When there are too many
connections, the server closes the one whose request has been incomplete for longest. When bodies take too much
memory, it drops the oldest incomplete one.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from mica.link.board import Say

WHOLE_SECONDS = 30.0  # for a request, and for taking an answer
BACKLOG = 64  # connections that asyncio takes in one go
QUEUE = 1024  # connections that the system keeps until they are taken
_CONNECTIONS = 1000
_SPARE_FILES = 64 + 2 * BACKLOG  # for boards, and for connections that are being closed
_PIECE = 1 << 16  # bytes that are read of a connection at once
_BYTES_A_SECOND = 32 << 20  # of all large bodies: the rest of the time is for other clients
_UNSENT_BYTES = 48 << 20  # of answers that clients have not taken
_QUIET_SECONDS = 60.0


def most_connections() -> int:
    """Raises the process's limit of open files as far as it may, and keeps away from it."""
    try:
        import resource
    except ImportError:  # Windows
        return _CONNECTIONS // 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return _CONNECTIONS
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = 64
    return max(16, min(_CONNECTIONS, soft - used - _SPARE_FILES))


class Remarks(logging.Handler):
    """Says what libraries log, each kind of remark once a minute, in one line."""

    def __init__(self, say: Say) -> None:
        super().__init__(logging.WARNING)
        self._say = say
        self._said: dict[str, tuple[float, int]] = {}  # kind -> when, and how many since

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        kind = record.msg if error is None else f"{type(error).__name__}: {error}"
        self.remark(str(kind), record.getMessage().partition("\n")[0] if error is None else str(kind))

    def in_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception handler of asyncio."""
        error = context.get("exception")
        kind = f"{context.get('message')}: {error}" if error else str(context.get("message"))
        self.remark(kind, kind)

    def remark(self, kind: str, text: str) -> None:
        now = time.monotonic()
        last, more = self._said.get(kind, (-_QUIET_SECONDS, 0))
        if now - last < _QUIET_SECONDS:
            self._said[kind] = last, more + 1
            return
        if len(self._said) > 100:
            self._said.clear()
        self._said[kind] = now, 0
        self._say(f"HTTP: {text}" + (f" ({more} more since the last such line)" if more else ""))


class Connections:
    """All that are open. `protocol` is uvicorn's with this count of them."""

    def __init__(self, most: int, remarks: Remarks) -> None:
        self._most, self._remarks = most, remarks
        self._open: OrderedDict[Any, float] = OrderedDict()  # since when a request is waited for; the longest first
        self._free = 0.0
        self._unsent: dict[Any, float] = {}  # since when an answer lies here

    def protocol(self) -> type[asyncio.Protocol]:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        connections = self

        class Protocol(H11Protocol):
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                transport.max_size = _PIECE
                connections.came(self)

            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                if len(data) > _PIECE // 4 and not self.transport.is_closing():
                    self.transport.pause_reading()
                    self.loop.call_at(connections.pace(self.loop.time(), len(data)), self.go_on)

            def go_on(self) -> None:
                if not self.flow.read_paused:
                    self.transport.resume_reading()

            def connection_lost(self, exc: Exception | None) -> None:
                connections.went(self)
                super().connection_lost(exc)

            def on_response_complete(self) -> None:
                connections.answered(self)
                super().on_response_complete()

            def shutdown(self) -> None:
                if _is_whole(self):
                    super().shutdown()
                else:
                    self.transport.abort()

        return Protocol

    def came(self, connection: Any) -> None:
        self._open[connection] = time.monotonic()
        if len(self._open) > self._most:
            self._remarks.remark(
                "most", f"more than {self._most} connections: those without a whole request are closed"
            )
            victim = next((c for c in self._open if not _is_whole(c)), connection)
            self._close(victim)

    def pace(self, now: float, size: int) -> float:
        """When a connection may be read again that has brought so many bytes."""
        self._free = max(self._free, now) + size / _BYTES_A_SECOND
        return self._free

    def went(self, connection: Any) -> None:
        self._open.pop(connection, None)
        self._unsent.pop(connection, None)

    def answered(self, connection: Any) -> None:
        if connection in self._open:
            self._open[connection] = time.monotonic()
            self._open.move_to_end(connection)

    async def look(self) -> None:
        """Close what takes too long. Call it every second."""
        now = time.monotonic()
        late = [c for c, since in self._open.items() if now - since > WHOLE_SECONDS and not _is_whole(c)]
        unsent = {c: size for c in self._open if (size := c.transport.get_write_buffer_size())}
        self._unsent = {c: self._unsent.get(c, now) for c in unsent}
        late += [c for c, since in self._unsent.items() if now - since > WHOLE_SECONDS]
        too_much = sum(unsent.values()) - _UNSENT_BYTES
        for connection in sorted(self._unsent, key=lambda c: self._unsent[c]):
            if too_much > 0:
                late.append(connection)
                too_much -= unsent[connection]
        if late:
            self._remarks.remark(
                "late", f"a request was not whole, or its answer not taken, after {WHOLE_SECONDS:.0f} s"
            )
        for connection in late:
            self._close(connection)

    def _close(self, connection: Any) -> None:
        connection.transport.abort()
        self.went(connection)


def _is_whole(connection: Any) -> bool:
    """True if the connection's request is whole and not answered yet."""
    cycle = connection.cycle
    return cycle is not None and not cycle.more_body and not cycle.response_complete


class TooMuch(Exception):
    """This body had to go, for want of memory."""


class Bodies:
    """The memory of all bodies."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._coming: dict[int, bytearray] = {}  # oldest first
        self._whole: dict[int, bytearray] = {}

    @contextlib.contextmanager
    def body(self) -> Iterator[tuple[bytearray, Callable[[bytes], None], Callable[[], None]]]:
        """A body, what adds a piece to it, and what says that it is whole. The pieces' memory is given back at the end.
        Adding raises TooMuch."""
        found = bytearray()
        self._coming[id(found)] = found

        def add(piece: bytes) -> None:
            if id(found) in self._coming:
                found.extend(piece)
                self._bytes += len(piece)
            while self._bytes > self._most:
                victim = self._coming.pop(next(iter(self._coming)))
                self._bytes -= len(victim)
                victim.clear()
            if id(found) not in self._coming:
                raise TooMuch

        def whole() -> None:
            self._whole[id(found)] = self._coming.pop(id(found))

        try:
            yield found, add, whole
        finally:
            if (self._coming.pop(id(found), None) or self._whole.pop(id(found), None)) is not None:
                self._bytes -= len(found)
                found.clear()
