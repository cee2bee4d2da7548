"""The desired models of a fleet, beside its settings: NAME.models/ holds the files, and the last order to each board.

    <crc32>.mica    every model that was pushed, or that a board was given when it joined; and heads,
                    as `taught` names them
    `wanted.json`    generation; `wanted`: board -> its generation and name -> CRC-32 (null: gone);
                     pushed: the last push's names;
                    before: board -> what it had before the last push; known: board -> what it last said that it has;
                    taught: model -> the last sum of heads, and board -> generation, the head that it gave,
                    the sum that it was sent

There is no other copy: the broker forgets it when it ends, and is sent it again when it starts.
"""

import json
import os
import time
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mica.errors import MicaError, reading, writing
from mica_fleet.desired import encode_want
from mica_fleet.site import Site, write_private

Names = dict[str, int | None]  # of a board: name -> CRC-32 of the file, None for one that is to go


# CRC-32 of the last sum of a model's heads; board -> generation, CRC-32 of the head that it gave (0: none)
# and of the sum.
Sums = tuple[int, dict[str, tuple[int, int, int]]]


class Store:
    """Raises MicaError where its file is damaged."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._folder = site.path.with_suffix(".models")
        self._path = self._folder / "wanted.json"
        self._generation = 0
        self.desired: dict[str, tuple[int, Names]] = {}
        self.pushed: Names = {}
        self.before: dict[str, Names] = {}
        self.known: dict[str, Names] = {}
        self.taught: dict[str, Sums] = {}  # by the digest of the model, in hexadecimal, and the path
        try:
            table = json.loads(self._path.read_text(encoding="utf-8"))
            self._generation = int(table["generation"])
            self.desired = {str(b): (int(g), _names(n)) for b, (g, n) in table["wanted"].items()}
            self.pushed = _names(table["pushed"])
            self.before = {str(b): _names(n) for b, n in table["before"].items()}
            self.known = {str(b): _names(n) for b, n in table["known"].items()}
            for key, (total, boards) in table.get("taught", {}).items():
                self.taught[str(key)] = int(total), {b: (int(g), int(h), int(t)) for b, (g, h, t) in boards.items()}
        except FileNotFoundError:
            pass
        except OSError as e:
            raise MicaError(f"{self._path}: cannot be read: {e.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise MicaError(f"{self._path}: damaged", todo="take it away, and push again") from None

    def add(self, data: bytes) -> int:
        """Keep a file; its CRC-32."""
        crc = zlib.crc32(data)
        path = self._file(crc)
        with writing(path):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not path.exists():
                other = path.with_suffix(".new")
                other.write_bytes(data)
                os.replace(other, path)
        return crc

    def has(self, crc: int) -> bool:
        return self._file(crc).is_file()

    def read(self, crc: int) -> bytes:
        """Raises MicaError where it is not there, or is damaged."""
        path = self._file(crc)
        with reading(path):
            data = path.read_bytes()
        if zlib.crc32(data) != crc:
            raise MicaError(f"{path}: damaged", todo="push the model again")
        return data

    def keep_sums(self, key: str, sums: Sums) -> None:
        """Put these in the place of others, whose files go where nothing names them."""
        old = self._heads()
        self.taught[key] = sums
        self.save()
        for crc in old - self._heads():
            self._file(crc).unlink(missing_ok=True)

    def _heads(self) -> set[int]:
        return {crc for total, boards in self.taught.values() for b in boards.values() for crc in (total, *b[1:])}

    def tell(self, board: str, names: Names, free: Collection[str] = ()) -> int:
        """Note a board's desired models under a new generation, larger than any before, even if this file was lost.
        Names in `free` are forgotten; the other names keep their desired models."""
        self.next_generation()
        told = self.desired.get(board, (0, {}))[1]
        self.desired[board] = (self._generation, {n: crc for n, crc in (told | names).items() if n not in free})
        return self._generation

    def next_generation(self) -> int:
        """Return a generation, larger than any before, even if this file was lost."""
        self._generation = max(self._generation + 1, int(time.time()))
        return self._generation

    def want(self, board: str) -> bytes:
        """The signed message for a board that `tell` has named."""
        generation, names = self.desired[board]
        models = {name: None if crc is None else self.read(crc) for name, crc in names.items()}
        return encode_want(self._site.key, board, generation, models)

    def drop(self, boards: Collection[str]) -> None:
        """These are no longer of the fleet."""
        tables: list[dict[str, Any]] = [self.desired, self.before, self.known, *(t[1] for t in self.taught.values())]
        if any(b in t for t in tables for b in boards):
            for table in tables:
                for board in boards:
                    table.pop(board, None)
            self.save()

    def save(self) -> None:
        table: dict[str, Any] = {"generation": self._generation, "wanted": self.desired}
        table |= {"pushed": self.pushed, "before": self.before, "known": self.known, "taught": self.taught}
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as e:
            raise MicaError(f"{self._folder}: cannot be made: {e.strerror}") from None
        write_private(self._path, json.dumps(table, indent=1) + "\n")

    def _file(self, crc: int) -> Path:
        return self._folder / f"{crc:08x}.mica"


def _names(table: Mapping[str, Any]) -> Names:
    return {str(name): None if crc is None else int(crc) for name, crc in table.items()}
