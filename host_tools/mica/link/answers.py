"""Answers of a board: lines "mica:<kind> <field> <field> ...". Other lines that it prints are skipped.

The host validates every field. A caller names the kind of each field and gets such values: numbers in their range,
bytes, text that can be printed. A line that has other fields raises a BoardError that quotes it. Text that may have
blanks, such as a name, is in hexadecimal; only the last field of a line may be plain words.
"""

import re
from collections.abc import Callable
from typing import Any

from mica.errors import MicaError
from mica.link import on_board
from mica.link.board import ANSWER_BYTES, SILENCE, BoardError, Link
from mica.printable import printable

Field = Callable[[str], Any]  # a field's text -> its value; raises ValueError, which says what was expected

_QUOTED = 60  # characters of a line that an error shows


def up_to(most: int, least: int = 0) -> Field:
    """A decimal number from `least` to `most`."""

    def field(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,20}", text) and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"a number from {least} to {most}")

    return field


number = up_to(2**32 - 1)
size = up_to(2**28)  # bytes of flash, or of a file in it: 256 MB is more than any board has


def one_of(*words: str) -> Field:
    """One of these words."""

    def field(text: str) -> str:
        if text in words:
            return text
        raise ValueError(f"one of {', '.join(words)}")

    return field


def matching(pattern: str, what: str) -> Field:
    """ASCII text that matches a pattern wholly."""

    def field(text: str) -> str:
        if text.isascii() and re.fullmatch(pattern, text):
            return text
        raise ValueError(what)

    return field


version = matching(r"[0-9A-Za-z.+_?-]{1,40}", "a version")
format_version = matching(r"[0-9]{1,5}\.[0-9]{1,5}", "a version of the format")


def crc32(text: str) -> int:
    """A CRC-32 in 8 hexadecimal digits."""
    if re.fullmatch(r"[0-9a-f]{8}", text):
        return int(text, 16)
    raise ValueError("8 hexadecimal digits")


def data(text: str) -> bytes:
    """Bytes in hexadecimal."""
    if re.fullmatch(r"([0-9a-f]{2})*", text):
        return bytes.fromhex(text)
    raise ValueError("hexadecimal digits")


def name(text: str) -> str:
    """A file's name or path, in hexadecimal: as it is on the board, so not to be printed as it is."""
    try:
        found = data(text).decode()
    except UnicodeDecodeError:
        raise ValueError("a name in UTF-8") from None
    if not found or "\0" in found:
        raise ValueError("a name")
    return found


def text(digits: str) -> str:
    """Text for people, in hexadecimal; printable here."""
    return printable(data(digits).decode(errors="replace"))


def words(rest: str) -> str:
    """The rest of the line, for people; printable here."""
    return printable(rest.strip())


def read(rest: str, fields: tuple[Field, ...]) -> tuple[Any, ...]:
    """The fields of a line's rest; more than these are left alone. Raises ValueError with what was expected."""
    parts = rest.split(" ", len(fields) - 1) if fields and fields[-1] is words else rest.split(" ")
    parts += [""] * (len(fields) - len(parts))  # a text may be empty; other fields refuse that
    return tuple(field(part) for field, part in zip(fields, parts, strict=False))


def unreadable(board: str, line: str, expected: str) -> BoardError:
    """The error for a line that is not as it should be."""
    shown = line if len(line) <= _QUOTED else line[:_QUOTED] + "..."
    return BoardError(f"{board}: answered '{shown}'", todo=f"expected {expected}")


class Answer:
    """The lines of an output that are meant for the host, by their first word.
    Raises BoardError for any that is no line."""

    def __init__(self, output: bytes, board: str) -> None:
        """`board`: what errors call it."""
        self.board = board
        self._output = output
        self._lines: list[tuple[str, str]] = []
        for line in output.split(b"\n"):
            if not line.startswith(b"mica:"):
                continue
            try:
                kind, _, rest = line[5:].decode().partition(" ")
            except UnicodeDecodeError:
                raise unreadable(board, line.decode(errors="replace"), "UTF-8") from None
            if not kind:
                raise unreadable(board, line.decode(), "a word behind the colon")
            self._lines.append((kind, rest))

    def lines(self) -> list[tuple[str, str]]:
        """All lines in turn: the first word, and the rest."""
        return self._lines

    def all(self, kind: str, *fields: Field) -> list[tuple[Any, ...]]:
        """The fields of each line of a kind."""
        found = []
        for line_kind, rest in self._lines:
            if line_kind == kind:
                try:
                    found.append(read(rest, fields))
                except ValueError as error:
                    raise unreadable(self.board, f"mica:{kind} {rest}", str(error)) from None
        return found

    def one(self, kind: str, *fields: Field) -> tuple[Any, ...]:
        """The fields of the only line of a kind."""
        found = self.all(kind, *fields)
        if len(found) != 1:
            said = self._output.decode(errors="replace").strip().split("\n")[-1]
            shown = said if len(said) <= _QUOTED else "..." + said[-_QUOTED:]
            raise BoardError(f"{self.board}: gave no answer '{kind}'" + (f"; it said: {shown}" if shown else ""))
        return found[0]


def ask(
    board: Link,
    code: str,
    timeout: float | None = SILENCE,
    *,
    limit: int = ANSWER_BYTES,
    total: float | None = None,
) -> Answer:
    """Run code on the board and read its answer; the limits are those of Board.exec."""
    return Answer(board.exec(code, timeout, limit=limit, total=total), board.name)


class WithoutMica(MicaError):
    """A board's firmware has no mica."""


def require_mica(board: Link) -> str:
    """The version of mica on the board. Raises WithoutMica, which says how to get it there."""
    try:
        answer = ask(board, on_board.source("version"))
    except BoardError as error:
        if error.exception != "ImportError":
            raise
        raise WithoutMica(
            f"{board.name} runs MicroPython without mica", todo="build a firmware with it: mica build, then flash it"
        ) from None
    (found,) = answer.one("version", version)
    return str(found)
