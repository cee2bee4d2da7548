"""Reads what boards report of themselves (state, stat, have, head), and checks it: a board that is broken, or hostile,
can write anything there.

Every field has one row in a table here: its kind, and its bounds. A report with one wrong field is refused as a whole;
fields that are not in the table are dropped, so a newer board may add some.
Who reads a report trusts its types and sizes. firmware/mica_fleet writes state and stat, push.py there writes have,
teach.py head.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mica.errors import MicaError
from mica.printable import printable

MOST_MODELS = 64  # on one board
_LONGEST = 32_768  # bytes of a report
_LONGEST_PATH = 128  # characters
_MOST = 1 << 53  # of any number
_SHOWN = 40  # characters of a wrong value
VERDICTS = ("", "fetching", "trying", "confirmed", "rejected", "refused")

Check = Callable[[str, Any], Any]


class _Wrong(Exception):
    """One line: the field, its value and what was expected."""

    def __init__(self, name: str, value: Any, expected: str) -> None:
        if isinstance(value, (dict, list)):
            found = f"has {len(value)} entries"
        else:
            found = f"is {repr(value[:_SHOWN] if isinstance(value, str) else value)[:_SHOWN]}"
        super().__init__(printable(f"{name} {found}; expected {expected}"))


def _count(name: str, value: Any, most: int = _MOST) -> int:
    if type(value) is not int or not 0 <= value <= most:  # True is an int, too
        raise _Wrong(name, value, f"a whole number from 0 to {most}")
    return value


def _word(name: str, value: Any) -> int:
    return _count(name, value, 0xFFFFFFFF)


def _flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise _Wrong(name, value, "true or false")
    return value


def _text(most: int) -> Check:
    def check(name: str, value: Any) -> str:
        if type(value) is not str or len(value) > most or not value.isprintable():
            raise _Wrong(name, value, f"at most {most} printable characters")
        return value

    return check


def _lines(name: str, value: Any) -> str:
    """A text for people, made printable."""
    if type(value) is not str or len(value) > _LONGEST:
        raise _Wrong(name, value, "a text")
    return printable(value)[:1000]


def _format(name: str, value: Any) -> str:
    if type(value) is not str or not re.fullmatch(r"\d{1,3}(\.\d{1,3}){1,2}", value, re.ASCII):
        raise _Wrong(name, value, "a version such as 1.1")
    return value


def _crc(name: str, value: Any) -> str:
    if type(value) is not str or not re.fullmatch(r"[0-9a-f]{8}", value):
        raise _Wrong(name, value, "a CRC-32 of 8 hexadecimal digits")
    return value


def _verdict(name: str, value: Any) -> str:
    if type(value) is not str or value not in VERDICTS:
        raise _Wrong(name, value, "a verdict of a push")
    return value


def _table(key: Check, value_of: Check) -> Check:
    """An object of at most MOST_MODELS entries."""

    def check(name: str, value: Any) -> dict[Any, Any]:
        if type(value) is not dict or len(value) > MOST_MODELS:
            raise _Wrong(name, value, f"an object of at most {MOST_MODELS} models")
        return {key(f"a name in {name}", k): value_of(f"{name} of {k[:_SHOWN]}", v) for k, v in value.items()}

    return check


def _list(least: int, most: int) -> Check:
    def check(name: str, value: Any) -> list[int]:
        if type(value) is not list or not least <= len(value) <= most:
            raise _Wrong(name, value, f"a list of {least} to {most} numbers")
        return [_count(f"{name}[{i}]", v) for i, v in enumerate(value)]

    return check


def _names(name: str, value: Any) -> list[str]:
    if type(value) is not list or len(value) > MOST_MODELS:
        raise _Wrong(name, value, f"a list of at most {MOST_MODELS} labels")
    return [_NAME(f"{name}[{i}]", v) for i, v in enumerate(value)]


_NAME = _text(_LONGEST_PATH)
_STATE: Mapping[str, Check] = {
    "largest": _word,
    "models": _table(_NAME, _crc),
    "board": _text(128),
    "core": _text(64),
    "mica": _text(64),
    "format": _format,
    "heap": _count,
    "arena": _count,
    "free": _count,
    "queue": _count,
    "sizes": _table(_NAME, _count),
    "kernels": _text(_LONGEST),
    "python": _flag,
    "rom": _list(2, 2),
    "words": _names,  # labels of a board that listens (firmware/mica_fleet/house.py)
}
_STAT: Mapping[str, Check] = {
    "runs": _count,
    "errors": _count,
    "heap": _count,
    "ms": _list(0, MOST_MODELS),
    "us": _table(_crc, _count),
}
_HAVE: Mapping[str, Check] = {"generation": _count, "verdict": _verdict, "reason": _lines}
_TAUGHT: Mapping[str, Check] = {"generation": _count, "taken": _count, "reason": _lines}


@dataclass(frozen=True)
class State:
    """A board's report of itself, and its will. `about`: of a board that is up, the fields of its birth,
    as _STATE checks them."""

    up: bool
    boot: int
    session: int
    about: dict[str, Any]

    @property
    def models(self) -> dict[str, int]:
        """Path on the board -> CRC-32 of the file."""
        return {path: int(crc, 16) for path, crc in self.about["models"].items()} if self.up else {}

    @property
    def largest(self) -> int:
        """Bytes of inputs that it takes in one request."""
        return int(self.about.get("largest", 0))


@dataclass(frozen=True)
class Have:
    """A board's report of its last push. `reason` is for people."""

    generation: int
    verdict: str
    reason: str


