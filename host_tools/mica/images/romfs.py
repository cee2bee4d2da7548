"""Images of MicroPython's ROMFS whose files begin at multiples of 16, so that a model's weights are used in place.

A record is two numbers, kind and length, and a payload; a number has 7 bits a byte, most significant first, the top bit
set on all bytes but the last. The image is one record whose payload is the top folder:

    image   d2 cd 31  length  records
    folder  04  length  name length, name, records
    file    05  length  name length, name, 02  length  data
    padding 01  length  anything

MicroPython's `extmod/vfs_rom.c` reads it; `mpremote romfs build` writes it without alignment.

A board's window for it has two halves, so that one can be written while the other is in use (`mica push`). Each is an
image, tagged by padding at its beginning, and in its last block a log, whose first page commits the image:

    commit  "micaslot"  sequence  image bytes, CRC-32  plain image below: bytes, CRC-32  flags  bytes of names  names
            ff ...  CRC-32 of the page so far                                                   all numbers 32 bits

`firmware/mica/slots.py` reads it, and writes the pages behind it. An image for the whole window (`rom_window_image`)
has neither tag nor log.
"""

import binascii
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from mica.errors import MicaError

ALIGN = 16  # what the engine wants of a file that it uses in place

BLOCK = 4096  # bytes that flash erases at once
PAGE = 256  # bytes that it writes at once
COMMIT = "<8sIIIIIII"
MAGIC = b"micaslot"
TAG = b"mica:half"
ON_TRIAL = 1  # flag of a half whose models are to pass their self-tests before it is used

_MAGIC = b"\xd2\xcd\x31"
_PADDING, _DATA, _FOLDER, _FILE = b"\x01", b"\x02", b"\x04", b"\x05"
_WIDTH = 4  # bytes of a length that padding counts in: the same for all, so that the place of what follows is known

# A file's content, or a folder's entries.
_Node = bytes | dict[str, "_Node"]


def build(files: Mapping[str, bytes], *, align: int = ALIGN, size: int | None = None, tag: bytes = b"") -> bytes:
    """The image that holds these files, by their paths ("a.mica", "lib/b.py").

    Each file's data begin at a multiple of `align` from the image's start; the image itself must be put at such an
    address. `tag` is put into padding at its beginning. Raises MicaError for impossible paths, and when the image is
    larger than `size`.
    """
    head = _PADDING + _number(len(tag)) + tag if tag else b""
    start = len(_MAGIC) + _WIDTH + len(head)
    body = head + _entries(_tree(files), start, align)
    if (len(_MAGIC) + _WIDTH + len(body)) % 2:  # the format wants an even length
        body += _padding(3)
    image = _MAGIC + _number(len(body), _WIDTH) + body
    if size is not None and len(image) > size:
        raise MicaError(f"the ROMFS image has {len(image):,} bytes, and its partition {size:,}", todo="leave files out")
    return image


def rom_window_image(models: Mapping[str, bytes], window_size: int) -> bytes:
    """The image for a whole window, to be put at its start: what a combined firmware image has in it."""
    return build(models, size=window_size)


def blank_logs(image_bytes: int, window_size: int) -> list[tuple[int, bytes]]:
    """Blocks to write beside an image for the whole window, so that no earlier push counts as newer.

    Offsets in the window and data: the logs of both halves, erased, where the image does not cover them.
    """
    half = half_size(window_size)
    return [(end - BLOCK, b"\xff" * BLOCK) for end in (half, 2 * half) if image_bytes <= end - BLOCK]


def half_size(window_size: int) -> int:
    """Bytes of a half: its image, and the block of its log."""
    return window_size // (2 * BLOCK) * BLOCK


def half_image(files: Mapping[str, bytes]) -> bytes:
    """The image for a half."""
    return build(files, tag=TAG)


def commit_page(sequence: int, length: int, crc: int, base: tuple[int, int], on_trial: Sequence[str] | None) -> bytes:
    """The page that makes an image of `length` bytes the newest, if no half has a larger `sequence`.

    `base` is length and CRC-32 of the plain image it replaces, or zeros. `on_trial` are the models to be tried: None
    for no trial, none for all that there are.
    """
    names = "\n".join(on_trial or ()).encode()
    if len(names) > PAGE - struct.calcsize(COMMIT) - 4:
        names = b""  # so all are tried
    flags = 0 if on_trial is None else ON_TRIAL
    head = struct.pack(COMMIT, MAGIC, sequence, length, crc, *base, flags, len(names)) + names
    head = head.ljust(PAGE - 4, b"\xff")
    return head + struct.pack("<I", binascii.crc32(head))


