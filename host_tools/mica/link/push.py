"""Models on a board that stay there: in the ROMFS window's two halves, or as files. The board's half is
`firmware/mica/remote_push.py` and `slots.py`.

    the half in use    files' places and CRC-32s -> image on the host -> idle half, block by block -> CRC-32 of all
                                                  -> commit -> trial on the board -> it is at /rom

The files that stay are not sent: their bytes are copied on the board from half to half.
A transfer that broke off leaves blocks that are right already; those are not sent again.
"""

import hashlib
import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from mica.errors import MicaError, Unsupported
from mica.file import codec
from mica.format.names import file_fault, printable
from mica.images import romfs
from mica.images.romfs import BLOCK
from mica.link import answers
from mica.link.answers import Answer, ask, number, one_of, require_mica, up_to
from mica.link.board import SILENCE, BoardError, Link, PutProgress, Say

_LONGEST_NAME = 64  # bytes: what a LittleFS with short names takes, and a half's list of names
_BATCH = 16 * 1024  # bytes sent to the board at once
_TRIAL_SECONDS = 600.0  # of silence: a large model takes long on a small core


@dataclass(frozen=True)
class File:
    """A file on the board: its bytes and CRC-32, and in a ROMFS window its offset there."""

    name: str
    size: int
    crc: int
    at: int = -1


@dataclass(frozen=True)
class HalfState:
    """`state` is empty, broken, trial, confirmed or rejected; a `reason` says why it was rejected."""

    state: str
    sequence: int
    size: int
    reason: str


@dataclass(frozen=True)
class Listing:
    """Files on the board. Without a window of halves (`window` is 0), `files` are those of the current folder
    and, by their paths, those of /rom."""

    files: list[File]
    window: int = 0
    mounted: str = "none"  # 0, 1, plain or none
    base: tuple[int, int] = (0, 0)  # bytes and CRC-32 of the plain image that is mounted
    used: int = 0  # halves that may be in use, by bits
    halves: list[HalfState] = field(default_factory=list)

    @property
    def place(self) -> str:
        return "romfs" if self.window else "files"

    @property
    def room(self) -> int:
        """Bytes that an image may have."""
        return romfs.half_size(self.window) - BLOCK


@dataclass(frozen=True)
class Pushed:
    """Result of a push or removal: bytes over the wire, bytes that were there already, and the trial's outcome."""

    sent: int
    kept: int
    seconds: float
    confirmed: bool
    reason: str = ""


def _call(board: Link, code: str, timeout: float = SILENCE) -> Answer:
    return ask(board, f"remote_push.{code}", timeout)


def _hex(name: str) -> str:
    """A name as it goes to the board: a literal."""
    return repr(name.encode().hex())


def listing(board: Link) -> Listing:
    """Ask the board for its files. Raises MicaError if its firmware has no mica, or one that knows no push."""
    version = require_mica(board)
    try:
        board.exec("from mica import remote_push")
    except BoardError as error:
        if error.exception not in ("ImportError", "AttributeError"):
            raise
        raise MicaError(
            f"{board.name} has mica {version}, which knows no push", todo="flash a newer firmware"
        ) from None
    answer = _call(board, "where()")
    window = answer.all("window", answers.size)
    bytes_of_files = answers.size if window else up_to(2**31 - 1)
    rows = _call(board, "files()").all("file", bytes_of_files, answers.crc32, up_to(2**28, -1), answers.name)
    files = [File(path, n, crc, at) for n, crc, at, path in rows]
    if len({file.name for file in files}) < len(files):
        raise BoardError(f"{board.name}: lists a file twice")
    if not window:
        return Listing(files)
    length: int = window[0][0]
    if any(file.at < 0 or file.at + file.size > length for file in files):
        raise BoardError(f"{board.name}: lists a file that lies outside of its ROMFS window")
    mounted, base_size, base_crc, used = answer.one(
        "at", one_of("0", "1", "plain", "none"), answers.size, number, up_to(3)
    )
    states = one_of("empty", "broken", "trial", "confirmed", "rejected")
    halves = answer.all("half", up_to(1), states, up_to(2**32 - 2), answers.size, answers.text)
    if [index for index, *_ in halves] != [0, 1]:
        raise BoardError(f"{board.name}: its ROMFS window has two halves, and it tells of {len(halves)}")
    return Listing(files, length, mounted, (base_size, base_crc), used, [HalfState(*half) for _, *half in halves])


