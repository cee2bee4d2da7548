"""The desired models of a board as they are sent: a signed list, and files in chunks, for firmware/mica_fleet.

    want   HMAC-SHA256 of the JSON in 64 hexadecimal digits, a blank, the JSON
    lesson the same of JSON, a newline and the state of a head (firmware/mica_fleet/teach.py)
    chunk  4096 bytes of a file; its topic has the first 16 digits of the file's SHA-256

A board's key is made of the fleet's key and its name: a thief who reads it can sign for that board alone.
"""

import hashlib
import hmac
import json
import zlib
from collections.abc import Iterator, Mapping

CHUNK = 4096


def board_key(fleet_key: str, board: str) -> str:
    """In hexadecimal, as the fleet's key is."""
    return hmac.new(bytes.fromhex(fleet_key), b"board " + board.encode(), "sha256").hexdigest()


def encode_want(fleet_key: str, board: str, generation: int, models: Mapping[str, bytes | None]) -> bytes:
    """`models`: name -> file, or None for one that is to go. What it does not name stays as it is."""
    want = {
        "board": board,
        "generation": generation,
        "models": [
            {
                "name": name,
                "size": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "chunks": "".join(f"{zlib.crc32(chunk):08x}" for chunk in chunks(data)),
            }
            for name, data in models.items()
            if data is not None
        ],
        "gone": [name for name, data in models.items() if data is None],
    }
    return _signed(fleet_key, board, json.dumps(want).encode())


def encode_lesson(
    fleet_key: str, board: str, generation: int, path: str, given: bytes = b"", total: bytes = b""
) -> bytes:
    """Ask for the head at a path of a board; or, with a `total`, put that in its place if it still is the state that
    was `given`."""
    about = {"board": board, "generation": generation, "path": path, "given": f"{zlib.crc32(given):08x}"}
    return _signed(fleet_key, board, json.dumps(about).encode() + b"\n" + total)


def _signed(fleet_key: str, board: str, text: bytes) -> bytes:
    return hmac.new(bytes.fromhex(board_key(fleet_key, board)), text, "sha256").hexdigest().encode() + b" " + text


def chunks(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), CHUNK):
        yield data[at : at + CHUNK]


def blob(data: bytes) -> str:
    """The name under which a file's chunks are."""
    return hashlib.sha256(data).hexdigest()[:16]
