"""Answers of a job on disk, so that a coordinator that was killed goes on where it was: `mica fleet eval ...
--journal FILE`.

    8 bytes "MICAJRN1", u32 length, the job's description (JSON), u32 crc32 of it
    records: u32 job, u32 seq, u16 stage, u16 kind, u32 length, outputs, u32 crc32 of the record

Little-endian. `kind` 0 is an answer, 1 takes an earlier one back, 2 says that the request was given up (a text).
The last record of a request counts. A file that was cut at any byte is read up to its last whole record,
and goes on from there.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from mica.errors import MicaError
from mica_fleet.wire import Key

_MAGIC = b"MICAJRN1"
_RECORD = struct.Struct("<IIHHI")
_LARGEST = 1 << 24  # bytes of one answer
_SYNC_SECONDS = 0.2

ANSWER, WITHDRAWN, FAILED = range(3)


class Journal(contextlib.AbstractContextManager["Journal"]):
    """Open with `Journal(path, about)`; `answers` and `failed` are what an earlier run has left there.

    Raises MicaError where the file belongs to another job: `about` (the model's CRC, the data's) is compared.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.answers: dict[Key, bytes] = {}
        self.failed: dict[Key, str] = {}
        self._synced = 0.0
        try:
            self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b", buffering=0)
        except OSError as e:
            raise MicaError(f"{path}: the journal cannot be opened: {e.strerror}") from None
        try:
            end = self._read(about)
            self._file.truncate(end)
            self._file.seek(end)
            if end == 0:
                text = json.dumps(about, sort_keys=True).encode()
                body = struct.pack("<I", len(text)) + text
                self._file.write(_MAGIC + body + struct.pack("<I", zlib.crc32(body)))
        except BaseException:
            self._file.close()
            raise

    def _read(self, about: dict[str, Any]) -> int:
        """Offset of the end of the last whole record."""
        data = self._file.read()
        if len(data) >= len(_MAGIC) and not data.startswith(_MAGIC):
            raise MicaError(f"{self.path} is no journal of mica's", todo="give another name")
        at = len(_MAGIC)
        if len(data) < at + 4:
            return 0
        (length,) = struct.unpack_from("<I", data, at)
        end = at + 4 + length
        if len(data) < end + 4 or zlib.crc32(data[at:end]) != int.from_bytes(data[end : end + 4], "little"):
            return 0
        if json.loads(data[at + 4 : end]) != json.loads(json.dumps(about)):
            raise MicaError(f"{self.path} is the journal of another job", todo="give another name, or take it away")
        at = end + 4
        while (end := self._one(data, at)) is not None:
            at = end
        return at

    def _one(self, data: bytes, at: int) -> int | None:
        if len(data) < at + _RECORD.size + 4:
            return None
        job, seq, stage, kind, length = _RECORD.unpack_from(data, at)
        end = at + _RECORD.size + length
        if length > _LARGEST or len(data) < end + 4:
            return None
        if zlib.crc32(data[at:end]) != int.from_bytes(data[end : end + 4], "little"):
            return None
        key, content = Key(job, seq, stage), data[at + _RECORD.size : end]
        self.answers.pop(key, None)
        self.failed.pop(key, None)
        if kind == ANSWER:
            self.answers[key] = content
        elif kind == FAILED:
            self.failed[key] = content.decode("utf-8", "replace")
        return end + 4

    def write(self, kind: int, key: Key, content: bytes = b"") -> None:
        """One record; on the disk at once for a process that is killed, within 0.2 s for power that fails."""
        body = _RECORD.pack(key.job, key.seq, key.stage, kind, len(content)) + content
        self._file.write(body + struct.pack("<I", zlib.crc32(body)))
        now = time.monotonic()
        if now - self._synced > _SYNC_SECONDS:
            self._synced = now
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def __exit__(self, *exc: object) -> None:
        self.close()
