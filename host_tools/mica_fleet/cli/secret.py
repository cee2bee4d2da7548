"""Passwords and tokens, which no command line should hold: other users of the computer see it."""

import getpass
import sys
from pathlib import Path

from mica.errors import MicaError


def first_line(path: str) -> str:
    """Return the first line of a file. Raises MicaError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise MicaError(f"{path}: cannot be read: {e.strerror}") from None
    except UnicodeDecodeError:
        raise MicaError(f"{path}: it is no text") from None
    return lines[0].strip() if lines else ""


def asked_for(what: str) -> str:
    """Return the answer to a question at the terminal, "" if nobody is there."""
    return getpass.getpass(f"{what}: ") if sys.stdin is not None and sys.stdin.isatty() else ""
