"""Values of the words of --frontend: how they are read, and what is expected. Readers raise ValueError or ZeroDivisionError."""

import math
from collections.abc import Callable

import numpy as np

from mica.reference.front_end import turns


def whole(text: str) -> int:
    """From 1 to 65535."""
    value = int(text)
    if not 0 < value <= 65535:
        raise ValueError
    return value


def real(text: str) -> float:
    """Also a quotient."""
    above, slash, below = text.partition("/")
    value = float(above) / float(below) if slash else float(above)
    if not math.isfinite(value) or abs(value) > 1e12:
        raise ValueError
    return value


def size(text: str) -> float:
    """The same, not negative."""
    value = real(text)
    if value < 0:
        raise ValueError
    return value


def share(text: str) -> float:
    """From 0 to 1."""
    value = real(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


def size_or(word: str) -> Callable[[str], str | float]:
    """A reader of a word, or a number that is not negative."""

    def read(text: str) -> str | float:
        return text if text == word else size(text)

    return read


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return read


WHOLE, REAL, SIZE = "a whole number from 1 to 65535", "a number such as 0.5 or 1/32768", "a number of 0 or more"
SHARE = "a number from 0 to 1"
WINDOWS = ("hann", "hamming", "hann-symmetric", "hamming-symmetric", "ones")


def window(name: str, n: int) -> np.ndarray:
    """float64 [n]. Periodic, as for spectra, unless the name says symmetric."""
    if name == "ones":
        return np.ones(n)
    offset = 0.54 if name.startswith("hamming") else 0.5
    points = max(n - 1, 1) if name.endswith("symmetric") else n
    return offset - (1 - offset) * np.resize(turns(points)[0], n)
