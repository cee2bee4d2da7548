"""Texts and numbers for people: text of somebody else's made fit for a terminal,
figures without more digits than are known."""

import math
from collections.abc import Iterable, Sequence
from typing import Any


def printable(text: str) -> str:
    """The text in one line for people: what would break the line, move the cursor or cannot be written becomes '?'."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of many lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def some(names: Iterable[str]) -> str:
    """Names of somebody else's with commas between, of many and long ones the beginning."""
    return shown([f"{name[:64]}..." if len(name) > 64 else name for name in names], 12)


def shown(names: Sequence[str], most: int) -> str:
    """So many names with commas between, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def three_digits(x: float) -> str:
    """4.22, 59,900: no exponent, and no more digits than are known."""
    return f"{x:.3g}" if abs(x) < 999.5 else f"{round(x, 2 - int(math.log10(abs(x)))):,.0f}"


def attributes(of: object, names: str) -> dict[str, Any]:
    """Return some attributes by their names: for --json, and the report page."""
    return {name: getattr(of, name) for name in names.split()}
