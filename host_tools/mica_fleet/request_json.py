"""The JSON of a request's body, in memory that the caller bounds.

Numbers are nearly all of a large body, and as Python's objects they take twenty times its bytes.
So arrays that are called "data" are cut out first. Each is read on its own, some thousand numbers at a time,
once it is known how many there should be.
"""

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

AROUND = 1 << 16  # bytes of a body that are not numbers of "data"
_ARRAYS = 64
_PIECE = 1 << 14  # bytes that are read at once; other threads have their turn between pieces
_DATA = re.compile(rb'"data"\s*:\s*(?=\[)')
_BLANKS = re.compile(r"\s*")


class TooMuch(ValueError):
    """Its text is for the client."""


@dataclass(frozen=True)
class Numbers:
    """An array in the JSON, of numbers or of such arrays: body[begin:end]."""

    body: bytes | bytearray
    begin: int
    end: int

    def read(self, n: int) -> np.ndarray:
        """float64 [n]. Raises ValueError where there are not n numbers, or they are nested irregularly."""
        try:
            return self._read(n)
        except (ArithmeticError, LookupError, RecursionError, TypeError) as e:
            raise ValueError from e

    def _read(self, n: int) -> np.ndarray:
        if self.body.count(b",", self.begin, self.end) != n - 1:  # so it is whatever the nesting
            raise ValueError
        found = np.empty(n)
        at = 0
        nested = self.body.find(b"[", self.begin + 1, self.end) >= 0
        for values in self._items(n) if nested else self._pieces():
            if at + values.size > n:
                raise ValueError
            found[at : at + values.size] = values.reshape(-1)
            at += values.size
        if at != n:
            raise ValueError
        return found

    def _pieces(self) -> Iterator[np.ndarray]:
        at, stop = self.begin + 1, self.end - 1
        while at < stop:
            end = stop if stop - at <= _PIECE else self.body.rfind(b",", at, at + _PIECE)
            if end < 0:
                raise ValueError
            yield np.asarray(json.loads(b"[" + self.body[at:end] + b"]"), np.float64)
            at = end + 1

    def _items(self, n: int) -> Iterator[np.ndarray]:
        """Yield of a nested array one item of the outermost after the other."""
        if self.body.count(b"[", self.begin, self.end) > n + 8:
            raise ValueError
        text = self.body[self.begin : self.end].decode()
        decoder, at, shape = json.JSONDecoder(), 1, None
        while True:
            value, at = decoder.raw_decode(text, _blanks(text, at))
            item = np.asarray(value, np.float64)
            if shape not in (None, item.shape):
                raise ValueError
            shape = item.shape
            yield item
            at = _blanks(text, at)
            if text[at] == "]" and at == len(text) - 1:
                return
            if text[at] != ",":
                raise ValueError
            at += 1


def _blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


def read(body: bytes | bytearray, end: int) -> tuple[Any, dict[str, Numbers]]:
    """The JSON in body[:end], where a word stands for each array "data"; and the arrays by their words.
    Raises ValueError."""
    word = secrets.token_hex(8)
    arrays: dict[str, Numbers] = {}
    pieces: list[bytes] = []
    at = seek = 0
    while match := _DATA.search(body, seek, end):
        begin = seek = match.end()
        # Numbers have neither a quotation mark nor a brace.
        stop = body.find(b'"', begin, end)
        stop = end if stop < 0 else stop
        brace = body.find(b"}", begin, stop)
        last = body.rfind(b"]", begin, stop if brace < 0 else brace)
        if last < 0:
            continue
        if len(arrays) == _ARRAYS:
            raise TooMuch(f'the body is no JSON of a request: it has more than {_ARRAYS} arrays "data"')
        name = f"{word}-{len(arrays)}"
        arrays[name] = Numbers(body, begin, last + 1)
        pieces += [bytes(body[at:begin]), f'"{name}"'.encode()]
        at = seek = last + 1
    if end - at + sum(map(len, pieces)) > AROUND:
        raise TooMuch(f'the body is no JSON of a request: over {AROUND:,} bytes are not numbers of "data"')
    return json.loads(b"".join(pieces) + body[at:end]), arrays
