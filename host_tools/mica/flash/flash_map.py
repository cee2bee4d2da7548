"""The place of the user's files in flash: read from its image, and from the board that runs it.

rp2: the program holds it in pico-sdk's "binary info", a list of pointers near its start. One of them leads to a
description of MicroPython's block device. esp32: the partition table.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mica.errors import MicaError
from mica.link import on_board
from mica.link.answers import ask, data, number, up_to, words
from mica.link.board import BoardError, Link

XIP_BASE = 0x10000000


@dataclass(frozen=True)
class Span:
    """A part of flash: offset from its start, and bytes."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size

    def overlaps(self, start: int, size: int) -> bool:
        return start < self.end and self.start < start + size

    def __str__(self) -> str:
        return f"{self.size // 1024} K at {self.start:#x}"


# --- rp2 ------------------------------------------------------------------------------------------------

_HEAD, _TAIL = 0x7188EBF2, 0xE71AA390  # of the header: head, start, end, mapping, tail
_LOOKED_THROUGH = 1024  # bytes from the image's start that can hold the header
_MOST = 256  # records
_BLOCK_DEVICE = 7
_TAG = b"MP"

# Many (address, size) -> the bytes of each; fewer, or none, where nothing is.
ReadMany = Callable[[Sequence[tuple[int, int]]], list[bytes]]


def rp2_files(read: ReadMany) -> Span | None:
    """The file system that a program for an RP2040 or RP2350 declares; None when it does not say."""
    (start,) = read([(XIP_BASE, _LOOKED_THROUGH)])
    at = start.find(struct.pack("<I", _HEAD))
    if at < 0 or at + 20 > len(start):
        return None
    _, first, last, _, tail = struct.unpack_from("<5I", start, at)
    if tail != _TAIL or not 0 <= last - first <= 4 * _MOST:
        return None
    (table,) = read([(first, last - first)])
    places = [entry for (entry,) in struct.iter_unpack("<I", table[: len(table) // 4 * 4])]
    for record in read([(place, 16) for place in places]):
        if len(record) == 16:
            kind, tag, _, address, size = struct.unpack("<H2sIII", record)
            if kind == _BLOCK_DEVICE and tag == _TAG:
                return Span(address - XIP_BASE, size)
    return None


def rp2_files_of_image(blocks: Iterable[tuple[int, bytes]]) -> Span | None:
    """The same, of an image's (address, data) pieces: pages of 256 bytes."""
    pages = dict(blocks)

    def read(places: Sequence[tuple[int, int]]) -> list[bytes]:
        found = []
        for address, size in places:
            data = b""
            while len(data) < size:
                at = address + len(data)
                piece = pages.get(at & ~0xFF, b"")[at & 0xFF :]
                if not piece:
                    break
                data += piece
            found.append(data[:size])
        return found

    return rp2_files(read)


def rp2_files_of_board(board: Link) -> Span | None:
    """The same, of the program that a board runs."""

    def read(places: Sequence[tuple[int, int]]) -> list[bytes]:
        # One call for all: each takes a while. What is no address of flash could fault.
        inside = [(at, size if XIP_BASE <= at < XIP_BASE + (16 << 20) else 0) for at, size in places]
        found = [piece for (piece,) in ask(board, on_board.call("read_memory", inside)).all("bytes", data)]
        if [len(piece) for piece in found] != [size for _, size in inside]:
            raise BoardError(f"{board.name}: gave other bytes of its flash than it was asked for")
        return found

    return rp2_files(read)


# --- esp32 ----------------------------------------------------------------------------------------------

PARTITION_TABLE = 0x8000  # its offset in flash, on every chip that MicroPython is built for
PARTITION_TABLE_BYTES = 0xC00
_ENTRY = b"\xaa\x50"


@dataclass(frozen=True)
class Partition:
    """A row of the partition table. `kind` 0 is a program, 1 is data."""

    label: str
    kind: int
    subtype: int
    span: Span


def partitions(table: bytes) -> list[Partition]:
    """The rows of a partition table as it lies in flash; none where flash is empty."""
    rows = []
    for at in range(0, len(table) - 31, 32):
        if table[at : at + 2] != _ENTRY:
            break
        kind, subtype, start, size, label = struct.unpack_from("<BBII16s", table, at + 2)
        rows.append(Partition(label.partition(b"\0")[0].decode(errors="replace"), kind, subtype, Span(start, size)))
    return rows


def partitions_of_board(board: Link) -> list[Partition]:
    """The rows of the table that a board runs with."""
    try:
        answer = ask(board, on_board.source("partitions"))
    except BoardError as error:
        if error.exception != "ImportError":
            raise
        raise MicaError(f"{board.name} is no ESP32: its MicroPython has no module esp32") from None
    fields = (up_to(255), up_to(255), number, number, words)
    rows = [
        Partition(label, kind, subtype, Span(start, size))
        for kind, subtype, start, size, label in answer.all("partition", *fields)
    ]
    if not rows:
        raise MicaError(f"{board.name}: does not tell its partitions")
    return rows


def find_files(rows: Iterable[Partition]) -> Span | None:
    """Place of MicroPython's files: the partition "vfs", or "ffat" of older tables."""
    return next((row.span for label in ("vfs", "ffat") for row in rows if row.kind == 1 and row.label == label), None)


def find_models(rows: Iterable[Partition]) -> Span | None:
    return next((row.span for row in rows if row.label == "romfs"), None)