def push(
    board: Link, files: Mapping[str, bytes], *, say: Say, progress: PutProgress | None = None, key: bytes | None = None
) -> Pushed:
    """Put models onto the board beside those that are there, and have the board try them. With a key the board confirms
    only what is signed with it.

    Raises Unsupported when they do not fit, MicaError when the half that would be written is in use.
    """
    for name in files:
        if fault := file_fault(name, _LONGEST_NAME):
            raise MicaError(
                f"'{printable(name)}': a model has the file's name on the board, and this one {fault}",
                todo="rename the file",
            )
    there = listing(board)
    for name, data in files.items():
        if name.endswith(".mica") and not codec.decode(data).golden:
            say(f"{name} has no golden vectors: its trial is to load and run once (mica pack --golden 4 makes some)")
    if not there.window:
        return _push_files(board, files, progress, key)
    kept = [file for file in there.files if file.name not in files]
    return _write_half(board, there, kept, files, list(files), say, progress, key)


def remove(board: Link, name: str, *, say: Say) -> Pushed:
    """Take a file off the board. What stays is not tried again."""
    there = listing(board)
    if name not in (file.name for file in there.files):
        names = ", ".join(file.name for file in there.files) or "nothing"
        raise MicaError(f"{board.name} has no {name}", todo=f"there is {names}")
    if not there.window:
        if name.startswith("/rom/"):
            raise MicaError(
                f"{board.name}: {name} is in a ROMFS that mica has no halves in, and cannot be removed alone",
                todo="mpremote romfs deploy writes the whole of it",
            )
        _call(board, f"remove({_hex(name)})")
        return Pushed(0, 0, 0.0, True)
    return _write_half(board, there, [file for file in there.files if file.name != name], {}, None, say, None)


# --- halves ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """A part of the image: its bytes, or where the board has them (`source`, with their CRC-32 if a whole file)."""

    data: bytes
    source: int = -1
    size: int = 0

    @property
    def length(self) -> int:
        return self.size if self.source >= 0 else len(self.data)


def _idle(there: Listing, board: Link) -> int:
    """The half to write."""
    index = 1 if there.mounted in ("0", "plain") else 0
    half = romfs.half_size(there.window)
    if there.mounted == "plain" and there.base[0] > half:
        raise Unsupported(
            f"{board.name}: the ROMFS image at /rom has {there.base[0]:,} bytes, more than a half of its window "
            f"({half:,})",
            todo="flash the board with fewer models, or none, and push them",
        )
    if there.used >> index & 1:
        raise MicaError(
            f"{board.name}: models of the half that would be written may be in use since the last push",
            todo="reset the board, or push without --no-reset",
        )
    return index


def _write_half(
    board: Link,
    there: Listing,
    kept: list[File],
    new: Mapping[str, bytes],
    on_trial: list[str] | None,
    say: Say,
    progress: PutProgress | None,
    key: bytes | None = None,
) -> Pushed:
    begun = time.monotonic()
    index = _idle(there, board)
    # As long as what they stand for; their bytes are the board's to copy.
    image = romfs.half_image({**{file.name: bytes(file.size) for file in kept}, **new})
    if len(image) > there.room:
        sizes = {file.name: file.size for file in kept} | {name: len(data) for name, data in new.items()}
        largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
        raise Unsupported(
            f"{board.name}: {len(image):,} bytes are needed, {there.room:,} are there (half of its ROMFS window); the "
            f"largest are {', '.join(f'{name} ({sizes[name]:,})' for name in largest)}",
            todo="mica rm takes one away",
        )
    places = romfs.places(image)
    copies = sorted(((places[file.name][0], file) for file in kept if file.size), key=lambda copy: copy[0])
    crc = _image_crc(image, copies)
    _call(board, f"begin({index})")
    count = math.ceil(len(image) / BLOCK)
    right = [found for (found,) in _call(board, f"blocks({index}, {count})").all("block", answers.crc32)]
    jobs = []  # block, its pieces, its bytes that have to be sent
    for block in range(count):
        pieces = _pieces(image, copies, block * BLOCK, min((block + 1) * BLOCK, len(image)))
        literal = b"".join(piece.data for piece in pieces)
        if len(literal) == sum(piece.length for piece in pieces):
            padded = literal.ljust(BLOCK, b"\xff")
            if len(right) == count and zlib.crc32(padded) == right[block]:
                continue
        jobs.append((block, pieces, literal))
    total = sum(len(literal) for _, _, literal in jobs)
    done = 0
    while jobs:
        batch = [jobs.pop(0)]
        while jobs and sum(len(literal) for _, _, literal in batch) + len(jobs[0][2]) <= _BATCH and len(batch) < 32:
            batch.append(jobs.pop(0))
        done = _send(board, index, batch, done, total, progress)
    (found,) = _call(board, f"check({index}, {len(image)})").one("crc", answers.crc32)
    if found != crc:
        raise BoardError(f"{board.name}: the image was damaged on its way", todo="push again")
    sequence = 1 + max((half.sequence for half in there.halves), default=0)
    page = romfs.commit_page(sequence, len(image), crc, there.base, on_trial)
    _call(board, f"commit({index}, {page!r})")
    seconds = time.monotonic() - begun
    say(f"{done:,} bytes in {seconds:.1f} s ({done / max(seconds, 0.001) / 1000:.1f} kB/s)")
    sent = done
    confirmed, reason = _verdict(_call(board, f"trial({index}{_with_key(board, key)})", _TRIAL_SECONDS))
    return Pushed(sent, len(image) - sent, time.monotonic() - begun, confirmed, reason)


