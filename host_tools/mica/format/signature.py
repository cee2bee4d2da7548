"""The signature of a model: behind the file, where a reader without a key does not look (SPEC.md, section 4).

The board's half is `firmware/mica/signature.py`.
"""

import hashlib
import hmac
import struct
from pathlib import Path

from mica.errors import MicaError
from mica.format import schema
from mica.format.records import field_offset

MAGIC = b"MICAHMAC"
LEAST = 16  # bytes of a key
_MOST = 4096  # so that a file named by mistake is no key
_SIZE = len(MAGIC) + 32


def read_key(path: str | Path) -> bytes:
    """Bytes of a key file. Raises MicaError if it is none."""
    try:
        with open(path, "rb") as f:
            key = f.read(_MOST + 1)
    except OSError as e:
        raise MicaError(f"{path}: the key cannot be read: {e.strerror}") from None
    if not LEAST <= len(key) <= _MOST:
        size = f"more than {_MOST}" if len(key) > _MOST else str(len(key))
        raise MicaError(
            f"{path}: a key of {size} bytes", todo=f"{LEAST} to {_MOST} are expected: head -c 32 /dev/urandom > {path}"
        )
    return key


def _file_bytes(data: bytes) -> int:
    """Number of bytes of the model file, without bytes behind it; 0 if there is no model file."""
    if len(data) < schema.record_bytes(schema.HEADER):
        return 0
    n: int = struct.unpack_from("<I", data, field_offset(schema.HEADER, "file_bytes"))[0]
    return n if n <= len(data) else 0


def sign(data: bytes, key: bytes) -> bytes:
    """The file with its signature behind it."""
    data = data[: _file_bytes(data)]
    return data + MAGIC + hmac.digest(key, data, hashlib.sha256)


def is_signed(data: bytes) -> bool:
    """True if there is a signature, by any key."""
    n = _file_bytes(data)
    return n > 0 and data[n : n + len(MAGIC)] == MAGIC and len(data) >= n + _SIZE


def check(data: bytes, key: bytes, where: str) -> None:
    """Raises MicaError, which begins with `where`, unless the file is signed with the key."""
    if not is_signed(data):
        raise MicaError(f"{where}: the model is not signed", todo="pack it with mica pack --key")
    n = _file_bytes(data)
    if not hmac.compare_digest(data[n + len(MAGIC) : n + _SIZE], hmac.digest(key, data[:n], hashlib.sha256)):
        raise MicaError(f"{where}: the model is signed with another key, or was changed since")
