"""The words of --frontend: how the value of each is read, what is expected, and what it is where it is not said."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mica.errors import MicaError
from mica.reference.front_end import turns

WINDOWS = ("hann", "hamming", "hann-symmetric", "hamming-symmetric", "ones")


@dataclass(frozen=True)
class Word:
    """read: raises ValueError or ZeroDivisionError for what is not expected. default: None where there is none."""

    read: Callable[[str], Any]
    expected: str
    default: Any = None


def read_whole(text: str) -> int:
    value = int(text)
    if not 0 < value <= 65535:
        raise ValueError
    return value


def _read_real(text: str) -> float:
    above, slash, below = text.partition("/")
    value = float(above) / float(below) if slash else float(above)
    if not math.isfinite(value) or abs(value) > 1e12:
        raise ValueError
    return value


def read_size(text: str) -> float:
    value = _read_real(text)
    if value < 0:
        raise ValueError
    return value


def _read_share(text: str) -> float:
    value = _read_real(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def whole(default: int | None = None) -> Word:
    return Word(read_whole, "a whole number from 1 to 65535", default)


def real(default: float | None = None) -> Word:
    return Word(_read_real, "a number such as 0.5 or 1/32768", default)


def size(default: float | None = None) -> Word:
    return Word(read_size, "a number of 0 or more", default)


def share(default: float | None = None) -> Word:
    return Word(_read_share, "a number from 0 to 1", default)


def one_of(*words: str, default: str | None) -> Word:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return Word(read, f"{', '.join(words[:-1])} or {words[-1]}", default)


def defaults(keys: Mapping[str, Word]) -> dict[str, Any]:
    """Return the values of words that nobody has said."""
    return {key: word.default for key, word in keys.items() if word.default is not None}


def said(where: str, words: Iterable[str], keys: Mapping[str, Word]) -> dict[str, Any]:
    """Return the values of words KEY=VALUE, in the order in which they were said last.
    Raises MicaError, which begins with `where`."""
    values: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in keys:
            raise MicaError(
                f"{where}: '{word}' is none of its words", todo=f"expected KEY=VALUE with {', '.join(keys)}"
            )
        values.pop(key, None)
        try:
            values[key] = keys[key].read(value)
        except (ValueError, ZeroDivisionError):
            raise MicaError(f"{where}: {key}={value}", todo=f"expected {keys[key].expected}") from None
    return values


def window(name: str, n: int) -> np.ndarray:
    """float64 [n]. Periodic, as for spectra, unless the name says symmetric."""
    if name == "ones":
        return np.ones(n)
    offset = 0.54 if name.startswith("hamming") else 0.5
    points = max(n - 1, 1) if name.endswith("symmetric") else n
    return offset - (1 - offset) * np.resize(turns(points)[0], n)