@dataclass(frozen=True)
class Taught:
    """A board's answer to a lesson. taken: generation of the last sum that it has taken.
    state: of its head, not checked yet."""

    generation: int
    taken: int
    reason: str
    state: bytes


def parse_state(payload: bytes) -> State:
    """Raises MicaError where it is damaged."""
    words = payload.split(b" ", 3) if len(payload) <= _LONGEST else [b"too long"]
    try:
        up = words[0] == b"up"
        if words[0] not in (b"up", b"down") or len(words) != (4 if up else 3):
            raise _Wrong("its beginning", payload[:_SHOWN].decode("utf-8", "replace"), "up or down, boot and session")
        boot, session = (_number(name, word) for name, word in zip(("boot", "session"), words[1:3], strict=True))
        return State(up, boot, session, _fields(words[3], _STATE, ("largest", "models")) if up else {})
    except _Wrong as e:
        raise MicaError(f"a state that cannot be read: {e}") from None


def parse_stat(payload: bytes) -> dict[str, Any]:
    """Fields as _STAT checks them. Raises MicaError where it is damaged."""
    try:
        return _fields(payload, _STAT, ())
    except _Wrong as e:
        raise MicaError(f"a stat that cannot be read: {e}") from None


def parse_have(payload: bytes) -> Have:
    """Raises MicaError where it is damaged."""
    try:
        return Have(**_fields(payload, _HAVE, tuple(_HAVE)))
    except _Wrong as e:
        raise MicaError(f"what a board has cannot be read: {e}") from None


def parse_taught(payload: bytes) -> Taught:
    """Raises MicaError where it is damaged."""
    text, _, state = payload.partition(b"\n")
    try:
        return Taught(**_fields(text, _TAUGHT, tuple(_TAUGHT)), state=state)
    except _Wrong as e:
        raise MicaError(f"the report of a head cannot be read: {e}") from None


def _number(name: str, word: bytes) -> int:
    if not re.fullmatch(rb"\d{1,10}", word):
        raise _Wrong(name, word[:_SHOWN].decode("utf-8", "replace"), "a whole number of 32 bits")
    return _word(name, int(word))


def _fields(payload: bytes, checks: Mapping[str, Check], required: tuple[str, ...]) -> dict[str, Any]:
    if len(payload) > _LONGEST:
        raise _Wrong("its length", len(payload), f"at most {_LONGEST} bytes")
    try:
        table = json.loads(payload)
    except (ValueError, RecursionError):
        table = None
    if type(table) is not dict:
        raise _Wrong("its content", payload[:_SHOWN].decode("utf-8", "replace"), "a JSON object")
    missing = [name for name in required if name not in table]
    if missing:
        raise _Wrong(missing[0], None, "a value")
    return {name: check(name, table[name]) for name, check in checks.items() if name in table}
