"""The interface of every link to a MicroPython: a serial port, an emulated board, or MicroPython on this computer.

`targets.open_board` opens one by its name.
"""

from __future__ import annotations

import abc
import base64
import binascii
import contextlib
import re
import time
from collections.abc import Callable
from typing import Protocol

from mica.errors import MicaError
from mica.link import on_board
from mica.printable import printable

# Seconds without a byte from the board after which it counts as hung.
SILENCE = 60.0

# What one command may print, and how long it may take: so many times the silence that is allowed.
ANSWER_BYTES = 1_000_000
_SILENCES = 10

_LONGEST = 1000  # characters of an exception that are shown

PutProgress = Callable[[int, int], None]  # bytes done, bytes in all
Say = Callable[[str], None]  # is told what takes a while


class BoardError(MicaError):
    """A MicroPython exception, or a board that does not do as asked.

    Of an exception, the text is its last line, printable; `exception` is its class, such as "ImportError",
    and `traceback` all of it, as the board sent it. Of anything else both are "".
    """

    def __init__(self, found: str, *, todo: str = "", exception: str = "", traceback: str = "") -> None:
        super().__init__(printable(found), todo=printable(todo))
        self.exception = exception
        self.traceback = traceback


class Exchange(Protocol):
    """Requests that a board answers in turn. Every method raises BoardError, which ends it."""

    def begin(self, inputs: bytes) -> None: ...

    def finish(self) -> bytes:
        """The answer to the first that has none."""

    @property
    def open(self) -> bool:
        """True until it ends."""


class _Enough(Exception):
    """A board has printed more, or for longer, than it may."""


def board_exception(text: str) -> BoardError:
    """Make a BoardError of the traceback that MicroPython has printed."""
    lines = [line for line in text.replace("\r", "").split("\n") if line.strip()]
    last = lines[-1].strip() if lines else "unknown exception"
    kind = last.partition(":")[0]
    return BoardError(
        last if len(last) <= _LONGEST else last[:_LONGEST] + "...",
        exception=kind if kind.isidentifier() else "",
        traceback=text.replace("\r", ""),
    )


class Link(contextlib.AbstractContextManager["Link"]):
    """A MicroPython that executes what we send. Use as a context manager, or call close().

    Line ends in what a board prints are always "\\n" here. `timeout` is the longest silence in seconds, None for
    ever; after it the program on the board is interrupted and BoardError raised.
    """

    name: str  # what to call it in messages
    port: str | None = None  # the serial port that other programs could open, if there is one
    rom_files: frozenset[str] = frozenset()  # what open_board has put into its /rom

    def exec(
        self, code: str, timeout: float | None = SILENCE, *, limit: int = ANSWER_BYTES, total: float | None = None
    ) -> bytes:
        """Run code on the board and return what it has printed. Raises BoardError for an exception.

        A program that prints more than `limit` bytes, or goes on printing for more than `total` seconds (default: ten
        times `timeout`), is interrupted.
        """
        output = bytearray()
        if total is None and timeout is not None:
            total = _SILENCES * timeout
        begun = time.monotonic()

        def keep(data: bytes) -> None:
            output.extend(data)
            if len(output) > limit:
                raise _Enough(f"printed more than {limit:,} bytes")
            if total is not None and time.monotonic() - begun > total:
                raise _Enough(f"went on printing for more than {total:g} s")

        try:
            self.exec_follow(code, keep, timeout)
        except _Enough as enough:
            raise BoardError(f"{self.name} {enough}; its program was interrupted") from None
        return bytes(output)

    @abc.abstractmethod
    def exec_follow(self, code: str, on_data: Callable[[bytes], object], timeout: float | None = SILENCE) -> None:
        """Like exec, with the output handed to `on_data` as it comes."""

    @abc.abstractmethod
    def put(self, data: bytes, name: str, progress: PutProgress | None = None) -> None:
        """Make the global variable `name` on the board a `bytes` with this content; checked by CRC-32."""

    def get(self, expr: str, limit: int = ANSWER_BYTES) -> bytes:
        """Return the bytes of a buffer on the board, given by an expression; checked by CRC-32. `limit`: see exec."""
        text = self.exec(on_board.call("get", on_board.Expression(f"memoryview({expr})")), limit=limit)
        try:
            *lines, crc = text.split()
            data = b"".join(base64.b64decode(line) for line in lines)
            sound = int(crc) == binascii.crc32(data)
        except ValueError:
            sound = False
        if not sound:
            raise BoardError(f"{self.name}: {expr} was damaged on its way", todo="try again")
        return data

    def exchange(self, model: str, size: int, answer_size: int) -> Exchange | None:
        """Have a model, given by an expression, answer requests of so many bytes in frames;
        ended by whatever else the board is asked to do. None where this link or this board does not do it."""
        return None

    @abc.abstractmethod
    def soft_reset(self) -> None:
        """Start MicroPython again: an empty heap, no variables; files stay."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of the board; an emulated one ends. May be called twice."""

    def __exit__(self, *error: object) -> None:
        self.close()


def check_name(name: str) -> str:
    """Return `name` if it can be a variable on the board."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r} is not a variable's name")
    return name
