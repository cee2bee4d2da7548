"""The user's files on a board: listed, copied to a folder of this computer, put back; every file checked by SHA-256.

Works over the REPL of any MicroPython, with mica or without.
"""

import base64
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mica.errors import MicaError, writing
from mica.link import on_board
from mica.link.answers import ask, name, one_of, size
from mica.link.board import ANSWER_BYTES, SILENCE, BoardError, Link, PutProgress

_BLOCK = 4096  # of the board's file system
_SLOWEST = 1000  # bytes a second that a file takes at least
_PIECE = 8192  # bytes sent at a time: the board holds one


@dataclass(frozen=True)
class Entry:
    """A file or folder on the board; `path` begins with "/", `size` is in bytes."""

    path: str
    size: int
    folder: bool = False


@dataclass(frozen=True)
class Backup:
    """Copies of a board's files: in `folder`, as they were named on the board, with their SHA-256."""

    folder: Path
    folders: tuple[str, ...]
    hashes: dict[str, str]

    def local(self, path: str) -> Path:
        parts = path.strip("/").split("/")
        # Not for a name to say: in which folder of this computer it is written.
        if any(part in ("", ".", "..") or (os.name == "nt" and set("\\:") & set(part)) for part in parts):
            raise MicaError(
                f"a file on the board is called {path!r}, which this computer cannot keep", todo="rename it first"
            )
        return self.folder.joinpath(*parts)

    def discard(self) -> None:
        """Remove the copies."""
        shutil.rmtree(self.folder, ignore_errors=True)


def listing(board: Link, top: str = "/") -> list[Entry]:
    """All files and folders of the board's file system, a folder before what is in it; `top` ends in "/"."""
    answer = ask(board, on_board.call("list_files", top))
    rows = answer.all("entry", one_of("dir", "file"), size, name)
    if any(not path.startswith("/") for *_, path in rows):
        raise BoardError(f"{board.name}: lists a path that does not begin with a slash")
    return [Entry(path, 0 if kind == "dir" else n, kind == "dir") for kind, n, path in rows]


def space_needed(entries: list[Entry]) -> int:
    """Bytes of a LittleFS that surely hold these: whole blocks for a file, two for a folder and for the top."""
    files = sum(-(-entry.size // _BLOCK) for entry in entries if not entry.folder)
    return (files + 2 * (1 + sum(entry.folder for entry in entries))) * _BLOCK


def back_up(board: Link, entries: list[Entry], folder: Path, progress: PutProgress) -> Backup:
    """Copy the files into a new folder. Raises MicaError, and leaves no folder, when one cannot be copied whole."""
    backup = Backup(folder, tuple(entry.path for entry in entries if entry.folder), {})
    if folder.exists():
        raise MicaError(f"{folder} is there already", todo="give another folder for the board's files with --backup")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise MicaError(
            f"cannot make {folder} for the board's files: {error.strerror}", todo="give one with --backup"
        ) from None
    try:
        _copy(board, entries, backup, progress)
    except BaseException:
        backup.discard()
        raise
    return backup


def read_rom(board: Link, progress: PutProgress) -> dict[str, bytes]:
    """The files in a board's ROMFS, by their paths below /rom; none where it has no ROMFS."""
    if board.exec(on_board.source("has_rom")).strip() != b"True":
        return {}
    try:
        entries = [entry for entry in listing(board, "/rom/") if not entry.folder]
    except BoardError:  # a file of that name, say
        return {}
    board.exec(on_board.source("read_file"))
    found: dict[str, bytes] = {}
    for entry in entries:
        found[entry.path.removeprefix("/rom/")] = _read(board, entry)
        progress(sum(map(len, found.values())), sum(entry.size for entry in entries))
    return found


def _copy(board: Link, entries: list[Entry], backup: Backup, progress: PutProgress) -> None:
    total = sum(entry.size for entry in entries)
    done = 0
    board.exec(on_board.source("read_file"))
    for entry in entries:
        local = backup.local(entry.path)
        with writing(local):
            if entry.folder:
                local.mkdir()
                continue
            if local.exists():  # names that differ in case only, on Windows or macOS
                raise MicaError(f"{local}: two files of the board have this name here", todo="rename one")
            data = _read(board, entry)
            local.write_bytes(data)
        backup.hashes[entry.path] = hashlib.sha256(data).hexdigest()
        done += entry.size
        progress(done, total)


def _read(board: Link, entry: Entry) -> bytes:
    """A file's content, whose hash on the board was the same."""
    path = entry.path
    limit, seconds = ANSWER_BYTES + 2 * entry.size, SILENCE * 10 + entry.size / _SLOWEST
    try:
        *lines, last = board.exec(on_board.again("read_file", path, True), limit=limit, total=seconds).split(b"\n")[:-1]
        data = b"".join(base64.b64decode(line) for line in lines)
    except ValueError:
        data, last = b"", b""
    if last.decode(errors="replace") != f"mica:sha256 {hashlib.sha256(data).hexdigest()}":
        raise MicaError(f"{board.name}: {path} was damaged on its way; nothing was flashed", todo="try again")
    return data


def restore(board: Link, backup: Backup, progress: PutProgress) -> None:
    """Put all files back and compare their hashes on the board. Raises MicaError naming the first that differs."""
    total = sum(backup.local(path).stat().st_size for path in backup.hashes)
    done = 0
    for path in backup.folders:
        board.exec(on_board.call("make_folder", path))
    for path in backup.hashes:
        data = backup.local(path).read_bytes()
        # At least one piece: an empty file is a file.
        for at in range(0, max(1, len(data)), _PIECE):
            piece = data[at : at + _PIECE]
            board.put(piece, "_mica_d")
            mode = "ab" if at else "wb"
            answer = board.exec(on_board.call("write_file", path, mode, on_board.Expression("_mica_d")))
            if (written := answer.decode(errors="replace").strip()) != str(len(piece)):
                raise BoardError(f"{board.name}: {path}: {len(piece)} bytes were to be written; it said {written!r}")
            done += len(piece)
            progress(done, total)
    board.exec(on_board.source("read_file"))
    for path, expected in backup.hashes.items():
        said = board.exec(on_board.again("read_file", path, False)).decode(errors="replace").strip()
        if said != f"mica:sha256 {expected}":
            raise BoardError(f"{board.name}: {path} is not what was backed up")
