"""Records of a .mica file as bytes, by the fields of `schema`, and the checksum of a file."""

import struct
import zlib
from collections.abc import Iterable
from typing import Any

from mica.format import schema
from mica.format.schema import Field

NUMPY_TYPE = {"i8": "<i1", "u8": "<u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4"}
DTYPE_NUMPY = {"int8": "<i1", "uint8": "<u1", "int16": "<i2", "int32": "<i4", "float32": "<f4"}
STRUCT = {"u8": "B", "i8": "b", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "4s": "4s"}


def _format(fields: Iterable[Field]) -> str:
    return "<" + "".join(f"{f.count}{STRUCT[f.type]}" if f.count > 1 else STRUCT[f.type] for f in fields)


def pack_record(fields: tuple[Field, ...], values: dict[str, Any]) -> bytes:
    """One record from values by field name; an array field takes a sequence."""
    flat: list[Any] = []
    for f in fields:
        v = values[f.name]
        flat.extend(v) if f.count > 1 else flat.append(v)
    return struct.pack(_format(fields), *flat)


def unpack_record(fields: tuple[Field, ...], data: bytes, offset: int) -> dict[str, Any]:
    """Values of one record by field name; an array field gives a tuple."""
    flat = struct.unpack_from(_format(fields), data, offset)
    out: dict[str, Any] = {}
    i = 0
    for f in fields:
        out[f.name] = flat[i] if f.count == 1 else flat[i : i + f.count]
        i += f.count
    return out


def field_offset(fields: tuple[Field, ...], name: str) -> int:
    """Offset in bytes of a field inside its record."""
    i = next(i for i, f in enumerate(fields) if f.name == name)
    return schema.record_bytes(fields[:i])


def crc_of(data: bytes) -> int:
    """CRC-32 of a whole file, its own field taken as zero."""
    at = field_offset(schema.HEADER, "crc32")
    return zlib.crc32(data[at + 4 :], zlib.crc32(bytes(4), zlib.crc32(data[:at])))


def with_crc(data: bytes) -> bytes:
    """The file with its CRC put right: for tests and for tools that patch a file."""
    at = field_offset(schema.HEADER, "crc32")
    return data[:at] + struct.pack("<I", crc_of(data)) + data[at + 4 :]
