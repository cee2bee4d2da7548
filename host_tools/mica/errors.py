"""Errors that mica shows to people: one line that says what was found, and what to do about it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from mica.printable import printable_lines

if TYPE_CHECKING:
    from typing import Self


MOST_CHARACTERS = 2000  # of a line: names of somebody else's have any length


def _short(text: str) -> str:
    """Lines for people: printable, and the beginning of long ones."""
    lines = printable_lines(text).split("\n")
    return "\n".join(line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + "..." for line in lines)


class MicaError(Exception):
    """Something the user can act on. The command line prints it in one line and ends with `exit_code`.

    `found`: what was wrong, and where. `todo`: what was expected instead, or what to do; "" where the first says it.
    The line is both, with a semicolon between. Whoever knows more about an error adds it by value: `at`, `then`.
    Control characters of whatever the texts quote do not come through.
    """

    exit_code = 1

    def __init__(self, found: str, *, todo: str = "") -> None:
        super().__init__(found)
        self.found = _short(found)
        self.todo = _short(todo)

    def __str__(self) -> str:
        return f"{self.found}; {self.todo}" if self.todo else self.found

    def at(self, where: str) -> Self:
        """The same error, found at `where`: a file, a port, a node."""
        other = copy.copy(self)
        other.found = f"{_short(where)}: {self.found}"
        return other

    def then(self, todo: str) -> Self:
        """The same error, with one more thing to do."""
        other = copy.copy(self)
        other.todo = "; ".join(text for text in (self.todo, _short(todo)) if text)
        return other


class Unsupported(MicaError):
    """This model or board cannot do that. `reasons`: one text for each thing that is in the way,
    where they were collected."""

    exit_code = 2

    def __init__(self, found: str, reasons: Sequence[str] = (), *, todo: str = "") -> None:
        super().__init__(found, todo=todo)
        self.reasons = tuple(reasons)

    @classmethod
    def because(cls, found: str, reasons: Sequence[str], shown: Sequence[str] | None = None) -> Self:
        """`found: reason`; of several reasons one line a cause.
        shown: lines that stand for them where they are many."""
        lines = one_line_a_cause(reasons) if shown is None else shown
        return cls(f"{found}: {lines[0]}" if len(lines) == 1 else "\n  ".join([f"{found}:", *lines]), reasons)


@contextmanager
def found_at(where: object, kind: type[MicaError] = MicaError) -> Iterator[None]:
    """Say of an error in this block where it was found. kind: of these errors only."""
    try:
        yield
    except kind as e:
        raise e.at(str(where)) from None


@contextmanager
def reading(path: object, verb: str = "read") -> Iterator[None]:
    """Turn an OSError in this block into a MicaError that names the file."""
    try:
        yield
    except OSError as e:
        raise MicaError(f"{path}: cannot be {verb}: {e.strerror}") from None


def writing(path: object) -> AbstractContextManager[None]:
    """Do the same in a block that writes the file."""
    return reading(path, "written")


NAMED = 2  # of many nodes with one problem

_PROBLEM = re.compile(r"node '(?P<node>.*?)' \((?P<op>\w*)\): (?P<reason>.*)", re.DOTALL)


def one_line_a_cause(problems: Sequence[str]) -> list[str]:
    """Problems of nodes, those of one operator for one reason as one: "node 'a', 'b' and 64 more (Op): the reason".

    Each in the place of its first; two are said as they are.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for text in problems:
        found = _PROBLEM.fullmatch(text)
        key: tuple[str, ...] = (found["op"], found["reason"]) if found else (text,)
        alike.setdefault(key, []).append(found["node"] if found else "")
    lines: list[str] = []
    for key, named in alike.items():
        if len(key) == 1:
            lines.append(key[0])
            continue
        op, reason = key
        nodes = list(dict.fromkeys(named))
        if len(nodes) <= NAMED:
            lines += [f"node '{node}' ({op}): {reason}" for node in nodes]
        else:
            names = ", ".join(f"'{node}'" for node in nodes[:NAMED])
            lines.append(f"node {names} and {len(nodes) - NAMED} more ({op}): {reason}")
    return lines


def did_you_mean(name: str, known: Iterable[str], listed: str = "") -> str:
    """ "did you mean RPI_PICO?" for Pico, rpi_pico and RPI_PIC0, "did you mean ESP32_GENERIC?" for ESP32;
    `listed` where nothing is like it."""
    import difflib  # here: few commands fail

    def plain(text: str) -> str:
        return re.sub("[^a-z0-9]", "", text.lower())

    by_text = {plain(k): k for k in reversed(list(known))}  # of names that are alike the first
    parts = [text for text in by_text if len(plain(name)) > 2 and plain(name) in text]
    found = difflib.get_close_matches(plain(name), by_text, n=1) if not parts else [min(parts, key=len)]
    return f"did you mean {by_text[found[0]]}?" if found else listed
