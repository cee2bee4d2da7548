"""Check of a model's signature: MAGIC and an HMAC-SHA256 follow the file (`pack --key FILE`; SPEC.md, section 4)."""

from hashlib import sha256
from struct import unpack_from

MAGIC = b"MICAHMAC"
LEAST = 16  # bytes of a key
_SIZE = len(MAGIC) + 32


def check(source: Any, key: bytes) -> None:
    """Raise ValueError where the model in a buffer is not signed with `key`. The model is not copied."""
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError("key: bytes are expected")
    if len(key) < LEAST:
        raise ValueError(f"key: {len(key)} bytes; at least {LEAST} are expected")
    data = memoryview(source)
    n = unpack_from("<I", data, 8)[0] if len(data) > _SIZE else 0
    if not 0 < n <= len(data) - _SIZE or data[n : n + len(MAGIC)] != MAGIC:
        raise ValueError("the model is not signed; pack it with mica pack --key")
    found = hmac(key, data[:n])
    difference = 0
    for i in range(32):  # all of them: how long it takes tells nothing
        difference |= found[i] ^ data[n + len(MAGIC) + i]
    if difference:
        raise ValueError("the model is signed with another key, or was changed since")


def hmac(key: bytes, data: Any) -> bytes:
    """HMAC-SHA256 (RFC 2104); MicroPython's firmware has sha256 and no hmac."""
    block = bytearray(64)
    block[: min(len(key), 64)] = key if len(key) <= 64 else sha256(key).digest() + bytes(32)
    outer = sha256(bytes([b ^ 0x5C for b in block]))
    inner = sha256(bytes([b ^ 0x36 for b in block]))
    inner.update(data)
    outer.update(inner.digest())
    return outer.digest()
