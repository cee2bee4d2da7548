"""Notes about changes that a reader made to a file: `logging`'s logger `mica`, which the command line prints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

_LOG = logging.getLogger("mica")


def note(path: str | Path, done: str) -> None:
    """A line about a file. Of a folder whose files all need the same, the command line prints the first."""
    _LOG.info("%s: %s", path, done)


class Printer(logging.Handler):
    """Hands a line to `say`, once for all files to which the same was done."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.say = say
        self.seen: set[object] = set()

    def emit(self, record: logging.LogRecord) -> None:
        done = record.args[-1] if isinstance(record.args, tuple) and record.args else record.msg
        if done not in self.seen:
            self.seen.add(done)
            self.say(record.getMessage())

    def __enter__(self) -> Printer:
        _LOG.addHandler(self)
        _LOG.setLevel(logging.INFO)
        return self

    def __exit__(self, *exc: object) -> None:
        _LOG.removeHandler(self)
