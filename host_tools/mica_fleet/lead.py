"""One coordinator of a fleet at a time: coordinators agree at a topic of the broker, mica/F/coordinator,
which boards cannot reach. No I/O.

    asks TOKEN                  a coordinator that comes asks who leads
    leads SINCE TOKEN ABOUT     retained: this one leads since then (nanoseconds); repeated for all who ask or claim it
    (empty)                     retained, and its will: it has ended

A coordinator ends when it is told of another that leads. While a connection is cut, another may come to lead. The one
that comes back within `_KEPT_SECONDS` leads on; of two that lead, the earlier one does. A retained message may be
from one that has ended before its broker, so it counts only if its author answers.
"""

import enum
import re
import secrets
from typing import NamedTuple

from mica.printable import printable

_KEPT_SECONDS = 30.0  # away from the broker
_LEADS = re.compile(rb"leads (\d{1,20}) ([0-9a-f]{16}) (.{0,200})", re.DOTALL)


class Message(NamedTuple):
    payload: bytes
    retain: bool


class State(enum.Enum):
    ASKS = enum.auto()
    LEADS = enum.auto()
    LOST = enum.auto()


class Lead:
    """Takes the lead for one coordinator. `about`: for people. Methods return what there is to publish. `certain`: the
    broker has passed on that this one leads, or that another does, whom `other` names."""

    def __init__(self, about: str, now: int) -> None:
        """now: nanoseconds since the epoch."""
        self.state = State.ASKS
        self.certain = False
        self.other = ""
        self._about = about
        self._since = now
        self._token = secrets.token_hex(8)
        self._echo = False  # of the question, so what was retained is known
        self._retained = False  # another has led, and may lead still

    def connected(self, now: int, away: float) -> Message | None:
        """There is a new connection; the one before ended `away` seconds ago."""
        if self.state is State.LOST:
            return None
        if self.state is State.LEADS and away < _KEPT_SECONDS:
            return self._claim()
        if self.state is State.LEADS:
            self._since = now
        self.state, self.certain, self._echo, self._retained = State.ASKS, False, False, False
        return Message(b"asks " + self._token.encode(), False)

    def handle(self, payload: bytes, retained: bool) -> Message | None:
        if not payload:
            self._retained = False
            return self._claim() if self.state is State.LEADS or (self.state is State.ASKS and self._echo) else None
        if payload.startswith(b"asks "):
            if payload[5:] != self._token.encode():
                return self._claim() if self.state is State.LEADS else None
            self._echo = True
            return self._claim() if self.state is State.ASKS and not self._retained else None
        if (match := _LEADS.fullmatch(payload)) is None:
            return None
        since, token = int(match[1]), match[2].decode()
        if token == self._token:
            self.certain = self.certain or self.state is State.LEADS
        elif self.state is State.ASKS and retained:
            self._retained = True
        elif self.state is State.ASKS or (self.state is State.LEADS and (since, token) < (self._since, self._token)):
            self.state, self.certain = State.LOST, True
            self.other = printable(match[3].decode("utf-8", "replace"))
        elif self.state is State.LEADS:
            return self._claim()
        return None

    def unanswered(self) -> Message | None:
        """Nobody has answered for so long that there is nobody."""
        if self.state is not State.ASKS:
            return None
        self.certain = True
        return self._claim()

    def _claim(self) -> Message:
        self.state = State.LEADS
        return Message(f"leads {self._since} {self._token} {self._about}".encode()[:200], True)
