"""The bytes of what a head has learnt: a header with a checksum, then each class. firmware/mica/learn.py reads and writes the same."""

import struct
from dataclasses import dataclass
from zlib import crc32

from mica.errors import MicaError
from mica.format.records import unpack_record
from mica.format.schema import HEADER
from mica.reference import learning
from mica.reference.learning import Shape

KINDS = ("prototype", "softmax", "anomaly")
MAGIC = b"mlrn"
VERSION = 1
# magic, CRC-32 of all behind it, bytes, sequence; version, kind, classes, 0; length and CRC-32 of the model's file; width, keep, setting
LAYOUT = "<4sIIIBBBB8sHHI"
HEADER_BYTES = struct.calcsize(LAYOUT)
LABEL_BYTES = 63


@dataclass
class Learnt:
    """The content of a state. Blocks are as mica.reference.learning has them."""

    shape: Shape
    model: bytes
    centre: bytes
    labels: list[str]
    blocks: list[bytearray]


def digest(mica_file: bytes) -> bytes:
    """The digest that binds a head to its model: length and CRC-32 as they are in the .mica file's header."""
    header = unpack_record(HEADER, mica_file, 0)
    return struct.pack("<II", header["file_bytes"], header["crc32"])


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _used(shape: Shape, count: int) -> int:
    """Bytes of a block that hold something."""
    if shape.kind == learning.PROTOTYPE:
        return shape.block_bytes
    missing = shape.keep - min(count, shape.keep)
    return (
        4 * learning.WORDS
        + (4 * shape.width if shape.kind == learning.SOFTMAX else 0)
        + (shape.keep - missing) * shape.width
        + 3
    ) & ~3


def encode(learnt: Learnt) -> bytes:
    """The state. Its sequence, which counts the saves of a board, is 0."""
    shape = learnt.shape
    body = _padded(learnt.centre) if shape.kind == learning.SOFTMAX else b""
    for label, block in zip(learnt.labels, learnt.blocks, strict=True):
        name = label.encode()
        body += _padded(bytes([len(name)]) + name) + block[: _used(shape, int.from_bytes(block[:4], "little"))]
    n = len(learnt.labels)
    size = HEADER_BYTES + len(body)
    rest = (size, 0, VERSION, shape.kind, n, 0, learnt.model, shape.width, shape.keep, shape.setting)
    head = struct.pack(LAYOUT, MAGIC, 0, *rest)
    return MAGIC + struct.pack("<I", crc32(head[8:] + body)) + head[8:] + body


def _bad(found: str) -> MicaError:
    return MicaError(f"the state of a head: {found}", todo="copy it again, or teach again")


def decode(data: bytes) -> Learnt:
    """Read a state. Anything that is not one raises a MicaError."""
    if len(data) < HEADER_BYTES or data[:4] != MAGIC:
        raise _bad("these bytes are none")
    _, crc, size, _, version, kind, n, _, model, width, keep, setting = struct.unpack_from(LAYOUT, data)
    if version != VERSION:
        raise MicaError(f"the state of a head has version {version}", todo=f"this mica reads version {VERSION}")
    if size != len(data) or crc32(data[8:]) != crc:
        raise _bad("damaged")
    shape = Shape(kind, width, keep, setting)
    _check(shape, n)
    at = HEADER_BYTES
    learnt = Learnt(shape, model, b"", [], [])
    if kind == learning.SOFTMAX:
        learnt.centre, at = data[at : at + width], at + (width + 3 & ~3)
    for _ in range(n):
        label, block, at = _class(shape, data, at)
        if label in learnt.labels:
            raise _bad(f"label {label!r} is there twice")
        learnt.labels.append(label)
        learnt.blocks.append(block)
    if at != len(data):
        raise _bad("it has another length than its classes")
    return learnt


def _check(shape: Shape, n: int) -> None:
    if shape.kind >= len(KINDS) or n > learning.MOST_CLASSES or not 1 <= shape.width <= learning.MOST_WIDTH:
        raise _bad(f"kind {shape.kind}, {n} classes, width {shape.width}")
    if not 1 <= shape.keep <= learning.MOST_KEPT or not 1 <= shape.setting <= shape.most_setting:
        raise _bad(f"{shape.keep} examples kept, setting {shape.setting}")


def _class(shape: Shape, data: bytes, at: int) -> tuple[str, bytearray, int]:
    """Label and block of the class at a byte, and the byte after it."""
    try:
        label = data[at + 1 : at + 1 + data[at]].decode()
        at += (1 + data[at] + 3) & ~3
        count = struct.unpack_from("<I", data, at)[0]
    except (IndexError, struct.error, UnicodeDecodeError):
        raise _bad("it ends in a label, or a label is no text") from None
    end = at + _used(shape, count)
    if not 1 <= count <= learning.MOST_COUNT or end > len(data) or not is_label(label):
        raise _bad(f"label {label!r} with {count} examples")
    block = bytearray(shape.block_bytes)
    block[: end - at] = data[at:end]
    return label, block, end


def is_label(label: object) -> bool:
    """A text of 1 to 63 bytes without control characters."""
    if not isinstance(label, str) or any(c < " " or c == "\x7f" for c in label):
        return False
    return 1 <= len(label.encode(errors="replace")) <= LABEL_BYTES