def _with_key(board: Link, key: bytes | None) -> str:
    """Gives the board the key of a trial; the argument for it. Whoever has the port has the board, and so the key."""
    if key is None:
        return ""
    board.put(key, "_key")
    return ", _key"


def _verdict(answer: Answer) -> tuple[bool, str]:
    """True if the model passed its trial; else False and the reason."""
    rejected = answer.all("rejected", answers.text)
    if rejected:
        return False, rejected[0][0]
    answer.one("confirmed")
    return True, ""


def _image_crc(image: bytes, copies: list[tuple[int, File]]) -> int:
    """CRC-32 of the image with the copied files in it, of which only the CRC-32s are known."""
    crc = at = 0
    for start, file in copies:
        crc = zlib.crc32(image[at:start], crc)
        # CRCs are linear: that of A and B is that of A and zeros, that of zeros, and that of B, added.
        zeros = bytes(file.size)
        crc = zlib.crc32(zeros, crc) ^ zlib.crc32(zeros) ^ file.crc
        at = start + file.size
    return zlib.crc32(image[at:], crc)


def _pieces(image: bytes, copies: list[tuple[int, File]], start: int, end: int) -> list[_Piece]:
    """Pieces of the image from `start` to `end`."""
    pieces = []
    at = start
    for place, file in copies:
        begin, stop = max(place, start), min(place + file.size, end)
        if begin >= stop:
            continue
        if at < begin:
            pieces.append(_Piece(image[at:begin]))
        pieces.append(_Piece(b"", file.at + begin - place, stop - begin))
        at = stop
    if at < end:
        pieces.append(_Piece(image[at:end]))
    return pieces


def _send(
    board: Link,
    index: int,
    batch: list[tuple[int, list[_Piece], bytes]],
    done: int,
    total: int,
    progress: PutProgress | None,
) -> int:
    """Have some blocks written; returns the bytes sent so far."""
    data = b"".join(literal for _, _, literal in batch)
    if data:
        board.put(data, "_data", _part_of(progress, done, total))
    lines = []
    at = 0
    for block, pieces, literal in batch:
        parts = [(piece.source, piece.length) for piece in pieces]
        argument = f", memoryview(_data)[{at}:{at + len(literal)}]" if literal else ""
        lines.append(f"remote_push.write({index}, {block}, {parts!r}{argument})")
        at += len(literal)
    board.exec("\n".join([*lines, "_data = None"]))
    return done + len(data)


def _part_of(progress: PutProgress | None, done: int, total: int) -> PutProgress | None:
    """The progress of a transfer that is a part of another, which has done some bytes already."""
    return None if progress is None else lambda n, _: progress(done + n, total)


# --- files ----------------------------------------------------------------------------------------------


def _push_files(
    board: Link, files: Mapping[str, bytes], progress: PutProgress | None, key: bytes | None = None
) -> Pushed:
    """To the file system: each under a temporary name until it has passed its trial."""
    begun = time.monotonic()
    total = sum(map(len, files.values()))
    sent = before = 0
    for name, data in files.items():
        at, crc = _call(board, f"part({_hex(name)})").one("part", number, answers.crc32)
        if at > len(data) or zlib.crc32(data[:at]) != crc:
            at = 0
        if not data[at:] and not at:
            raise MicaError(f"{name} is empty")
        while at < len(data):
            piece = data[at : at + _BATCH]
            board.put(piece, "_data", _part_of(progress, before + at, total))
            board.exec(f"remote_push.append({_hex(name)}, {at}, _data)\n_data = None")
            at += len(piece)
            sent += len(piece)
        before += len(data)
        sha = hashlib.sha256(data).hexdigest()
        call = f"finish({_hex(name)}, {len(data)}, {sha!r}{_with_key(board, key)})"
        confirmed, reason = _verdict(_call(board, call, _TRIAL_SECONDS))
        if not confirmed:
            return Pushed(sent, before - sent, time.monotonic() - begun, False, f"{name}: {reason}")
    return Pushed(sent, total - sent, time.monotonic() - begun, True)


def store_head(board: Link, state: bytes, path: str) -> None:
    """Save the state of a head at `path` on the board, where mica.Learner takes it up. Raises MicaError."""
    board.put(state, "_data")
    try:
        board.exec(f"from mica import learn as _learn\n_learn.store({path!r}, bytes(_data))\ndel _data, _learn")
    except BoardError as error:
        if error.exception not in ("ImportError", "AttributeError"):
            raise
        raise MicaError(f"the mica on {board.name} learns nothing", todo="flash a newer firmware") from None