def places(image: bytes) -> dict[str, tuple[int, int]]:
    """Path of every file in an image that `build` made, with its data's offset and length."""
    kind, at, end = _read_record(image, 0)
    if kind != _read_number(_MAGIC, 0)[0]:
        raise MicaError("this is no ROMFS image")
    return _places(image, at, end, "")


def _places(image: bytes, at: int, end: int, folder: str) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    while at < end:
        kind, body, following = _read_record(image, at)
        if bytes([kind]) in (_FOLDER, _FILE):
            size, body = _read_number(image, body)
            path = folder + image[body : body + size].decode()
            body += size
            if bytes([kind]) == _FOLDER:
                found |= _places(image, body, following, path + "/")
            while bytes([kind]) == _FILE and body < following:
                inner, data, body = _read_record(image, body)
                if bytes([inner]) == _DATA:
                    found[path] = (data, body - data)
        at = following
    return found


def _read_number(image: bytes, at: int) -> tuple[int, int]:
    value = 0
    while True:
        value = value << 7 | image[at] & 0x7F
        at += 1
        if image[at - 1] < 0x80:
            return value, at


def _read_record(image: bytes, at: int) -> tuple[int, int, int]:
    """Kind, begin and end of a record's payload."""
    kind, at = _read_number(image, at)
    size, at = _read_number(image, at)
    return kind, at, at + size


def fitting(files: Mapping[str, bytes] | None, size: int) -> Mapping[str, bytes] | None:
    """The files, if their image has no more than `size` bytes; None when it has."""
    return files if files and len(build(files)) <= size else None


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files of a folder and of those in it, for `build`."""
    if not folder.is_dir():
        raise MicaError(f"{folder} is not a folder")
    try:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    except OSError as error:
        raise MicaError(f"{error.filename} cannot be read: {error.strerror}") from None


def _tree(files: Mapping[str, bytes]) -> dict[str, _Node]:
    """The folders that the paths speak of."""
    top: dict[str, _Node] = {}
    for name, data in sorted(files.items()):
        *folders, last = PurePosixPath(name).parts or ("",)
        if last in ("", "/") or {"/", ".."} & {*folders, last}:
            raise MicaError(
                f"{name!r} is not a path in a ROMFS", todo="expected one such as 'net.mica' or 'lib/net.mica'"
            )
        at = top
        for part in folders:
            below = at.setdefault(part, {})
            if not isinstance(below, dict):
                raise MicaError(f"{name!r}: {part!r} is a file, and cannot be a folder as well")
            at = below
        if last in at:
            raise MicaError(f"{name!r} is there twice, or is a folder as well")
        at[last] = bytes(data)
    return top


def _number(value: int, width: int = 1) -> bytes:
    """`value` in `width` bytes, or in as many as it needs."""
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.insert(0, value & 0x7F | 0x80)
    return b"\x80" * (width - len(digits)) + bytes(digits)


def _entries(entries: Mapping[str, _Node], at: int, align: int) -> bytes:
    """The records of a folder's entries, the first at offset `at` of the image: padding puts each file's data in their
    place."""
    made = bytearray()
    for name, node in entries.items():
        encoded = name.encode()
        head = _number(len(encoded)) + encoded
        inside = at + len(made) + 1 + _WIDTH + len(head)
        if isinstance(node, dict):
            kind, body = _FOLDER, _entries(node, inside, align)
        else:
            kind, data_head = _FILE, _DATA + _number(len(node))
            pad = -(inside + len(data_head)) % align
            pad += align if pad == 1 else 0  # no padding has one byte
            body = (_padding(pad) if pad else b"") + data_head + node
        made += kind + _number(len(head) + len(body), _WIDTH) + head + body
    return bytes(made)


def _padding(size: int) -> bytes:
    """A padding record of `size` bytes, 2 to 129."""
    return _PADDING + _number(size - 2) + bytes(size - 2)
