"""A flatbuffer, read without trust: every offset and length is checked against the file before anything is read.

    table     int32 back to its vtable; the vtable: u16 its bytes, u16 the table's bytes,
              u16 a place for each slot (0: absent)
    vector    u32 number of entries, the entries;  string: a vector of bytes
    reference u32 forward to a table, vector or string

Nothing here follows a chain: a caller asks for one table or vector at a time, so a file that points into itself costs
no more than one that does not. The format: flatbuffers.dev, "FlatBuffer Internals".
"""

from __future__ import annotations

import struct

import numpy as np

_KINDS = {kind: struct.Struct("<" + kind) for kind in "?bBhHiIqQfd"}
_NUMPY = {"b": "<i1", "B": "<u1", "i": "<i4", "I": "<u4", "q": "<i8", "f": "<f4"}


class Damaged(ValueError):
    """The bytes contradict themselves."""


class NotForUs(ValueError):
    """The file is sound, and was made for something else."""


class Flat:
    """The bytes of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, at: int, kind: str) -> int | float:
        """One number of a struct format character at byte `at`."""
        form = _KINDS[kind]
        if not 0 <= at <= len(self.data) - form.size:
            raise Damaged(f"an offset points to byte {at} of {len(self.data)}")
        value: int | float = form.unpack_from(self.data, at)[0]
        return value

    def integer(self, at: int, kind: str) -> int:
        return int(self.number(at, kind))

    def root(self) -> Table:
        return Table(self, self.integer(0, "I"))


class Table:
    """One table: its slots, by their number in the schema. An absent slot has its default."""

    def __init__(self, flat: Flat, at: int) -> None:
        self.flat, self.at = flat, at
        self.vtable = at - flat.integer(at, "i")
        self.slots = flat.integer(self.vtable, "H") // 2 - 2
        self.size = flat.integer(self.vtable + 2, "H")
        if self.slots < 0 or self.vtable + 4 + 2 * self.slots > len(flat.data) or at + self.size > len(flat.data):
            raise Damaged(f"the table at byte {at} does not fit the file")

    def place(self, slot: int) -> int:
        """Byte of a slot's contents in the file, 0 where it is absent."""
        if slot >= self.slots:
            return 0
        inside = self.flat.integer(self.vtable + 4 + 2 * slot, "H")
        if inside and not 4 <= inside < self.size:
            raise Damaged(f"slot {slot} of the table at byte {self.at} lies outside of it")
        return self.at + inside if inside else 0

    def number(self, slot: int, kind: str, default: int | float = 0) -> int | float:
        at = self.place(slot)
        return self.flat.number(at, kind) if at else default

    def integer(self, slot: int, kind: str, default: int = 0) -> int:
        return int(self.number(slot, kind, default))

    def _target(self, slot: int) -> int:
        at = self.place(slot)
        return at + self.flat.integer(at, "I") if at else 0

    def table(self, slot: int) -> Table | None:
        at = self._target(slot)
        return Table(self.flat, at) if at else None

    def _vector(self, slot: int, entry: int) -> tuple[int, int]:
        """Byte of the first entry and number of entries of `entry` bytes."""
        at = self._target(slot)
        if not at:
            return 0, 0
        n = self.flat.integer(at, "I")
        if n * entry > len(self.flat.data) - at - 4:
            raise Damaged(f"a vector of {n} entries at byte {at} does not fit the file")
        return at + 4, n

    def tables(self, slot: int, most: int, what: str) -> list[Table]:
        """The tables of a vector. Raises Damaged where there are more than `most`."""
        at, n = self._vector(slot, 4)
        if n > most:
            raise Damaged(f"{n} {what}; mica reads up to {most}")
        return [Table(self.flat, at + 4 * k + self.flat.integer(at + 4 * k, "I")) for k in range(n)]

    def numbers(self, slot: int, kind: str, most: int = 1 << 31) -> np.ndarray:
        """A vector of numbers, [n], not copied. Raises Damaged where there are more than `most`."""
        form = np.dtype(_NUMPY[kind])
        at, n = self._vector(slot, form.itemsize)
        if n > most:
            raise Damaged(f"a vector of {n} entries at byte {at}; expected up to {most}")
        return np.frombuffer(self.flat.data, form, n, at)

    def text(self, slot: int, most: int = 256) -> str:
        """A string, of which the last `most` bytes."""
        return bytes(self.numbers(slot, "B")[-most:]).decode("utf-8", "replace")
